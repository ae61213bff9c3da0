"""What a sweep says, in sentences."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from mlflow_l3d.report.numbers import MISSING, counted, interval_of, shorten
from mlflow_l3d.report.table import Answer
from mlflow_l3d.studies.sweep.numbers.measured import GOLDEN_STD
from mlflow_l3d.studies.sweep.numbers.point import TASK
from mlflow_l3d.studies.sweep.numbers.trends import Trend
from mlflow_l3d.studies.sweep.report.shown import ShownSweep


def answers(shown: ShownSweep) -> tuple[Answer, Answer, Answer]:
    """Return which factors matter, what moves them, and where luck is largest."""
    return _factors(shown), _moves(shown), _luck(shown)


def _factors(shown: ShownSweep) -> Answer:
    question = "Which factors matter?"
    if not shown.sweep.factors:
        return Answer(question, MISSING, ("No point has a score.",))
    verdicts = pd.crosstab(shown.rows["factor"], shown.rows["verdict"])
    counts = verdicts.reindex(index=shown.sweep.factors, columns=["dominates", "minor", "undecided"], fill_value=0)
    sentences = []
    for _, alike in counts.groupby(list(counts), sort=False):
        yes, no, unsure = (int(count) for count in alike.iloc[0])
        total = counted(yes + no + unsure, "point")
        verdict = f"dominates at {yes} of {total}, minor at {no}, undecided at {unsure}"
        sentences.append(f"{', '.join(alike.index)}: {verdict if yes or no else f'undecided at all of {total}'}.")
    dominant = counts.index[2 * counts["dominates"] > counts.sum(axis=1)]
    decided = bool(counts["minor"].eq(counts.sum(axis=1)).all())
    short = ", ".join(dominant) or ("none of them" if decided else "none at most points")
    sentences.append(
        "A factor dominates if it makes up more than half of the variance of the score, and is minor if less. The "
        "verdicts of one point hold together; of many points one may be wrong by luck."
    )
    return Answer(question, short, tuple(sentences))


def _moves(shown: ShownSweep) -> Answer:
    question = "Does it depend on the choices?"
    idle = [f"{choice} changed no score: does it have an effect?" for choice in shown.sweep.without_effect]
    if not (shown.sweep.interactions or shown.sweep.trends):
        nothing = "No two points with a score are alike in all choices but one."
        return Answer(question, "no score changed" if idle else MISSING, tuple(idle) or (nothing,))
    moved = shown.moved()
    trends = [one for one in shown.sweep.trends if shown.claimed(one.p_holm)]
    if not (moved or trends):
        text = "No choice is shown to move the importance of a factor or the golden standard deviation"
        more = "Choices may still have an effect: the intervals show how large it may be."
        return Answer(question, "not established", (*idle, f"{text} ({shown.tests}).", more))
    sentences = [
        f"{choice} moves {_listed(shown, [one.of for one in moved if one.choice == choice])}."
        for choice in dict.fromkeys(one.choice for one in moved)
    ]
    sentences += [f"{_first(shown.what(one.of))} {_moves_word(one)} with {one.choice}." for one in trends]
    named = dict.fromkeys([one.choice for one in moved] + [one.choice for one in trends])
    return Answer(question, f"on {', '.join(named)}", (*sentences, *idle))


def _moves_word(one: Trend) -> str:
    return "rises" if one.slope > 0 else "falls"


def _listed(shown: ShownSweep, names: list[str]) -> str:
    """Return what a choice moves: factors, and the golden standard deviation."""
    factors = [name for name in names if name != GOLDEN_STD]
    parts = [f"the importance of {', '.join(factors)}"] if factors else []
    return " and ".join([*parts, *[shown.what(GOLDEN_STD)] * (GOLDEN_STD in names)])


def _luck(shown: ShownSweep) -> Answer:
    question = "Where is luck largest?"
    rows = shown.rows.dropna(subset=["golden_std"]).drop_duplicates("point")
    if rows.empty:
        return Answer(question, MISSING, ("No point has a golden standard deviation.",))
    ordered = rows.sort_values("golden_std", ascending=False, kind="stable").to_dict("records")
    most = shown.unit.amount(ordered[0]["golden_std"])
    if len(ordered) > 1 and ordered[0]["golden_std"] == ordered[-1]["golden_std"]:
        return Answer(question, "nowhere", (f"All points have a golden standard deviation of {most}.",))
    sentences = []
    for word, row in (("Most", ordered[0]), ("Least", ordered[-1]))[: len(ordered)]:
        limits = interval_of(row, "golden_std", shown.unit.text)
        ends = "" if limits == MISSING else f", {limits}"
        sentences.append(f"{word}: {shown.names[row['point']]} ({shown.unit.amount(row['golden_std'])}{ends}).")
    return Answer(question, most, (*sentences, "Golden standard deviation: every factor varies."))


def watch(shown: ShownSweep) -> list[str]:
    """Return what a reader must know: points without a score, cells without one, collapsed runs, one task only."""
    sweep = shown.sweep
    notes = [
        f"{shorten(point.name, 100)} has no score{f': {shorten(point.error, 300)}' if point.error else ''}."
        for point in sweep.failed
    ]
    analyses = [point.analysis for point in sweep.points if point.analysis is not None]
    if lacking := [each.cells_failed for each in analyses if each.cells_failed]:
        verb = "has" if sum(lacking) == 1 else "have"
        notes.append(f"{counted(sum(lacking), 'cell')} of {counted(len(lacking), 'point')} {verb} no score.")
    if down := sum(each.collapse is not None for each in analyses):
        notes.append(
            f"Runs collapse at {counted(down, 'point')}. Trends and tests take the runs that did not; heat map and "
            "table show all runs."
        )
    if len(metrics := sorted({each.metric.name for each in analyses})) > 1:
        notes.append(
            f"Points have different metrics ({', '.join(metrics)}): golden standard deviations do not compare."
        )
    bound: dict[str, list[str]] = {}
    for name, other in sweep.follows.items():
        bound.setdefault(other, []).append(name)
    for other, followers in bound.items():
        verb = "follows" if len(followers) == 1 else "follow"
        notes.append(f"{' and '.join(followers)} {verb} from {other}: what {other} moves may be moved by that instead.")
    if TASK not in sweep.choices and analyses:
        notes.append("All points are of one task: what another task would show is not known.")
    seen = Counter(
        found
        for each in analyses
        for found in {(one.code, one.title) for one in each.checks if one.severity == "warning"}
    )
    notes += [f"{title} ({code}) at {counted(number, 'point')}." for (code, title), number in sorted(seen.items())]
    return notes


def _first(text: str) -> str:
    return text[0].upper() + text[1:]
