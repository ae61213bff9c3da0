"""What a test requires of its scores, and the seed that each run is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest

from mlflow_l3d.errors import L3DError, ParameterError

LARGEST: Final = 1e100
"""Score, in size, whose square is still a number."""
__tracebackhide__ = True  # pytest shows the line of the test, not of this file


def seed_of(root: int, index: int) -> int:
    """Return the seed of a run; it fits 32 bits, which is all that some libraries take."""
    from mlflow_l3d.cells.factors import configuration_seed

    return configuration_seed(root, "luck", index) % 2**32


@dataclass(frozen=True)
class Requirement:
    """What must be true of the mean of all seeds.

    Attributes
    ----------
    bound
        Smallest mean of `sign` times the score, of its difference to the scores of `label`, or of the rate.
    sign
        -1 if less is better.
    label
        Whose scores of the same seeds are subtracted, if any.
    is_rate
        Whether runs pass or fail, without score.
    """

    bound: float
    sign: float = 1.0
    label: str = ""
    is_rate: bool = False

    def __str__(self) -> str:
        if self.label:
            return f"not worse than {self.label} by {-self.bound:.4g}"
        what = "at least" if self.sign > 0 else "at most"
        return f"{'rate ' if self.is_rate else ''}{what} {self.sign * self.bound:.4g}"


@dataclass
class Luck:
    """The fixture of a test.

    Attributes
    ----------
    seed
        Of this run; give it to all that draws.
    is_plain
        Whether the test runs once, without ``--l3d``.
    value, requirement
        The score of this run, and what is required, once the test has given them.
    """

    seed: int
    is_plain: bool = True
    value: float | None = None
    requirement: Requirement | None = None

    def score(self, value: float) -> Score:
        """Take the score of this run, or its loss or time.

        Raises
        ------
        ParameterError
            If it is not a finite number, or too large to be squared.
        L3DError
            If this run has one already.
        """
        if self.value is not None:
            raise L3DError("luck.score was called twice in one run. Write a test for each score.")
        self.value = _finite("score", value)
        return Score(self)


@dataclass(frozen=True)
class Score:
    """The score of one run, of which something is required."""

    luck: Luck

    def at_least(self, bound: float) -> None:
        """Require that the mean score is `bound` or more."""
        self._require(Requirement(_finite("at_least", bound)))

    def at_most(self, bound: float) -> None:
        """Require that the mean loss or time is `bound` or less."""
        self._require(Requirement(-_finite("at_most", bound), sign=-1.0))

    def not_worse_than(self, label: str, by: float = 0.0, *, greater_is_better: bool = True) -> None:
        """Require that the mean is worse than that of the same seeds under `label` by `by` at most.

        Parameters
        ----------
        label
            Given to ``--l3d-record`` when these scores were measured.
        by
            0 or more, in the unit of the score. With 0, only equal or better scores are ever shown to pass.
        greater_is_better
            False for losses and times.
        """
        if not label or _finite("by", by) < 0:
            raise ParameterError("not_worse_than", f"{label!r}, by={by}", "needs a label, and by=0 or more")
        self._require(Requirement(-by, 1.0 if greater_is_better else -1.0, label))

    def _require(self, requirement: Requirement) -> None:
        self.luck.requirement, value = requirement, self.luck.value
        if not self.luck.is_plain or value is None:
            return
        if requirement.label:
            pytest.skip(f"{requirement}: only pytest --l3d compares seeds")
        if requirement.sign * value < requirement.bound:
            text = f"score {value:.6g} with seed {self.luck.seed}, required: {requirement}"
            raise AssertionError(f"{text} (one run; pytest --l3d runs several seeds)")


def _finite(name: str, value: float) -> float:
    if not abs(number := float(value)) <= LARGEST:
        raise ParameterError(name, value, f"must be a finite number, {LARGEST:g} at most in size")
    return number


NOTHING: Final = "luck.score requires nothing: add .at_least, .at_most or .not_worse_than"
CURRENT: Final = pytest.StashKey[Luck]()
"""Place of the run's `Luck` in the stash of a test."""
