"""Columns that are all levels there are: what a factor contributes, and how sure that is."""

from itertools import product

import numpy as np
import pytest

from mlflow_l3d.analysis.importance.estimate import importance_of_variances
from mlflow_l3d.analysis.importance.estimators import LEVELS
from mlflow_l3d.analysis.importance.estimators.levels import levels_components, levels_estimate, levels_without_each

POPULATION = np.array([[0.1, 0.5, 0.3], [0.9, 0.2, 0.4], [0.6, 0.6, 0.7], [0.0, 0.3, 0.8]])
"""Scores of the four configurations that all other factors have, each as likely, at the three levels that there are."""


def test_estimates_have_no_bias() -> None:
    """The mean over all samples of three rows is the truth, to the last digit."""
    found = [levels_components(POPULATION[list(rows)]) for rows in product(range(4), repeat=3)]
    numbers = np.array([(one.contributed, one.mitigated, one.total) for one in found if one is not None])
    assert len(numbers) == 4**3
    wanted = (POPULATION.var(axis=1).mean(), POPULATION.mean(axis=1).var(), POPULATION.var())
    np.testing.assert_allclose(numbers.mean(axis=0), wanted, rtol=1e-12)
    main = np.mean([one.variances().main for one in found if one is not None])
    assert main == pytest.approx(POPULATION.mean(axis=0).var())


def test_parts_of_a_record() -> None:
    squares = levels_components(POPULATION)
    assert squares is not None
    record = squares.variances()
    assert record.main + record.interaction == pytest.approx(record.contributed)
    assert record.contributed == pytest.approx(POPULATION.var(axis=1).mean())
    assert record.mitigated == pytest.approx(POPULATION.mean(axis=1).var(ddof=1))
    assert record.total == pytest.approx(squares.total)


def test_leaving_a_row_out_is_the_table_without_it() -> None:
    table = np.random.default_rng(0).normal(size=(6, 4))
    found = levels_without_each(table)
    for row in range(6):
        left = levels_components(np.delete(table, row, axis=0))
        assert left is not None
        assert (found[0][row], found[1][row]) == pytest.approx((left.contributed, left.mitigated))


def test_a_row_that_lacks_a_level_takes_no_part() -> None:
    gap = np.vstack([POPULATION, [0.5, np.nan, 0.1]])
    whole, without = levels_estimate(POPULATION), levels_estimate(gap)
    assert whole is not None
    assert without is not None
    assert without.interval() == whole.interval()


@pytest.mark.parametrize("rows", [[[0.1, 0.2]] * 4, [[0.1, 0.1], [0.3, 0.3], [0.2, 0.2]], [[0.1, 0.2], [0.3, 0.1]]])
def test_no_interval_where_rows_or_levels_do_not_differ_or_are_two(rows: list[list[float]]) -> None:
    found = levels_estimate(np.array(rows))
    assert found is not None
    assert np.isnan(found.interval()).all()
    assert levels_estimate(np.array(rows)[:1]) is None


def test_more_levels_of_the_same_kind_change_nothing() -> None:
    """A list that names each level twice is the same list: drawn columns would say otherwise."""
    once, twice = levels_estimate(POPULATION), levels_estimate(np.hstack([POPULATION, POPULATION]))
    assert once is not None
    assert twice is not None
    assert twice.interval() == pytest.approx(once.interval())
    crossed = [LEVELS.components(table) for table in (POPULATION, np.hstack([POPULATION] * 2))]
    assert crossed[0] is not None
    assert crossed[1] is not None
    assert crossed[0].total == pytest.approx(crossed[1].total)


@pytest.mark.parametrize(
    ("rows", "levels", "parts"), [(6, 4, (0.5, 0.5, 0.0)), (20, 2, (0.1, 0.1, 0.8)), (20, 6, (0.9, 0.1, 0.0))]
)
def test_intervals_hold_the_truth(rows: int, levels: int, parts: tuple[float, float, float]) -> None:
    generator, tables = np.random.default_rng([rows, levels]), 400
    others, main, both = parts
    effects = np.linspace(-1, 1, levels)
    effects *= np.sqrt(main) / effects.std()
    truth = importance_of_variances(main + (1 - 1 / levels) * both, others + both / levels)
    held = 0
    for _ in range(tables):
        table = effects + np.sqrt(others) * generator.normal(size=(rows, 1))
        found = levels_estimate(table + np.sqrt(both) * generator.normal(size=(rows, levels)))
        assert found is not None
        low, high = found.interval()
        held += low <= truth <= high
    assert 0.92 <= held / tables <= 0.98
