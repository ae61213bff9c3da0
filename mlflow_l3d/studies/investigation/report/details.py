"""The reasons for the three answers, for readers who ask, and what a paper says: sentence, table and literature."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES, TEN
from mlflow_l3d.analysis.consistency.results import Consistency
from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.analysis.intervals import LEVEL, unseen_share
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.numbers import MISSING, between, counted, listed, percent, plain, points
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.investigation.report.verdicts import Shown

_LONG_TAILS = ("L3D013", "warning", None)
_LEAST_COVERED = 60
"""% that intervals of 95 to 99 % cover at least: t3, or 5 % collapse (`statistics_simulation.py --part further`)."""
_LOOKED = (
    "Intervals allow for every interim analysis of the rule and for all factors. If a rule stops at a verdict, the "
    "importance lies too far from 0 on average: quote its interval, not the importance alone."
)


def early_stops(analysis: Analysis) -> tuple[str, ...]:
    """Return why an investigation ended when it did; empty if no stopping rule ended it."""
    looks = analysis.interim_analyses
    if looks is None or not len(looks):
        return ()
    last = looks.groupby("factor", sort=False).tail(1)
    sentences = (_LOOKED, *too_narrow(analysis)) if last["alpha"].notna().any() else ()
    if (last["decision"] != "stop").any() or not set(analysis.importances) <= set(last["factor"]):
        return sentences
    final = last.sort_values("rows", kind="stable").iloc[-1]
    rule = "by its rule"
    if len(last) > 1:
        rule = f"after {final['rows']} rows, when the rule of every factor said stop; that of {final['factor']}"
    return (f"Stopped {rule}: {final['reason']}.", *sentences)


def too_narrow(analysis: Analysis) -> Iterator[str]:
    """Yield of which factors the intervals cover less than they claim, as collapsed runs or long tails let them."""
    factors: dict[str, list[str]] = {}
    for name in analysis.importances:
        if (verdict := analysis.verdict(name)).doubt in ("collapse", "L3D013"):
            factors.setdefault(verdict.reason, []).append(name)
    yield from (f"For {listed(names)}, {reason}." for reason, names in factors.items())


def luck_details(shown: Shown) -> tuple[str, ...]:
    """Return how sure the spread of the scores is, and the spread without runs that collapsed."""
    record, unit, collapse = shown.golden, shown.unit, shown.analysis.collapse
    if record is None:
        return ()
    bounds = between(record.golden_std_ci_low, record.golden_std_ci_high, unit.text)
    sentences = []
    if bounds != MISSING:
        level = shown.say("{level}")
        sentences.append(f"The {level} interval of the standard deviation is {bounds}{shown.together}.")
        unseen = unseen_share(len(shown.golden_scores), LEVEL)
        # Fewer that may be missing are not worth a sentence.
        if unseen > 0.05 and collapse is None and "L3D005" not in {each.code for each in shown.analysis.checks}:
            sentences.append(f"It leaves out collapses that no run shows: up to {points(unseen, 0)} % of all.")
        if any((each.code, each.severity, each.factor) == _LONG_TAILS for each in shown.analysis.checks):
            sentences.append(f"Scores have long tails (L3D013): it covers {_LEAST_COVERED} to {level}.")
    if shown.design.words.drawn:
        sentences.append(f"{shown.design.words.drawn[:1].upper()}{shown.design.words.drawn[1:]}.")
    if collapse is not None and collapse.collapsed:
        low, high = (points(end, 1) for end in collapse.share_interval())
        rest = shown.design.run_spread([*collapse.rest.values()])[1]
        which = "of them" if collapse.runs == len(shown.golden_scores) else "independent runs"
        sentences.append(
            f"{collapse.collapsed} of {collapse.runs} {which} score below chance (of all possible runs {low} to {high} "
            f"%); without these, the deviation is {unit.amount(rest)}."
        )
    return tuple(sentences)


def which_details(shown: Shown) -> tuple[str, ...]:
    """Return what collapsed runs mean for the verdicts, or how a baseline strategy judges."""
    if shown.design.baseline:
        half = f"if the standard deviation of its runs is at least half the {shown.golden_word} one"
        return (f"It calls a factor important {half}{shown.design.words.caution}",)
    if (collapse := shown.analysis.collapse) is None:
        return ()
    above = [record for record in collapse.causes.values() if record.importance_corrected > 0]
    causes = [record.factor for record in above if record.importance_corrected_ci_low > 0]
    perhaps = [record.factor for record in above if record.factor not in causes]
    deciding = f"{' and '.join(causes)} decide{'s' if len(causes) == 1 else ''} which ones"
    if not causes:
        deciding = "which factor decides which ones is not established"
        deciding += f", perhaps {' or '.join(perhaps)}" if perhaps else ""
    return (f"Some runs collapse, so that intervals of the whole score do not hold; {deciding}.",)


def by_tests_text(shown: Shown, above: Sequence[str]) -> str:
    """Return that a factor that dominates does so by the luck of test examples, if that is over half its variance."""
    analysis = shown.analysis
    name = next((name for name in above if "data_split" in name.split("+")), "")
    moved = analysis.importances[name].moves_by_std if analysis.tests_drawn and name else math.nan
    whose = f"{name} " if len(above) > 1 else ""
    by_tests = analysis.luck_of_tests**2 > moved**2 / 2
    return f", {whose}mostly by which {analysis.test_examples:,} examples are tested" if by_tests else ""


def stable_group(shown: Shown) -> Consistency | None:
    """Return the runs whose agreement answers for all: the golden ones, else those of the factor that agree least."""
    groups = {name: one for name, one in shown.analysis.consistencies.items() if math.isfinite(one.consistency)}
    reported = [one for name, one in groups.items() if shown.analysis.reported_agreement(name) is not None]
    return groups.get("golden") or min(reported or groups.values(), key=lambda one: one.consistency, default=None)


def stable_details(shown: Shown) -> Iterator[str]:
    """Yield what the agreement of runs rests on, and how many examples depend on luck; numbers, if there are some."""
    if (group := stable_group(shown)) is None:
        yield _numbers(shown)
        return
    if shown.analysis.reported_agreement(group.group) is None:
        yield _too_few(shown, group)
    else:
        yield f"Compared are {compared(shown, group.group)}, {_rests_on(shown, group)}."
    if group.unparsed_share > 0:
        what = "name no class" if shown.analysis.agreement is None else "could not be read"
        yield f"{points(group.unparsed_share, 1)} % of the {group.runs} runs' predictions {what}."
    if shown.analysis.regression:
        yield _numbers(shown)
    votes = shown.analysis.examples
    if votes is not None and votes.are_enough:
        fewest, most = votes.runs
        saw = f"{most}" if fewest == most else f"{fewest} to {most}"
        yield (
            f"{points(votes.robust_share, 1)} % of the {len(votes.frame):,} examples that two or more runs saw are "
            f"right in every run that saw them ({saw} runs), "
            f"{points(votes.never_right_share, 1)} % in none; {points(votes.fragile_share, 1)} % depend on luck."
        )
        if most > TEN and votes.seen_by_ten >= FEWEST_EXAMPLES:
            yield (
                f"In any ten runs these shares are {points(votes.robust_share_10, 1)} %, "
                f"{points(votes.never_right_share_10, 1)} % and {points(votes.fragile_share_10, 1)} % of the "
                f"{votes.seen_by_ten:,} examples that ten saw. Compare these with other studies: with more runs, fewer "
                "examples are right in all."
            )


def _too_few(shown: Shown, group: Consistency) -> str:
    """Return why the report has no agreement of a group."""
    seen, votes = shown.analysis.examples_behind(group), shown.analysis.examples
    is_known = shown.analysis.few_tests or (votes is not None and group.group == "golden")
    what = "test example" if is_known else "comparison"
    if seen >= FEWEST_EXAMPLES:
        return f"Two runs share {plain(group.common_examples)} test examples on average. Use reference_size=200."
    return (
        f"How far {compared(shown, group.group)} agree is not reported: there are {counted(seen, what)}, and at least "
        f"{FEWEST_EXAMPLES} are needed. Use reference_size=200, or one test set for all runs, test_selection=fixed."
    )


def _rests_on(shown: Shown, group: Consistency) -> str:
    """Return what the agreement of a group rests on."""
    pairs, common = group.pairs_of_runs, group.common_examples
    if not math.isfinite(pairs):
        return f"over {group.runs} runs, {group.pairs_of_predictions:,} comparisons"
    each = f"{common:,.0f}" if common >= 10 else f"{common:.2g}"
    votes = shown.analysis.examples if group.group == "golden" else None
    every = "" if votes is None or len(votes.frame) <= common else f", {len(votes.frame):,} in all"
    return f"over {group.runs} runs: {counted(int(pairs), 'pair')} that share {each} examples on average{every}"


def compared(shown: Shown, group: str) -> str:
    """Return which runs of a group are compared: of the table of a factor, or those in which every factor changes."""
    if group != "golden":
        return shown.design.words.within.format(factor=group)
    return "two pooled runs" if shown.golden_word == "pooled" else shown.design.words.compared


def _numbers(shown: Shown) -> str:
    """Return how predicted numbers agree, of the golden runs or else of the factor that agrees least."""
    groups = {name: metrics for name, metrics in shown.analysis.regression.items() if metrics}
    if not groups and not shown.analysis.regression:
        return "The runs hold no predictions to compare."
    if not groups:
        return "The runs share too few test examples, or predict too few different numbers, to correlate."
    group = "golden" if "golden" in groups else min(groups, key=lambda name: min(groups[name].values()))
    pearson, ccc = (groups[group].get(f"consistency_{kind}", math.nan) for kind in ("pearson", "ccc"))
    return (
        f"Of the numbers that {compared(shown, group)} predict, mean over pairs: Pearson's correlation "
        f"**{plain(pearson)}** (blind to shift and scale), Lin's concordance **{plain(ccc)}** (1 only for equal "
        "predictions)."
    )


BIBTEX = r"""@inproceedings{pecher2024sensitivity,
  title     = {On Sensitivity of Learning with Limited Labelled Data to the Effects of Randomness: Impact of
               Interactions and Systematic Choices},
  author    = {Pecher, Branislav and Srba, Ivan and Bielikova, Maria},
  booktitle = {Proceedings of the 2024 Conference on Empirical Methods in Natural Language Processing},
  pages     = {522--556},
  url       = {https://aclanthology.org/2024.emnlp-main.32},
  year      = {2024}
}
@article{zhou2025assessing,
  title     = {Assessing the Macro and Micro Effects of Random Seeds on Fine-Tuning Large Language Models},
  author    = {Zhou, Hao and Savova, Guergana and Wang, Lijing},
  journal   = {arXiv preprint arXiv:2503.07329},
  url       = {https://arxiv.org/abs/2503.07329},
  year      = {2025}
}
@software{mlflow_l3d,
  author    = {{The mlflow-l3d authors}},
  title     = {mlflow-l3d: how much of a score is luck, and which kind of luck},
  version   = {VERSION},
  year      = {YEAR}
}"""


def citations(shown: Shown, source: Source) -> list[tuple[str, str]]:
    """Return title and text of what a paper takes from a page; the table only if there are factors."""
    said = sentence(shown, source)
    table = [("LaTeX", with_caption(latex(shown), said))] if shown.records and not shown.design.baseline else []
    return [("A sentence", said), *table, ("BibTeX", bibtex(source))]


def sentence(shown: Shown, source: Source) -> str:
    """Return what was repeated, how often, mean, spread, shares of the variance, design and version."""
    scores, unit = shown.golden_scores, shown.unit
    where = f" on {source.task}" if source.task else ""
    tests = counted(shown.analysis.test_examples, "test example")
    parts = []
    if shown.analysis.few_tests:
        parts.append(f"Each run had only {tests}, so the following numbers answer nothing.")
    if len(scores) > 1 and (record := shown.golden) is not None:
        text = partial(unit.text, digits=unit.digits(shown.golden_deviation))
        bounds = between(record.golden_std_ci_low, record.golden_std_ci_high, text)
        level = f"; {percent(shown.level)} interval of the deviation"
        sure = "" if bounds == MISSING else f"{level} {bounds}{shown.together}"
        mean, std = text(float(scores.mean())), text(shown.golden_deviation)
        metric = f"{shown.analysis.metric}{' (%)' if unit.scale > 1 else ''}"
        parts.append(
            f"Over {len(scores):,} {shown.golden_runs}, {metric}{where} was {mean} ± {std} "
            f"(mean ± standard deviation{sure})."
        )
    if not shown.design.baseline and (said := [_factor(shown, record) for record in shown.records]):
        level = f", with {percent(shown.analysis.level)} intervals" if any("(" in each for each in said) else ""
        together = " that hold for all factors together" if level and shown.together else ""
        what = f"Shares of the variance of the score, interactions included{level}{together}"
        parts += [f"{what}: {'; '.join(said)}.", *map(_plain, too_narrow(shown.analysis))]
    if failed := shown.analysis.cells_failed:
        parts.append(f"{counted(failed, 'run')} got no score; the others count.")
    if (collapse := shown.analysis.collapse) is not None and collapse.collapsed:
        parts.append(f"{collapse.collapsed:,} of {collapse.runs:,} {shown.golden_runs} scored below chance.")
    group = shown.analysis.reported_agreement("golden")
    if group is not None and not shown.graded:
        parts.append(f"Two runs agree on {points(group.consistency, 1)} % of the predictions.")
    made = [f"mlflow-l3d {source.version}".strip(), f"{shown.analysis.design} design"]
    made += [f"mitigation={kept}"] if (kept := source.given.get("mitigation")) else []
    made += [f"root seed {source.root_seed}"] if source.root_seed else []
    return " ".join([*parts, f"({', '.join(made)})"])


def _factor(shown: Shown, record: Importance) -> str:
    word = shown.verdict(record)
    return f"{_plain(record.factor)} {shown.share_text(record, f'{{}} % ({{}} to {{}} %; {word})', word)}"


def latex(shown: Shown) -> str:
    """Return the table of factors for a paper that uses booktabs."""
    unit = "points" if shown.unit.scale > 1 else "units"
    rows = []
    for record in shown.records:
        share = shown.share_text(record, "{} ({}--{})", "{}")
        moved = shown.unit.text(record.moves_by_std, 1)
        rows.append(f"{escaped(_plain(record.factor))} & {share} & {moved} & {shown.verdict(record)} \\\\")
    interval = rf"{100 * shown.analysis.level:.4g}\,\% {'together' if shown.together else 'interval'}"
    head = (r"Factor & Share of variance, \% & Moves the & Verdict \\", rf"& ({interval}) & score by ({unit}) & \\")
    return "\n".join(
        [r"\begin{tabular}{lrrl}", r"\toprule", *head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


def with_caption(tabular: str, said: str) -> str:
    """Return a table whose caption is the sentence, of which LaTeX would leave out all behind a plain ``%``."""
    caption = escaped(said).replace("±", r"$\pm$")
    return "\n".join([r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", tabular, r"\end{table}"])


def bibtex(source: Source) -> str:
    """Return the literature."""
    return BIBTEX.replace("VERSION", source.version or "0").replace("YEAR", source.date[:4] or "n.d.")


def _plain(name: str) -> str:
    return name.replace("_", " ")


def escaped(text: str) -> str:
    """Return a text as LaTeX writes it."""
    return re.sub(r"([\^~])", r"\\\1{}", re.sub(r"([&%$#_{}])", r"\\\1", text.replace("\\", "/")))
