"""The two sides of a gate: investigations that are there, or changes of one, and what it takes to train golden runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mlflow_l3d import registry
from mlflow_l3d.analysis.comparison.power import MOST_AUTO
from mlflow_l3d.analysis.intervals import FloatArray
from mlflow_l3d.approaches.command.files import changed_names
from mlflow_l3d.approaches.command.template import changed_options
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.known import typed_name
from mlflow_l3d.parameters.shared import OWN_PARAMETERS
from mlflow_l3d.parameters.sources import OF_RUN, parse
from mlflow_l3d.parameters.values import as_text, check_names, json_of
from mlflow_l3d.paths import kept_whole, public_parameter, with_whole_paths
from mlflow_l3d.report.numbers import listed
from mlflow_l3d.studies.files import read_result
from mlflow_l3d.studies.gate.golden import OF_A_PLAN, GoldenRequest, numbered_scores, specify_golden
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.seeds.report.words import investigate_command
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier import latest_investigation, own_parameter
from mlflow_l3d.tracking.earlier.reader import ended, fetch_document, parent_run, read_investigation, read_predictions


@dataclass(frozen=True)
class Side:
    """One side of a gate.

    Attributes
    ----------
    name
        ``baseline`` or ``candidate``.
    title
        What it is, in a few words.
    identity
        What tells it from others, as JSON types.
    run_id, experiment_id
        The investigation; the empty text if nothing of it was trained on purpose yet.
    root_seed, task, metric
        Where seeds come from, the data, and its own metric; None or empty if a stranger's run does not say.
    cells
        Its golden runs that have finished, by their number: ``run_id``, metrics; none of a system that was not trained.
        Of a study of the only seed of a training its runs, numbered from below 0: they show how much scores vary.
    request
        With which more can be trained; None if they cannot.
    reason
        Why they cannot.
    document
        What its run says of how it was made, with the device among the parameters; empty if nothing.
    changes
        Each difference from the baseline, as people read it -> as the parameter `candidate` names it.
    phase
        Where its runs are in a design: ``base`` if they are base runs, as in a radial one, or ``golden``.
    """

    name: str
    title: str
    identity: Mapping[str, Any]
    run_id: str = ""
    experiment_id: str = ""
    root_seed: int | None = None
    task: Mapping[str, Any] = field(default_factory=dict)
    metric: str | None = None
    cells: pd.DataFrame = field(default_factory=partial(pd.DataFrame, columns=["run_id", "artifact_uri"]))
    request: GoldenRequest | None = None
    reason: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)
    phase: str = "golden"

    def scores(self, metric: str, runs: int) -> FloatArray:
        """Return the scores of the first `runs` golden runs, nan if there is none; shape (runs,)."""
        return numbered_scores(self.cells, metric, runs)

    def known_scores(self, metric: str) -> FloatArray:
        """Return the scores that show how much runs vary: of its first golden runs, or of a study of its seed."""
        scores: FloatArray = self.cells.loc[self.cells.index < MOST_AUTO, metric].to_numpy(dtype=np.float64)
        return scores[np.isfinite(scores)]

    def predictions(self, client: Client, runs: int | list[int]) -> Iterator[pd.DataFrame | None]:
        """Yield the predictions of the first `runs` golden runs or those with these numbers, None if one has none."""
        cells = self.cells.reindex(range(runs) if isinstance(runs, int) else runs)
        tables = dict(read_predictions(client, cells[cells["run_id"].notna()]))
        for run_id in cells["run_id"]:
            table = tables.get(run_id)
            yield None if table is None else table.to_pandas()


def recorded_side(client: Client, name: str, run_id: str, cells: pd.DataFrame | None = None, /, **machine: str) -> Side:
    """Return the side that an investigation is.

    Parameters
    ----------
    client
        The tracking server.
    name
        The parameter that names it.
    run_id
        Of the parent; ``latest`` for the latest investigation of the experiment.
    cells
        Of the parent, if the caller has read them.
    **machine
        ``device``, ``executor`` and ``workers``, if more of its golden runs are to be trained.

    Raises
    ------
    ParameterError
        If it is not an investigation with golden runs.
    """
    run = ended(parent_run(client, latest_investigation(client, name) if run_id == "latest" else run_id, name), name)
    is_pilot = _is_pilot(client, name, run)
    if cells is None:
        cells = read_investigation(str(run.info.run_id), client, parameter=name).cells
    cells = cells[cells["status"].eq("FINISHED")]
    phase = "base" if cells["phase"].eq("base").any() else "golden"
    if is_pilot:
        cells = cells.assign(number=range(-len(cells), 0))  # none of them is a golden run, which have other seeds
    else:
        cells = cells[cells["phase"].eq(phase)]
        cells = cells.assign(number=cells["row" if phase == "base" else "index"])
    if cells.empty:
        allowed = "has no golden runs that finished, and a gate compares golden runs"
        raise ParameterError(name, run.info.run_id, allowed, "Investigate it with golden_runs=20 or more.")
    document = fetch_document(client, str(run.info.run_id), names.INVESTIGATION) or {}
    context = run.data.tags.get(names.CONTEXT_KEY)
    typed = {key: value for key, value in document.get("parameters", {}).items() if key in MAIN}
    parameters = {**typed, **kept_whole(context), "device": own_parameter(run, "device") or "auto"}
    if is_pilot:  # `seeds` may choose another metric than `investigate`
        parameters["metric"] = own_parameter(run, "metric") or "auto"
    root_seed = str(parameters.get("root_seed", ""))
    side = Side(
        name,
        str(run.info.run_name or run_id),
        {"context": context, "root_seed": parameters.get("root_seed")} if context else {"run": str(run.info.run_id)},
        str(run.info.run_id),
        str(run.info.experiment_id),
        int(root_seed) if root_seed.isdigit() else None,
        document.get("task") or {},
        own_parameter(run, "metric"),
        cells.dropna(subset="number").drop_duplicates("number").astype({"number": int}).set_index("number"),
        document={**document, "parameters": parameters},
        phase=phase,
    )
    reason = "its data, files, model, hyperparameters or versions of libraries are not those of this machine"
    try:
        recorded = document["hyperparameters"]
        declared = registry.hyperparameters_of(str(parameters["approach"])) or recorded
        # The key of the context shows whether one that this version does not have had an effect.
        values = {each: recorded[each] for each in recorded if each in declared}
        request = specify_golden(name, {**parameters, "hyperparameters": values}, phase=phase, **machine)
    except KeyError:
        reason = "it does not say how it was made"
    except L3DError as error:
        reason = str(error)
    else:
        if request.context_key == context:
            complete = {**side.document, "hyperparameters": request.document()["hyperparameters"]}
            return replace(side, request=request, document=complete, task=_task_of(request) if is_pilot else side.task)
        if changed := changed_names(document.get("numerics", {}), request.setup.numerics):
            reason = f"{listed(changed)} changed"
    return replace(side, reason=reason)


def changed_side(text: object, baseline: Side, client: Client, **machine: str) -> Side:
    """Return the candidate: an investigation, or its differences from the baseline.

    Parameters
    ----------
    text
        A run id; or parameters of `main` that differ from those of the baseline, as ``name=value`` separated by
        semicolons, as JSON, or from Python as a mapping. Hyperparameters that are not named stay the baseline's as long
        as the approach does.
    baseline, client, **machine
        The baseline, and as of :func:`recorded_side`.

    Raises
    ------
    ParameterError
        If it is neither, or cannot be trained.
    """
    document = baseline.document
    if isinstance(text, str) and OF_RUN.fullmatch(text.strip()):
        candidate = recorded_side(client, "candidate", text.strip(), **machine)
        if candidate.request is not None and "hyperparameters" in document:
            differences = differences_from(document, candidate.request)
            return replace(candidate, title=", ".join(differences) or candidate.title, changes=differences)
        own, theirs = (side.document.get("hyperparameters", {}) for side in (baseline, candidate))
        is_alike = own.keys() == theirs.keys()
        texts = [f"{name}={value}" for name, value in theirs.items() if is_alike and own[name] != value]
        return replace(candidate, title=", ".join(texts) or candidate.title)
    changes = typed_changes(text)
    if "hyperparameters" not in document:
        allowed = "is what differs from the baseline, whose run does not say how it was made"
        raise ParameterError("candidate", as_text("candidate", text), allowed, "Name a run.")
    parameters, hyperparameters = document["parameters"], document["hyperparameters"]
    if str(changes.get("approach", parameters["approach"])) != parameters["approach"]:
        hyperparameters, parameters = "default", {**parameters, "model": "auto"}
    if "hyperparameters" in changes:
        source = parse(as_text("hyperparameters", changes.pop("hyperparameters")))
        base = hyperparameters if isinstance(hyperparameters, dict) else {}
        hyperparameters = {**base, **source.values, **source.overrides} if source.source == "inline" else source.text
    if "command" in changes:
        changes["command"] = with_whole_paths(str(changes["command"]), str(parameters.get("command", "")))
    parameters = {**parameters, "hyperparameters": hyperparameters, **changes}
    try:
        request = specify_golden("candidate", parameters, phase=baseline.phase, **machine)
    except ParameterError as error:
        # no name leads to the function of a baseline
        fix = "Investigate the candidate, too, and name its run." if error.name == "approach" else error.fix
        raise ParameterError(f"candidate: {error.name}", error.value, error.allowed, fix) from error
    differences = differences_from(document, request)
    return Side(
        "candidate",
        ", ".join(differences) or "the same",
        {"context": request.context_key, "root_seed": str(request.root_seed)},
        root_seed=request.root_seed,
        task=_task_of(request),
        metric=typed_name(request.metric),
        request=request,
        document={**request.document(), "parameters": dict(request.given)},
        changes=differences,
        phase=baseline.phase,
    )


def _task_of(request: GoldenRequest) -> Mapping[str, Any]:
    return {**request.content()["task"], "fingerprint": request.setup.task.fingerprint}


def _is_pilot(client: Client, name: str, run: Run) -> bool:
    """Return whether a run has no golden runs, but shows how much runs vary: a study of the only seed of a training.

    Raises
    ------
    ParameterError
        If it is not an investigation otherwise.
    """
    role, design = run.data.tags.get(names.ROLE), run.data.tags.get(names.DESIGN)
    if role not in (None, "investigation", "golden_runs"):
        raise ParameterError(name, run.info.run_id, f"must be the run of an investigation, and is one of a {role}")
    if design == "seeds":
        about = getattr(read_result(client, str(run.info.run_id)), "about", None)  # a result made of children has none
        if about is None:
            raise ParameterError(name, run.info.run_id, "is a seeds study without a result", "Run its command again.")
        command = investigate_command(about.source)
        if command or not about.source.command("seeds"):
            allowed = "is a seeds study, and golden runs are compared"
            compare = f"Use mlflow-l3d compare --runs {run.info.run_id},RUN_ID."
            raise ParameterError(name, run.info.run_id, allowed, f"Train a {name}: {command}" if command else compare)
    if names.SUPERSEDED_BY in run.data.tags:
        fix = f"Name run {run.data.tags[names.SUPERSEDED_BY]}, which continued it."
        raise ParameterError(name, run.info.run_id, "did not finish", fix)
    return design == "seeds"


def typed_changes(candidate: object) -> dict[str, Any]:
    """Return the parameters of `investigate` that a candidate names."""
    text = str(candidate).strip()
    if isinstance(candidate, Mapping) or text.startswith("{"):
        changes = dict(candidate if isinstance(candidate, Mapping) else json_of("candidate", text, text))
    else:
        pairs = [part.partition("=") for part in text.split(";") if part.strip()]
        if not pairs or not all(equals for _, equals, _ in pairs):
            allowed = "must be a run id, or what differs from the baseline as model=...;num_labelled=500 or JSON"
            raise ParameterError("candidate", text or "''", allowed)
        changes = {key.strip(): value.strip() for key, _, value in pairs}
    allowed_names = [name for name in MAIN if name not in OF_A_PLAN]
    check_names("candidate", changes, allowed_names, "hyperparameters=NAME=VALUE, or another parameter of investigate:")
    return changes


def differences_from(document: Mapping[str, Any], candidate: GoldenRequest) -> dict[str, str]:
    """Return each difference of a candidate from the document of the baseline, see :class:`Side`."""
    setup, parameters = candidate.setup, document["parameters"]
    both: dict[str, tuple[object, object]] = {
        "approach": (parameters["approach"], candidate.given["approach"]),
        "cure": (parameters.get("cure", "none"), candidate.given["cure"]),
        "model": (document["model"]["name"], setup.model),
        **{name: (parameters.get(name, of.default), candidate.given[name]) for name, of in OWN_PARAMETERS.items()},
        "root_seed": (int(parameters["root_seed"]), candidate.root_seed),
        "num_labelled": (document["task"].get("num_labelled"), setup.task.settings.num_labelled),
    }
    changed = {}
    for name, values in both.items():
        if values[0] != values[1]:
            before, after = (public_parameter(name, str(value)) for value in values)
            changed[changed_options(before, after) if name == "command" else f"{name}={after}"] = f"{name}={after}"
    of_baseline, tuned = document["hyperparameters"], setup.public_hyperparameters
    texts = [f"{name}={value}" for name, value in tuned.items() if of_baseline.get(name) != value]
    return changed | {text: f"hyperparameters={text}" for text in texts}
