"""Our importance compared with the published one: for every printed sign, whether our own runs support it.

What corresponds to what (docs/evidence/simulations.md): the corrected importance is above 0 if the factor makes up more
than half of the variance. The published importance tends to another number if rows are unevenly spread, and may differ
from it in sign permanently. The corrected importance on our runs gives the interval, which judges the sign: *confirmed*
if it lies on the printed side of 0, *reversed* on the other, *undecided* if it contains 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd
from audit import signs
from published import PLACE, SYSTEMS, importance

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.sweep.numbers import OF_CHOICE

VERDICTS: Final = ("confirmed", "reversed", "undecided")
MISSING: Final = "no run of ours"
UNPUBLISHED: Final = "not published"
SETTING: Final = {"shots": "2", "prompt_format": "A"}
"""What in-context learning has in all published numbers; others are drawn in figures only."""
METRICS: Final = {"icl": ("f1_macro", "f1_macro_published")}
"""Approach -> metrics that are the paper's, ``f1_macro`` of the others. Its code has one for generated texts."""
_OURS: Final = ["importance", "importance_corrected", "importance_corrected_ci_low", "importance_corrected_ci_high"]
_SIGN: Final = ["system", "task", "factor"]
_KEYS: Final = ["approach", "learner", "task", "factor"]
_MODELS: Final = {model for _, model, _ in SYSTEMS.values()}
_COLUMNS: Final = ["table", *PLACE, "factor", "published", "our_model", "design", "run_id", *_OURS]


