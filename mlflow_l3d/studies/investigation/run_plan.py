"""The planned runs of an investigation: design, numbers of runs, joint factors, mitigation strategies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from mlflow_l3d.analysis.planning.stopping import FIRST_ANALYSIS
from mlflow_l3d.cells.factors import REPLICATE, TEST_SAMPLE
from mlflow_l3d.designs import Design, all_designs, design_named
from mlflow_l3d.designs.layout import check_mitigation
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.parameters import Arguments
from mlflow_l3d.parameters.sources import PUBLISHED
from mlflow_l3d.parameters.values import names_of
from mlflow_l3d.studies.investigation.parameters import MAIN

CHEAPER: Final = "radial"
"""The design that ``design=auto`` takes for several factors."""
MOST_ROWS: Final = FIRST_ANALYSIS * 2**4
"""Rows at most where a stopping rule may end the investigation: its fifth look."""


_STRATEGY: Final = re.compile(r"(?:(.*\S)\s*=)?\s*([^:=]*?)\s*:\s*(\d+(?:\s*\+\s*\d+)*)", re.ASCII)
"""Name of a mitigation strategy if it has one, factor and configurations: ``name=factor:0+3+7``."""


@dataclass(frozen=True, slots=True)
class MitigationStrategy:
    """A named reduced set of configurations of one mitigated factor."""

    name: str
    factor: str
    configurations: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The planned runs of one investigation.

    Attributes
    ----------
    design
        Class of the design.
    investigation_runs, mitigation_runs, golden_runs
        N, M, L. Radial: M base runs, N is not used and L is 0. With a stopping rule M is the most there may be.
    golden_pooled
        Whether all other runs take the place of golden runs.
    root_seed
        Where every seed comes from.
    joint
        Columns of joint factors: ``paired`` or ``product``.
    mitigation
        Reduced sets of configurations.
    stop, half_width, epsilon
        Stopping rule and its number.
    most_rows
        Rows that the stopping rule might have gone on to, where it ended the investigation; else 0.
    why
        Why it is this design, if ``design=auto`` left the choice to us.
    """

    design: type[Design]
    investigation_runs: int
    mitigation_runs: int
    golden_runs: int
    root_seed: int
    golden_pooled: bool = False
    joint: str = "paired"
    mitigation: tuple[MitigationStrategy, ...] = ()
    stop: str = "none"
    half_width: float = 0.1
    epsilon: float = 0.01
    most_rows: int = 0
    why: str = ""

    def identity(self) -> dict[str, object]:
        """Return what tells plans apart, as JSON types."""
        columns = self.investigation_runs if self.design.has_columns else 0
        return {
            "design": self.design.name,
            "runs": [columns, self.mitigation_runs, self.golden_runs],
            "pooled": self.golden_pooled,
            "root_seed": self.root_seed,
            "joint": self.joint,
            "mitigation": {strategy.factor: list(strategy.configurations) for strategy in self.mitigation},
            "stop": self._stop(),
        }

    def document(self) -> dict[str, object]:
        """Return the plan as people read it in ``investigation.json``, as JSON types."""
        columns = ("investigation_runs",) if self.design.has_columns else ()
        shown = (*columns, "mitigation_runs", "golden_runs", "golden_pooled", "joint", "root_seed")
        return {
            "name": self.design.name,
            **{name: getattr(self, name) for name in shown},
            "mitigation": [{**asdict(each), "configurations": list(each.configurations)} for each in self.mitigation],
            "stop": self._stop(),
        }

    def words(self) -> str:
        """Return the plan in one line."""
        golden = "golden std from pooled runs" if self.golden_pooled else f"L={self.golden_runs}"
        counts = {"rows": self.mitigation_runs, "columns": self.investigation_runs, "golden": golden}
        return f"{self.design.name}, {self.design.words.size.format(**counts)}"

    def early_end(self, golden: str) -> tuple[str, ...]:
        """Return after how many of its rows, and of the typed golden runs, a stopping rule ended it, if one did."""
        share = f", with their share of the golden runs: {self.golden_runs} of {golden}" if golden.isdigit() else ""
        said = f"It ended after {self.mitigation_runs} of at most {self.most_rows} rows (stop={self.stop}){share}."
        return (said,) if self.most_rows else ()

    def _stop(self) -> list[object]:
        if self.stop == "none":
            return ["none"]
        return [self.stop, self.half_width if self.stop == "interval" else self.epsilon]


