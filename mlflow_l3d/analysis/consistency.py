"""Agreement of single predictions between runs, from vote counts."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.metrics import UNPARSED, class_numbers
from mlflow_l3d.analysis.results import Consistency
from mlflow_l3d.errors import ParameterError

IntArray = npt.NDArray[np.int64]


class _Examples:
    """Ids of examples seen so far, each with a place (0, 1, 2, ...) and its true class."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}
        self._labels = np.empty(0, dtype=np.int64)
        self._last_ids: npt.NDArray[Any] | None = None
        self._last_places = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._places)

    def places(self, ids: npt.NDArray[Any], labels: IntArray) -> IntArray:
        """Return the place of every example of a run, new ones included.

        Raises
        ------
        ParameterError
            If an id occurs twice, or had another label before.
        """
        if self._last_ids is None or not np.array_equal(ids, self._last_ids):
            self._last_places = self._look_up(ids)
            self._last_ids = ids.copy()
        places = self._last_places
        if len(self._labels) < len(self._places):
            known = len(self._labels)
            self._labels = np.concatenate((self._labels, np.full(len(self._places) - known, UNPARSED)))
        unset = self._labels[places] == UNPARSED
        if unset.any():
            self._labels[places[unset]] = labels[unset]
        different = np.flatnonzero(self._labels[places] != labels)
        if len(different):
            at = different[0]
            found = f"{self._labels[places[at]]} in one run and {labels[at]} in another"
            fix = "Give every example an id that is its own in all runs."
            raise ParameterError("label", found, f"example_id {ids[at]!s} must have one true class", fix)
        return places

    def _look_up(self, ids: npt.NDArray[Any]) -> IntArray:
        known = self._places
        values = ids.tolist()
        if len(set(values)) < len(values):
            seen: set[Hashable] = set()
            twice = next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]
            fix = "Give every example an id that is its own in all runs."
            raise ParameterError("example_id", twice, "must occur once in the predictions of a run", fix)
        return np.fromiter((known.setdefault(value, len(known)) for value in values), np.int64, len(values))


@dataclass(slots=True)
class _Group:
    """Votes of runs that are compared with each other, and what their pairs sum to.

    `votes` has one row for each example and column 0 for all votes, column 1 + c for those for class c. The sums grow
    by what each run shares with those before it, so no pair of runs is ever looked at.
    """

    votes: npt.NDArray[np.int32] | None = field(default_factory=lambda: np.zeros((0, 1), dtype=np.int32))
    runs: int = 0
    pairs: int = 0
    equal: int = 0
    correct: int = 0
    predictions: int = 0
    unparsed: int = 0

    def add(self, places: IntArray, labels: IntArray, predictions: IntArray, examples: int) -> None:
        if self.votes is None:
            msg = "this group is closed"
            raise ValueError(msg)
        columns = 2 + int(max(labels.max(), predictions.max(), 0)) if len(labels) else 1
        votes = self.votes = _grown(self.votes, examples, columns)
        parsed = predictions != UNPARSED
        where, chosen = places[parsed], predictions[parsed]
        earlier = votes[where, chosen + 1]
        self.pairs += int(votes[places, 0].sum())
        self.equal += int(earlier.sum())
        self.correct += int(earlier[chosen == labels[parsed]].sum())
        votes[places, 0] += 1
        votes[where, chosen + 1] += 1
        self.runs += 1
        self.predictions += len(predictions)
        self.unparsed += len(predictions) - len(chosen)


def _grown(votes: npt.NDArray[np.int32], rows: int, columns: int) -> npt.NDArray[np.int32]:
    """Return `votes` with room for at least `rows` and `columns`; rows at least double, so that growing is rare."""
    have_rows, have_columns = votes.shape
    if rows <= have_rows and columns <= have_columns:
        return votes
    new_rows = have_rows if rows <= have_rows else max(rows, 2 * have_rows)
    larger = np.zeros((new_rows, max(columns, have_columns)), dtype=np.int32)
    larger[:have_rows, :have_columns] = votes
    return larger


