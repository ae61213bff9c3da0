"""A remedy: what may reduce the luck of a score, what is predicted of it, and which are worth their cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from mlflow_l3d.analysis.intervals import UNKNOWN as UNKNOWN
from mlflow_l3d.analysis.intervals import Range as Range
from mlflow_l3d.cells.factors import TASK_FACTORS

Kind: TypeAlias = Literal[
    "vote", "mean", "choose", "training", "prompt", "active", "more_data", "fixed_examples", "report_mean", "fix"
]
"""``vote``: the class most members predict, or the medoid answer of texts. ``mean``: of class scores, or of numbers.
``choose``: the member that is best on validation examples. ``training``, ``prompt``: other hyperparameters of each
training or prompt. ``active``: labels chosen by a first training. ``more_data``: more labelled examples.
``fixed_examples``: one fixed training set. ``report_mean``: the mean score of several trainings instead of one score.
``fix``: a factor at one configuration, which hides luck and cures none."""
Basis: TypeAlias = Literal["exact", "sampled", "extrapolated", "unknown"]
"""``exact``: in closed form, or from all choices of stored runs, so without resampling error. ``sampled``: from some of
these choices, always the same. ``extrapolated``: from fewer members, other sizes, or the effects of single examples.
``unknown``: until it is verified."""

ENSEMBLES: Final = ("vote", "mean")
"""Kinds that combine the predictions of several members."""
SEVERAL: Final = (*ENSEMBLES, "choose")
"""Kinds with several members."""
CHANGING: Final = ("training", "prompt")
"""Kinds of which nothing is known before they are trained."""
MEASURED: Final = (*CHANGING, "active", "more_data")
"""Kinds of which golden runs, once they are stored, are the prediction."""
LABELS: Final = ("active", "more_data")
"""Kinds with other training examples."""
OF_APPROACHES: Final = (*SEVERAL, *CHANGING, "active")
"""Kinds that an approach can have; all others are other data, or another report."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What is done instead of one training.

    Attributes
    ----------
    kind
        What kind of remedy it is.
    over
        Factors whose configurations differ between the members; empty if there is one member.
    members
        Trainings (or prompts) behind one prediction.
    changes
        Name -> value: hyperparameters that differ from the investigated ones; of ``more_data`` settings of the split.
    words
        What reports call it, if its kind does not say it; part of no key.
    trainings
        Trainings behind one member, if it is made of several; part of no key.
    """

    kind: Kind
    over: tuple[str, ...] = ()
    members: int = 1
    changes: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    words: str = field(default="", compare=False)
    trainings: int = field(default=1, compare=False)

    @property
    def can_be_trained(self) -> bool:
        """Whether golden runs can have it: an approach can, or the split can have so many labels."""
        return self.kind in OF_APPROACHES or "num_labelled" in self.changes

    @property
    def needs_labels(self) -> bool:
        """Whether it needs labels that the user may not have: more of them, or of other examples."""
        return self.kind in LABELS or any(name in TASK_FACTORS for name in self.over)


MOST_PAIRS: Final = 40
"""Pairs of golden runs that verify a remedy unless more are asked for."""
DETECTED: Final = 1.96 + 0.84
"""Standard errors of an effect that a test at 5 % finds with 80 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is predicted of a remedy, in the metric's own unit (fractions).

    Attributes
    ----------
    remedy
        The remedy.
    basis
        What the prediction is made from.
    std
        Standard deviation of the score that remains over golden runs (ddof=1).
    ratio
        The remaining standard deviation over the present one, paired: without the error of `std_before`.
    mean_change
        Mean score with the remedy less mean score without.
    consistency
        Share of predictions on which two results with the remedy agree, if all factors are redrawn. Like `fragile` from
        at most 18 choices of members, whatever the basis.
    fragile
        Share of test examples that one of two results with the remedy has right and the other wrong: if all factors
        are redrawn, or if results of different rows share no examples, those of the remedy.
    shares
        Factor -> share of the remaining variance that it is involved in.
    trainings
        Trainings, or calls of a model, behind one prediction.
    seconds
        Seconds of training behind one result; nan if unknown.
    overstatement
        Of ``choose``: mean of the validation score of the chosen member less its test score, beyond what a member
        that was not chosen shows; else nan.
    std_before
        Standard deviation of a run without the remedy.
    is_trainable
        Whether it can be verified: not if its members draw test examples of their own.
    also
        Further remedies that are applied to results with this one.
    reason
        One line: why it is unknown, or what the numbers do not cover; empty if there is nothing to say.
    """

    remedy: Remedy
    basis: Basis
    std: Range = UNKNOWN
    ratio: Range = UNKNOWN
    mean_change: Range = UNKNOWN
    consistency: Range = UNKNOWN
    fragile: Range = UNKNOWN
    shares: Mapping[str, float] = field(default_factory=dict)
    trainings: int = 1
    seconds: float = math.nan
    overstatement: float = math.nan
    std_before: float = math.nan
    is_trainable: bool = True
    also: tuple[Remedy, ...] = ()
    reason: str = ""

    def is_decidable(self, pairs: int) -> bool:
        """Return whether so many pairs of golden runs probably (80 %) show less spread, and its interval does now.

        If the remaining spread is common to a pair, the logarithm of the ratio has the error sqrt((1 - ratio²) /
        (pairs - 1)).
        """
        error = math.sqrt(max(0.0, 1 - self.ratio.value**2) / (pairs - 1)) if pairs > 1 else math.inf
        return self.ratio.high < 1 and self.ratio.value <= math.exp(-DETECTED * error)


ENOUGH: Final = 0.95
"""A remedy that leaves a larger part of the standard deviation is not worth its price."""
_MOST: Final = 0.75
"""More members are named only if fewer reach less than this part of what the most members take away."""
NAMED: Final = 3
"""Remedies that a first screen names, at most."""


NO_PREDICTIONS: Final = "Votes need predictions: let runs write them (example_id, label, prediction)."
"""Why nothing is known of ensembles; a user can change that."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would help.

    Attributes
    ----------
    best
        Remedies that help, best first.
    std
        Standard deviation of the score without any.
    reason
        One line: why none is named, or what they leave; empty if there is nothing to say.
    """

    best: tuple[Prediction, ...] = ()
    std: float = math.nan
    reason: str = ""


def cost(prediction: Prediction) -> float:
    """Return seconds of training behind one result, or trainings if seconds are not known."""
    return prediction.seconds if prediction.seconds > 0 else float(prediction.trainings)


def pareto(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Return the remedies that no other one beats in spread at no more cost, cheapest first."""
    front: list[Prediction] = []
    candidates = [each for each in predictions if each.remedy.kind != "fix" and math.isfinite(each.std.value)]
    for each in sorted(candidates, key=lambda one: (cost(one), one.std.value)):
        if not front or each.std.value < front[-1].std.value:
            front.append(each)
    return front


