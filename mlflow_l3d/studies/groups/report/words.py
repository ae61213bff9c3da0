"""What groups of existing runs answer, in sentences."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping

from mlflow_l3d.analysis.comparison.results import BETTER
from mlflow_l3d.report.numbers import counted, listed, shorten, unit_of
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Answer, Step
from mlflow_l3d.studies.groups.numbers.study import GroupsStudy
from mlflow_l3d.studies.seeds.report.words import settings_answer

_LISTED = 8
"""Names of parameters that a sentence has at most."""


def headline(study: GroupsStudy) -> str:
    """Return the sentence that decides."""
    several = study.several
    if several.empty:
        return "Every group has one run: how much of their differences is luck is not known."
    if len(several) == 1:
        return f"Between two runs of a group, a difference below {_size(study, study.luck)} may be [[luck|luck]]."
    best, others = shorten(several["group"].iloc[0], 50), len(several) - 1
    undecided = others - int(several["verdict"].eq(BETTER).sum())
    if not undecided:
        return f"{best} is better than {'all ' * (others > 1)}{counted(others, 'other group')}, beyond luck."
    return f"{best} has the best mean; luck alone may put it before {undecided} of {counted(others, 'other group')}."


def answers(study: GroupsStudy) -> tuple[Answer, Answer, Answer]:
    """Return what the runs say about luck, about groups, and about settings."""
    return _luck(study), _differences(study), settings_answer(study.settings, study.metric)


def _size(study: GroupsStudy, value: float) -> str:
    return unit_of(study.metric).size(value)


def _luck(study: GroupsStudy) -> Answer:
    question, several = "How much is luck?", study.several
    if several.empty:
        return Answer(question, "", ("Not known: it takes two runs that differ by a seed alone.",))
    if math.isfinite(study.luck):
        typical = unit_of(study.metric).typical(study.std)
        lead = (
            f"Two runs of a group differ by up to **{_size(study, study.luck)}**, [[typically|std]] **{typical}** each."
        )
        return Answer(question, "", (lead, *_single_runs(study)))
    low, high = (several.loc[at, ["group", "luck"]] for at in (several["luck"].idxmin(), several["luck"].idxmax()))
    ends = [f"**{_size(study, row['luck'])}** ({shorten(row['group'], 40)})" for row in (low, high)]
    varies = "Groups differ significantly in their spread (Bartlett's test), so they have no number in common."
    return Answer(question, "", (f"It depends on the group: from {ends[0]} to {ends[1]}.", varies))


def _single_runs(study: GroupsStudy) -> Iterator[str]:
    """Yield how many groups of one run may be as good as the best group."""
    single, best = study.groups[study.groups["runs"].eq(1)], study.several["mean"].iloc[0]
    near = int((study.metric.sign * (best - single["mean"]) < study.luck).sum())
    if len(single):
        yield f"Of {counted(len(single), 'group')} with one run, luck may put {near} behind or before the best of the others."


def _differences(study: GroupsStudy) -> Answer:
    question, pairs, several = "Which groups differ?", study.pairs, study.several
    if pairs.empty:
        return Answer(question, "", (f"{counted(len(several), 'group')} with two runs or more: two are needed.",))
    found = pairs["verdict"].eq(BETTER)
    kind = "pairs" if len(pairs) * 2 == len(several) * (len(several) - 1) else "pairs with the best group"
    lead = f"**{int(found.sum())} of {len(pairs)} {kind}** differ beyond luck (95 %, Holm)."
    details = [f"{int(pairs['shared'].gt(0).sum())} pairs share seeds and are paired; the others by Welch's test."]
    needed = several["runs_needed"].iloc[0]
    if math.isfinite(needed):
        details.append(
            f"About {needed:,.0f} runs of each settle the best two with 80 %, if the difference is the one found."
        )
    elif not found.all() and not several["verdict"].iloc[1:].eq(BETTER).all():
        details.append("No affordable number of runs settles the best two: their means are almost equal.")
    return Answer(question, "", (lead, *details))


def notes(study: GroupsStudy, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what a reader must know about the groups, what decides first."""
    yield f"{_named('Seeds', study.seeds)}. {_named('Neither seed nor setting', study.ignored)}."
    rest = [f"{number:,} {what}" for what, number in counts.items() if number and what not in ("found", "used")]
    yield f"{counts['used']:,} of {counted(counts['found'], 'run')} count" + (f"; {', '.join(rest)}." if rest else ".")
    if study.fixed_seeds:
        yield f"{_named('The same in all runs', study.fixed_seeds)}: their luck is not in these numbers."
    if repeated := int(study.runs["repeated"].sum()):
        yield f"{counted(repeated, 'run')} repeat another run of their group (same seeds and results), and are left out."
    if far := int(study.runs["far"].sum()):
        yield f"{counted(far, 'run')} (hollow) are far worse than their group: look whether they collapsed."
    if study.shares_seeds:
        yield "Runs of one group share a seed: they are not independent, and the intervals are too narrow."
    if constant := int((study.several["lowest"] == study.several["highest"]).sum()):
        yield f"{counted(constant, 'group')} have one score in all runs: look whether the seed reaches the training."
    if study.left_out:
        yield f"{_named('Too many values to study', study.left_out)}."


def _named(what: str, names: tuple[str, ...]) -> str:
    short = [name.removeprefix("params.") for name in names[:_LISTED]]
    more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return f"{what}: {listed([*short, *more]) if names else 'none'}"


def steps(study: GroupsStudy, source: Source) -> Iterator[Step]:
    """Yield what to do next."""
    given = {name: text for name, text in source.given.items() if name != "source"}
    options = [word for name, text in given.items() for word in (f"--{name.replace('_', '-')}", text)]
    command = shlex.join(["mlflow-l3d", "evaluate", source.task, *options])
    if study.several.empty and not study.seeds:
        yield Step(
            "No parameter looks like a seed. Name the seed, or what distinguishes groups:", f"{command} --seed NAME"
        )
        return
    needed = study.several["runs_needed"].max()
    if study.several.empty:
        yield Step("Train the best settings again with other seeds, then evaluate all:", command)
    elif math.isfinite(needed):
        yield Step("Train the undecided groups with more seeds, then evaluate all:", command)
    else:
        yield Step("Write to each run how large a difference may be luck:", f"{command} --tag true")
