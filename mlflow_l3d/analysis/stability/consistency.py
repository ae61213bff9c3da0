"""Agreement of single predictions between runs, from vote counts."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.stability.examples import ExampleVotes, ranked_votes
from mlflow_l3d.analysis.stability.results import Consistency
from mlflow_l3d.analysis.stability.run_agreement import RunAgreement
from mlflow_l3d.analysis.stability.vote_groups import Examples, VoteGroup, combined, mean
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.classification import UNPARSED, class_numbers


class VoteCounter:
    """Consistency (CON) and correct consistency (CCON) of groups of runs, one run at a time.

    Memory grows with examples x classes, and with the predictions, of the groups that are open, not with pairs of runs,
    and the result does not depend on the order of the runs.

    Parameters
    ----------
    classes
        Number of classes; None where it is not known (class numbers are then only checked for being whole).
    examples
        Examples that several counters share, so that ids are looked up once; by default the counter has its own.

    Notes
    -----
    Zhou et al. 2025, equations 2 and 3: the mean over pairs of runs of the share of equal (equal and right)
    predictions. With ``n_xc`` votes for class c among the ``n_x`` runs that hold example x, and c* its true class::

        CON = sum_x sum_c n_xc (n_xc - 1) / sum_x n_x (n_x - 1)
        CCON = sum_x n_xc* (n_xc* - 1) / sum_x n_x (n_x - 1)

    This is the papers' mean over pairs where all runs share one test set; where test sets differ, a pair counts by the
    number of examples it shares. A prediction of -1 agrees with nothing, also not with another -1.
    """

    def __init__(self, classes: int | None = None, *, examples: Examples | None = None) -> None:
        if classes is not None and classes < 1:
            msg = f"classes must be at least 1, got {classes}"
            raise ValueError(msg)
        self._classes = classes
        self._examples = Examples() if examples is None else examples
        self._groups: dict[Hashable, VoteGroup] = {}

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
        self._groups.setdefault(group, VoteGroup()).add(places, truth, guess, len(self._examples))

    def close(self, group: Hashable) -> None:
        """Release the memory of a group to which no run will be added; its part of the results is kept."""
        if group in self._groups:
            self._groups[group].close()

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
            `fleiss_kappa` is the mean over groups that have one. `accuracy_std` and `accuracy_std_population` are nan
            where the runs of any group that is compared have different test sets.
        """
        return combined(list(self._groups.values()), name)

    def shares(self) -> tuple[float, float]:
        """Return CON and CCON of :meth:`result` alone, which is much faster while rows come in."""
        compared = [group for group in self._groups.values() if group.pairs]
        return mean([one.equal / one.pairs for one in compared]), mean([one.correct / one.pairs for one in compared])

    def per_group(self) -> dict[Hashable, Consistency]:
        """Return the record of each group, in the order in which they were first seen; it may be asked for at any time.

        The mean of those that are not nan is :meth:`result`. They are what an interval over rows needs.
        """
        found = {group: combined([one], str(group)) for group, one in self._groups.items()}
        return {group: replace(one, runs=self._groups[group].runs, groups=1) for group, one in found.items()}

    def per_run(self) -> dict[Hashable, RunAgreement]:
        """Return, for each group, how its runs agree with each other; it may be asked for at any time."""
        return {group: one.per_run() for group, one in self._groups.items()}

    def example_votes(self, group: Hashable, *, min_runs: int = 2) -> ExampleVotes:
        """Rank the examples of an open group.

        Parameters
        ----------
        group
            A group with a run that is not closed.
        min_runs
            Examples that fewer runs saw are left out.

        Raises
        ------
        ValueError
            If the group is closed, or not known.
        """
        one = self._groups.get(group)
        if one is None or one.closed:
            msg = f"the votes of group {group!r} are not held: it is {'not known' if one is None else 'closed'}"
            raise ValueError(msg)
        order = one.held.first_seen()
        counts = one.votes[order].astype(np.int64)
        counts[:, 0] -= counts[:, 1:].sum(axis=1)
        known = self._examples.ids
        return ranked_votes(_as_array([known[at] for at in order]), self._examples.labels[order], counts, min_runs)


def _as_array(ids: list[Hashable]) -> npt.NDArray[np.int64] | npt.NDArray[np.object_]:
    if all(isinstance(each, int) for each in ids):
        return np.array(ids, dtype=np.int64)
    return np.array(ids, dtype=object)
