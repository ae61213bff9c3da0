"""What decides the numbers beside the content: the device, how many threads compute, and the versions of libraries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from mlflow_l3d.errors import L3DError, ParameterError, unknown_name


def minor_version(package: str, approach: str = "finetuning") -> str:
    """Return ``major.minor`` of an installed package, or raise with the pip command that installs it."""
    try:
        return ".".join(version(package).split("+")[0].split(".")[:2])
    except PackageNotFoundError:
        raise L3DError(f"approach={approach} needs {package}. Run: pip install 'mlflow-l3d[models]'") from None


def torch_numerics(device: str, approach: str) -> dict[str, str]:
    """Return what decides the numbers of every approach that computes with torch, on one thread a cell.

    The device class, the threads, and the versions (major.minor) of torch and transformers.
    """
    return {
        "device": device_class(device),
        "threads": "1",
        "torch": minor_version("torch", approach),
        "transformers": minor_version("transformers", approach),
    }


def device_class(device: str) -> str:
    """Return what kind of device computes: ``cpu``, ``mps``, or the name of the CUDA device.

    Raises
    ------
    ParameterError
        If this machine has no such device.
    """
    if device == "cpu":
        return "cpu"
    kind, _, number = device.partition(":")
    if kind not in {"cuda", "mps"} or (number and not number.isdigit()):
        raise unknown_name("device", device, ("cpu", "cuda", "cuda:N", "mps"))
    import torch

    if kind == "mps":
        if not torch.backends.mps.is_available():
            raise ParameterError("device", device, "this machine has no Metal device", "Use cpu.")
        return "mps"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(number or 0) >= count:
        raise ParameterError("device", device, f"torch finds {count} CUDA devices here", "Use cpu, or auto.")
    return f"cuda {torch.cuda.get_device_name(torch.device(device))}"


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside the block: the number of threads may change the last bits of a sum."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
