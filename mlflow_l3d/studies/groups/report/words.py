"""What groups of existing runs answer, in sentences."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping

from mlflow_l3d.analysis.comparison.results import BETTER, UNDECIDED
from mlflow_l3d.analysis.importance.shape import tails
from mlflow_l3d.report.numbers import counted, listed, probability, shorten, unit_of
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import Answer, Step, all_of, few_runs, may_be_luck
from mlflow_l3d.studies.groups.numbers import GroupsStudy
from mlflow_l3d.studies.groups.numbers.grouping import short_name, short_names


def headline(study: GroupsStudy) -> str:
    """Return the sentence that decides."""
    several, runs = study.several, study.runs["score"]
    if several.empty:
        return "Every group has one run: how much of their differences is luck is not known."
    if runs.min() == runs.max():
        return f"All {counted(len(runs), 'run')} have the same score: check that settings and seeds reach the training."
    if study.hidden:
        return f"The score also moves with {_names(study.hidden)}: which group is better is not decided."
    if several["luck"].isna().all():
        one = "the same score in all runs" if several["independent"].gt(1).any() else "one seed only"
        return f"Each group has {one}: how much of their differences is luck is not known."
    if study.pairs.empty and math.isnan(study.luck):
        return "How much is luck depends on the group."
    if study.pairs.empty:
        return may_be_luck("runs of a group", _size(study, study.luck))
    best = shorten(study.pairs["first"].iloc[0], 60)
    others = several[several["verdict"].isin([BETTER, UNDECIDED])]
    open_ = others["group"][others["verdict"].eq(UNDECIDED)]
    only = shorten(others["group"].iloc[0], 60)
    best = best if study.groups["verdict"].iloc[0] else f"Of the groups with three seeds or more, {best}"
    if open_.empty:
        if len(study.pairs) == 1:
            return f"{best} is better than {only} by {_size(study, abs(study.pairs['difference'].iloc[0]))}."
        return f"{best} is better than {all_of(len(others))} other groups, beyond luck."
    rest = only if len(others) == 1 else f"{len(open_)} of {len(others)} other groups"
    if open_.isin(study.tied).all():
        worse = "; the others are worse, beyond luck" if len(open_) < len(others) else ""
        return f"{listed([best, *(shorten(name, 60) for name in open_)])} have equal means{worse}."
    return f"{best} has the best mean, but {rest} may be as good."


def answers(study: GroupsStudy) -> tuple[Answer, Answer, Answer]:
    """Return what the runs say about luck, about groups, and about settings."""
    return (
        Answer("How much is luck?", "", tuple(_luck(study))),
        Answer("Which groups differ?", "", tuple(_differences(study))),
        Answer("Which setting moves the score?", "", tuple(_moving(study))),
    )


def _moving(study: GroupsStudy) -> Iterator[str]:
    """Yield which recorded settings move the score, and what the runs cannot separate."""
    frame = study.settings.frame
    is_decided = study.pairs["verdict"].eq(BETTER).any()
    shown = unit_of(study.metric).text
    settings = frame[~frame["setting"].isin({*study.seeds, *map(short_name, study.seeds)})]
    is_moving = settings["setting"].isin(study.settings.found)
    tested, moving = settings[settings["p_holm"].notna()], settings[is_moving]
    others = [*tested["setting"][~is_moving]]
    none = f"No effect of {', '.join(others)} is found." if others else "The settings of these runs cannot be tested."
    if moving.empty:
        combined = " Some of their combinations differ: see the pairs of groups."
        yield none + combined * bool(is_decided and settings["p"].notna().any())
    else:
        among = "the only one tested" if len(tested) == 1 else f"of {len(tested)} tested"
        together = ""
        if not is_decided and len(study.pairs):
            together = " This test uses all runs at once, so it can see what no single pair settles."
        yield f"**{listed([*moving['setting']])}**, {among}.{together}"
        for row in moving.to_dict("records"):
            ends = (f"{shown(row[f'{end}_mean'], 1)} at {shorten(row[end], 40)}" for end in ("highest", "lowest"))
            yield f"{row['setting']} moves the score (p {probability(row['p_holm'])}): {', '.join(ends)}."
        yield from ([none] if others else [])
        yield "Intervals assume independent runs, which runs that share such a setting are not."
    yield from study.settings.cannot_tell


def _size(study: GroupsStudy, value: float) -> str:
    return unit_of(study.metric).size(value)


def _luck(study: GroupsStudy) -> Iterator[str]:
    several = study.several.dropna(subset="luck").sort_values("luck")
    if several.empty:
        yield "Not known: it takes two runs that differ by a seed alone. Equal scores may be copies of one run."
    elif math.isfinite(study.luck):
        typical = unit_of(study.metric).typical(study.std)
        lead = may_be_luck("runs of a group", f"**{_size(study, study.luck)}**")
        yield f"{lead} A run is [[typically|std]] **{typical}**.{few_runs((study.several['independent'] - 1).sum())}"
    else:
        rows = several.iloc[[0, -1]].to_dict("records")
        ends = dict.fromkeys(f"**{_size(study, row['luck'])}** ({shorten(row['group'], 40)})" for row in rows)
        yield may_be_luck("runs of a group", " to ".join(ends))
        yield "Groups differ significantly in their spread (Bartlett's test), so they have no number in common."


def _differences(study: GroupsStudy) -> Iterator[str]:
    pairs = study.pairs
    if study.hidden:
        yield f"Not decided: {_names(study.hidden)} distinguishes no groups here, but moves the score within them."
        yield "Add settings to --group-by, and name seeds by --seed."
        return
    if pairs.empty or study.several["luck"].isna().all():
        yield "Not known: it takes two groups with three seeds or more."
        return
    is_found = pairs["verdict"].eq(BETTER)
    groups = len({*pairs["first"], *pairs["second"]})
    kind = "pairs" if 2 * len(pairs) == groups * (groups - 1) else "pairs with the best group"
    lead = f"**{int(is_found.sum())} of {len(pairs)} {kind}** differ beyond luck (95 %, Holm)."
    if len(pairs) == 1:
        lead = f"**The two{'' if is_found.all() else ' do not'}** differ beyond luck (95 %)."
    yield lead
    paired = int(pairs["shared"].gt(0).sum())
    needed = pairs["runs_needed"].iloc[0]
    yield f"{paired} of {len(pairs)} pairs share seeds and are paired; the others: Welch's test."
    if math.isfinite(needed):
        yield f"About {needed:,.0f} runs of each settle the best two with 80 %, if they differ as much as here."


def notes(study: GroupsStudy, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what a reader must know about the groups, what decides first."""
    yield from _far_runs(study)
    ignored = f" {_named('Neither seed nor setting', study.ignored)}." if study.ignored else ""
    better, turned = ("Higher", "lower") if study.metric.greater_is_better else ("Lower", "higher")
    yield f"{_named('Seeds', study.seeds)}.{ignored}"
    yield f"{better} {study.metric} is better (else: --metric {study.metric}:{turned})."
    rest = [f"{number:,} {what}" for what, number in counts.items() if what not in ("found", "used")]
    yield f"{counts['used']:,} of {counted(counts['found'], 'run')} count" + (f"; {', '.join(rest)}." if rest else ".")
    if study.averaged:
        crossed = " Each of them counts as luck of its own, and settings are not tested." if study.averaged[1:] else ""
        shared = f"Runs of a group with the same {_names(study.averaged)}"
        yield f"{shared} are averaged and count as one; of their predictions, those of the oldest.{crossed}"
    if one := int((study.several["independent"] == 1).sum()):
        yield f"{counted(one, 'group')} with one seed in several runs: its luck is not known. Train with other seeds."
    if study.along:
        yield f"Groups also differ in {_names(study.along)}."
    if study.suspects:
        yield f"The seed {_names(study.suspects)} has few values and moves the score: a setting? Then use --group-by."
    if constant := int((study.several["lowest"] == study.several["highest"]).sum()):
        yield f"{counted(constant, 'group')} with one score in all runs: check that the seed reaches the training."
    if study.fixed_seeds:
        yield f"{_named('Seeds with one value', study.fixed_seeds)}. Their luck is not in these numbers."
    if study.left_out:
        yield f"{_named('Settings with too many values to study', study.left_out)}."


