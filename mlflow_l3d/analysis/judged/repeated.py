"""What repeated judgements say: whether judges agree, which rows change their verdict, how often k answers pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.consistency.examples import all_drawn
from mlflow_l3d.analysis.intervals import FloatArray, IntArray, jackknife_variance, t_quantile
from mlflow_l3d.analysis.judged.table import level_codes, mean_interval, usable_judgements

COLUMNS: Final = ("first", "second", "rows", "answers", "equal", "kappa", "low", "high", "note")


def judge_agreement(table: pd.DataFrame) -> pd.DataFrame:
    """Return how well judges agree on the same answers.

    Parameters
    ----------
    table
        See :func:`mlflow_l3d.analysis.judged.components.components`.

    Returns
    -------
    pandas.DataFrame
        One line of all judges if they are three or more (``second`` is "all"), then one per pair of judges, then one of
        each judge with itself if it rated answers twice: ``first, second, rows, answers, equal`` (share of equal
        verdicts), ``kappa, low, high, note``. Two verdicts disagree by the square of their difference; for yes and no
        that is the plain kappa. Kappa is Cohen's (1960; weighted: 1968) for two judges, and Krippendorff's alpha for
        all and for one with itself. It is nan if both judges always give one same verdict: then nothing but chance is
        seen.

    Notes
    -----
    The first judgement of each judge counts; for a judge with itself the first two. Intervals by leaving one row out at
    a time, on Fisher's scale, with Student's quantile; nan below six rows, or if leaving a row out changes nothing.

    Examples
    --------
    >>> verdicts = {"strict": [1, 0, 0, 0], "lenient": [1, 1, 0, 0]}
    >>> frame = pd.DataFrame(verdicts).melt(var_name="judge", ignore_index=False).reset_index(names="row")
    >>> agreement = judge_agreement(frame.assign(answer=frame["row"]))
    >>> agreement["equal"].tolist(), agreement["kappa"][0].item()
    ([0.75], 0.5)
    """
    data = usable_judgements(table).table
    number = data["judgement"] if "judgement" in data else data.groupby(["answer", "judge"]).cumcount()
    data = data.assign(turn=number.groupby([data["answer"], data["judge"]]).rank(method="first"))
    verdicts = data.pivot(index=["row", "answer"], columns=["judge", "turn"], values="value")
    first = verdicts.xs(1.0, axis=1, level="turn") if len(data) else verdicts
    rows = level_codes(verdicts.index.get_level_values("row").to_series())
    judges = sorted(first.columns)
    chosen = [("all", "all", first, True)] if len(judges) > 2 else []
    chosen += [(one, other, first[[one, other]], False) for one, other in combinations(judges, 2)]
    twice = [judge for judge in judges if (judge, 2.0) in verdicts]
    chosen += [(judge, judge, verdicts[[(judge, 1.0), (judge, 2.0)]], True) for judge in twice]
    lines = [(one, other, *_agreement(each.to_numpy(), rows, is_pooled)) for one, other, each, is_pooled in chosen]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def _agreement(
    verdicts: FloatArray, row: IntArray, is_pooled: bool
) -> tuple[int, int, float, float, float, float, str]:
    """Return rows, answers, share of equal verdicts, kappa, its interval and a note.

    Chance needs only sums and squares of verdicts: of each judge, or of all if they are pooled.
    """
    kept = (~np.isnan(verdicts)).sum(axis=1) > 1
    verdicts, row = verdicts[kept], level_codes(row[kept])
    rows, answers = int(row.max(initial=-1)) + 1, len(verdicts)
    if not answers:
        return 0, 0, *(math.nan,) * 4, "no answer has verdicts of both"
    raters = (~np.isnan(verdicts)).sum(axis=1)
    sums = np.nan_to_num(verdicts)
    squares = np.nan_to_num(verdicts) ** 2
    inside = (squares.sum(axis=1) - sums.sum(axis=1) ** 2 / raters) / (raters - 1) * raters
    if is_pooled:
        sums, squares = sums.sum(axis=1, keepdims=True), squares.sum(axis=1, keepdims=True)
    of_rows = np.array([np.bincount(row, each) for each in (inside, raters, *sums.T, *squares.T)]).T

    def kappa(total: FloatArray) -> FloatArray:
        inside, seen, *_ = total.T
        sums, squares = np.split(total[..., 2:], 2, axis=-1)
        if is_pooled:
            expected = (squares - sums**2 / seen[..., None])[..., 0] / (seen - 1)
        else:
            expected = squares.sum(axis=-1) / seen - sums.prod(axis=-1) / (seen / 2) ** 2
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(expected > 1e-12, 1 - inside / seen / expected, math.nan)

    whole = of_rows.sum(axis=0)
    value, without = float(kappa(whole)), kappa(whole - of_rows)
    pairs = [verdicts[:, [i, j]] for i, j in combinations(range(verdicts.shape[1]), 2)]
    both = np.concatenate([pair[~np.isnan(pair).any(axis=1)] for pair in pairs])
    equal = float((both[:, 0] == both[:, 1]).mean())
    if math.isnan(value):
        return rows, answers, equal, value, math.nan, math.nan, "one verdict only: agreement beyond chance is unknown"
    constant = "" if is_pooled or (np.ptp(verdicts, axis=0) > 0).all() else "one judge always gives the same verdict"
    return rows, answers, equal, value, *_fisher(value, without), constant


def _fisher(value: float, without: FloatArray) -> tuple[float, float]:
    rows = len(without)
    if rows < 6 or not np.isfinite(without).all() or np.ptp(without) < 1e-12 or value >= 1:
        return math.nan, math.nan
    scale = np.arctanh(np.clip(without, -0.999999, 0.999999))
    half = t_quantile(rows - 1) * math.sqrt(jackknife_variance(scale))
    centre = math.atanh(max(value, -0.999999))
    return math.tanh(centre - half), math.tanh(centre + half)


def unstable_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose verdict changes over repeats, judges or judgements, those that change most first.

    Parameters
    ----------
    table
        See :func:`mlflow_l3d.analysis.judged.components.components`.

    Returns
    -------
    pandas.DataFrame
        ``row, answers, judgements, mean``; ``over_repeats``: share of pairs of answers (of the same prompt and so on)
        to which the same judge gives different verdicts; ``over_judges``: share of pairs of judges that give the same
        answer different verdicts; ``over_judgements``: likewise of one judge that rates an answer again. A share is
        nan without pairs.

    Examples
    --------
    >>> frame = pd.DataFrame({"row": ["a", "a", "b", "b"], "answer": range(4), "judge": "exact", "value": [1, 0, 1, 1]})
    >>> unstable_rows(frame)[["row", "over_repeats"]].to_dict("records")
    [{'row': 'a', 'over_repeats': 1.0}]
    """
    usable = usable_judgements(table)
    data, factors = usable.table, list(usable.factors)
    mean = data.groupby(["row", "answer", "judge", *factors])["value"].mean().reset_index()
    frame = data.groupby("row").agg(answers=("answer", "nunique"), judgements=("value", "size"), mean=("value", "mean"))
    frame["over_repeats"] = _changes(mean, ["row", "judge", *factors])
    frame["over_judges"] = _changes(mean, ["row", "answer"])
    frame["over_judgements"] = _changes(data, ["row", "answer", "judge"])
    changes = frame[["over_repeats", "over_judges", "over_judgements"]]
    worst = frame.assign(most=changes.max(axis=1)).query("most > 0").sort_values("most", ascending=False, kind="stable")
    return worst.drop(columns="most").reset_index()


