"""A score in two parts: how many runs collapse, what decides that, and the luck of the others."""

import math

import numpy as np
import pandas as pd
import pytest
from drawn_tables import drawn

from mlflow_l3d.analysis.importance.tables import Tables, uncollapsed
from mlflow_l3d.analysis.importance.verdicts import Verdict
from mlflow_l3d.analysis.intervals import wilson_interval
from mlflow_l3d.designs import Planned
from mlflow_l3d.designs.analyse import analyse
from mlflow_l3d.designs.crossed import CrossedDesign
from mlflow_l3d.designs.nested import NestedDesign
from mlflow_l3d.studies.investigation.report.more_tables import collapse_table
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.report.words import answers

CHANCE = 0.5
TWO_CLASSES = Planned(classes=2)


def cells(table, golden, phase="investigation"):
    own = {"phase": phase, "factor": "f"}
    rows = [own | {"row": i, "column": j, "accuracy": score} for (i, j), score in np.ndenumerate(table)]
    rows += [{"phase": "golden", "index": number, "accuracy": score} for number, score in enumerate(golden)]
    return pd.DataFrame(rows)


def drawn_scores(generator, rows=20, columns=10, *, nested=False):
    return 0.8 + 0.02 * drawn(generator, (rows, columns), (0.5, 0.5) if nested else (0.5, 0.25, 0.25))


def analysed(table, golden, planned=TWO_CLASSES, **how):
    return analyse(cells(table, golden), planned, metric="accuracy", **how)


def test_wilson_by_hand():
    # Brown, Cai and DasGupta (2001): (X + z^2/2) / (n + z^2) -+ z sqrt(n p q + z^2/4) / (n + z^2).
    z = 1.959964
    centre, half = (10 + z * z / 2) / (200 + z * z), z * math.sqrt(9.5 + z * z / 4) / (200 + z * z)
    assert wilson_interval(10, 200) == pytest.approx((centre - half, centre + half), abs=1e-6)
    assert wilson_interval(0, 20)[0] == 0
    assert wilson_interval(20, 20)[1] == 1
    assert np.isnan(wilson_interval(0, 0)).all()


def test_nothing_is_said_where_no_run_collapsed():
    generator = np.random.default_rng(0)
    found = analysed(drawn_scores(generator), 0.8 + 0.02 * generator.standard_normal(50))
    assert found.collapse is None
    assert not [name for name in found.metrics() if "collapse" in name and not name.startswith("collapsed_share")]
    assert collapse_table(Shown(found)) is None


def test_columns_that_collapse_are_the_doing_of_the_factor_and_the_rest_is_a_table_without_them():
    generator = np.random.default_rng(1)
    table, golden = drawn_scores(generator), 0.8 + 0.02 * generator.standard_normal(200)
    down, low = table.copy(), golden.copy()
    down[:, [2, 7]] = 0.3
    low[:30] = 0.3
    found = analysed(down, low)
    assert (found.collapse.runs, found.collapse.collapsed) == (200, 30)
    assert found.collapse.share_interval() == wilson_interval(30, 200)
    assert found.collapse.causes["f"].importance_corrected == 1
    whole = analysed(np.delete(table, [2, 7], axis=1), golden[30:])
    rest, alone = found.collapse.rest["f"], whole.importances["f"]
    names = "importance importance_corrected importance_corrected_ci_low importance_corrected_ci_high golden_std"
    for name in names.split():
        assert getattr(rest, name) == pytest.approx(getattr(alone, name), rel=1e-9), name
    metrics = found.metrics()
    assert metrics["importance_corrected_uncollapsed"] == rest.importance_corrected
    assert metrics["collapse_importance_corrected"] == 1
    assert metrics["collapsed_share/golden"] == 0.15
    assert {check.factor for check in found.checks if check.code == "L3D005"} == {None, "f"}
    luck, *_ = answers(Shown(found))
    below = "30 of 200 of them score below chance (of all possible runs 10.7 to 20.6 %)"
    assert any(below in each for each in luck.sentences)
    [row] = collapse_table(Shown(found)).rows
    assert (row[2][:5], row[3]) == ("+1.00", f"{rest.importance:+.2f}")


def test_rows_that_collapse_are_the_doing_of_the_others():
    generator = np.random.default_rng(2)
    table = drawn_scores(generator)
    table[[1, 5, 6]] = 0.3
    found = analysed(table, 0.8 + 0.02 * generator.standard_normal(50))
    assert found.collapse.causes["f"].importance_corrected == -1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cells", "rows", "columns"])
