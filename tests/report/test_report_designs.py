"""What the report says for every design, from simulated runs; numbers are those of the records."""

import re
from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
from pages import Page
from simulated_analyses import FACTORS, simulated, with_interim_analyses

from mlflow_l3d.analysis.importance.results import Check
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.investigation.report import investigation_document, more_tables, numbers_table
from mlflow_l3d.studies.investigation.report.details import early_stops, sentence
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.report.words import answers

pytestmark = pytest.mark.slow

DESIGNS = ("crossed", "nested", "radial", "random", "fixed")
MINUS = "\N{MINUS SIGN}"


def text_of(analysis, title="t"):
    return investigation_document(analysis, title=title).to_text()


def page(analysis) -> str:
    paths = partial(design_named(analysis.design).paths, analysis.importances)
    return investigation_document(analysis, title="t", paths=paths).to_html()


def words(analysis) -> str:
    return Page(page(analysis)).text


@pytest.fixture(scope="module")
def every():
    return {design: simulated(design) for design in DESIGNS}


def test_pooled_runs_are_nowhere_called_golden():
    pooled = simulated("crossed", pooled=True, factors=FACTORS[:2])
    # The check of pooled runs names golden runs to ask for them.
    pooled = replace(pooled, checks=())
    for text in (words(pooled), " ".join(text_of(pooled, title="t").split())):
        assert "trainings of all tables" in text
        # The only places left are those that say what the pooled runs stand for.
        assert "golden" not in re.sub(r"(in|the) place of golden runs", "", text).lower()
        assert "golden std" not in text
        assert "two golden runs" not in text
    assert "The **144 trainings** of all tables scored" in answers(Shown(pooled))[0].lead


@pytest.mark.parametrize("design", ["random", "fixed"])
def test_strategies_have_no_importance(every, design):
    analysis = every[design]
    strongest = max(analysis.importances.values(), key=lambda record: record.score_std)
    share = strongest.score_std / strongest.golden_std
    which = answers(Shown(analysis))[1]
    assert which.lead.startswith(f"By the {design} strategy")
    assert f"**{strongest.factor} is important**" in which.lead
    assert which.sentences[1].startswith("It calls a factor important if the standard deviation of its runs ")
    for name, record in analysis.importances.items():
        shown = Shown(analysis)
        assert shown.is_important(record) == analysis.strategies[name].important
    document = investigation_document(analysis, title="t")
    assert document.table.rows[0][1:] == ("yes", f"{100 * strongest.score_std:.2f} points", f"{share:.2f}")
    assert {row[1] for row in document.table.rows} == {"yes", "no"}
    stds = sorted((record.score_std for record in analysis.importances.values()), reverse=True)
    assert [row[2] for row in document.table.rows] == [f"{100 * std:.2f} points" for std in stds]
    assert "Variance components" not in document.to_html()


def test_numbers_of_the_table_are_those_of_the_records(every):
    analysis = every["crossed"]
    table = numbers_table(Shown(analysis))
    heads = [marked(head) for head in table.head]
    assert {heads[at] for at in table.more} >= {"importance", "corrected", "golden std"}
    for row in table.rows:
        shown, record = dict(zip(heads, row, strict=True)), analysis.importances[row[0]]
        share, low, high = Shown(analysis).shares(record)
        assert shown["share of variance"] == f"{100 * share:.0f} %\n({100 * low:.0f} to {100 * high:.0f})"
        ends = record.importance_ci_low, record.importance_ci_high
        assert shown["importance"] == f"{record.importance:+.2f}\n" + "{:+.2f} to {:+.2f}".format(*ends)
        assert shown["corrected"].startswith(f"{record.importance_corrected:+.2f}\n")
        assert shown["unevenness\nof rows"] == f"{record.unevenness:.2f}"
        assert shown["IQR"] == f"{100 * record.score_iqr:.2f}"
        assert shown["mean ± std"] == f"{100 * record.score_mean:.2f}\n± {100 * record.score_std:.2f}"


def test_agreement_of_predictions_is_that_of_the_records(every):
    analysis = every["crossed"]
    table = more_tables.agreement_table(Shown(analysis))
    heads = [marked(head) for head in table.head]
    for row in table.rows[:-1]:
        shown, prediction = dict(zip(heads, row, strict=True)), analysis.prediction_importances[row[0]]
        assert shown["share of\ndisagreement"].startswith(f"{100 * prediction.share:.0f} %\n")
        assert shown["kappa"] == f"{analysis.consistencies[row[0]].fleiss_kappa:.2f}"


def test_print_keeps_colours_and_cuts_no_table(every):
    screen, style = page(every["crossed"]).split("</style>")[0].split("@media print", 1)
    assert all(f"{part} {{ forced-color-adjust: none;" in screen for part in (".parts", ".legend i", ".grid"))
    assert ".scripted .tip { position: fixed; }" in screen  # else a table cuts what a word means
    assert ".trials thead th:has(.term:hover, .term:focus) { z-index: 1; }" in screen  # else the next head covers it
    assert "font-weight: 600; overflow-wrap: anywhere; }" in screen.split("summary {")[1].split("\n")[0]  # long factors
    assert ".controls label { max-width: 100%; }" in screen  # else a long name of a class moves a phone's page
    assert ":is(.bars, .filtered) .joint { display: block; }" in screen
    assert ".cells { display: block; }" in style  # else Firefox leaves the heading of a table on the page before
    assert "main { max-width: none; padding: 0 6px; }" in style  # else a dot at the end of an axis is cut
    assert "print-color-adjust: exact" in style  # bars of votes and their legend are backgrounds
    assert ".bars td:nth-child(3) { width: 35%; min-width: 0; }" in style  # else WebKit leaves the numbers no room
    assert ".table:not(.heat) :is(th, td, small), .filtered td.text { white-space: normal; min-width: 0; }" in style


