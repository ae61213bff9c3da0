"""What the report says for every design, from simulated runs; numbers are those of the records."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from pages import Page
from simulated_analyses import FACTORS, simulated, with_interim_analyses

from mlflow_l3d.designs import design_named
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.studies.investigation.report import figures
from mlflow_l3d.studies.investigation.report.factor_tables import (
    component_table,
    further_numbers,
    interim_table,
    ranking_tables,
)
from mlflow_l3d.studies.investigation.report.heatmap import heatmap
from mlflow_l3d.studies.investigation.report.page import investigation_document
from mlflow_l3d.studies.investigation.report.prediction_tables import fragile_table
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.report.words import answers, early_stops

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

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
        assert "pooled runs" in text
        # The only places left are those that say what the pooled runs stand for.
        assert "golden" not in re.sub(r"(in|the) place of golden runs", "", text).lower()
        assert "golden std" not in text
        assert "two golden runs" not in text
    assert "over 144 pooled runs" in answers(Shown(pooled))[0].sentences[0]


def test_level_of_the_records_is_shown():
    analysis = simulated("crossed", level=0.9, factors=FACTORS[:1])
    for text in (words(analysis), text_of(analysis, title="t")):
        assert "90 % interval" in text
    labels = [text.get_text() for text in figures.importance_bars(Shown(analysis)).legends[0].get_texts()]
    assert "corrected importance, 90 % interval" in labels


@pytest.mark.parametrize("design", ["random", "fixed"])
def test_strategies_have_no_importance(every, design):
    analysis = every[design]
    strongest = max(analysis.importances.values(), key=lambda record: record.score_std)
    share = strongest.score_std / strongest.golden_std
    which = answers(Shown(analysis))[1]
    assert which.short.startswith(strongest.factor)
    assert which.short.endswith(f"(by the {design} strategy)")
    assert f"{100 * strongest.score_std:.2f} points, {share:.2f} of the golden std" in which.sentences[0]
    for name, record in analysis.importances.items():
        shown = Shown(analysis)
        assert shown.is_important(record) == analysis.strategies[name].important
        assert f"{record.score_std / record.golden_std:.2f} of the golden std" in shown.sentence(record)
    text = page(analysis)
    assert 'scope="col">importance</th>' not in text
    assert "Variance components" not in text
    assert "Importance of every factor" not in text
    widths = [patch.get_width() for patch in figures.importance_bars(Shown(analysis)).axes[0].patches]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == pytest.approx(share)


def test_numbers_of_the_further_table_are_those_of_the_records(every):
    analysis = every["crossed"]
    table = further_numbers(Shown(analysis))
    assert table is not None
    letters = analysis.ranking.to_frame().set_index("factor")["group"]
    for row in table.rows:
        shown, record = dict(zip(table.head, row, strict=True)), analysis.importances[row[0]]
        prediction = analysis.prediction_importances[row[0]]
        assert shown["distinguished\n(letters)"] == letters[row[0]]
        ends = record.importance_ci_low, record.importance_ci_high
        assert shown["importance,\n99 % interval"] == "{:+.2f} to {:+.2f}".format(*ends)
        assert shown["unevenness\nof rows"] == f"{record.unevenness:.2f}"
        low, high = prediction.share_ci_low, prediction.share_ci_high
        assert shown["importance for\npredictions"] == (
            "{:+.2f} ({:+.2f} to {:+.2f})".format(prediction.importance, *prediction.importance_interval)
            + f"\n{prediction.share:.2f} ({low:.2f} to {high:.2f})"
        )
        assert shown["kappa"] == f"{analysis.consistencies[row[0]].fleiss_kappa:.2f}"
        assert shown["IQR of cells"] == f"{100 * record.score_iqr:.2f}"


@pytest.mark.parametrize("design", ["crossed", "nested", "radial"])
def test_components_are_squared_points_and_close(every, design):
    analysis = every[design]
    table = component_table(Shown(analysis))
    assert table is not None
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
    order, pairs = ranking_tables(every["crossed"].ranking)
    assert [row[0] for row in order.rows] == list(every["crossed"].ranking.factors)
    assert len(pairs.rows) == 10
    for row, pair in zip(pairs.rows, every["crossed"].ranking.differences, strict=True):
        assert row[:3] == (
            f"{pair.first} {MINUS} {pair.second}",
            f"{pair.difference:+.2f}",
            f"{pair.low:+.2f} to {pair.high:+.2f}",
        )
    assert ranking_tables(None) == ()
    alone = replace(every["crossed"], ranking=None)
    assert "Which factors can be told apart" not in page(alone)


def test_fragile_examples_show_ids_and_votes(every):
    analysis = every["crossed"]
    table = fragile_table(analysis.examples)
    assert table is not None
    assert len(table.rows) == 15
    worst = analysis.examples.frame.iloc[0]
    votes = ", ".join(
        f"{name}: {count}"
        for count, name in sorted(((c, n) for n, c in enumerate(worst["votes"])), key=lambda pair: (-pair[0], pair[1]))
    )
    assert table.rows[0][:4] == (str(worst["example_id"]), str(worst["label"]), votes, str(worst["runs"]))
    text = page(analysis)
    widths = [float(width) for width in re.findall(r'style="width: ([\d.]+)%"', text)]
    votes_of = analysis.examples
    assert widths == pytest.approx(
        [100 * votes_of.robust_share, 100 * votes_of.fragile_share, 100 * votes_of.never_right_share], abs=1e-3
    )
    assert sum(widths) == pytest.approx(100, abs=1e-2)


def test_early_stop_stands_on_top_with_its_reason():
    analysis = with_interim_analyses(simulated("nested", factors=("data_order",)))
    reason = analysis.interim_analyses["reason"].iloc[-1]
    assert analysis.interim_analyses["decision"].iloc[-1] == "stop"
    why, looked = early_stops(analysis)
    assert why == f"Stopped by its rule: {reason}."
    assert "allow for every interim analysis" in looked
    text = words(analysis)
    assert text.index(f"Stopped by its rule: {reason}") < text.index("How much of the score is luck?")
    assert "Stopped by its rule: after 6 rows" in text_of(analysis, title="t")
    assert interim_table(analysis).rows[-1][-2:] == ("stop", reason)
    going_on = replace(analysis, interim_analyses=analysis.interim_analyses.assign(decision="continue"))
    assert early_stops(going_on) == (looked,)
    assert "Stopped" not in words(going_on)


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
    table = interim_table(replace(analysis, interim_analyses=pd.concat([interim] * 40, ignore_index=True)))
    assert len(table.rows) == 12
    assert "28 earlier looks are left out" in table.note


def test_radial_pairs_are_dots_base_against_swap(every):
    record = replace(next(iter(every["radial"].importances.values())))
    record.table[3, 1] = np.nan
    axes, side = heatmap(record, metric=F1_MACRO).axes
    dots = np.concatenate([np.column_stack(line.get_data()) for line in axes.lines[1:]])
    kept = 100 * record.table[np.isfinite(record.table).all(axis=1)]
    assert {tuple(dot) for dot in dots.round(9).tolist()} <= {tuple(pair) for pair in kept.round(9).tolist()}
    assert len(dots) == len(kept) == 11
    assert "base run" in axes.get_xlabel()
    assert f"contributed std {100 * record.contributed_std:.2f}" in side.texts[0].get_text()
    assert "pairs that lack a run: 1" in side.texts[0].get_text()


def test_radial_golden_std_is_that_of_the_record(every):
    record = next(iter(every["radial"].importances.values()))
    assert answers(Shown(every["radial"]))[0].short.endswith(f"± {100 * record.golden_std:.2f}")
    assert "base and swap runs" in answers(Shown(every["radial"]))[0].sentences[0]


def test_old_analyses_have_none_of_the_new_sections(importance, analysis):
    text = page(analysis([importance("a", rows=4, columns=3)], predictions=False))
    for heading in ("Which factors can be told apart", "Variance components", "Single predictions", "When to stop"):
        assert f"<h2>{heading}" not in text
