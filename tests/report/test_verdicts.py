"""What a verdict advises: runs that would tell a score from 0 are more than those there are."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d.analysis.importance.importance import importance
from mlflow_l3d.analysis.importance.replicates import replicate_checks
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.analyse import Planned, analyse
from mlflow_l3d.report.investigation.verdicts import Shown
from mlflow_l3d.report.investigation.words import answers


def sentence(seed):
    generator = np.random.default_rng(seed)
    rows, columns = int(generator.integers(3, 30)), int(generator.integers(3, 12))
    of_rows, of_columns, rest = 0.03 * np.sqrt(generator.dirichlet((1, 1, 1)))
    table = 0.7 + of_rows * generator.standard_normal((rows, 1)) + of_columns * generator.standard_normal(columns)
    table += rest * generator.standard_normal((rows, columns))
    record = importance(table, 0.7 + 0.03 * generator.standard_normal(60), factor="f")
    analysis = Analysis("f1_macro", {"f": record}, consistencies={}, checks=(), cells_failed=0, design="crossed")
    return rows, columns, record, Shown(analysis).verdict(record).sentence


def test_runs_that_would_tell_are_more_than_those_there_are():
    advised = 0
    for seed in range(40):
        rows, columns, record, text = sentence(seed)
        found = re.search(r"about (\d+) rows of (\d+) columns would tell", text)
        assert ("not certain" in text) == (
            record.importance_corrected_ci_low <= 0 <= record.importance_corrected_ci_high
        )
        if found:
            advised += 1
            assert int(found[1]) > rows or int(found[2]) > columns
    assert advised > 10


@pytest.mark.parametrize("changed", [False, True])
def test_the_same_cell_again_is_luck_of_the_machine_or_none(changed):
    table = np.repeat([[0.7], [0.72], [0.69]], 4, axis=1)
    table[0, 0] += 0.01 * changed
    record = importance(table, 0.7 + 0.01 * np.arange(6), factor="replicate")
    checks = tuple(replicate_checks(record, None, deterministic=True))
    analysis = Analysis(
        "f1_macro", {"replicate": record}, consistencies={}, checks=checks, cells_failed=0, design="crossed"
    )
    found = Shown(analysis).verdict(record)
    same = "every cell that was computed again had the same result."
    assert (found.status == "not important" and found.sentence.endswith(same)) != changed


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


def test_claims_of_all_factors_are_those_of_the_intervals_that_a_rule_looked_at():
    analysis = looked_at()
    together = answers(Shown(analysis))[1].sentences[-2]
    assert "an error of 5 % for all looks of the rule and all 3 factors" in together
    assert "important: strong; not important: weak." in together
    for name, record in analysis.importances.items():
        excludes = record.importance_corrected_ci_low > 0 or record.importance_corrected_ci_high < 0
        assert excludes == (analysis.p_holm[name] <= 0.05), name


def test_all_intervals_of_a_report_have_the_level_that_it_names():
    analysis = looked_at(collapse=True)
    (level,) = {record.level for record in analysis.importances.values()}
    assert level == pytest.approx(1 - 0.05 * 6 / np.pi**2 / 4 / 3)  # second look, three factors
    assert analysis.collapse is not None
    assert {record.level for record in analysis.collapse.rest.values()} == {analysis.collapse.level} == {level}
    record = analysis.importances["weak"]
    alone = importance(record.table, record.golden, level=level)
    assert (record.golden_std_ci_low, record.golden_std_ci_high) == (alone.golden_std_ci_low, alone.golden_std_ci_high)