def _far_runs(study: GroupsStudy) -> Iterator[str]:
    """Yield which run of a group lies far from the others if scores have long tails, as golden runs are checked."""
    centred = study.runs["score"] - study.runs.groupby("group")["score"].transform("median")
    for _, part in centred.groupby(study.runs["group"] if math.isnan(study.luck) else lambda _: 0):
        if (moments := tails(part.to_numpy())) is not None and moments.long:
            far = study.runs.loc[[part.abs().idxmax()]].iloc[0]
            which = f"run {far['run_id']} of {far['group']} scores {unit_of(study.metric).text(far['score'])}"
            yield f"Long tails (L3D013): {which}. Did it collapse? Intervals cover less than they claim."


def _named(what: str, names: tuple[str, ...]) -> str:
    return f"{what}: {_names(names) if names else 'none'}"


def _names(names: tuple[str, ...]) -> str:
    """Return names as a sentence has them, eight at most."""
    return listed([*short_names(names[:8]).values(), *([f"{len(names) - 8} more"] if len(names) > 8 else [])])


def step(study: GroupsStudy, source: Source, *, can_tag: bool = True) -> Step:
    """Return what to do next; runs that were read from files are not tagged."""
    options = {name: text for name, text in source.given.items() if name != "source"}
    own = [name for name in study.settings.per_run if name not in map(short_name, study.seeds)]
    text = "Evaluate them again when there are more runs:"
    if study.hidden or (study.several.empty and (own or not study.seeds)):
        options["group_by"] = "NAME"
        text = (
            f"All have the same {_names(study.fixed_seeds)}" if study.fixed_seeds else "No parameter looks like a seed"
        )
        text += ". Name the seed (--seed), or what distinguishes groups:"
        if study.seeds and own:
            text = f"Each run has another {own[0]}. Name what distinguishes groups, or train again with other seeds:"
        if study.hidden:
            text = "Name what distinguishes groups, with these parameters if they are settings:"
    elif study.several.empty:
        text = "Train the best settings again with other seeds, at least three, then evaluate all:"
    elif study.groups["runs_needed"].lt(math.inf).any():
        text = "Train the groups that need more runs with more seeds, then evaluate all:"
    elif study.several["luck"].isna().all():
        text = "Make the seed reach the training, train again, then evaluate all:"
    elif can_tag and "tag" not in options:
        text, options["tag"] = "Write to each run how large a difference may be luck:", "true"
    typed = [f"--{name.rstrip('_').replace('_', '-')}={value}" for name, value in options.items()]
    return Step(text, shlex.join(["mlflow-l3d", "evaluate", source.task, *typed]))
