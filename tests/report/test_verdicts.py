"""Verdicts and what they advise: one rule, and runs that settle what is undecided."""

import math
from itertools import islice

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.checks.evidence import Evidence
from mlflow_l3d.analysis.importance.checks.runs import repeated_cells
from mlflow_l3d.analysis.importance.estimate import excludes_zero, total_index_of
from mlflow_l3d.analysis.importance.verdicts import Advice, verdict_of
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import Planned, design_named
from mlflow_l3d.designs.analyse import advise, analyse
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.studies.investigation.report import doubts
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.report.words import answers


def investigated(seed: int) -> tuple[int, int, Analysis]:
    """Return rows, columns and analysis of a crossed table drawn at random."""
    generator = np.random.default_rng(seed)
    rows, columns = int(generator.integers(3, 30)), int(generator.integers(3, 12))
    of_rows, of_columns, rest = 0.03 * np.sqrt(generator.dirichlet((1, 1, 1)))
    table = 0.7 + of_rows * generator.standard_normal((rows, 1)) + of_columns * generator.standard_normal(columns)
    table += rest * generator.standard_normal((rows, columns))
    places = [("investigation", "f", *place, None, score) for place, score in np.ndenumerate(table)]
    places += [("golden", None, None, None, at, 0.7 + 0.03 * generator.standard_normal()) for at in range(60)]
    cells = pd.DataFrame(places, columns=["phase", "factor", "row", "column", "index", "mse"])
    return rows, columns, analyse(cells, metric="mse")


@pytest.mark.slow
def test_advice_is_for_what_is_undecided_alone_and_asks_for_more_than_there_is():
    actions = set()
    for seed in range(40):
        rows, columns, analysis = investigated(seed)
        advice, verdict = analysis.advice["f"], analysis.verdict("f")
        assert (advice.action == "none") == (verdict.word != "undecided")
        said = [item.text for item in doubts(Shown(analysis))]
        assert said == ([f"{verdict.word}: {verdict.reason}. {advice.text}"] if verdict.doubt else [])
        for check in analysis.checks:
            assert check.code != "L3D001" or (check.message.endswith(advice.text) and advice.text)
        if advice.rows is not None:
            larger = advice.rows >= max(1.25 * rows, rows + 5)
            assert larger or (advice.columns or 0) > columns or advice.action == "other_design"
        ends = [round(100 * total_index_of(end)) for end in analysis.importances["f"].corrected_interval]
        if 50 in ends and verdict.doubt == "contains_0":
            assert (advice.action, advice.rows) == ("unaffordable", None)
            assert "more runs will change little of what you do" in advice.text
        actions.add(advice.action)
    assert actions >= {"none", "more_rows", "larger_table", "unaffordable"}


@pytest.mark.parametrize("changed", [False, True])
def test_the_same_cell_again_is_luck_of_the_machine_or_none(changed):
    table = np.repeat([[0.7], [0.72], [0.69]], 4, axis=1)
    table[0, 0] += 0.01 * changed
    record = importance(table, 0.7 + 0.01 * np.arange(6), factor="replicate")
    checks = tuple(repeated_cells(Evidence(importances={"replicate": record}, golden=record.golden)))
    [found] = doubts(Shown(Analysis(F1_MACRO, {"replicate": record}, checks=checks)))
    assert (found.text == "minor: every cell that was computed again has the same result.") != changed


def looked_at(collapse=False):
    """Return a nested analysis of a strong, a middling and a weak factor while a rule looked."""
    rng, rows, columns = np.random.default_rng(3), 30, 3
    others = rng.normal(size=(rows, 1))
    found = [("golden", None, None, None, at, 0.8 + 0.01 * rng.normal()) for at in range(60)]
    for name, (own, other) in {"strong": (1.0, 0.1), "middling": (0.7, 0.6), "weak": (0.1, 1.0)}.items():
        table = 0.8 + 0.01 * (own * rng.normal(size=(rows, columns)) + other * others)
        if collapse:
            table[:4, 0] = 0.3
        found += [("investigation", name, *place, None, score) for place, score in np.ndenumerate(table)]
    cells = pd.DataFrame(found, columns=["phase", "factor", "row", "column", "index", "f1_macro"])
    if collapse:
        cells.loc[:4, "f1_macro"] = 0.3
    plan = Planned(design=design_named("nested"), sequential=True, classes=2)
    return analyse(cells, plan, metric="f1_macro")


