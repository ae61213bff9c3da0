"""Single examples over runs: which are right under every run, which never, and which depend on luck."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.intervals import FloatArray, IntArray, known
from mlflow_l3d.metrics.classification import UNPARSED

ROBUST: Final = "robust"
FRAGILE: Final = "fragile"
NEVER_RIGHT: Final = "never_right"
TEN: Final = 10
"""Runs of which shares are reported whatever their number; the seeds of Zhou et al. (2025) are ten, too."""
FEWEST_EXAMPLES: Final = 10
"""A share of fewer test examples is not reported but explained: one more of them would move it by a tenth."""


@dataclass(frozen=True, slots=True)
class ExampleVotes:
    """What all runs say about each example.

    Attributes
    ----------
    frame
        One row per example, most fragile first, with the columns

        - ``example_id``, ``label``,
        - ``kind``: ``robust`` (right under every run; Zhou et al. 2025, section 5.3), ``never_right``, or ``fragile``
          (right under some),
        - ``runs`` that saw it, ``votes`` (a tuple: how many of them name class 0, 1, ...) and ``unparsed`` (how many
          name none),
        - ``share_right`` of the runs,
        - ``entropy`` of the votes in bits, answers that name no class counted as one more outcome,
        - ``prediction``: the most frequent one; the smallest of several, -1 only where it alone is most frequent.
    robust_share, fragile_share, never_right_share
        Shares of examples, which add up to 1. With more runs fewer examples are right in all of them.
    robust_share_10, fragile_share_10, never_right_share_10
        What ten of the runs would show, on average over all choices of ten: estimates that do not depend on how many
        runs there are, and so may be compared. Over the examples that ten runs saw (`seen_by_ten`); nan if there are
        none.
    left_out
        Examples that fewer runs saw than asked for.
    """

    frame: pd.DataFrame
    robust_share: float
    fragile_share: float
    never_right_share: float
    left_out: int
    robust_share_10: float = math.nan
    fragile_share_10: float = math.nan
    never_right_share_10: float = math.nan
    seen_by_ten: int = 0

    @property
    def runs(self) -> tuple[int, int]:
        """Fewest and most runs that saw an example; 0 without examples."""
        return int(self.frame["runs"].min() or 0), int(self.frame["runs"].max() or 0)

    @property
    def are_enough(self) -> bool:
        """Whether there are examples enough for shares of them: :data:`FEWEST_EXAMPLES`."""
        return len(self.frame) >= FEWEST_EXAMPLES

    def shares(self) -> dict[str, float]:
        """Return all shares under the names of their metrics; those that are nan are left out."""
        return known({name: getattr(self, name) for name in self.__slots__ if "share" in name})

    def most_fragile(self, count: int = 20) -> pd.DataFrame:
        """Return the first rows of the examples whose votes differ, at most `count`."""
        return self.frame[self.frame["entropy"] > 0].head(count)


def example_votes(predictions: IntArray, labels: IntArray, example_ids: npt.NDArray[Any]) -> ExampleVotes:
    """Rank the examples of runs with one test set.

    Parameters
    ----------
    predictions
        Shape (S, n): class numbers, or -1.
    labels
        Shape (n,): true class numbers.
    example_ids
        Shape (n,).
    """
    width = int(max(predictions.max(initial=0), labels.max(initial=0))) + 2
    codes = predictions - UNPARSED + np.arange(len(labels)) * width
    counts = np.bincount(codes.reshape(-1), minlength=len(labels) * width).reshape(len(labels), width)
    return ranked_votes(example_ids, labels, counts)


def ranked_votes(example_ids: npt.NDArray[Any], labels: IntArray, counts: IntArray, min_runs: int = 1) -> ExampleVotes:
    """Rank examples by their votes, however these were counted.

    Parameters
    ----------
    example_ids, labels
        Shape (n,): ids and true class numbers.
    counts
        Shape (n, 1 + classes): votes for no class, class 0, class 1, ...; every label is below `classes`.
    min_runs
        Examples that fewer runs saw are left out.
    """
    from scipy.special import entr

    held = counts.sum(axis=1)
    enough_runs = held >= max(1, min_runs)
    ids = example_ids[enough_runs]
    labels = labels[enough_runs]
    counts = counts[enough_runs]
    runs = held[enough_runs]
    right = counts[np.arange(len(ids)), labels + 1]
    kinds = np.select([right == runs, right == 0], [ROBUST, NEVER_RIGHT], FRAGILE)
    frame = pd.DataFrame(
        {
            "example_id": ids,
            "label": labels,
            "kind": kinds.astype(object),
            "runs": runs,
            "votes": pd.Series(list(map(tuple, counts[:, 1:].tolist())), dtype=object),
            "unparsed": counts[:, 0],
            "share_right": right / runs,
            "entropy": entr(counts / runs[:, np.newaxis]).sum(axis=1) / math.log(2),
            "prediction": _most_frequent(counts),
        }
    )
    frame = frame.sort_values(["entropy", "share_right"], ascending=[False, True], kind="stable", ignore_index=True)
    robust, fragile, never = (
        float((kinds == kind).mean()) if len(frame) else math.nan for kind in (ROBUST, FRAGILE, NEVER_RIGHT)
    )
    return ExampleVotes(
        frame, robust, fragile, never, len(enough_runs) - len(frame), *_of_ten(right, runs), int((runs >= TEN).sum())
    )


def all_drawn(count: IntArray, total: IntArray, k: int = TEN) -> FloatArray:
    """Return C(count, k) / C(total, k): the chance that k of the runs are all among `count`; at most 1."""
    chances = [np.maximum(0, count - drawn) / np.maximum(total - drawn, 1) for drawn in range(k)]
    shares: FloatArray = np.prod(chances, axis=0)
    return shares


def _of_ten(right: IntArray, runs: IntArray) -> tuple[float, float, float]:
    """Return the expected shares of examples right in all, some and none of ten runs drawn without replacement.

    Parameters
    ----------
    right, runs
        Shape (n,): how many runs have an example right, of how many that saw it.

    Notes
    -----
    C(k, 10) / C(n, 10) of an example right in k of n runs: what ecologists call rarefaction (Hurlbert 1971).
    """
    enough = runs >= TEN
    if not enough.any():
        return math.nan, math.nan, math.nan
    robust, never = (float(all_drawn(count[enough], runs[enough]).mean()) for count in (right, runs - right))
    return robust, max(0.0, 1 - robust - never), never


def _most_frequent(counts: IntArray) -> IntArray:
    classes = counts[:, 1:]
    best = classes.argmax(axis=1)
    return np.where(counts[:, 0] > classes.max(axis=1, initial=0), UNPARSED, best).astype(np.int64)
