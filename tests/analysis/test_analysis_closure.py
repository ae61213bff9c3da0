"""The closure check: rare alarms whatever the scores look like, and an alarm where there is reason for one."""

import numpy as np
import pytest

from mlflow_l3d.analysis.importance.checks.tables import CLOSURE_LEVEL, closure
from mlflow_l3d.analysis.importance.estimators import CROSSED, LEVELS, NESTED
from mlflow_l3d.analysis.importance.estimators.nested import nested_components
from mlflow_l3d.analysis.intervals import jackknife_variance


def drawn(generator, effects, rows, columns, model):
    own = (1, columns) if model is CROSSED else (rows, columns)
    table = 0.7 * effects((rows, 1)) + 0.5 * effects(own) + 0.5 * effects((rows, columns))
    return table, sum(share * effects((rows * columns,)) for share in (0.7, 0.5, 0.5))


def alarms(kind, model, *, times=1.0, tables=120):
    generator, fired, chance = np.random.default_rng(0), 0, None
    effects = generator.standard_normal
    if kind == "exponential":
        effects = lambda shape: generator.standard_exponential(shape) - 1  # noqa: E731
    for _ in range(tables):
        table, golden = drawn(generator, effects, 20, 10, model)
        if kind == "collapsed":  # whole rows of the table, single golden runs
            chance = -5.0
            table = np.where(generator.random((20, 1)) < 0.05, -8.0, table)
            golden = np.where(generator.random(200) < 0.05, -8.0, golden)
        fired += closure(table, np.where(golden > -5, times * golden, golden), model, chance=chance).p < CLOSURE_LEVEL
    return fired / tables


@pytest.mark.slow
@pytest.mark.parametrize("model", [CROSSED, NESTED], ids=["crossed", "nested"])
@pytest.mark.parametrize("kind", ["normal", "exponential", "collapsed"])
def test_false_alarms_are_rare_and_twice_the_spread_is_seen(kind, model):
    """An F test of the variances fires in 7 % of exponential tables, and in a quarter of those with collapsed runs."""
    assert alarms(kind, model) <= 0.02
    assert alarms(kind, model, times=2.0, tables=40) >= (0.2 if kind == "exponential" else 0.6)


def test_errors_by_leaving_out():
    generator = np.random.default_rng(1)
    table, golden = drawn(generator, generator.standard_normal, 9, 6, NESTED)
    found = closure(table, golden, NESTED)
    assert found.golden_std == pytest.approx(golden.std(ddof=1))
    assert found.table_std**2 == pytest.approx(nested_components(table).total)

    def log_total(rows):
        return np.log(nested_components(rows).total)

    table_error = jackknife_variance(np.array([log_total(np.delete(table, row, 0)) for row in range(9)]))
    golden_error = jackknife_variance(np.array([np.log(np.delete(golden, at).var(ddof=1)) for at in range(54)]))
    of_the_tail = golden_error * 53 / nested_components(table).total_degrees
    table_error, table_degrees = max((table_error, 8), (of_the_tail, 53))
    from scipy import stats

    error = table_error + golden_error
    degrees = error**2 / (table_error**2 / table_degrees + golden_error**2 / 53)
    z = abs(2 * np.log(found.table_std / found.golden_std)) / np.sqrt(error)
    assert found.p == pytest.approx(2 * stats.t.sf(z, degrees))


def test_too_little_to_compare():
    generator = np.random.default_rng(2)
    table, golden = drawn(generator, generator.standard_normal, 6, 4, CROSSED)
    assert closure(table, golden[:2], CROSSED) is None
    assert closure(table[:2], golden, CROSSED) is None
    assert closure(table[:, :2], golden, CROSSED) is None
    assert closure(table[:, :2], golden, NESTED) is not None
    assert closure(np.full((6, 4), 0.5), golden, CROSSED) is None
    assert closure(table, np.full(9, 0.3), CROSSED) is None
    assert closure(table, golden, CROSSED, chance=1e9) is None
    table[2:, 0] = np.nan  # two complete rows
    assert closure(table, golden, LEVELS) is None
