"""Workers on other machines: whether they compute what the keys of the cells say."""

from __future__ import annotations

from dataclasses import replace

from mlflow_l3d.errors import L3DError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.joint import single_jobs


class RefusedError(Exception):
    """What is here does not compute what the keys say."""


def checked(job: Job) -> Job:
    """Return a job on the device of this worker, which sees no GPUs but its own.

    Raises
    ------
    RefusedError
        See :func:`refusal`.
    """
    here = replace(job, device=own_device(job.device))
    if why := refusal(here):
        raise RefusedError(why)
    return here


def own_device(device: str) -> str:
    """Return the device of a worker that sees no GPUs but its own."""
    return "cuda:0" if device.startswith("cuda") else device


def refusal(job: Job) -> str:
    """Return why cells of `job` must not be computed here, else the empty text.

    Their keys name the device, its card, versions of libraries and the revision of the model (`job.numerics`,
    `job.model_revision`), found on another machine.
    """
    try:
        return "; ".join(dict.fromkeys(filter(None, map(_difference, single_jobs(job)))))
    except L3DError as error:
        return str(error)


def _difference(job: Job) -> str:
    here = {**job.approach.numerics(job.device), **job.approach.dependencies(job.hyperparameters, job.model)}
    expected = dict(job.numerics)
    if job.model_revision:
        here["model"], expected["model"] = job.approach.model_revision(job.model), job.model_revision
    differing = {name: value for name, value in here.items() if expected.get(name, value) != value}
    differ = ", ".join(f"{name} is {value}, not {expected[name]}" for name, value in differing.items())
    return f"what it has is not what the keys of the cells say: {differ}" if differ else ""