def choose_design(asked: Arguments, factors: Sequence[str]) -> tuple[str, str]:
    """Return the name of the design, and if that is left to us a sentence that says why it is this one.

    Several factors are laid out radially, unless something was asked for that only tables have.

    Parameters
    ----------
    asked
        Parameters of `main`.
    factors
        Those that are wanted; ``all`` is several.
    """
    if asked["design"] != "auto":
        return asked["design"], ""
    if len(factors) == 1 and "all" not in factors:
        return PUBLISHED, f"design={PUBLISHED}: one factor, as published."
    radial, columns = design_named(CHEAPER), MAIN["investigation_runs"]
    only_tables = {
        "investigation_runs": not radial.has_columns and asked["investigation_runs"] != columns.python_default,
        "golden_runs": radial.tables_are_golden and asked["golden_runs"] != "auto",
        "mitigation": not radial.mitigates and names_of(asked["mitigation"]) != ("none",),
        "joint": not radial.products and asked["joint"] == "product",
        "stop": asked["stop"] not in ("none", *radial.stops),
        "missing": asked["missing"] != "anova",
        "factor": radial.tables_are_golden and TEST_SAMPLE in factors,
    }
    of_tables = {name: asked.texts[name] for name, is_asked in only_tables.items() if is_asked}
    if of_tables:
        what = " and ".join(f"{name}={text}" for name, text in of_tables.items())
        without = f"Without, several factors take the cheaper design={CHEAPER}."
        return PUBLISHED, f"design={PUBLISHED}, because of {what}. {without}"
    fewer = f"several factors need fewer trainings than in the published {PUBLISHED} design."
    return CHEAPER, f"design={CHEAPER}: {fewer}"


def check_factors(plan: Plan, factors: Sequence[str], metric: Metric) -> None:
    """Raise a ParameterError if a factor of no approach is investigated where the design, or the metric, has no way."""
    design, samples = plan.design, TEST_SAMPLE in factors
    halves = f"draws halves of a row's test examples, which design={design.name} has no place for"
    repeats = f"repeats a cell, which design={design.name} has no place for"
    itself = f"draws test examples, and {metric} comes from the approach itself, not from predictions"
    has_rows = design.repeats and not design.tables_are_golden
    of_halves, of_repeats = "Use design=crossed or nested.", "Use design=crossed, nested or radial."
    _refuse(
        (REPLICATE in factors and not design.repeats, "factor", REPLICATE, repeats, of_repeats),
        (samples and not has_rows, "factor", TEST_SAMPLE, halves, of_halves),
        (samples and metric.function is None, "factor", TEST_SAMPLE, itself, "Name another metric."),
    )


def _refuse(*rules: tuple[bool, str, object, str, str]) -> None:
    """Raise a ParameterError for the first broken rule: whether it is, parameter, value, what is wrong and the fix."""
    for is_broken, *error in rules:
        if is_broken:
            raise ParameterError(*error)  # type: ignore[arg-type]


def check_levels(plan: Plan, factors: Sequence[str], levels: Mapping[str, int]) -> None:
    """Raise unless each factor chooses from a list, of as many levels as there are columns."""
    for name in factors:
        if levels.get(name, 0) < 2:
            allowed = f"chooses from no list of several, and design={plan.design.name} takes every level of one"
            several = ", ".join(each for each, count in levels.items() if count > 1) or "design=crossed"
            raise ParameterError("factor", name, allowed, f"Use {several}.")
        if plan.investigation_runs != levels[name]:
            allowed = f"must be {levels[name]}, the levels of {name}, each of which is a column"
            fix = "Investigate lists of other lengths one at a time." if len(factors) > 1 else ""
            raise ParameterError("investigation_runs", plan.investigation_runs, allowed, fix)


