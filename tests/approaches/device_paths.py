"""Runs every way of :mod:`device_ways` on the pretended device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from device_ways import MODELS, TASKS, Way, golden_cell
from device_ways import WAYS as ALL_WAYS
from fake_device import MODULE, NAME, Counts, watched

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.cells.cell import Outcome

WAYS = {
    name: replace(way, given={**way.given, "dropout": 0.0}) if name.startswith("full") else way
    for name, way in ALL_WAYS.items()
}
"""Batches of whole models are filled up on a device, so that dropout would meet other numbers than on the CPU."""


class Runner:
    """Runs paths, on the CPU and on the device; models and features are made once.

    Parameters
    ----------
    folder
        Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected = cache(lambda name: self.outcomes(WAYS[name], "cpu")[1])

    def model(self, name: str) -> str:
        """Return the folder of a model."""
        folder = self.folder / name
        if not folder.exists():
            MODELS[name](folder)
        return str(folder)

    def outcomes(self, way: Way, device: str) -> tuple[Counts, Sequence[Outcome]]:
        """Return the outcomes of the cells, and what happened on the device while they ran."""
        approach = way.approach()
        encoder = {"selection_encoder": self.model("encoder")} if "selection" in way.given else {}
        given = approach.complete(resolve_hyperparameters(approach, {**way.given, **encoder}))
        where = {"model": self.model(way.model), "device": device, "cache": self.folder / "cache"}
        looked_at = watched if device == NAME else lambda: nullcontext(Counts())
        with looked_at():
            session = approach.prepare(TASKS[way.task](), given, **where)
        states = torch.get_rng_state(), MODULE.get_rng_state()
        with looked_at() as counts:
            found = list(session.run([golden_cell(approach, index) for index in range(way.cells)]))
        after = torch.get_rng_state(), MODULE.get_rng_state()
        assert all(map(torch.equal, states, after)), "a global generator was not put back"
        return counts, sorted(found, key=lambda outcome: outcome.key)


def differences(runner: Runner, name: str) -> tuple[Counts, list[str]]:
    """Run a path on the device; return what happened there, and how its outcomes differ from those of the CPU."""
    expected = runner.expected(name)
    counts, found = runner.outcomes(WAYS[name], NAME)
    wrong = [f"{own.error}: {(own.traceback or '').splitlines()[-3:]}" for own in found if own.error]
    for own, other in zip(found, expected, strict=True):
        if own.error:
            continue
        if not np.allclose(own.predictions, other.predictions, rtol=0, atol=1e-5):
            wrong.append(f"{own.key}: other predictions")
        if other.scores is not None and not np.allclose(own.scores, other.scores, rtol=0, atol=1e-5):
            wrong.append(f"{own.key}: scores differ by {np.abs(own.scores - other.scores).max()}")
    return counts, wrong