def test_verdicts_are_those_of_the_intervals_that_a_rule_looked_at():
    analysis = looked_at()
    assert answers(Shown(analysis))[1].lead == "**strong dominates.** weak is minor; middling is undecided."
    for name, record in analysis.importances.items():
        ends = record.importance_corrected_ci_low, record.importance_corrected_ci_high
        word = "dominates" if ends[0] > 0 else "minor" if ends[1] < 0 else "undecided"
        assert analysis.verdict(name).word == word, name


def test_all_intervals_of_a_report_have_the_level_that_it_names():
    analysis = looked_at(collapse=True)
    (level,) = {record.level for record in analysis.importances.values()}
    assert level == pytest.approx(1 - 0.05 * 6 / np.pi**2 / 4 / 3)  # second look, three factors
    assert {record.level for record in analysis.collapse.rest.values()} == {analysis.collapse.level} == {level}
    record = analysis.importances["weak"]
    alone = importance(record.table, record.golden, level=level)
    assert (record.golden_std_ci_low, record.golden_std_ci_high) == (alone.golden_std_ci_low, alone.golden_std_ci_high)


def test_advised_runs_settle_a_verdict_in_four_of_five_cases():
    """The advice is for the truth being as estimated: tables of that truth are drawn, of both sizes."""
    design, rng, golden = design_named("crossed"), np.random.default_rng(0), 0.7 + 0.01 * np.arange(9)

    def drawn(rows, columns):
        table = 0.020 * rng.standard_normal((rows, 1)) + 0.005 * rng.standard_normal(columns)
        return 0.7 + table + 0.012 * rng.standard_normal((rows, columns))

    def settled(sizes):
        estimates = [design.model.estimate(drawn(*size)) for size in sizes for _ in range(40)]
        return np.mean([excludes_zero(*each.interval()) for each in estimates])

    tables = (drawn(8, 10) for _ in range(1_000))
    near = (each for each in tables if abs(total_index_of(design.model.estimate(each).importance) - 0.297) < 0.02)
    records = [importance(each, golden, factor="f", model=design.model) for each in islice(near, 8)]
    advised = [advise(design, each, verdict_of(each)) for each in records]
    assert settled([(8, 10)] * 4) < 0.3
    assert 0.72 < settled([(each.rows, each.columns or 10) for each in advised if each.rows]) < 0.92


@pytest.mark.parametrize(("most", "mitigated"), [(3, True), (math.inf, False)])
def test_rows_and_designs_that_mitigation_refuses_are_not_advised(monkeypatch, most, mitigated):
    cells = pd.DataFrame(
        [("investigation", "f", *place, None, score) for place, score in np.ndenumerate(np.eye(3, 4) / 9)]
        + [("golden", None, None, None, at, at / 90) for at in range(6)],
        columns=["phase", "factor", "row", "column", "index", "mse"],
    )
    advice = analyse(cells, Planned(distinct_rows=most, mitigated=mitigated), metric="mse").advice["f"]
    assert (advice.rows is None, "only 3 different rows: give them more" in advice.text) == (mitigated, mitigated)
    monkeypatch.setattr("mlflow_l3d.designs.analyse.advise", lambda *_: Advice("other_design", "", 200))
    other = analyse(cells, Planned(mitigated=mitigated), metric="mse").advice["f"]
    assert other.action == ("unaffordable" if mitigated else "other_design")