@pytest.mark.parametrize("design", [CrossedDesign, NestedDesign])
def test_the_interval_of_the_rest_covers_and_that_of_the_whole_does_not(design, kind):
    """Estimates of the tables alone, since all else that an analysis says takes ten times as long."""
    generator, true = np.random.default_rng(3), math.sqrt(0.5) - math.sqrt(0.5)
    nested = design is NestedDesign
    shape = {"cells": (20, 10), "rows": (20, 1), "columns": (20 if nested else 1, 10)}[kind]
    held, whole, count = 0, 0, 120
    for number in range(count):
        table = drawn_scores(generator, nested=nested)
        table[np.broadcast_to(generator.random(shape) < 0.1, table.shape)] = 0.3
        golden = np.where(generator.random(200) < 0.1, 0.3, 0.8 + 0.02 * generator.standard_normal(200))
        parts = uncollapsed(table, CHANCE), table
        of_rest, of_whole = (design.estimate(Tables({"f": part}), "f").interval() for part in parts)
        held += of_rest[0] <= true <= of_rest[1]
        whole += of_whole[0] <= true <= of_whole[1]
        if number == 0:
            found = analysed(table, golden, Planned(classes=2, design=design))
            assert found.collapse.rest["f"].corrected_interval == of_rest
            assert found.importances["f"].corrected_interval == of_whole
    assert held >= 0.87 * count  # of 120 at 95 %, fewer have a probability of 0.0004
    assert whole < held


def test_a_factor_is_undecided_where_runs_collapse_and_says_what_holds_for_the_others():
    generator = np.random.default_rng(4)
    table, golden = drawn_scores(generator), 0.8 + 0.02 * generator.standard_normal(200)
    table[:, 2] = golden[:30] = 0.3
    found = analysed(table, np.where(np.arange(200) < 30, 0.3, golden))
    shown = Shown(found)
    rest = found.collapse.rest["f"]
    assert found.verdict("f") == Verdict("undecided", "collapse")
    luck, which, _ = answers(shown)
    assert collapse_table(shown).rows[0][4].startswith(f"{rest.importance_corrected:+.2f}\n")
    assert any("30 of 200 of them score below chance" in sentence for sentence in luck.sentences)
    assert any("f decides which ones" in sentence for sentence in which.sentences)
    assert "L3D010" not in {check.code for check in found.checks}  # equal columns, since both collapsed


def test_long_tails_are_those_of_the_runs_that_did_not_collapse():
    generator = np.random.default_rng(5)
    golden = 0.8 + 0.02 * generator.standard_normal(200)
    golden[:10] = 0.3
    collapsed = analysed(drawn_scores(generator), golden)
    assert "L3D013" not in {check.code for check in collapsed.checks}
    whole = analyse(cells(drawn_scores(generator), golden), metric="accuracy")
    assert "L3D013" in {check.code for check in whole.checks}


@pytest.mark.parametrize(("mean", "apart"), [(0.54, ()), (0.3, (0.53, 0.54))], ids=["tail above", "few others above"])
def test_a_model_about_as_good_as_chance_has_no_two_kinds_of_runs(mean, apart):
    generator = np.random.default_rng(6)
    table, golden = drawn_scores(generator) - 0.8 + mean, mean + 0.02 * generator.standard_normal(200)
    table[0, : len(apart)], golden[: len(apart)] = apart, apart
    found = analysed(table, golden)
    assert "L3D005" in {check.code for check in found.checks}
    assert found.collapse is None


def test_without_a_table_the_golden_runs_alone_have_two_parts():
    generator = np.random.default_rng(7)
    golden = np.r_[np.full(3, 0.3), 0.8 + 0.02 * generator.standard_normal(27)]
    found = analysed(np.empty((0, 0)), golden, level=0.9)
    assert found.collapse.share_interval() == wilson_interval(3, 30, level=0.9)
    assert found.metrics()["collapsed_share/golden"] == 0.1


def test_a_factor_decides_which_runs_collapse_only_where_its_interval_says_so():
    generator = np.random.default_rng(8)
    table, golden = drawn_scores(generator, rows=5, columns=3), 0.8 + 0.02 * generator.standard_normal(30)
    table[0, 0] = 0.3
    found = analysed(table, golden)
    cause = found.collapse.causes["f"]
    assert cause.importance_corrected > 0
    assert not cause.importance_corrected_ci_low > 0
    _, which, _ = answers(Shown(found))
    assert any("which ones is not established, perhaps f" in sentence for sentence in which.sentences)


def test_radial_runs_that_did_not_collapse_may_be_few():
    """Sets of fewer than three scores have no variance without each row; warnings are errors."""
    sets = [pd.DataFrame({"phase": "base", "accuracy": [0.8, 0.3, 0.3]})]
    sets += [pd.DataFrame({"phase": "swap", "factor": name, "accuracy": [0.81, 0.82, 0.3]}) for name in "abcd"]
    frame = pd.concat([each.assign(row=range(3)) for each in sets])
    found = analyse(frame, Planned(classes=2, rows=3, factors=list("abcd")), metric="accuracy")
    assert found.collapse is not None
    assert np.isnan(found.collapse.rest["a"].importance_corrected_ci_low)


def test_constant_scores_say_why_answers_could_not_be_read():
    frame = cells(np.zeros((4, 3)), np.zeros(6))
    unread = frame.assign(unparsed_cut_share=0.25, unparsed_thought_share=[0.9, *[None] * 8, *[0.9] * 9])
    for found, expected in ((frame, False), (unread, True)):
        messages = [check.message for check in analyse(found, metric="accuracy").checks if check.code == "L3D004"]
        assert len(messages) == 2
        assert all(("50.0 % end inside a thought" in message) == expected for message in messages)
        assert all((message.find("thought") < message.find("25.0 % are cut")) == expected for message in messages)
