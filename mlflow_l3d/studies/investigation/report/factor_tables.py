"""The tables of factors: that of the first screen, and that of all numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import pandas as pd

from mlflow_l3d.report.draw import share_bar, svg, text
from mlflow_l3d.report.numbers import MISSING, between, listed, percent, plain, points, share_texts, signed, with_limits
from mlflow_l3d.report.table import Drawn, Table, verdict_cell
from mlflow_l3d.studies.investigation.report.verdicts import Shown, golden_share

SHARES: Final = ("share of variance (%)", "share low (%)", "share high (%)")
"""Columns of a frame: the share of a factor, and its interval."""
OVERLAP: Final = (
    " Shares overlap and add up to more than 100 %: what factors cause only together counts for each of them."
)
"""Behind shares whose sum is above 1, beyond error: that of the lower ends, which hold together, is."""


def numbers_table(shown: Shown) -> Table | None:
    """Return the numbers of each factor, and behind a button those of the papers; columns without any are left out."""
    if not shown.records:
        return None
    score, golden = shown.unit.text, shown.golden_word
    rows, paper = [], dict[str, str]()
    for record in shown.records:
        index = record.first_order_index, record.first_order_ci_low, record.first_order_ci_high
        ends = record.importance_ci_low, record.importance_ci_high
        texts = {
            "factor": record.factor,
            "verdict": shown.verdict(record),
            "[[share of variance|share]]": share_cell(*shown.shares(record), digits=0),
            f"[[moves score by|moves]] ({shown.unit.short})": score(record.moves_by_std),
            "[[alone|alone]]": share_cell(*index),
            "mean ± std": f"{score(record.score_mean)}\n± {score(record.score_std)}",
            "[[agree|agree]] %": points(
                getattr(shown.analysis.reported_agreement(record.factor), "consistency", math.nan), 1
            ),
            "[[failed|failed]]": str(record.cells_missing),
        }
        paper = {
            "[[importance|published]]": with_limits(signed(record.importance), between(*ends)),
            "[[corrected|corrected]]": with_limits(
                signed(record.importance_corrected), between(*record.corrected_interval)
            ),
            "[[contr. std|contributed]]": score(record.contributed_std),
            "[[mitig. std|mitigated]]": score(record.mitigated_std),
            f"[[{golden} std|{golden}]]": score(record.golden_std),
            "unevenness\nof rows": plain(record.unevenness),
            "IQR": score(record.score_iqr),
            "collapsed %": points(record.collapsed_share, 1),
        }
        rows.append(texts | paper)
    table = Table.of(rows, shown.say(shown.design.words.note), kind="sortable")
    table = table.without_empty(table.head[1:])
    more = frozenset(at for at, head in enumerate(table.head) if head in paper)
    return replace(table, more=more, kinds=tuple(shown.verdict(record) for record in shown.records))


def factor_frame(shown: Shown) -> pd.DataFrame:
    """Return the main numbers of each factor in the order and units of the report; shares and their ends in %."""
    rows = []
    for record in shown.records:
        agreement = 100 * getattr(shown.analysis.reported_agreement(record.factor), "consistency", math.nan)
        row: dict[str, object] = {"factor": record.factor}
        if shown.design.baseline:
            row |= {"important": shown.is_important(record), "golden share": golden_share(record)}
        else:
            row |= {"verdict": shown.verdict(record)}
            row |= {head: 100 * share for head, share in zip(SHARES, shown.shares(record), strict=True)}
            row |= {"moves": record.moves_by_std, "importance": record.importance}
        rows.append({**row, "mean": record.score_mean, "std": record.score_std, "consistency (%)": agreement})
    heads = {"moves": "moves score by", "std": "std of score"}
    return shown.unit.heads(pd.DataFrame(rows), {"mean": "mean score"}, heads)


def first_table(shown: Shown) -> Table | None:
    """Return the factors as a first screen has them: verdict, share of the variance with its interval, and points."""
    table = _strategy_table if shown.design.baseline else _share_table
    return table(shown) if shown.records else None


def _share_table(shown: Shown) -> Table:
    ends = (("0", 0), ("50 %", 50), ("100 %", 100))
    axis = Drawn(svg(15, "from 0 to 100 %", *[text(at, 12, words) for words, at in ends]))
    level, rows, doubts = percent(shown.analysis.level), list[dict[str, str]](), dict[tuple[str, str, str], list[str]]()
    for record in shown.records:
        word, (share, low, high) = shown.verdict(record), shown.shares(record)
        said, moved = share_cell(share, low, high, digits=0), shown.unit.text(record.moves_by_std, 1)
        rows.append(
            {
                "factor": record.factor,
                "verdict": verdict_cell(word),
                axis: Drawn(share_bar(share, low, high, f"{record.factor}: {said}".replace("\n", " "))),
                f"[[share of variance|share]] ({level})": said,
                "[[moves score by|moves]]": moved if moved == MISSING else f"{moved}\n{shown.unit.noun}",
            }
        )
        verdict = shown.analysis.verdict(record.factor)
        if verdict.doubt and verdict.doubt not in ("contains_0", "no_interval"):
            doubts.setdefault(("is", "are", f"{word}: {verdict.reason}"), []).append(record.factor)
        most = shown.unit.text(shown.golden_deviation, 1)
        if most != moved and record.moves_by_std > shown.golden_deviation:
            errors = f"the score by more than ± {most}: two estimates, each with its own error"
            doubts.setdefault(("moves", "move", errors), []).append(record.factor)
    rule = f"{level} interval above 50 %: dominates; below: minor; else [[undecided|verdict]]."
    if len(shown.records) > 1:
        rule = f"The intervals of all factors hold together with {level}. Above 50 %: dominates; below: minor; else "
        rule += "[[undecided|verdict]]."
        share, low = (sum(shown.shares(one)[at] for one in shown.records) for at in (0, 1))
        rule += OVERLAP * bool(low > 1) or " Shares are estimates and need not add up to 100 %." * bool(share > 1)
    kinds = tuple(shown.verdict(record) for record in shown.records)
    notes = [f"{listed(of)} {one if len(of) == 1 else many} {what}." for (one, many, what), of in doubts.items()]
    return Table.of(rows, " ".join([rule, *notes]), kind="bars", texts=frozenset({1, 2}), kinds=kinds)


def _strategy_table(shown: Shown) -> Table:
    rows = [
        {
            "factor": record.factor,
            "important?": verdict_cell({True: "yes", False: "no", None: MISSING}[shown.is_important(record)]),
            "std of runs": shown.unit.amount(record.score_std),
            f"share of {shown.golden_word} std": plain(golden_share(record)),
        }
        for record in shown.records
    ]
    return Table.of(rows, shown.say(shown.design.words.note), texts=frozenset({1}))


def share_cell(share: float, low: float, high: float, *, digits: int = 1) -> str:
    """Return a share in per cent, and below it its interval; cut at 0 and 1, between which every true share lies."""
    if not math.isfinite(share):
        return MISSING
    share, low, high = (min(max(each, 0.0), 1.0) if math.isfinite(each) else math.nan for each in (share, low, high))
    text, *ends = share_texts(share, low, high, digits)
    return with_limits(f"{text} %", MISSING if MISSING in ends else " to ".join(ends), "({})")