def joined(
    frame: pd.DataFrame, *, approach: str = "", model: str = "", rows: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return one row for each published sign and each of our runs about it, and below them the unmatched rows of both.

    A published number and ours belong together if approach, learner, task and factor agree. If there is a run of its
    own model, it is that run; else every run of a model that is not in the paper, and ``differs`` names the model.

    Parameters
    ----------
    frame
        Table of a sweep (:func:`mlflow_l3d.studies.sweep.numbers.long_table`), or of several below each other.
    approach, model
        Values of all points, if the table has no column ``choice.approach`` or ``approach``, ``choice.model`` or
        ``model``.
    rows
        The published numbers that ours are set against; Tables 6 to 14 by default.

    Returns
    -------
    pandas.DataFrame
        What was printed: ``table``, the columns of ``published.PLACE``, ``factor``, ``published`` (importance). Ours:
        ``our_model``, ``design``, ``run_id``, ``importance`` (published definition), ``importance_corrected``, its
        interval ``importance_corrected_ci_low`` and ``_ci_high``. Between them: ``same_sign`` (of both scores by the
        published definition; None if one is missing), ``verdict`` (one of :data:`VERDICTS`, :data:`MISSING`,
        :data:`UNPUBLISHED`), ``own_numbers`` (whether the printed standard deviations decide the printed sign, one of
        ``audit.VERDICTS``) and ``differs`` (the empty text, or our deviations from the paper).

    Raises
    ------
    ParameterError
        If it is not known which approach the points have.
    """
    ours = _ours(frame, approach, model)
    usable = ours[ours["setting"]].groupby(_KEYS, sort=False).groups
    joined_rows, used = [], set()
    for theirs in (importance() if rows is None else rows).to_dict("records"):
        printed = {name: theirs[name] for name in ("table", *PLACE, "factor") if name in theirs}
        printed |= {"published": theirs["importance"], "sign": theirs["contributed_std"] - theirs["mitigated_std"]}
        runs = ours.loc[list(usable.get(tuple(theirs[key] for key in _KEYS), []))]
        of_model = runs["our_model"] == theirs["model"]
        runs = runs[of_model] if of_model.any() else runs[~runs["our_model"].isin(_MODELS)]
        used |= set(runs.index)
        joined_rows += [_row(printed, run) for run in runs.to_dict("records") or [{}]]
    others = ours.drop(index=list(used)).to_dict("records")
    joined_rows += [_row({key: run[key] for key in _KEYS}, run) for run in others]
    table = pd.DataFrame(joined_rows)
    own_numbers = signs().set_index(_SIGN)["verdict"].rename("own_numbers")
    table = table.join(own_numbers, on=_SIGN)[[*_COLUMNS, "same_sign", "verdict", "own_numbers", "differs"]]
    return table.fillna({"own_numbers": ""})


def summary(table: pd.DataFrame) -> str:
    """Return in lines how many published signs are confirmed, reversed and undecided, and which are reversed."""
    judged = table[table["verdict"].isin(VERDICTS)]
    lines = [_counted("Published signs beside ours", judged)]
    for column in ("approach", "factor"):
        lines += [_counted(f"  {name}", part) for name, part in judged.groupby(column, sort=False)]
    lines += [
        f"  reversed: {row['system']}, {row['task']}, {row['factor']}: published {row['published']:+.2f}, "
        f"{row['own_numbers']} by its own numbers; ours {row['importance_corrected']:+.2f} "
        f"({row['importance_corrected_ci_low']:+.2f} to {row['importance_corrected_ci_high']:+.2f})"
        for row in judged[judged["verdict"] == "reversed"].to_dict("records")
    ]
    lines += [f"Not as in the paper: {each}." for each in sorted(set(judged["differs"]) - {""})]
    counts = Counter(table["verdict"])
    lines.append(f"{counts[MISSING]} published signs have no run of ours.")
    lines.append(f"{counts[UNPUBLISHED]} scores of ours are not published.")
    return "\n".join(lines)


def _counted(name: str, rows: pd.DataFrame) -> str:
    counts = Counter(rows["verdict"])
    shares = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    return f"{name}: {len(rows)}, of which {shares}; ours has the same sign {sum(rows['same_sign'] == True)} times."  # noqa: E712


def named(frame: pd.DataFrame, approach: str = "", model: str = "") -> pd.DataFrame:
    """Return the scores of a table of a sweep with ``approach``, ``model`` and ``learner``, as :func:`joined` has them.

    Raises
    ------
    ParameterError
        If it is not known which approach the points have.
    """
    scores = frame[(frame["factor"] != "") & frame["importance_corrected"].notna()].reset_index(drop=True)
    for name, shared in (("approach", approach), ("model", model), ("learner", "")):
        names = pd.Series(None, scores.index, dtype=object)
        for column in (name, OF_CHOICE + name):
            names = names.where(names.notna(), scores.get(column))
        scores[name] = names.fillna(shared).astype(str)
    if (scores["approach"] == "").any():
        raise ParameterError("approach", "", "must be the approach of all points, since the table does not name it")
    return scores


def _ours(frame: pd.DataFrame, approach: str, model: str) -> pd.DataFrame:
    """Return our scores, and whether their setting is the one of published numbers."""
    ours = named(frame, approach, model)
    ours["setting"] = True
    for name, value in SETTING.items():
        if (column := ours.get(OF_CHOICE + name)) is not None:
            ours["setting"] &= column.isna() | (column.astype(str).str.removesuffix(".0") == value)
    return ours.rename(columns={"model": "our_model"})


def _row(printed: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of both, or of one if the other is empty."""
    row: dict[str, Any] = dict.fromkeys([*_COLUMNS, "differs"], "") | dict.fromkeys(
        ["table", "published", *_OURS], math.nan
    )
    row |= {name: run[name] for name in ("our_model", "design", "run_id", *_OURS) if name in run}
    row |= {**printed, "same_sign": None, "verdict": MISSING if printed.get("system") else UNPUBLISHED}
    if not run or "sign" not in printed:
        return row
    low, high = row["importance_corrected_ci_low"], row["importance_corrected_ci_high"]
    sure = (low > 0 or high < 0) and not math.isnan(low + high)
    sign = printed["sign"] > 0
    row["same_sign"] = (row["importance"] > 0) == sign
    row["verdict"] = "undecided" if not sure else "confirmed" if (low > 0) == sign else "reversed"
    differs = [f"{run['our_model'] or 'another model'} for {row['model']}"] * (run["our_model"] != row["model"])
    metrics = METRICS.get(row["approach"], ("f1_macro",))
    differs += [f"{run['metric']} for {metrics[0]}"] * (run.get("metric", metrics[0]) not in metrics)
    return {**row, "differs": ", ".join(differs)}