class VoteCounter:
    """Consistency (CON) and correct consistency (CCON) of groups of runs, one run at a time.

    Memory grows with examples x classes of the groups that are open, not with runs or their pairs, and the result does
    not depend on the order of the runs.

    Parameters
    ----------
    classes
        Number of classes; None where it is not known (class numbers are then only checked for being whole).

    Notes
    -----
    Zhou et al. 2025, equations 2 and 3: the mean over pairs of runs of the share of equal (equal and right)
    predictions. With ``n_xc`` votes for class c among the ``n_x`` runs that hold example x, and c* its true class::

        CON = sum_x sum_c n_xc (n_xc - 1) / sum_x n_x (n_x - 1)
        CCON = sum_x n_xc* (n_xc* - 1) / sum_x n_x (n_x - 1)

    This is the papers' mean over pairs where all runs share one test set; where test sets differ, a pair counts by the
    number of examples it shares. A prediction of -1 agrees with nothing, also not with another -1.
    """

    def __init__(self, classes: int | None = None) -> None:
        if classes is not None and classes < 1:
            msg = f"classes must be at least 1, got {classes}"
            raise ValueError(msg)
        self._classes = classes
        self._examples = _Examples()
        self._groups: dict[Hashable, _Group] = {}

    def add(
        self, group: Hashable, example_ids: npt.ArrayLike, labels: npt.ArrayLike, predictions: npt.ArrayLike
    ) -> None:
        """Count one run.

        Parameters
        ----------
        group
            Which runs it is compared with: the row of its table, or one group for all golden runs.
        example_ids
            Shape (n,): int64 or str.
        labels, predictions
            Shape (n,): class numbers; a prediction may be -1.

        Raises
        ------
        ParameterError
            If an id occurs twice, has another label than before, or a class number is not below `classes`.
        ValueError
            If lengths or types are wrong, or the group is closed.
        """
        truth, guess = class_numbers(labels, "labels", 0), class_numbers(predictions, "predictions", UNPARSED)
        ids = np.asarray(example_ids)
        if not ids.shape == truth.shape == guess.shape:
            msg = f"example_ids, labels and predictions differ in shape: {ids.shape}, {truth.shape}, {guess.shape}"
            raise ValueError(msg)
        highest = int(max(truth.max(), guess.max())) if len(truth) else 0
        if self._classes is not None and highest >= self._classes:
            raise ParameterError("prediction", highest, f"class numbers must be below {self._classes}")
        places = self._examples.places(ids, truth)
        self._groups.setdefault(group, _Group()).add(places, truth, guess, len(self._examples))

    def close(self, group: Hashable) -> None:
        """Release the memory of a group to which no run will be added; its part of the result is kept."""
        if group in self._groups:
            self._groups[group].votes = None

    def result(self, name: str) -> Consistency:
        """Return the mean over all groups whose runs share an example; it may be asked for at any time.

        Parameters
        ----------
        name
            What the groups are: a factor, or ``golden``.

        Returns
        -------
        Consistency
            CON and CCON are nan where no two runs can be compared. `unparsed_share` counts every prediction added.
        """
        compared = [group for group in self._groups.values() if group.pairs]
        count = len(compared)
        predictions = sum(group.predictions for group in self._groups.values())
        unparsed = sum(group.unparsed for group in self._groups.values())
        return Consistency(
            group=name,
            consistency=math.fsum(one.equal / one.pairs for one in compared) / count if count else math.nan,
            correct_consistency=math.fsum(one.correct / one.pairs for one in compared) / count if count else math.nan,
            runs=sum(one.runs for one in compared),
            groups=count,
            pairs_of_predictions=sum(one.pairs for one in compared),
            unparsed_share=unparsed / predictions if predictions else math.nan,
        )

    def per_group(self) -> dict[Hashable, Consistency]:
        """Return the record of each group, in the order in which they were first seen; it may be asked for at any time.

        The mean of those that are not nan is :meth:`result`. They are what an interval over rows needs.
        """
        return {
            group: Consistency(
                group=str(group),
                consistency=one.equal / one.pairs if one.pairs else math.nan,
                correct_consistency=one.correct / one.pairs if one.pairs else math.nan,
                runs=one.runs,
                groups=1,
                pairs_of_predictions=one.pairs,
                unparsed_share=one.unparsed / one.predictions if one.predictions else math.nan,
            )
            for group, one in self._groups.items()
        }
