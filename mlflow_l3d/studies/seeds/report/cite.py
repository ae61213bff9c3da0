"""What a paper says of a seeds study: a sentence, a table and the literature."""

from __future__ import annotations

from functools import partial

from mlflow_l3d.report.numbers import MISSING, between, counted, points, unit_of
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.investigation.report.details import bibtex, escaped
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy
from mlflow_l3d.studies.seeds.report.words import digits


def parts(study: SeedsStudy, source: Source) -> list[tuple[str, str]]:
    """Return what was repeated, how often, mean, spread and their intervals; the same as a table; the literature."""
    own, unit = study.own, unit_of(study.metric)
    if own.runs < 2:
        return [("A sentence", f"{counted(own.runs, study.unit)} with a score: there is no spread to cite.")]
    text = partial(unit.text, digits=digits(study))
    where = f" on {study.task}" if study.task else ""
    metric, mean, std = f"{study.metric}{' (%)' if study.metric.percent else ''}", text(own.mean), text(own.std)
    of_mean = between(own.mean_ci_low, own.mean_ci_high, text)
    of_std = between(own.std_ci_low, own.std_ci_high, text)
    sure = "" if MISSING in (of_mean, of_std) else f"; 95 % intervals {of_mean} of the mean, {of_std} of the deviation"
    said = [f"Over {own.runs:,} {study.unit}s, {metric}{where} was {mean} ± {std} (mean ± standard deviation{sure})."]
    if missing := len(study.missing_seeds):
        said.append(f"{missing:,} {study.unit}s without a score are left out.")
    if study.collapsed_seeds:
        said.append(f"{len(study.collapsed_seeds):,} of {study.judged:,} {study.unit}s collapsed.")
    if (pairs := study.pairs.get("consistency")) is not None:
        said.append(f"Two {study.unit}s agree on {points(pairs.mean, 1)} % of the predictions.")
    row = " & ".join([escaped(metric), f"{own.runs:,}", f"{mean} ({of_mean})", f"{std} ({of_std})"])
    table = [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        rf"Metric & {study.unit.capitalize()}s & Mean (95\,\% interval) & Standard deviation (95\,\% interval) \\",
        r"\midrule",
        rf"{row} \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    sentence = " ".join([*said, f"({f'mlflow-l3d {source.version}'.strip()})"])
    return [("A sentence", sentence), ("LaTeX", "\n".join(table)), ("BibTeX", bibtex(source))]
