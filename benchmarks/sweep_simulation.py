"""Do the intervals and tests of a sweep hold? Simulated sweeps with a known truth, as Markdown.

    python benchmarks/sweep_simulation.py --sweeps 2000
    python benchmarks/sweep_simulation.py --sweeps 2000 --only nested

Trends: how often the 95 % interval of the slope holds the true one, and how often no slope is called one. Interactions:
how often levels that are alike are called different, and how often the interval of their spread holds the true one.
Any claim: how often a sweep claims a trend or a difference, p-values adjusted for all of them.
`shared` is the share of every effect that points of one task have in common, since they share configurations.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from mlflow_l3d.analysis.importance.estimate import Estimate, total_index_of
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.importance.shape import Collapse
from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.studies.sweep.numbers import analyse_sweep
from mlflow_l3d.studies.sweep.numbers.point import SweptPoint, without_each

FACTOR = "data_order"
NAN = math.nan
EFFECTS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "skewness 1": lambda rng, shape: (rng.gamma(4, size=shape) - 4) / 2,
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1,
}


@dataclass(frozen=True)
class Case:
    """One setting.

    Attributes
    ----------
    shots, formats, tasks
        Values of the numeric choice, numbers of formats and of tasks.
    classes
        Whether the number is one of the task (every task has one value).
    slope, tasks_std, between
        True slope, its standard deviation over tasks, and that of points around the line (importance).
    moved
        Standard deviation over formats of the true importance.
    shared
        Share of every effect that points of one task have in common.
    main
        Share of the factor's variance that it has by itself.
    centre
        Importance in the middle.
    effects
        Their distribution.
    missing, collapsed
        Share of points without a score; of runs that collapse.
    rows, columns, golden
        M, N and L.
    design
        Of the tables; radial ones have two columns, and the runs of both as golden runs.
    uneven
        Standard deviation over rows of the log of what the factor does to them.
    """

    shots: tuple[int, ...] = (2, 4, 8)
    formats: int = 1
    tasks: int = 1
    classes: bool = False
    slope: float = 0.0
    tasks_std: float = 0.0
    between: float = 0.0
    moved: float = 0.0
    shared: float = 0.0
    main: float = 0.5
    centre: float = 0.0
    effects: str = "normal"
    missing: float = 0.0
    collapsed: float = 0.0
    rows: int = 20
    columns: int = 10
    golden: int = 100
    design: str = "crossed"
    uneven: float = 0.0


@dataclass
class _Luck:
    """Effects of one task: some that its points share, others of their own."""

    case: Case
    rng: np.random.Generator
    common: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, case: Case, rng: np.random.Generator) -> _Luck:
        draw = EFFECTS[case.effects]
        shapes = ((case.rows, 1), (1, case.columns), (case.rows, case.columns), (case.golden,))
        return cls(case, rng, tuple(draw(rng, shape) for shape in shapes))

    def table(self, target: float) -> tuple[np.ndarray, np.ndarray]:
        """Return a table whose true importance is `target`, and golden scores."""
        case, draw = self.case, EFFECTS[self.case.effects]
        share = total_index_of(float(np.clip(target, -0.98, 0.98)))
        parts = [
            math.sqrt(case.shared) * each + math.sqrt(1 - case.shared) * draw(self.rng, each.shape)
            for each in self.common
        ]
        main = case.main if case.design == "crossed" else 0.0
        scales = [math.sqrt(1 - share), math.sqrt(share * main), math.sqrt(share * (1 - main))]
        if case.uneven:
            parts[2] *= np.exp(case.uneven * self.common[0] - case.uneven**2)
        table = sum(scale * part for scale, part in zip(scales, parts[:3], strict=True))
        return np.asarray(table), parts[3]


def scores_of(table: np.ndarray, golden: np.ndarray, design: str) -> Tables:
    """Return the scores of one factor as its design holds them."""
    return Tables({FACTOR: table[:, 1:]}, base=table[:, 0]) if design == "radial" else Tables({FACTOR: table}, golden)


def recorded(table: np.ndarray, golden: np.ndarray, design: str) -> Importance:
    """Return what a sweep needs of a record."""
    scores = scores_of(table, golden, design)
    if design == "radial":
        return design_named(design).importances(scores)[FACTOR]
    estimate = design_named(design).estimate(scores, FACTOR)
    blank = Importance(FACTOR, *[NAN] * 7, table, golden, len(table), 0, 0, design=design)
    if estimate is None:
        return blank
    low, high = estimate.interval()
    return replace(
        blank,
        importance_corrected=estimate.importance,
        importance_corrected_ci_low=low,
        importance_corrected_ci_high=high,
    )


def estimated(record: Importance) -> Estimate | None:
    """Return the estimate of a record."""
    scores = scores_of(record.table, record.golden, record.design)
    return design_named(record.design).estimate(scores, FACTOR)


def analysis_of(table: np.ndarray, golden: np.ndarray, case: Case, rng: np.random.Generator) -> Analysis:
    """Return the analysis of a point of which a share of the runs collapses."""
    share, record_of = case.collapsed, partial(recorded, design=case.design)
    if not share:
        return Analysis(F1_MACRO, {FACTOR: record_of(table, golden)})
    rest = [np.where(rng.random(scores.shape) < share, NAN, scores) for scores in (table, golden)]
    whole = replace(record_of(*(np.nan_to_num(scores, nan=-25.0) for scores in rest)), collapsed_share=share)
    others = {FACTOR: record_of(*rest)}
    down = int(np.isnan(rest[1]).sum())
    return Analysis(F1_MACRO, {FACTOR: whole}, collapse=Collapse(len(golden), down, {FACTOR: whole}, others))


def one_sweep(case: Case, seed: int) -> dict[str, float]:
    """Return what one simulated sweep finds: whether intervals hold the truth, and which tests speak."""
    rng = np.random.default_rng([seed, 7])
    levels = np.log2(np.array(case.shots, dtype=float))
    levels -= levels.mean()
    formats = rng.normal(size=case.formats)
    if case.formats > 1:
        formats = (formats - formats.mean()) / formats.std(ddof=1)
    points, slopes = [], []
    for task in range(case.tasks):
        luck = _Luck.of(case, rng)
        own_std = case.tasks_std * rng.normal()
        slopes.append(slope := case.slope + (0.0 if case.classes else own_std))
        own = [task % len(levels)] if case.classes else range(len(levels))
        for at, form in product(own, range(case.formats)):
            if rng.random() < case.missing:
                continue
            target = case.centre + slope * levels[at] + case.moved * formats[form] + case.between * rng.normal()
            target += own_std * case.classes
            table, golden = luck.table(target)
            size = math.exp(case.slope * levels[at] + case.moved * formats[form])
            table, golden = table * size, golden * size
            choices = {"shots": float(case.shots[at]), "prompt_format": f"F{form}"}
            analysis = analysis_of(table, golden, case, rng)
            points.append(SweptPoint(str(len(points)), choices, f"t{task}", analysis))
    if len(points) < 2:
        return {}
    left_out = {
        (at, FACTOR): values
        for at, point in enumerate(points)
        if point.analysis is not None
        and point.analysis.collapse is None
        and (values := without_each(estimated(point.analysis.importances[FACTOR]))) is not None
    }
    sweep = analyse_sweep(points, left_out)
    # Of two tasks the slope is that of these two.
    truth = float(np.mean(slopes)) if case.tasks == 2 and not case.classes else case.slope
    found = {"any": float(any(one.p_holm <= 0.05 for one in (*sweep.trends, *sweep.interactions)))}
    for one in sweep.trends:
        name = "" if one.of == FACTOR else "golden_"
        found |= {
            f"{name}slope": one.slope,
            f"{name}covered": float(one.low <= (case.slope if name else truth) <= one.high),
            f"{name}claim": float(one.p <= 0.05),
            f"{name}width": one.high - one.low,
        }
    for each in (one for one in sweep.interactions if one.choice == "prompt_format"):
        name, test = "" if each.of == FACTOR else "golden_", each.test
        holds = float(test.spread_low <= (formats * case.moved).std(ddof=1) <= test.spread_high)
        found |= {
            f"{name}moved": float(test.p <= 0.05),
            f"{name}spread": holds if len(test.levels) == case.formats else NAN,
        }
    return found


def many(case: Case, sweeps: int) -> dict[str, float]:
    """Return means over sweeps."""
    rows = [one_sweep(case, seed) for seed in range(sweeps)]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(np.nanmean([row[name] for row in rows if name in row])) for name in names}


CASES: dict[str, Case] = {
    "3 shots": Case(),
    "3 shots, shared .9": Case(shared=0.9),
    "5 shots, shared .5, between .1": Case(shots=(1, 2, 4, 8, 16), shared=0.5, between=0.1),
    "2 formats": Case(shots=(2,), formats=2, shared=0.5),
    "3 shots x 4 formats": Case(formats=4),
    "the same, shared .5": Case(formats=4, shared=0.5),
    "the same, shared .9": Case(formats=4, shared=0.9),
    "the same, shared .5, between .1": Case(formats=4, shared=0.5, between=0.1),
    "the same, shared .5, skewness 1": Case(formats=4, shared=0.5, effects="skewness 1"),
    "the same, shared .5, exponential": Case(formats=4, shared=0.5, effects="exponential"),
    "the same, shared .5, centre -.6": Case(formats=4, shared=0.5, centre=-0.6),
    "the same, shared .5, centre +.6": Case(formats=4, shared=0.5, centre=0.6),
    "the same, shared .5, 30 % of points missing": Case(formats=4, shared=0.5, missing=0.3),
    "the same, shared .5, 10 % of runs collapse": Case(formats=4, shared=0.5, collapsed=0.1),
    "the same, shared .5, slope -.15, formats .2": Case(formats=4, shared=0.5, slope=-0.15, moved=0.2),
    "3 shots x 10 formats, formats .15": Case(formats=10, shared=0.3, moved=0.15),
    "2 tasks x 3 shots x 2 formats, slopes .1": Case(tasks=2, formats=2, shared=0.5, tasks_std=0.1),
    "3 tasks x 3 shots x 2 formats, slopes .1": Case(tasks=3, formats=2, shared=0.5, tasks_std=0.1),
    "5 tasks x 3 shots x 2 formats, slopes .1": Case(tasks=5, formats=2, shared=0.5, tasks_std=0.1),
    "classes, 4 tasks x 2 formats, tasks .15": Case(
        tasks=4, classes=True, shots=(2, 4, 8, 16), formats=2, shared=0.5, tasks_std=0.15
    ),
    "classes, 8 tasks x 2 formats, tasks .15": Case(
        tasks=8, classes=True, shots=(2, 4, 8, 16), formats=2, shared=0.5, tasks_std=0.15
    ),
    **{
        f"2 tasks x 3 shots, {rows} x {columns} tables, {effects}": Case(
            tasks=2, rows=rows, columns=columns, golden=golden, effects=effects
        )
        for rows, columns, golden in ((4, 3, 12), (6, 4, 20), (10, 5, 30))
        for effects in ("normal", "exponential")
    },
    **{
        f"3 tasks x 3 shots, nested {rows} x {columns}, {golden} golden, shared {shared:g}": Case(
            tasks=3, rows=rows, columns=columns, golden=golden, design="nested", shared=shared
        )
        for rows, columns, golden, shared in ((10, 3, 30, 0.0), (10, 3, 30, 0.5), (10, 3, 30, 0.9), (20, 5, 30, 0.5))
    },
    **{
        f"3 tasks x 3 shots, radial {rows}, uneven {uneven:g}, shared {shared:g}": Case(
            tasks=3, rows=rows, columns=2, design="radial", uneven=uneven, shared=shared
        )
        for rows, uneven, shared in ((30, 0.0, 0.0), (30, 0.5, 0.0), (30, 0.5, 0.5))
    },
    "3 tasks x 3 shots, nested 10 x 3, slope -.15": Case(
        tasks=3, rows=10, columns=3, golden=30, design="nested", slope=-0.15
    ),
}
COLUMNS = (
    "covered",
    "claim",
    "golden_covered",
    "golden_claim",
    "moved",
    "spread",
    "golden_moved",
    "golden_spread",
    "any",
)


def main() -> None:
    """Simulate, and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sweeps", type=int, default=2000, help="sweeps of each setting")
    parser.add_argument("--only", default="", help="settings whose name has this in it")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    print(
        "| setting | trend: holds % | called % | of golden std: holds % | called % | levels: called % | spread holds % "
        "| of golden std: called % | spread holds % | any claim, adjusted % |"
    )
    print("|" + " --- |" * (len(COLUMNS) + 1))
    chosen = {name: case for name, case in CASES.items() if options.only in name}
    with ProcessPoolExecutor(options.workers) as pool:
        for name, found in zip(chosen, pool.map(partial(many, sweeps=options.sweeps), chosen.values()), strict=True):
            cells = [f"{100 * found[column]:.1f}" if column in found else "" for column in COLUMNS]
            print("| " + " | ".join([name, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