def simplest(
    predictions: Iterable[Prediction], is_worthy: Callable[[Prediction], bool] = lambda _: True
) -> list[Prediction]:
    """Return one prediction of each kind over the same factors: the fewest members that reach most of its reduction.

    Those of which nothing is known, those that are applied to several results, and those that are not worthy, are left
    out; where no worthy one reaches so much, the one with the least spread is returned.
    """
    groups: dict[object, list[Prediction]] = {}
    for each in predictions:
        if math.isfinite(each.std.value) and not each.also:
            changes = tuple(sorted(each.remedy.changes.items()))
            groups.setdefault((each.remedy.kind, each.remedy.over, changes), []).append(each)
    chosen = []
    for group in groups.values():
        group.sort(key=lambda each: each.remedy.members)
        low, high = (pick(each.std.value for each in group) for pick in (min, max))
        if worthy := [each for each in group if is_worthy(each)]:
            least = min(worthy, key=lambda each: each.std.value)
            enough = (each for each in worthy if each.std.value <= high - _MOST * (high - low))
            chosen.append(next(enough, least))
    return chosen


def helps(prediction: Prediction, std: float, sign: float) -> bool:
    """Return whether a remedy leaves less spread and no lower mean; `sign` is -1 if smaller is better.

    The interval of one of both must show it: that of the ratio lies below 1, or the mean certainly rises. The mean
    must not be expected to fall by more than what the spread falls.
    """
    ratio, change = prediction.ratio, prediction.mean_change
    low, high = sorted((sign * change.low, sign * change.high))
    if not (math.isfinite(ratio.high) and prediction.std.value <= ENOUGH * std):
        return False
    return (ratio.high < 1 or low > 0) and high >= 0 and sign * change.value >= prediction.std.value - std


def helping(predictions: Iterable[Prediction], std: float, sign: float) -> list[Prediction]:
    """Return the remedies that help a single result: those that no cheaper one beats, most reduction per cost first.

    Of each kind over the same factors one number of members is named, see :func:`simplest`. Other labels come
    last, whatever it costs to train on them.
    """
    some = simplest(
        predictions, lambda each: each.is_trainable and each.remedy.can_be_trained and helps(each, std, sign)
    )
    more = [each for each in some if each.remedy.kind in LABELS]
    rest = pareto([each for each in some if each not in more])
    return [*sorted(rest, key=lambda each: (each.std.value - each.std_before) / cost(each)), *more]