def _changes(data: pd.DataFrame, same: list[str]) -> pd.Series[float]:
    """Return for each row the share of pairs of lines of one group whose values differ."""
    sizes = data.groupby(same)["value"].size()
    equal = data.groupby([*same, "value"]).size()
    alike, pairs = ((number * (number - 1)).groupby("row").sum() for number in (equal, sizes))
    return 1 - alike / pairs.where(pairs > 0)


@dataclass(frozen=True)
class PassK:
    """How often the answers to a row pass, k at a time.

    Attributes
    ----------
    k
        Answers per row.
    all_pass, all_low, all_high
        pass^k: probability that k answers to a row all pass, and its interval.
    any_pass, any_low, any_high
        pass@k: probability that one of k answers passes at least.
    rows
        Rows with k answers or more, which count.
    """

    k: int
    all_pass: float
    all_low: float
    all_high: float
    any_pass: float
    any_low: float
    any_high: float
    rows: int


def pass_k(successes: npt.ArrayLike, attempts: npt.ArrayLike, k: int, row: npt.ArrayLike | None = None) -> PassK:
    """Return pass^k and pass@k from the answers to each row.

    Parameters
    ----------
    successes, attempts
        Shape (rows,): answers that passed, and all answers.
    k
        Answers at a time, 1 or more. Rows with fewer are left out.
    row
        The row of each number, if rows were answered in several settings; all settings count alike.

    Returns
    -------
    PassK
        Numbers are nan if no row has k answers.

    Notes
    -----
    Of each row the share of all sets of k answers that pass: ``C(c, k) / C(n, k)`` and ``1 - C(n - c, k) / C(n, k)``,
    without bias (Chen et al. 2021, "Evaluating large language models trained on code"; Yao et al. 2024, tau-bench).
    The interval takes rows as independent, see :func:`mlflow_l3d.analysis.judged.table.mean_interval`.

    Examples
    --------
    >>> found = pass_k([4, 2, 0], [4, 4, 4], 2)
    >>> round(found.all_pass, 4), round(found.any_pass, 4)
    (0.3889, 0.6111)
    """
    passed = np.asarray(successes, dtype=np.int64)
    asked = np.asarray(attempts, dtype=np.int64)
    row = np.arange(len(asked)) if row is None else np.asarray(row)
    passed, asked, row = passed[asked >= k], asked[asked >= k], row[asked >= k]
    chosen = {"row": row, "every": all_drawn(passed, asked, k), "some": 1 - all_drawn(asked - passed, asked, k)}
    shares = pd.DataFrame(chosen).groupby("row").mean()
    every, some = (
        (float(shares[name].mean()), *mean_interval(shares[name].to_numpy(), shares=True)) for name in shares
    )
    return PassK(k, *every, *some, len(shares))


def pass_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return pass^k and pass@k of a table of judgements with values 0 and 1: one line per k that all rows have.

    An answer passes if more than half of its judgements are 1. Answers that failed are left out. The k answers have the
    same setting, such as prompt and model; the mean over settings is given.

    Examples
    --------
    >>> frame = pd.DataFrame({"row": ["a", "a", "b", "b"], "answer": range(4), "judge": "exact", "value": [1, 0, 1, 1]})
    >>> pass_table(frame)[["k", "all_pass", "any_pass"]].values.tolist()
    [[1.0, 0.75, 0.75], [2.0, 0.5, 1.0]]
    """
    data, settings, *_ = usable_judgements(table)
    cell = ["row", *settings]
    passes = data.groupby([*cell, "answer"])["value"].mean().gt(0.5).groupby(cell).agg(["sum", "size"]).reset_index()
    most = int(passes["size"].min() if len(passes) else 0)
    lines = [pass_k(passes["sum"], passes["size"], k, passes["row"]) for k in range(1, most + 1)]
    return pd.DataFrame(lines, columns=list(PassK.__dataclass_fields__))