def parse_plan(asked: Mapping[str, Any], all_factors: Sequence[str], design_name: str, why: str = "") -> Plan:
    """Return the plan that the parameters of `main` describe.

    Parameters
    ----------
    asked
        Parameters of `main`.
    all_factors
        Every factor of the approach, for the mitigation strategies.
    design_name, why
        See :func:`choose_design`.

    Raises
    ------
    ParameterError
        For the first that is not allowed.
    """
    design = design_named(design_name)
    stop = asked["stop"]
    joint = asked["joint"]
    columns = asked["investigation_runs"]
    golden = asked["golden_runs"]
    designs = all_designs().items()
    stopping = " or ".join(name for name, other in designs if stop in other.stops)
    joining = " or ".join(name for name, other in designs if other.products)
    serve = f"must be auto in the {design.name} design, whose {design.words.golden} serve as golden runs"
    itself = f"is not for design={design.name}: the strategy would be compared with itself"
    no_columns = f"is a number of columns, and the {design.name} design has none"
    leave_out = f"Leave it out; mitigation_runs is the number of {design.words.row}."
    products = joint == "product" and not design.products
    gives_columns = columns != MAIN["investigation_runs"].python_default
    _refuse(
        (stop not in ("none", *design.stops), "stop", stop, f"needs design={stopping}, not {design.name}", ""),
        (products, "joint", joint, f"is for design={joining} only", "Use joint=paired."),
        (design.tables_are_golden and golden != "auto", "golden_runs", golden, serve, ""),
        (not design.has_columns and gives_columns, "investigation_runs", columns, no_columns, leave_out),
        (golden == "pooled" and design.baseline, "golden_runs", golden, itself, "Use golden_runs=auto."),
    )
    rows = _rows(asked["mitigation_runs"], design, stop)
    golden_runs = golden if isinstance(golden, int) else 0
    if golden == "auto" and not design.tables_are_golden:
        golden_runs = rows * columns
    return Plan(
        design=design,
        investigation_runs=columns,
        mitigation_runs=rows,
        golden_runs=golden_runs,
        root_seed=asked["root_seed"],
        golden_pooled=golden == "pooled",
        joint=joint,
        mitigation=parse_mitigation(asked["mitigation"], all_factors, design),
        stop=stop,
        half_width=asked["half_width"],
        epsilon=asked["epsilon"],
        why=why,
    )


def parse_mitigation(
    asked: str | Sequence[str], all_factors: Sequence[str], design: type[Design]
) -> tuple[MitigationStrategy, ...]:
    """Return the mitigation strategies that were asked for, each as ``factor:0+3`` or ``name=factor:0+3``.

    Raises
    ------
    ParameterError
        If it is neither, names an unknown factor or a factor twice, or the design has no mitigated factors.
    """
    strategies = names_of(asked)
    if strategies == ("none",):
        return ()
    text = ",".join(strategies)
    if not design.mitigates:
        allowed = f"is not for design={design.name}, which redraws every factor"
        raise ParameterError("mitigation", text, allowed, "Use design=crossed or nested.")
    found: list[MitigationStrategy] = []
    for part in strategies:
        if not (match := _STRATEGY.fullmatch(part.strip())):
            allowed = "must be none, or factor:0+3+7 (configurations from 0), or name=factor:0+3+7, separated by commas"
            raise ParameterError("mitigation", text, allowed)
        name, factor, numbers = match[1], match[2], match[3]
        configurations = tuple(map(int, numbers.split("+")))
        check_mitigation({factor: configurations}, all_factors)
        if any(factor == strategy.factor for strategy in found):
            raise ParameterError("mitigation", text, f"must name {factor} once")
        found.append(MitigationStrategy(name or f"{factor} {numbers}", factor, configurations))
    return tuple(found)


def _rows(rows: int | str, design: type[Design], stop: str) -> int:
    if isinstance(rows, str):
        return MOST_ROWS if stop != "none" else design.auto_rows
    if stop == "interval" and rows <= FIRST_ANALYSIS:
        allowed = f"stop=interval looks after {FIRST_ANALYSIS}, {2 * FIRST_ANALYSIS}, {4 * FIRST_ANALYSIS}, ... rows"
        raise ParameterError("mitigation_runs", rows, allowed, f"Use auto ({MOST_ROWS} rows at most), or more rows.")
    return rows
