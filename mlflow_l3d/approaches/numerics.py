"""What decides the numbers, except the content: the device and its kernels, threads, and the versions of libraries."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from typing import Any, Final

from mlflow_l3d.errors import L3DError, ParameterError, unknown_name

CUBLAS: Final = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
"""Name and value of the variable under which products of a GPU are the same each time."""

ATTENTION: Final = "repeatable sdpa without cudnn"
"""Kernels that attention on a GPU is taken from: of those of torch's version, all but cuDNN's. They repeat if asked."""

SHARERS: Final = "MLFLOW_L3D_SHARERS"
"""Environment variable of a worker: how many of them compute on its GPU."""

_log = logging.getLogger(__name__)

version = cache(metadata.version)
"""Return the version of an installed package; its file is read once."""


def minor_version(package: str, approach: str = "finetuning") -> str:
    """Return ``major.minor`` of an installed package, or raise with the pip command that installs it."""
    try:
        return ".".join(version(package).split("+")[0].split(".")[:2])
    except PackageNotFoundError:
        raise L3DError(f"approach={approach} needs {package}. Run: pip install 'mlflow-l3d[models]'") from None


def torch_numerics(device: str, approach: str) -> dict[str, str]:
    """Return what decides the numbers of every approach that computes with torch, on one thread a cell.

    The device, the threads, and the versions (major.minor) of torch and transformers.
    """
    return {
        **device_numerics(device),
        "threads": "1",
        "torch": minor_version("torch", approach),
        "transformers": minor_version("transformers", approach),
    }


def dropout_numerics(device: str) -> dict[str, str]:
    """Return how dropout is drawn by what trains many cells at once, if that is not as on a CPU."""
    return {"dropout": "counted"} if device.startswith("cuda") else {}


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


def device_numerics(device: str) -> dict[str, str]:
    """Return the class of a device; for a GPU also the versions of CUDA (or HIP) and cuDNN that torch computes with."""
    named = device_class(device)
    if not named.startswith("cuda "):
        return {"device": named}
    import torch
    from torch import version as built

    cudnn = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    of_gpu = {"cuda": built.cuda or f"hip {built.hip}", "cudnn": cudnn, "tf32": "off", "attention": ATTENTION}
    return {"device": named, **of_gpu}


def equal_cards() -> list[int]:
    """Return the numbers of the GPUs that have the name of the first; a line says which are left out.

    A cell's key has the name of one, so that others would compute cells under a wrong name.
    """
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if others := sorted({name for name in names if name != names[0]}):
        what = "device=cuda uses GPUs of one kind, %s; left out: %s. Name one of them by its number, cuda:N"
        _log.warning(what, names[0], ", ".join(others))
    return [number for number, name in enumerate(names) if name == names[0]]


def has_bfloat16(device: str) -> bool:
    """Return whether weights in bfloat16 suit a device; report it if a GPU would not compute in it itself.

    torch would emulate it on older cards, many times slower than float16 or float32.
    """
    import torch

    where = torch.device(device)
    if where.type != "cuda":
        return True
    with torch.cuda.device(where):
        is_native: bool = torch.cuda.is_bf16_supported(including_emulation=False)
    if not is_native:
        _log.warning("%s has no bfloat16 of its own, so another precision is used", torch.cuda.get_device_name(where))
    return is_native


def computes_in_bfloat16(device: str) -> bool:
    """Return whether a device multiplies in bfloat16 by itself: of CPUs those with AMX or AVX512-BF16.

    Others would emulate it, slower than float32.
    """
    import torch

    if torch.device(device).type != "cpu":
        return has_bfloat16(device)
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


@contextmanager
def reproducible(device: str, *, deterministic: bool = True) -> Iterator[None]:
    """Let a GPU compute the same way each time inside the block.

    An operation that has no such way raises: with a warning alone, gradients of attention would take kernels that do
    not repeat. With or without `deterministic` there is no TF32, and attention never takes cuDNN's kernel, whose choice
    among many goes by its version. New memory is not filled first, which would be a kernel more for each result of a
    layer. The switches hold for the whole process, and are put back.
    """
    if not device.startswith("cuda"):
        yield
        return
    import torch

    if deterministic:
        os.environ.setdefault(*CUBLAS)  # looked at when the first product is computed
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn, memory, of_cuda = torch.backends.cudnn, torch.utils.deterministic, torch.backends.cuda
    switches: list[tuple[Any, str, bool]] = [(memory, "fill_uninitialized_memory", False), (cudnn, "benchmark", False)]
    switches += [(cudnn, "deterministic", deterministic), (cudnn, "allow_tf32", False)]
    with ExitStack() as put_back:
        put_back.callback(torch.use_deterministic_algorithms, before[0], warn_only=before[1])
        put_back.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        put_back.callback(of_cuda.enable_cudnn_sdp, of_cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
        torch.use_deterministic_algorithms(deterministic)
        torch.set_float32_matmul_precision("highest")
        of_cuda.enable_cudnn_sdp(False)
        for owner, name, value in switches:
            put_back.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield


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
