"""How the cells of an investigation are laid out: design, numbers of runs, joint factors, mitigation strategies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mlflow_l3d.analysis.importance.variances import DESIGNS, LAYOUTS, Layout
from mlflow_l3d.analysis.planning.stopping import FIRST_ANALYSIS
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.parameters.values import integer, number
from mlflow_l3d.plan.designs import CrossedDesign, Design, FixedDesign, NestedDesign, RadialDesign, RandomDesign
from mlflow_l3d.plan.designs.mitigation import check_mitigation
from mlflow_l3d.plan.factors import MITIGATION_BASE

STOPS: Final = ("none", "interval", "epsilon")
AUTO_ROWS: Final = 20
AUTO_BASE_RUNS: Final = 100
"""Base runs of a radial design: it needs more than a table has rows, and each costs K + 1 cells only."""
MOST_ROWS: Final = FIRST_ANALYSIS * 2**4
"""Rows at most where a stopping rule may end the investigation: its fifth look."""


@dataclass(frozen=True, slots=True)
class MitigationStrategy:
    """A named reduced set of configurations of one mitigated factor."""

    name: str
    factor: str
    configurations: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The layout of one investigation.

    Attributes
    ----------
    design
        Name of the design, or of the baseline strategy.
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
    """

    design: Layout
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

    def build(self, factors: Sequence[str], all_factors: Sequence[str], context_key: str) -> Design:
        """Return the design.

        Raises
        ------
        ParameterError
            If cells would repeat at this size, or a mitigation strategy does not fit.
        """
        if self.design == "radial":
            return RadialDesign(factors, all_factors, self.mitigation_runs, self.root_seed, context_key)
        runs = (self.investigation_runs, self.mitigation_runs, self.golden_runs, self.root_seed, context_key)
        sets = {strategy.factor: strategy.configurations for strategy in self.mitigation}
        if self.design == "crossed":
            return CrossedDesign(factors, all_factors, *runs, mitigation=sets, cross=self.joint == "product")
        if self.design == "nested":
            return NestedDesign(factors, all_factors, *runs, mitigation=sets)
        kind = RandomDesign if self.design == "random" else FixedDesign
        return kind(factors, all_factors, *runs, mitigation=sets)

    def truncate(self, rows: int) -> Plan:
        """Return the plan of the first `rows` rows, with their share of the golden runs."""
        golden = -(-self.golden_runs * rows // self.mitigation_runs)
        most = self.mitigation_runs if rows < self.mitigation_runs else 0
        return replace(self, mitigation_runs=rows, golden_runs=golden, most_rows=most)

    def identity(self) -> dict[str, object]:
        """Return what tells layouts apart, as JSON types."""
        radial = self.design == "radial"
        return {
            "design": self.design,
            "runs": [0 if radial else self.investigation_runs, self.mitigation_runs, self.golden_runs],
            "pooled": self.golden_pooled,
            "root_seed": self.root_seed,
            "joint": self.joint,
            "mitigation": {strategy.factor: list(strategy.configurations) for strategy in self.mitigation},
            "stop": self._stop(),
        }

    def document(self) -> dict[str, object]:
        """Return the layout as people read it in ``investigation.json``, as JSON types."""
        values: dict[str, object] = {"name": self.design}
        if self.design != "radial":
            values["investigation_runs"] = self.investigation_runs
        values |= {"mitigation_runs": self.mitigation_runs, "golden_runs": self.golden_runs}
        values |= {"golden_pooled": self.golden_pooled, "joint": self.joint, "root_seed": self.root_seed}
        values["mitigation"] = [
            {"name": each.name, "factor": each.factor, "configurations": list(each.configurations)}
            for each in self.mitigation
        ]
        values["stop"] = self._stop()
        return values

    def words(self) -> str:
        """Return the layout in one line."""
        golden = "golden std from pooled runs" if self.golden_pooled else f"L={self.golden_runs}"
        if self.design == "radial":
            return f"radial, {self.mitigation_runs} base runs, each with one swap a factor"
        return f"{self.design}, N={self.investigation_runs}, M={self.mitigation_runs}, {golden}"

    def stop_words(self) -> str:
        """Return the stopping rule in a few words."""
        rule = f"half-width {self.half_width:g}, or 0 outside" if self.stop == "interval" else f"{self.epsilon:g}"
        return (
            "none"
            if self.stop == "none"
            else f"{self.stop} ({rule}), {self.most_rows or self.mitigation_runs} rows at most"
        )

    def _stop(self) -> list[object]:
        if self.stop == "none":
            return ["none"]
        return [self.stop, self.half_width if self.stop == "interval" else self.epsilon]


def parse_plan(given: Mapping[str, str], all_factors: Sequence[str]) -> Plan:
    """Return the layout that the parameters of `main` describe.

    Parameters
    ----------
    given
        Parameters as typed.
    all_factors
        Every factor of the approach, for the mitigation strategies.

    Raises
    ------
    ParameterError
        For the first that is not allowed.
    """
    design, stop = given["design"], given["stop"]
    for name, known in (
        ("design", LAYOUTS),
        ("joint", ("paired", "product")),
        ("stop", STOPS),
    ):
        if given[name] not in known:
            raise unknown_name(name, given[name], known)
    _check_stop(stop, design)
    if given["joint"] == "product" and design != "crossed":
        raise ParameterError("joint", "product", "is for design=crossed only", "Use joint=paired.")
    rows = _rows(given["mitigation_runs"], design, stop)
    # Beyond, columns would use the configurations of rows, and rows those of golden runs.
    columns = integer("investigation_runs", given["investigation_runs"], 2, MITIGATION_BASE)
    golden_text = given["golden_runs"]
    if design == "radial" and golden_text != "auto":
        allowed = "must be auto in the radial design, whose base and swap runs serve as golden runs"
        raise ParameterError("golden_runs", golden_text, allowed)
    pooled = golden_text == "pooled"
    if pooled and design in {"random", "fixed"}:
        allowed = f"is not for design={design}: the strategy would be compared with itself"
        raise ParameterError("golden_runs", golden_text, allowed, "Use golden_runs=auto.")
    golden = 0
    if design != "radial" and not pooled:
        golden = rows * columns if golden_text == "auto" else _golden_runs(golden_text)
    return Plan(
        design=design,  # type: ignore[arg-type]
        investigation_runs=columns,
        mitigation_runs=rows,
        golden_runs=golden,
        root_seed=integer("root_seed", given["root_seed"], 0),
        golden_pooled=pooled,
        joint=given["joint"],
        mitigation=parse_mitigation(given["mitigation"], all_factors, design),
        stop=stop,
        half_width=number("half_width", given["half_width"], 0, 1),
        epsilon=number("epsilon", given["epsilon"], 0, math.inf),
    )


def parse_mitigation(text: str, all_factors: Sequence[str], design: str) -> tuple[MitigationStrategy, ...]:
    """Return the mitigation strategies that `text` names: ``factor:0+3``, or ``name=factor:0+3``, separated by commas.

    Raises
    ------
    ParameterError
        If it is neither, names an unknown factor or a factor twice, or the design has no mitigated factors.
    """
    if text == "none":
        return ()
    if design == "radial":
        allowed = "is not for design=radial, which draws every factor anew"
        raise ParameterError("mitigation", text, allowed, "Use design=crossed or nested.")
    found: list[MitigationStrategy] = []
    for part in text.split(","):
        name, equals, rest = part.strip().rpartition("=")
        factor, colon, numbers = rest.partition(":")
        factor = factor.strip()
        digits = [piece.strip() for piece in numbers.split("+")]
        if (
            not colon
            or (equals and not name.strip())
            or not all(piece.isdigit() and piece.isascii() for piece in digits)
        ):
            allowed = "must be none, or factor:0+3+7 (configurations from 0), or name=factor:0+3+7, separated by commas"
            raise ParameterError("mitigation", text, allowed)
        configurations = tuple(int(piece) for piece in digits)
        check_mitigation({factor: configurations}, all_factors)
        if any(factor == strategy.factor for strategy in found):
            raise ParameterError("mitigation", text, f"must name {factor} once")
        found.append(MitigationStrategy(name.strip() or f"{factor} {numbers.strip()}", factor, configurations))
    return tuple(found)


def _check_stop(stop: str, design: str) -> None:
    allowed = {"none": LAYOUTS, "interval": DESIGNS, "epsilon": ("crossed", "nested")}[stop]
    if design not in allowed:
        raise ParameterError("stop", stop, f"needs design={' or '.join(allowed)}, not {design}")


def _rows(text: str, design: str, stop: str) -> int:
    if text == "auto":
        return MOST_ROWS if stop != "none" else AUTO_BASE_RUNS if design == "radial" else AUTO_ROWS
    try:
        rows = integer("mitigation_runs", text, 2, MITIGATION_BASE)
    except ParameterError:
        allowed = f"must be auto or a whole number from 2 to {MITIGATION_BASE}"
        raise ParameterError("mitigation_runs", text, allowed) from None
    if stop == "interval" and rows <= FIRST_ANALYSIS:
        allowed = f"stop=interval looks after {FIRST_ANALYSIS}, {2 * FIRST_ANALYSIS}, {4 * FIRST_ANALYSIS}, ... rows"
        raise ParameterError("mitigation_runs", text, allowed, f"Use auto ({MOST_ROWS} rows at most), or more rows.")
    return rows


def _golden_runs(text: str) -> int:
    try:
        return integer("golden_runs", text, 2)
    except ParameterError:
        raise ParameterError("golden_runs", text, "must be auto, pooled, or a whole number of at least 2") from None
