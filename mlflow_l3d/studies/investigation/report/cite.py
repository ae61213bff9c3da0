"""What a paper says of an investigation: a sentence, a table and the literature."""

from __future__ import annotations

import re
from functools import partial

from mlflow_l3d.analysis.importance.results import Importance
from mlflow_l3d.report.numbers import MISSING, between, counted, percent, points
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.investigation.report.details import too_narrow
from mlflow_l3d.studies.investigation.report.verdicts import Shown

BIBTEX = r"""@inproceedings{pecher2024sensitivity,
  title     = {On Sensitivity of Learning with Limited Labelled Data to the Effects of Randomness: Impact of
               Interactions and Systematic Choices},
  author    = {Pecher, Branislav and Srba, Ivan and Bielikova, Maria},
  booktitle = {Proceedings of the 2024 Conference on Empirical Methods in Natural Language Processing},
  year      = {2024}
}
@article{zhou2025assessing,
  title     = {Assessing the Macro and Micro Effects of Random Seeds on Fine-Tuning Large Language Models},
  author    = {Zhou, Hao and Savova, Guergana and Wang, Lijing},
  year      = {2025}
}
@software{mlflow_l3d,
  author    = {{The mlflow-l3d authors}},
  title     = {mlflow-l3d: how much of a score is luck, and which kind of luck},
  version   = {VERSION},
  year      = {YEAR}
}"""


def parts(shown: Shown, source: Source) -> list[tuple[str, str]]:
    """Return title and text of what a paper takes from a page; the table only if there are factors."""
    table = [("LaTeX", latex(shown))] if shown.records and not shown.design.baseline else []
    return [("A sentence", sentence(shown, source)), *table, ("BibTeX", bibtex(source))]


def sentence(shown: Shown, source: Source) -> str:
    """Return what was repeated, how often, mean, spread, shares of the variance, design and version."""
    scores, unit = shown.golden_scores, shown.unit
    where = f" on {source.task}" if source.task else ""
    tests = counted(shown.analysis.test_examples, "test example")
    parts = [f"Each run had only {tests}, so the following numbers answer nothing."] * shown.analysis.few_tests
    if len(scores) > 1:
        record = shown.golden
        assert record is not None
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
        parts.append(f"{failed:,} runs have no score and are left out.")
    if (collapse := shown.analysis.collapse) is not None and collapse.collapsed:
        parts.append(f"{collapse.collapsed:,} of {collapse.runs:,} {shown.golden_runs} scored below chance.")
    group = shown.analysis.reported_agreement("golden")
    if group is not None and not shown.graded:
        parts.append(f"Two runs agree on {points(group.consistency, 1)} % of the predictions.")
    made = [f"{shown.analysis.design} design", *([f"root seed {source.root_seed}"] if source.root_seed else [])]
    version = f"mlflow-l3d {source.version}".strip()
    return " ".join([*parts, f"({version}, {', '.join(made)})"])


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
    level = rf"{100 * shown.analysis.level:.4g}\,\%"
    interval = f"interval; all together {level}" if shown.together else f"{level} interval"
    head = rf"Factor & Share of variance, \% ({interval}) & Moves the score by ({unit}) & Verdict \\"
    return "\n".join(
        [r"\begin{tabular}{lrrl}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


def bibtex(source: Source) -> str:
    """Return the literature."""
    return BIBTEX.replace("VERSION", source.version or "0").replace("YEAR", source.date[:4] or "n.d.")


def _plain(name: str) -> str:
    return name.replace("_", " ")


def escaped(text: str) -> str:
    """Return a text as LaTeX writes it."""
    return re.sub(r"([&%$#_{}])", r"\\\1", text.replace("\\", "/"))
