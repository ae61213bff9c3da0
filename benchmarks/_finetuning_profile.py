"""Which operations of our fine-tuning kernels that repeat make slower: a training with them and one without."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _finetuning_cases import cell, load

EPOCHS, PROFILED, SHOWN = 3, 5, 12
"""Of the training, steps that are profiled, and rows that are shown."""


def compare(settings: Mapping[str, Any], hyperparameters: Mapping[str, Any]) -> None:
    """Train with kernels that repeat and without, and print what takes the time in each, then what differs."""
    found = {}
    for deterministic in (True, False):
        name = "deterministic" if deterministic else "non-deterministic"
        try:
            found[name] = _profiled(settings, hyperparameters, deterministic=deterministic)
            _print(name, *found[name])
        except Exception as error:  # noqa: BLE001 - the other one is printed anyway
            print(f"profile, {name} failed: {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
    if len(found) == 2:
        _print_differences(*(events for _, events in found.values()))
    else:
        raise SystemExit(1)


def _profiled(
    settings: Mapping[str, Any], hyperparameters: Mapping[str, Any], *, deterministic: bool
) -> tuple[float, dict[str, tuple[float, float, float]]]:
    """Return the milliseconds of a step; of a profiled one, count and self milliseconds on CPU and GPU by operation."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    from mlflow_l3d.approaches.finetuning import Finetuning
    from mlflow_l3d.approaches.finetuning.graphed import GraphedSteps
    from mlflow_l3d.approaches.numerics import one_thread, reproducible

    device, times = settings["device"], []
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    profiler, epoch = profile(activities=activities), GraphedSteps.epoch

    def looked_at(self: GraphedSteps, order: Any, rates: Any) -> float:
        """Capture in the first epoch, time the second, and profile some steps in the last."""
        if len(times) == EPOCHS - 1:
            size = len(order) // len(rates)
            with profiler:
                return epoch(self, order[: PROFILED * size], rates[:PROFILED])
        begun = time.perf_counter()
        loss = epoch(self, order, rates)
        times.append((time.perf_counter() - begun) / len(rates))
        return loss

    GraphedSteps.epoch = looked_at  # type: ignore[method-assign]
    try:
        with reproducible(device, deterministic=deterministic), one_thread():
            named = {"model": settings["model"], "device": device, "cache": Path("cache")}
            session: Any = Finetuning().prepare(load(settings), {**hyperparameters, "epochs": EPOCHS}, **named)
            session.train([session.draw(cell(42))])
    finally:
        GraphedSteps.epoch = epoch  # type: ignore[method-assign]
    events: dict[str, tuple[float, float, float]] = {}
    for event in profiler.key_averages():
        on_device = event.device_type != DeviceType.CPU
        if on_device and (event.key.startswith(("Optimizer.", "ProfilerStep")) or event.is_user_annotation):
            continue  # a name for a span of time, which holds the kernels in it
        # Of calls on the host the profiler tells the time of their kernels, too, which have lines of their own.
        spent = (0.0, event.self_device_time_total) if on_device else (event.self_cpu_time_total, 0.0)
        key = f"GPU: {event.key}" if on_device else event.key
        events[key] = (event.count / PROFILED, *(each / 1e3 / PROFILED for each in spent))
    return 1e3 * times[1], events


def _print(name: str, step: float, events: Mapping[str, tuple[float, float, float]]) -> None:
    launches = sum(count for key, (count, *_) in events.items() if "LaunchKernel" in key)
    aten = sum(count for key, (count, *_) in events.items() if key.startswith("aten::"))
    print(f"\n{name}: {step:.2f} ms a step, {launches:.0f} launches of kernels and {aten:.0f} aten operations a step")
    for what, place in (("CPU", 1), ("GPU", 2)):
        print(f"most self {what} time, of {sum(event[place] for event in events.values()):.2f} ms a step:", flush=True)
        chosen = sorted(events.items(), key=lambda pair: -pair[1][place])[:SHOWN]
        for key, event in chosen:
            if event[place] > 0:
                print(f"  {key[:90]:90s} {event[0]:8.1f} times {event[place]:9.3f} ms", flush=True)


def _print_differences(
    ours: Mapping[str, tuple[float, float, float]], other: Mapping[str, tuple[float, float, float]]
) -> None:
    none = 0.0, 0.0, 0.0
    pairs = {key: (ours.get(key, none), other.get(key, none)) for key in {**ours, **other}}
    unlike = [
        (key, first, second)
        for key, (first, second) in pairs.items()
        if first[0] != second[0] or max(abs(first[1] - second[1]), abs(first[2] - second[2])) > 0.05
    ]
    unlike.sort(key=lambda each: -max(abs(each[1][1] - each[2][1]), abs(each[1][2] - each[2][2])))
    print("\nWhat differs a step, deterministic and not: count, CPU ms, GPU ms", flush=True)
    for key, first, second in unlike[:40]:
        numbers = "".join(f" {a:9.2f} {b:9.2f} |" for a, b in zip(first, second, strict=True))
        print(f"  {key[:90]:90s}{numbers}", flush=True)


if __name__ == "__main__":
    raise SystemExit("run finetuning_large.py --sides profile")
