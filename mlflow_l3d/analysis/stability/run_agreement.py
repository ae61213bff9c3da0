"""Agreement of each run of a group with the others, from vote counts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.typing import FloatArray
from mlflow_l3d.metrics.classification import UNPARSED

Places = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class RunAgreement:
    """How the runs of one group agree with each other, one value a run, in the order in which they were added.

    Attributes
    ----------
    agreement
        Shape (S,): share of equal predictions among all comparisons of a run with the other runs on common examples
        (Zhou et al. 2025, a seed's mean agreement with all others); nan where it has nothing in common with any.
    without
        Shape (S,): CON of the group without the run; nan where no two of the others can be compared.
    """

    agreement: FloatArray
    without: FloatArray


@dataclass(slots=True)
class Runs:
    """Predictions of the runs of a group, as small as they can be held.

    Attributes
    ----------
    places
        For each run, shape (n,): which examples; one array for runs that follow each other on the same examples.
    predictions
        For each run, shape (n,): class numbers, or -1, in the smallest type of integer.
    """

    places: list[Places] = field(default_factory=list)
    predictions: list[npt.NDArray[np.signedinteger]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[tuple[Places, npt.NDArray[np.signedinteger]]]:
        return zip(self.places, self.predictions, strict=True)

    def add(self, places: Places, predictions: npt.NDArray[np.int64]) -> None:
        """Keep a run; `places` is not copied."""
        if self.places and (places is self.places[-1] or np.array_equal(places, self.places[-1])):
            places = self.places[-1]
        highest = int(predictions.max(initial=0))
        kind = next((each for each in (np.int8, np.int16, np.int32) if highest <= np.iinfo(each).max), np.int64)
        self.places.append(places)
        self.predictions.append(predictions.astype(kind))

    def first_seen(self) -> Places:
        """Return every place that a run holds, once, in the order in which the runs hold them."""
        import pandas as pd

        different = [here for at, here in enumerate(self.places) if not at or here is not self.places[at - 1]]
        if not different:
            return np.empty(0, dtype=np.int32)
        return np.asarray(pd.unique(np.concatenate(different)), dtype=np.int32)


def run_agreement(runs: Runs, votes: npt.NDArray[np.int32], equal: int, pairs: int) -> RunAgreement:
    """Return the agreement of each run with the others.

    Parameters
    ----------
    runs
        S runs.
    votes
        Shape (examples, 1 + classes): column 0 counts all votes of the runs for an example, column 1 + c those for c.
    equal, pairs
        Comparisons that agree, and all, over pairs of runs.

    Notes
    -----
    Run j makes ``sum_x (n_x - 1)`` comparisons on its examples, of which ``sum_x (n_xc - 1)`` agree, with c its own
    prediction. Without it the group has the rest. Time and memory S n.
    """
    own_equal, own_pairs = np.zeros(len(runs), dtype=np.int64), np.zeros(len(runs), dtype=np.int64)
    for at, (places, predictions) in enumerate(runs):
        parsed = predictions != UNPARSED
        chosen = predictions[parsed].astype(np.intp)
        own_equal[at] = int(votes[places[parsed], chosen + 1].sum()) - len(chosen)
        own_pairs[at] = int(votes[places, 0].sum()) - len(places)
    return RunAgreement(_shares(own_equal, own_pairs), _shares(equal - own_equal, pairs - own_pairs))


def _shares(hits: npt.NDArray[np.int64], of: npt.NDArray[np.int64]) -> FloatArray:
    shares = np.full(len(of), math.nan)
    np.divide(hits, of, out=shares, where=of > 0)
    return shares