def test_tables_of_many_columns_are_cards_on_a_phone(every):
    html = page(every["crossed"])
    for title in ("Factors in numbers", "Fragile examples", "Variance components"):
        section = html.split(f"<summary><h2>{title}")[1].split("</details>")[0]
        assert re.search(r'<div class="table (sortable)? many">', section)
    assert 'class="table bars">' in html
    assert ".bars .remedy td:nth-child(2))::before { content: attr(data-label)" in html, "the remaining spread"
    assert '.many td:not([data-label=""])::before { content: attr(data-label)' in html.split("600px", 1)[1]


@pytest.mark.parametrize("design", ["crossed", "nested", "radial"])
def test_components_are_squared_points_and_close(every, design):
    analysis = every[design]
    table = more_tables.component_table(Shown(analysis))
    assert ("alone\n(main effect)" in table.head) == (design == "crossed")
    for row in table.rows:
        shown, record = dict(zip(table.head, row, strict=True)), analysis.importances[row[0]]
        parts = record.components
        assert shown["contributed"] == Shown(analysis).unit.squared(parts.contributed)
        assert float(shown["total"]) == pytest.approx(1e4 * parts.total, rel=0.01, abs=0.01)
        if design != "radial":
            ratio = parts.total / record.golden.var(ddof=1)
            assert shown["total /\ngolden"] == f"{ratio:.2f}"
        for name in parts.truncated:
            assert f"{name} of {row[0]}" in table.note


def test_every_pair_stands_in_the_ranking(every):
    order, pairs = more_tables.ranking_tables(every["crossed"].ranking)
    assert [row[0] for row in order.rows] == list(every["crossed"].ranking.factors)
    assert len(pairs.rows) == 10
    assert pairs.note.endswith("is adjusted for 10 pairs.")
    for row, pair in zip(pairs.rows, every["crossed"].ranking.differences, strict=True):
        names, interval = f"{pair.first} {MINUS} {pair.second}", f"{pair.low:+.2f} to {pair.high:+.2f}"
        assert row[:3] == (names, f"{pair.difference:+.2f}", interval)
    assert more_tables.ranking_tables(None) == ()
    alone = replace(every["crossed"], ranking=None)
    assert "Which factors can be told apart" not in page(alone)


def test_early_stop_stands_on_top_with_its_reason():
    analysis = with_interim_analyses(simulated("nested", factors=("data_order",)))
    reason = analysis.interim_analyses["reason"].iloc[-1]
    assert analysis.interim_analyses["decision"].iloc[-1] == "stop"
    why, looked = early_stops(analysis)
    assert why == f"Stopped by its rule: {reason}."
    assert "allow for every interim analysis" in looked
    assert f"Stopped by its rule: {reason}" in words(analysis)
    assert more_tables.interim_table(analysis).rows[-1][-2:] == ("stop", reason)
    going_on = replace(analysis, interim_analyses=analysis.interim_analyses.assign(decision="continue"))
    assert early_stops(going_on) == (looked,)
    assert "Stopped" not in words(going_on)


def test_a_stop_on_collapsed_or_long_tailed_scores_says_that_its_interval_covers_less():
    """After a stop at a half-width of .25 it covers 10 % if 5 % of the runs collapse."""
    analysis = replace(with_interim_analyses(simulated("nested")), checks=())
    tails = Check("L3D013", "warning", "Long tails", "x", "data_split")
    said = "For data_split, the scores have long tails (L3D013), so the interval covers less than it claims."
    assert said not in early_stops(analysis)
    assert early_stops(replace(analysis, checks=(tails,)))[-1] == said
    quoted = sentence(Shown(replace(analysis, checks=(tails,))), Source())
    assert said.replace("_", " ") in quoted
    assert "covers less" not in sentence(Shown(analysis), Source())


def test_one_factor_that_goes_on_is_no_stop():
    analysis = with_interim_analyses(simulated("nested"))
    interim_analyses = analysis.interim_analyses
    interim_analyses.loc[interim_analyses["factor"] == "data_split", "decision"] = "continue"
    (looked,) = early_stops(analysis)
    assert "allow for every interim analysis" in looked
    assert early_stops(replace(analysis, interim_analyses=interim_analyses.iloc[:0])) == ()


def test_many_looks_are_cut_and_counted():
    analysis = with_interim_analyses(simulated("nested", factors=("data_order",)))
    interim = analysis.interim_analyses.iloc[-1:]
    table = more_tables.interim_table(replace(analysis, interim_analyses=pd.concat([interim] * 40, ignore_index=True)))
    assert len(table.rows) == 12
    assert "28 earlier looks are left out" in table.note


def test_radial_golden_std_is_that_of_the_record(every):
    record = next(iter(every["radial"].importances.values()))
    assert f"± {100 * record.golden_std:.1f}**" in answers(Shown(every["radial"]))[0].lead


def test_old_analyses_have_none_of_the_new_sections(importance, analysis):
    text = page(analysis([importance("a", rows=4, columns=3)], predictions=False))
    for title in ("Which factors differ", "Variance components", "Fragile examples", "When to stop"):
        assert f"<summary><h2>{title}" not in text
