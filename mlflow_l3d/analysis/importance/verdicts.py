"""The verdict on a factor: one rule, which everything that speaks of a factor reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from mlflow_l3d.analysis.importance.checks.shape import Collapse
from mlflow_l3d.analysis.importance.results import Check, Importance

Word = Literal["dominates", "minor", "undecided"]
Doubt = Literal[
    "", "no_interval", "contains_0", "collapse", "L3D013", "L3D009", "L3D010", "few_rows", "boundary", "repeats"
]
Action = Literal["none", "more_rows", "larger_table", "other_design", "unaffordable", "look_at_runs", "unknown"]

DECIDED: Final[tuple[Word, ...]] = ("dominates", "minor")
FEWEST_ROWS: Final = 5
"""With fewer rows there is no verdict."""
FEWEST_OF_LEVELS: Final = 20
"""The same of a complete list of levels: its interval rests on the row means alone, whose tails few rows hide."""
FEWEST_AT_BOUNDARY: Final = 10
"""With fewer rows there is none either if the estimated variance of all other factors is 0."""
DOUBTS: Final[Mapping[Doubt, str]] = MappingProxyType(
    {
        "": "",
        "no_interval": "there is no interval",
        "contains_0": "the interval contains 0",
        "collapse": "runs collapse (L3D005), so the interval does not hold",
        "L3D013": "the scores have long tails (L3D013), so the interval covers less than it claims",
        "L3D009": "columns share configurations (L3D009), so the interval is too narrow",
        "L3D010": "rows or columns have equal scores (L3D010), so the interval is too narrow",
        "few_rows": "rows are too few for a verdict",
        "boundary": f"rows differ no more than by chance, and are fewer than {FEWEST_AT_BOUNDARY}",
        "repeats": "every cell that was computed again has the same result",
    }
)
"""Why a verdict is not that of the interval, by its code."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the investigation decides about one factor.

    Attributes
    ----------
    word
        Whether the factor, with its interactions, makes up more than half of the variance of the score (``dominates``),
        less (``minor``), or whether that is not established (``undecided``).
    doubt
        A key of :data:`DOUBTS`; empty if the interval excludes 0 and can be believed.
    """

    word: Word
    doubt: Doubt = ""

    @property
    def is_decided(self) -> bool:
        """Whether the factor dominates or is minor."""
        return self.word in DECIDED

    @property
    def dominates(self) -> bool:
        """Whether the factor makes up more than half of the variance."""
        return self.word == "dominates"

    @property
    def reason(self) -> str:
        """Why the verdict is not that of the interval, in words; empty if it is."""
        return DOUBTS[self.doubt]

    @property
    def needs_runs(self) -> bool:
        """Whether it is undecided only because there are too few runs."""
        return self.doubt in ("few_rows", "boundary", "no_interval", "contains_0")


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about a factor that is undecided.

    Attributes
    ----------
    action
        ``none`` if the factor is decided.
    text
        The same as sentences; empty for ``none``.
    rows, columns
        Size of the investigation that settles the verdict if the estimate is right; None if the action has none.
    """

    action: Action = "none"
    text: str = ""
    rows: int | None = None
    columns: int | None = None


def joint_level(level: float, factors: int) -> float:
    """Return the level of single intervals at which those of all factors hold together at `level` (Bonferroni)."""
    return 1 - (1 - level) / max(1, factors)


def fewest_rows(record: Importance) -> int:
    """Return how many rows a verdict takes."""
    return FEWEST_OF_LEVELS if record.design == "levels" else FEWEST_ROWS


def verdict_of(record: Importance, checks: Iterable[Check] = (), collapse: Collapse | None = None) -> Verdict:
    """Return the verdict on one factor.

    Parameters
    ----------
    record
        The factor; its interval holds for all factors, and all interim analyses, together.
    checks
        Of the whole investigation.
    collapse
        The two parts of the score, if runs collapsed.

    Notes
    -----
    The corrected importance is above 0 exactly if S_T, the factor's share of the variance, is above one half. So the
    interval decides: ``dominates`` above 0, ``minor`` below, ``undecided`` if it contains 0. It is not believed, and
    the factor stays undecided, if runs collapse (golden runs, too), scores have long tails, columns share
    configurations, rows or columns are equal, or rows are few.
    """
    about = {(check.code, check.severity) for check in checks if check.factor in (None, record.factor)}
    low, high = record.corrected_interval
    if ("L3D014", "info") in about:
        return Verdict("minor", "repeats")
    doubts: dict[Doubt, bool] = {
        "no_interval": not (math.isfinite(low) and math.isfinite(high)),
        "collapse": collapse is not None,
        "contains_0": low <= 0 <= high,
        "L3D013": ("L3D013", "warning") in about,
        "L3D009": ("L3D009", "warning") in about,
        "L3D010": ("L3D010", "warning") in about,
        "few_rows": record.rows_used < fewest_rows(record),
        "boundary": record.rows_used < FEWEST_AT_BOUNDARY
        and record.components is not None
        and not record.components.mitigated > 0,
    }
    for doubt, holds in doubts.items():
        if holds:
            return Verdict("undecided", doubt)
    return Verdict("dominates" if low > 0 else "minor")
