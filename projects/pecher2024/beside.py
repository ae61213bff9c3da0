"""Our numbers compared with the printed ones, for each kind of table; see :mod:`join` for importance scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import join
import pandas as pd
import published
from definitions import ABLATED, ALL, REDUCED_ABLATED, SYSTEMS, What

_KEYS: Final = ["approach", "learner", "task", "factor"]
_SIZES: Final = ("100%", "~10%", "~5%")
_ROWS: Final = (500, *ABLATED["rows"])


def theirs(frame: pd.DataFrame, what: What) -> pd.DataFrame:
    """Return the rows of a published table that are about the systems of `what`."""
    wanted = {(SYSTEMS[name].model, SYSTEMS[name].learner) for name in what.systems}
    is_wanted = [pair in wanted for pair in zip(frame["model"], frame["learner"], strict=True)]
    return frame[is_wanted]


def importance(frames: Sequence[pd.DataFrame], what: What | None) -> pd.DataFrame:
    """Return our scores next to the printed ones of `what`, of all of the paper if None."""
    rows = published.importance()
    ours = pd.concat(frames, ignore_index=True)
    if what is not None:
        rows = theirs(rows, what)
        rows = rows[rows["task"].isin(ours["task"]) & rows["factor"].isin(ours["factor"])]
    return join.joined(ours, rows=rows)


def strategies(frames: Iterable[pd.DataFrame], what: What) -> pd.DataFrame:
    """Return the standard deviations of three strategies next to those of Tables 1 and 5, as fractions."""
    printed = theirs(published.strategies(), what).rename(
        columns={"std": "published", "important": "published_important"}
    )
    golden = (printed["factor"] == published.GOLDEN) & (printed["strategy"] != "random")
    printed = printed[~golden].assign(
        strategy=lambda frame: frame["strategy"].mask(frame["factor"] == published.GOLDEN, "golden"),
        published_important=lambda frame: frame["published_important"].mask(frame["factor"] == published.GOLDEN),
    )
    return _merged(pd.concat(frames), printed, [*_KEYS, "strategy"])


def ablation(frames: Iterable[pd.DataFrame], what: What, *, reduced: bool) -> pd.DataFrame:
    """Return our numbers for fewer runs and test examples next to those of Table 3, in its six columns."""
    printed = theirs(published.ablation(), what)
    ours = pd.concat(frames)
    numbers = REDUCED_ABLATED if reduced else ABLATED
    rows = dict(zip((ours["mitigation_runs"].max(), *numbers["rows"]), _ROWS, strict=True))
    sizes = {None: _SIZES[0], **dict(zip(numbers["test_sizes"], _SIZES[1:], strict=True))}
    ours = ours.assign(
        column_runs=ours["mitigation_runs"].map(rows),
        test_size=[sizes[None if pd.isna(number) else int(number)] for number in ours["test_examples"]],
        test_examples=[ALL if pd.isna(number) else int(number) for number in ours["test_examples"]],
    ).rename(columns={"mitigation_runs": "our_runs", "column_runs": "mitigation_runs"})
    keys = [*_KEYS, "mitigation_runs", "test_size"]
    names = ["contributed_std", "mitigated_std", "importance"]
    printed = printed.rename(columns={name: f"published_{name}" for name in names})
    kept = [*keys, "model", "system", *(f"published_{name}" for name in names)]
    return _merged(ours[[*keys, "model", "our_runs", "test_examples", *names]], printed[kept], keys)


def _merged(ours: pd.DataFrame, printed: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return both; a model of the paper is compared with itself only, another one with all of its approach."""
    both = printed.merge(ours.rename(columns={"model": "our_model"}), on=keys, how="inner")
    printed_models = set(published.strategies()["model"])
    return both[(both["our_model"] == both["model"]) | ~both["our_model"].isin(printed_models)].reset_index(drop=True)


def text(frame: pd.DataFrame, columns: Mapping[str, Any]) -> str:
    """Return some columns of a table, under other names, as text; standard deviations in percentage points."""
    shown = frame[[*columns]].copy()
    for name in [name for name in columns if columns[name].endswith("std")]:
        shown[name] *= 100
    shown = shown.rename(columns=dict(columns))
    return shown.to_string(index=False, na_rep="-", float_format=lambda number: f"{number:.3f}")
