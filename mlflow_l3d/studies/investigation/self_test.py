"""Whether seeds do what they say: equal cells are equal, and cells that differ in one seed are not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from mlflow_l3d.designs import design_named
from mlflow_l3d.errors import L3DError
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.plan.cells import Cell, Outcome, content_key
from mlflow_l3d.plan.factors import REPLICATE
from mlflow_l3d.studies.base import executor_of
from mlflow_l3d.studies.investigation.specification import Specification
from mlflow_l3d.studies.progress import progress_bar
from mlflow_l3d.studies.shown import OnOneScreen

TRIES: Final = 2
"""How often a seed is drawn anew before it counts as one without an effect."""


@dataclass(frozen=True, repr=False)
class SelfTest(OnOneScreen):
    """What was found.

    Attributes
    ----------
    effects
        Factor -> what a new seed of it changed, in a few words; ``replicate`` is the same cell again.
    problems
        What is wrong, a line each; empty where nothing is.
    """

    effects: dict[str, str]
    problems: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """1 where something is wrong."""
        return int(bool(self.problems))

    def summary(self) -> str:
        """Return it as text."""
        width = max(map(len, self.effects), default=0) + 2
        lines = [f"{name:<{width}}{effect}" for name, effect in self.effects.items()]
        return "\n".join(["self-test: what a new seed changes", *lines, *self.problems])


def wanted(specification: Specification) -> bool:
    """Return whether seeds are to be tried before the cells: not where they were, with the same approach and data."""
    asked, approach = specification.given["self_test"], specification.setup.approach
    return asked == "run" or (asked == "auto" and approach.self_tested and not _mark(specification).is_file())


def self_test(specification: Specification, *, progress: bool) -> SelfTest:
    """Train a cell twice, and once with each seed drawn anew.

    It costs as many cells as there are factors, and two; a seed that changed nothing is drawn anew once more. They are
    not recorded.

    Raises
    ------
    L3DError
        If one of them fails.
    """
    setup = specification.setup
    factors = (*setup.all_factors, REPLICATE)
    sizes = (2, TRIES, 0, specification.plan.root_seed, specification.context_key)
    cells = list(design_named("radial")(factors, factors, *sizes).cells())
    first, second = cells[: len(cells) // TRIES], cells[len(cells) // TRIES :]
    outcomes = _run(specification, first, progress=progress)
    base = outcomes[first[0].key]
    changes = {str(cell.factor): _change(base, outcomes[cell.key], specification.metric) for cell in first[1:]}
    if silent := {name for name, change in changes.items() if not change and name != REPLICATE}:
        again = [cell for cell in second if cell.factor is None or cell.factor in silent]
        outcomes = _run(specification, again, progress=progress)
        base = outcomes[again[0].key]
        changes |= {str(cell.factor): _change(base, outcomes[cell.key], specification.metric) for cell in again[1:]}
    repeated = changes.pop(REPLICATE)
    silent = {name for name, change in changes.items() if not change}
    problems = [f"{name}: {TRIES} new seeds changed nothing; they do not reach the training" for name in sorted(silent)]
    if repeated and setup.deterministic:
        # What else is drawn changes every result, so that nothing is known of the other seeds.
        problems = [f"the same seeds gave another result ({repeated}): something is drawn that no seed decides"]
    changes[REPLICATE] = repeated
    found = SelfTest({name: change or "nothing" for name, change in changes.items()}, tuple(problems))
    if not problems:
        _mark(specification).parent.mkdir(parents=True, exist_ok=True)
        _mark(specification).write_text(json.dumps(found.effects), encoding="utf-8")
    return found


def refuse(found: SelfTest) -> None:
    """Raise where something is wrong."""
    if found.problems:
        raise L3DError(f"self-test: {'; '.join(found.problems)}. Mend it, leave the factor out, or use self_test=skip.")


def _run(specification: Specification, cells: Sequence[Cell], *, progress: bool) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    bar = progress_bar("self-test", "cell", total=len(cells), shown=progress, state="loading")
    run = executor_of(specification.setup).run(iter(cells))
    with bar as shown, closing(run) as outcomes:  # type: ignore[type-var]
        for outcome in outcomes:
            if outcome.error is not None:
                raise L3DError(f"self-test: {outcome.error}")
            found[outcome.key] = outcome
            shown.update()
    return found


def _change(one: Outcome, other: Outcome, metric: str) -> str:
    """Return how two outcomes differ, in a few words; empty where they do not."""
    if one.predictions is None or other.predictions is None:
        before, after = one.metrics.get(metric), other.metrics.get(metric)
        return "" if before == after else f"{metric} {before} to {after}"
    assert one.example_ids is not None
    assert other.example_ids is not None
    if not np.array_equal(np.sort(one.example_ids), np.sort(other.example_ids)):
        return "which examples are evaluated"
    places = np.argsort(one.example_ids), np.argsort(other.example_ids)
    differ = int((one.predictions[places[0]] != other.predictions[places[1]]).sum())
    if not differ and one.scores is not None and other.scores is not None:
        return "" if np.array_equal(one.scores[places[0]], other.scores[places[1]]) else "scores, and no prediction"
    return f"{differ} of {len(one.predictions)} predictions" if differ else ""


def _mark(specification: Specification) -> Path:
    """Return the file that says that seeds were tried, and did what they say."""
    seeds = [*specification.setup.all_factors, specification.metric]
    return cache_folder() / "self_tests" / f"{content_key({'context': specification.context_key, 'seeds': seeds})}.json"
