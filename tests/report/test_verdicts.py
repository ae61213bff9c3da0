"""What a verdict advises: runs that would tell a score from 0 are more than those there are."""

from __future__ import annotations

import re

import numpy as np

from mlflow_l3d.analysis.importance.importance import importance
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.report.investigation.verdicts import Shown


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
        assert ("not certain" in text) == (record.importance_ci_low <= 0 <= record.importance_ci_high)
        if found:
            advised += 1
            assert int(found[1]) > rows or int(found[2]) > columns
    assert advised > 10
