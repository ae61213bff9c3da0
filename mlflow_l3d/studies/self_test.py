"""Whether seeds do what they say: equal cells are equal, and cells that differ in one seed are not."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.command.written import SAME_EXAMPLES
from mlflow_l3d.cells.cell import Cell, Outcome, content_key
from mlflow_l3d.cells.factors import REPLICATE
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.known import sounds_like_metric
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.report.numbers import MISSING
from mlflow_l3d.studies.base import executor_of
from mlflow_l3d.studies.request import CellRequest
from mlflow_l3d.studies.shown import OnOneScreen, progress_bar

TRIES: Final = 2
"""How often a seed is redrawn before it counts as one without an effect."""
_OTHER_EXAMPLES: Final = "which examples are evaluated"


@dataclass(frozen=True, repr=False)
class SelfTest(OnOneScreen):
    """The result of a self-test.

    Attributes
    ----------
    effects
        Factor -> what a new seed of it changed, in a few words; ``replicate`` is the same cell again.
    problems
        What is wrong, a line each; empty if nothing is.
    outcomes
        Key -> outcome of each run.
    """

    effects: dict[str, str]
    problems: tuple[str, ...]
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def exit_status(self) -> int:
        """1 if something is wrong."""
        return int(bool(self.problems))

    def summary(self) -> str:
        """Return it as text."""
        width = max(map(len, self.effects), default=0) + 2
        lines = [f"{name:<{width}}{effect}" for name, effect in self.effects.items()]
        return "\n".join(["self-test: what a new seed changes", *lines, *self.problems])


def self_test(request: CellRequest, *, progress: bool) -> SelfTest:
    """Train the first cell of a study twice, and once with each seed redrawn.

    It costs as many cells as there are factors, and two; a seed that changed nothing is redrawn once more.

    Raises
    ------
    L3DError
        If the first of them fails, or has no value of the metric.
    """
    base, metric = next(iter(request.design().cells())), request.metric.name
    unchanged = [*request.tested_factors, REPLICATE]
    cells = [base]
    changes = dict[str, str]()
    outcomes: dict[str, Outcome] = {}
    for attempt in range(TRIES):
        drawn = {name: request.redrawn(base, name, attempt) for name in unchanged}
        outcomes |= _run(request, [*cells, *drawn.values()], progress=progress)
        first = outcomes[base.key]
        if first.error is not None:
            why = f"a trial run before the study failed: {first.error.rstrip('.')}"
            raise L3DError(f"self-test: {why}. Mend it; self_test=skip leaves trial runs out.")
        if first.predictions is None and metric not in first.metrics:
            has = f"has no {metric}, but {', '.join(sorted(first.metrics))}"
            raise L3DError(f"self-test: a trial run before the study {has}. Name one of them by metric.")
        if REPLICATE in drawn:
            again = outcomes[drawn[REPLICATE].key].metrics
            same = [name for name, value in first.metrics.items() if again.get(name) == value]
            repeated = filter(sounds_like_metric, same)
            compared = {REPLICATE: (metric,), **dict.fromkeys(request.tested_factors, (metric, *repeated))}
        changes |= {name: _change(first, outcomes[cell.key], *compared[name]) for name, cell in drawn.items()}
        unchanged = [name for name in request.tested_factors if not changes[name]]
        cells = []
        if changes[REPLICATE] or not unchanged:
            break
    if first.predictions is None:
        equal, fix = metric, "give predictions or a loss too, which show it"
    else:
        equal, fix = "predictions", "give a loss too, which shows it"
    why = f"they may not reach the training. If they do, {fix}"
    problems = [f"{name}: {TRIES} new seeds gave the same {equal}: {why}" for name in sorted(unchanged)]
    if request.same_examples:
        other = "and only shared ones can be compared"
        problems += [f"{name}: {what}, {other}" for name, what in changes.items() if what == _OTHER_EXAMPLES]
    problems += [f"{name}: {what}" for name, what in changes.items() if what.endswith(SAME_EXAMPLES)]
    if changes[REPLICATE] and request.setup.deterministic:
        # What else is drawn changes every result, so that nothing is known of the other seeds.
        causes = "either something is drawn that no seed decides, or runs side by side share a file"
        fix = "use workers=1, or write to {output}"
        problems = [f"the same seeds gave another result ({changes[REPLICATE]}): {causes} ({fix})"]
    effects = {name: change or "nothing" for name, change in changes.items()}
    if not problems:
        _mark(request).parent.mkdir(parents=True, exist_ok=True)
        _mark(request).write_text(json.dumps(effects), encoding="utf-8")
    return SelfTest(effects, tuple(problems), outcomes)


def tested(request: CellRequest, *, progress: bool) -> dict[str, Outcome]:
    """Try the seeds of a study if that is wanted; return key -> outcome of what was trained.

    By itself it is not wanted if they were tried, with the same approach and data.

    Raises
    ------
    L3DError
        If something is wrong with them.
    """
    choice = request.given.get("self_test", "skip")
    if choice == "only":
        fix = "In Python call mlflow_l3d.self_test, or mlflow_l3d.self_test_seeds."
        raise ParameterError("self_test", choice, "is for the commands investigate and seeds", fix)
    automatic = request.setup.approach.self_tested and not _mark(request).is_file()
    if choice == "skip" or (choice == "auto" and not automatic):
        return {}
    result = self_test(request, progress=progress)
    if result.problems:
        raise L3DError(
            f"self-test: {'; '.join(result.problems)}. Mend it, leave the factor out, or use self_test=skip."
        )
    return dict(result.outcomes)


def _run(request: CellRequest, cells: Sequence[Cell], *, progress: bool) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    bar = progress_bar("self-test", "cell", total=len(cells), shown=progress, state="loading")
    with bar as shown, closing(executor_of(request.setup).run(iter(cells))) as outcomes:
        for outcome in outcomes:
            found[outcome.key] = outcome
            shown.update()
    return found


def _change(one: Outcome, other: Outcome, *metrics: str) -> str:
    """Return how two outcomes differ, in a few words; empty if they do not."""
    if other.error is not None:
        return f"it fails: {other.error}"
    pairs = ((name, one.metrics.get(name), other.metrics.get(name)) for name in metrics)
    name, *both = next((pair for pair in pairs if pair[1] != pair[2] and not _are_nan(*pair[1:])), ("",))
    numbers = [MISSING if each is None else f"{each:.6g}" for each in both]
    metric_change = f"{name} {' to '.join(numbers)}".strip()
    if one.predictions is None or other.predictions is None:
        return metric_change

    def is_equal(name: str) -> npt.NDArray[np.bool_]:
        first, second = (getattr(each, name)[np.argsort(each.example_ids)] for each in (one, other))  # type: ignore[arg-type]
        return np.asarray(first == second) if first.shape == second.shape else np.zeros(1, dtype=bool)

    if not is_equal("example_ids").all():
        return _OTHER_EXAMPLES
    if not is_equal("labels").all():
        return SAME_EXAMPLES
    if differ := int((~is_equal("predictions")).sum()):
        return f"{differ} of {len(one.predictions)} predictions"
    has_scores = one.scores is not None and other.scores is not None
    return "scores, and no prediction" if has_scores and not is_equal("scores").all() else metric_change


def _are_nan(*values: float | None) -> bool:
    return all(value is not None and math.isnan(value) for value in values)


def _mark(request: CellRequest) -> Path:
    """Return the file that says that seeds were tried, and did what they say."""
    seeds = [*request.tested_factors, request.metric.name]
    return cache_folder() / "self_tests" / f"{content_key({'context': request.context_key, 'seeds': seeds})}.json"
