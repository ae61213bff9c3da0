"""A cure as people read it: what is predicted of remedies, and what trained ones achieved next to that."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from mlflow_l3d.analysis.cure import CHANGING, ENOUGH, MEASURED, MOST_PAIRS, NO_PREDICTIONS, SEVERAL, Range
from mlflow_l3d.report.numbers import between, counted, duration, listed, points, share_text, unit_of, with_limits
from mlflow_l3d.report.page import Document, Item, Section
from mlflow_l3d.report.remedies import (
    beginning,
    factor_words,
    labels_note,
    less_text,
    plain_words,
    range_text,
    remedy_bars,
    remedy_front,
    remedy_table,
    remedy_words,
)
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import COMPARE, Answer, Step
from mlflow_l3d.studies.cure.numbers import CureAnswer, Verified, against_collapse

_ON_FIRST_SCREEN: Final = 4
_READING: Final = (
    "Remedy: its name for --remedy. Remaining std: standard deviation of the score over golden runs with the remedy. "
    "Change of mean: with the remedy less without. Fragile: test examples that one of two results has right and the "
    "other wrong. Agree and fragile compare at most 18 choices of members. Trainings: behind one result. Basis: "
    "exact, from all choices of stored runs; sampled, from some of them; extrapolated, from fewer members, or a range "
    "from other sizes; unknown, until it is verified. Remedies for which you may lack labels are verified last."
)


def cure_document(answer: CureAnswer, *, source: Source, run_id: str, settings: Mapping[str, str]) -> Document:
    """Return a cure as people read it, with its own run, the origin of its parent and the given values."""
    compared = [verified_table(each, answer) for each in answer.verified]
    table = trained_table(answer) if answer.verified else foreseen_table(answer)
    return Document(
        title=f"cure of run {source.run_id}",
        headline=headline(answer),
        about=source.about(answer.metric),
        place=source.place(f"{len(answer.predictions)} remedies"),
        answers=[_helping(answer), _cost(answer), _luck(answer)],
        drawing=remedy_front(answer.predictions, answer.std, answer.metric),
        table=table,
        steps=list(_steps(answer, source, run_id)) or [_other_step(answer, source)],
        lines=[f"Cure of run {source.run_id}; report.html is among the artifacts of MLflow run {run_id}."],
        notes=[reason for reason in answer.reasons if table is None or reason not in table.note][:2],
        sections=[
            Section("Predicted and achieved", [*compared, verified_note(answer)], is_open=True, name="verified"),
            Section("What would remain luck", [remaining_table(answer)], name="luck"),
            Section("Every remedy", [remedy_table(answer.predictions, answer.metric, _READING)], name="remedies"),
            Section("What could not be predicted or verified", [[*map(Item, answer.reasons)] or None]),
        ],
        settings=settings,
    )


def foreseen_table(answer: CureAnswer) -> Table | None:
    """Return the first remedies, and below them why trained ones have no ensembles on top, or no numbers."""
    first = [each for each in answer.shown() if each.remedy.kind != "fix"][:_ON_FIRST_SCREEN]
    text = partial(range_text, unit=unit_of(answer.metric), digits=1)
    trained = [each for each in answer.predictions if each.remedy.kind in MEASURED]
    lacking = [f"{beginning(each.remedy)}: {each.reason}." for each in trained if each.reason]
    ranges = (each for each in trained if math.isnan(each.std.value) and math.isfinite(each.std.high))
    lacking += [
        f"{beginning(one.remedy)}: ± {text(one.std)}, mean {text(one.mean_change, sign=True)}." for one in ranges
    ]
    return remedy_bars(first, answer.metric, lacking) if first else None


def headline(answer: CureAnswer) -> str:
    """Return the sentence that decides."""
    unit, helping = unit_of(answer.metric), answer.helping()
    end = "."
    first = f"First beat guessing: {answer.collapsed} of {answer.runs} runs are no better." if answer.collapsed else ""
    if answer.verified:
        if (best := answer.best) is None:
            said = f"{beginning(answer.ranked[0].prediction.remedy, 1)}. {achieved(answer.ranked[0], answer)}"
            return f"{said} {first}".rstrip()
        what, before, after = f"Verified: {plain_words(best.prediction.remedy, 1)} leaves", best.plain, best.cured
        end = f"; whether the mean is {_worse(answer)} is open." if answer.mean_kept(best) == "open" else end
    elif first:
        return first
    elif helping:
        if not helping[0].ratio.high < 1:
            return f"{beginning(helping[0].remedy, 1)} {less_text(helping[0], unit)}."
        what, before, after = f"{beginning(helping[0].remedy, 1)} would leave", Range(answer.std), helping[0].std
    else:
        return "No change of the training that these runs can predict leaves clearly less luck."
    digits = unit.digits(after.value)
    return f"{what} ± {unit.text(after.value, digits)} of ± {unit.text(before.value, digits)}{unit.behind}{end}"


def _helping(answer: CureAnswer) -> Answer:
    unit, helping = unit_of(answer.metric), answer.helping()
    if (best := answer.leading) is not None:
        change = partial(unit.change, digits=1)
        of_mean = f"{change(best.mean_change.value)}{unit.behind} ({between(*best.mean_change[1:], change)})"
        lead = f"**{beginning(best.prediction.remedy)}**, {best.runs} golden runs. {achieved(best, answer)} "
        lead += f"Its mean changes by {of_mean}."
    elif answer.collapsed:
        what = "**No untried remedy of this approach** may help"
        if first := against_collapse(answer.predictions):
            what = f"**{beginning(first.remedy)}** may help, which is unknown until verified"
        lead = f"{what}. The numbers below show runs that fail to learn."
    elif helping:
        agree, shift = helping[0].consistency.value, unit.change(helping[0].mean_change.value, 1)
        more = f"; two results agree on {points(agree, 0)} % of the predictions" if math.isfinite(agree) else ""
        lead = f"**{beginning(helping[0].remedy)}**: mean **{shift}**{unit.behind}{more}."
    elif any(each.remedy.kind in SEVERAL for each in answer.shown()):
        left = f"less than {100 * ENOUGH:.3g} % of the spread"
        lead = f"No change of the training is established to leave {left} without a {_worse(answer)} mean."
        data = (each for each in answer.shown() if each.remedy.kind == "more_data" and each.ratio.high < 1)
        lead += "".join(f" {beginning(each.remedy)} {less_text(each, unit)}." for each in data)
    else:
        lead = " ".join(answer.reasons[:1])
    return Answer("What would help?", "", (lead,))


def _cost(answer: CureAnswer) -> Answer:
    if (chosen := answer.chosen) is None:
        return Answer("What does it cost?", "", ("Reporting the mean of several runs costs their trainings.",))
    time = f", {duration(chosen.seconds)} in all" if math.isfinite(chosen.seconds) else ""
    kinds = {"active": "labels of other examples", "more_data": "twice the labels"}
    needed = kinds.get(chosen.remedy.kind, f"up to {chosen.remedy.members} times the labels")
    labels = f", and {needed}" if chosen.remedy.needs_labels else ""
    lead = f"**{counted(chosen.trainings, 'training')}** behind each prediction{time}{labels}."
    return Answer("What does it cost?", "", (lead,))


def _luck(answer: CureAnswer) -> Answer:
    unit, chosen, std, more = unit_of(answer.metric), answer.chosen, answer.std, "."
    if trained := answer.leading:
        std = answer.best.cured.value if answer.best else trained.plain.value
        more = f", in these {answer.verified[0].runs} runs."
    elif chosen:
        std = std if answer.collapsed else chosen.std.value
        shares = sorted(chosen.shares.items(), key=lambda each: -each[1])[:2]
        causes = [f"**{factor_words(name)}** ({share_text(share)})" for name, share in shares]
        more += f" Involved in its variance: {listed(causes)}." if causes else ""
    if not math.isfinite(std):
        return Answer("What stays luck?", "", ("Unknown: fewer than two independent runs have a score.",))
    return Answer("What stays luck?", "", (f"**{unit.typical(std)}**{unit.behind}{more}",))


def remaining_table(answer: CureAnswer) -> Table | None:
    """Return how much of what remains each factor is involved in."""
    some = [each for each in answer.shown() if each.shares][:8]
    factors = list(dict.fromkeys(name for each in some for name in each.shares))
    shares = [{factor_words(name): points(each.shares.get(name, math.nan), 0) for name in factors} for each in some]
    rows = [{"remedy": remedy_words(each.remedy), **share} for each, share in zip(some, shares, strict=True)]
    note = "Predicted share (%) of the remaining variance that a factor causes. What two cause jointly counts for both."
    return Table.of(rows, note) if rows else None


def _steps(answer: CureAnswer, source: Source, run_id: str) -> Iterator[Step]:
    cure = partial(source.on_runs, "cure", source.run_id)
    changing = [each for each in answer.ranked if each.ratio.low != each.ratio.high]  # the others change no run
    is_open = [each for each in changing if "open" in (each.less_spread, answer.mean_kept(each))]
    if answer.best is not None and answer.best.prediction.remedy.kind == "more_data":
        if command := source.command(num_labelled=str(answer.best.prediction.remedy.changes["num_labelled"])):
            yield Step("With so many labels, which luck is left?", command)
    elif answer.best is not None:
        command = f"mlflow artifacts download --run-id {run_id} --artifact-path cure.json --dst-path ."
        yield Step("The verified remedy is a file:", command)
        if command := source.command(cure="cure.json"):
            yield Step("With it, which luck is left?", command)
        if answer.best.prediction.remedy.kind in CHANGING:
            yield Step("What would several such runs do?", cure())
        else:
            yield from _verification(answer, cure)
    elif is_open and not (answer.collapsed and answer.upcoming) and (again := source.command()):
        runs = 4 * max(each.runs + each.failed for each in is_open)
        options = {"verify": 1, "runs": runs, "remedy": remedy_words(is_open[0].prediction.remedy)}
        again = source.command(**{"mitigation_runs" if answer.is_pooled else "golden_runs": str(runs)})
        yield Step("More golden runs may settle it:", cure(**options) if runs <= answer.stored else again)
        if runs > answer.stored:
            yield Step("Then verify with its golden runs (name its run):", source.on_runs("cure", "RUN_ID", **options))
    elif answer.stored and source.command():
        yield from _verification(answer, cure)


def _other_step(answer: CureAnswer, source: Source) -> Step:
    """Return the step if neither a remedy nor more golden runs can be verified."""
    if NO_PREDICTIONS in answer.reasons:
        return Step("Let runs give predictions (example_id, label, prediction), train again, and cure that run.")
    return Step(COMPARE, source.on_runs("compare", runs=f"{source.run_id},RUN_ID"))


def _verification(answer: CureAnswer, cure: Callable[..., str]) -> Iterator[Step]:
    """Yield the step that verifies the next remedies, after what was tried."""
    new, pairs = answer.upcoming, min(answer.stored, MOST_PAIRS)
    if answer.tried or any(each.basis != "unknown" for each in new[1:]):
        new = new[:1]
    if not (answer.collapsed or all(each.basis == "unknown" or each.is_decidable(pairs) for each in new)):
        new = ()
    parts = {"Tried: ": answer.tried, "Verify ": [each.remedy for each in new]}
    said = [what + " and ".join(map(plain_words, remedies)) for what, remedies in parts.items() if remedies]
    if said:
        yield Step(f"{'. '.join(said)}:", cure(verify=len(answer.tried) + len(new)))


_SHOWN: Final = {"verified": "shown", "open": "not shown", "refuted": "refuted"}


def _worse(answer: CureAnswer) -> str:
    """Return what a worse mean is."""
    return "lower" if answer.metric.sign > 0 else "higher"


def percent_text(share: float) -> str:
    """Return a share in %, with as many digits as tell it from 100."""
    return points(share, next((each for each in range(6) if round(100 * share, each) != 100), 0))


def achieved(each: Verified, answer: CureAnswer) -> str:
    """Return what a trained remedy shows of the spread and the mean."""
    kept, low = answer.mean_kept(each), min(answer.metric.sign * end for end in each.mean_change[1:])
    margin = unit_of(answer.metric).size(answer.smallest_effect)
    limit = f" by more than {margin}" if kept == "verified" and low <= 0 else ""
    spread = f"{percent_text(each.ratio.value)} %, {between(*each.ratio[1:], percent_text)}"
    spread += f"; {each.roughness}" if each.roughness else ""
    mean = f"Mean not {_worse(answer)}{limit}: {_SHOWN[kept]}."
    return f"Less spread: {_SHOWN[each.less_spread]} ({spread}). {mean}"


def verified_table(each: Verified, answer: CureAnswer) -> Table:
    """Return what was predicted of a verified remedy, and what was achieved."""
    unit, prediction = unit_of(answer.metric), each.prediction
    ratio = with_limits(percent_text(each.ratio.value), between(*each.ratio[1:], percent_text), "({})")
    agree = each.plain_consistency, prediction.consistency.value, each.consistency
    rows = [
        ("std", range_text(each.plain, unit), range_text(prediction.std, unit), range_text(each.cured, unit)),
        ("std (%)", "100", percent_text(prediction.std.value / (prediction.std_before or math.nan)), ratio),
        ("change of mean", "", *(range_text(one.mean_change, unit, sign=True) for one in (prediction, each))),
        ("agree (%)", *(points(one, 1) for one in agree)),
    ]
    verdicts = f"less spread {_SHOWN[each.less_spread]}, mean not {_worse(answer)} {_SHOWN[answer.mean_kept(each)]}"
    title = f"{remedy_words(prediction.remedy)}: {verdicts} ({each.pairs})"
    return Table((unit.name, "without", "predicted", "achieved"), tuple(rows), title=title)


def trained_table(answer: CureAnswer) -> Table:
    """Return what was predicted of each trained remedy next to what was achieved."""
    unit, first = unit_of(answer.metric), answer.verified[0]
    rows = [
        {
            "remedy": plain_words(each.prediction.remedy, 1),
            "std (predicted)": f"{unit.text(each.cured.value)} "
            f"({range_text(each.prediction.std, unit).splitlines()[0]})",
            "mean (predicted)": f"{unit.change(each.mean_change.value)} "
            f"({range_text(each.prediction.mean_change, unit, sign=True).splitlines()[0]})",
            "golden runs": each.pairs,
        }
        for each in answer.verified
    ]
    runs = f"in these {first.runs} golden runs, which predictions are scaled to"
    note = f"Without a remedy {unit.typical(first.plain.value)} {runs}. A pair: golden runs without and with it."
    note += labels_note([each.prediction.remedy for each in answer.verified])
    return Table.of(rows, " ".join([note, *map(_surprise, answer.verified)]))


def _surprise(each: Verified) -> str:
    """Return whether what was achieved is as far from what was predicted as luck explains; empty if unknown."""
    over, far = each.over_predicted, "luck alone rarely explains that: predict it again from more runs"
    said = [f"the {name} lies outside the predicted range; {far}" for name in each.outside]
    if math.isfinite(over.high):
        held = "luck alone may explain that" if over.low <= 1 <= over.high else far
        times = f"{over.value:.2f} times ({between(*over[1:], '{:.2f}'.format)}) the predicted one"
        said.insert(0, f"the std that it leaves is {times}; {held}")
    return " ".join(f"{beginning(each.prediction.remedy, 1)}: {words}." for words in said)


def verified_note(answer: CureAnswer) -> str | None:
    """Return how the tables of verified remedies are read; None if there are none."""
    if not answer.verified:
        return None
    limit = unit_of(answer.metric).size(answer.smallest_effect)
    return (
        "Golden runs with and without the remedy have the same configurations and test examples. Interval of the std "
        f"in %: jackknife over pairs. Less spread: it lies below 100 %. Mean not {_worse(answer)}: by less than "
        f"{limit}. Not shown: the interval holds both. Level each interval: {100 * answer.level:.3g} %, so that of all "
        "trained remedies together it is 95 %. Times the predicted one: of the std in %, with the errors of both."
    )
