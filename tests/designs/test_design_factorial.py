"""Two-level fractional factorial design: orthogonal fractions, known truths, and the coverage of the interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.factorial import BASE, FactorialDesign, signs
from mlflow_l3d.errors import ParameterError

ALL = ("label_selection", "data_split", "data_order", "model_initialisation", "sample_choice")


def build(factors: tuple[str, ...] = ALL, blocks: int = 3) -> FactorialDesign:
    return FactorialDesign(factors, ALL, 10, blocks, 0, 0, "context")


def drawn(generator: np.random.Generator, shares: list[float], blocks: int, interaction: float = 0.0) -> Tables:
    """Scores of an additive truth, and of an interaction of the first two factors."""
    levels = signs(len(shares)).astype(int)
    effects = generator.standard_normal((blocks, len(shares), 2)) * np.sqrt(shares)[:, None]
    base = sum(effects[:, at][:, levels[:, at]] for at in range(len(shares)))
    pairs = math.sqrt(interaction) * generator.standard_normal((blocks, 4))
    base = base + pairs[:, 2 * levels[:, 0] + levels[:, 1]]
    tables = {str(at): np.tile(levels[:, at].astype(float), (blocks, 1)) for at in range(len(shares))}
    return Tables(tables, base=base)


@pytest.mark.parametrize(("factors", "runs"), [(1, 4), (3, 4), (4, 8), (5, 8), (7, 8), (8, 16), (20, 32)])
def test_fractions_are_balanced_and_orthogonal(factors: int, runs: int) -> None:
    columns = 2 * signs(factors) - 1
    assert columns.shape == (runs, factors)
    assert (columns.sum(axis=0) == 0).all()
    assert (columns.T @ columns == runs * np.eye(factors)).all()


def test_blocks_by_hand() -> None:
    design = build(("data_order+sample_choice", "data_split"), blocks=2)
    cells = list(design.cells())
    assert [cell.name for cell in cells[:2]] == ["block 0 column 0", "block 0 column 1"]
    assert len(cells) == len(design) == 8
    assert all(cell.configurations["label_selection"] == BASE + 2 * int(cell.row or 0) for cell in cells)
    assert all(cell.configurations["data_order"] == cell.configurations["sample_choice"] for cell in cells)
    assert [cell.configurations["data_order"] - BASE for cell in cells[4:]] == [2, 3, 2, 3]
    assert len(build(blocks=7)) == 7 * 8
    assert design_named("factorial") is FactorialDesign


def test_a_factor_cannot_stand_in_two_columns() -> None:
    with pytest.raises(ParameterError, match="names a factor twice"):
        build(("data_order", "data_split+data_order"))


def test_known_truth_without_bias() -> None:
    """Half of an interaction counts for each of its factors, and for the one that it is aliased with."""
    generator = np.random.default_rng(1)
    shares, sums = [0.4, 0.2, 0.1, 0.1], np.zeros(4)
    for _ in range(300):
        scores = drawn(generator, shares, 40, interaction=0.2)
        found = [FactorialDesign.estimate(scores, str(at)) for at in range(4)]
        sums += [each.components.contributed for each in found if each is not None]
    assert sums / 300 == pytest.approx([0.5, 0.3, 0.1, 0.2], abs=0.02)


@pytest.mark.parametrize("shares", [[0.5, 0.3, 0.1, 0.05, 0.05], [0.8, 0.1, 0.05, 0.03, 0.02]])
def test_coverage_of_the_interval(shares: list[float]) -> None:
    generator = np.random.default_rng(2)
    truth = [math.sqrt(share) - math.sqrt(1 - share) for share in shares]
    inside = np.zeros(5)
    for _ in range(200):
        scores = drawn(generator, shares, 40)
        for at, value in enumerate(truth):
            estimate = FactorialDesign.estimate(scores, str(at))
            assert estimate is not None
            low, high = estimate.interval()
            inside[at] += low <= value <= high
    assert 0.9 <= inside.mean() / 200 <= 0.99
    assert inside.min() / 200 >= 0.88


def test_records_hold_what_was_estimated() -> None:
    scores = drawn(np.random.default_rng(3), [0.7, 0.2, 0.1], 30)
    found = FactorialDesign.importances(scores)
    assert [record.importance_corrected for record in found.values()] == sorted(
        (record.importance_corrected for record in found.values()), reverse=True
    )
    for name, record in found.items():
        assert record.golden_std**2 == pytest.approx(record.contributed_std**2 + record.mitigated_std**2)
        assert record.table.shape == scores.base.shape
        compared = FactorialDesign.compared({name: record.table}, name)
        assert compared is not None
        assert compared.importance == pytest.approx(record.importance_corrected)
    scores.base[3, 1] = np.nan
    assert FactorialDesign.importances(scores)["0"].rows_used == 29
    assert math.isnan(FactorialDesign.importances(FactorialDesign.first(scores, 1, 30))["0"].importance)
