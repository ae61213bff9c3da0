"""Ablation: fewer rows, columns and examples of hand-made investigations."""

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.designs.crossed import CrossedDesign
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.ablation.numbers import ABLATION_COLUMNS, Setting, ablate_tables

ROWS, COLUMNS, GOLDEN, EXAMPLES = 6, 4, 24, 10


def investigation(seed=0):
    """Predictions of every cell, and the accuracies that follow from them."""
    generator = np.random.default_rng(seed)
    labels = np.arange(EXAMPLES) % 2
    parts, scores = [], []
    for cell in range(ROWS * COLUMNS + GOLDEN):
        right = generator.random(EXAMPLES) < generator.uniform(0.4, 1)
        predictions = np.where(right, labels, 1 - labels)
        ids = [f"x{number}" for number in range(EXAMPLES)]
        parts.append(pd.DataFrame({"cell": cell, "example_id": ids, "label": labels, "prediction": predictions}))
        scores.append(right.mean())
    table = np.reshape(scores[: ROWS * COLUMNS], (ROWS, COLUMNS))
    return table, np.array(scores[ROWS * COLUMNS :]), pd.concat(parts, ignore_index=True)


def ablation(table, golden, predictions=None, *, test_sizes=(None,), metric="accuracy", **options):
    """One factor `x`, from plain arrays and a frame of predictions."""
    table, golden, answers = np.asarray(table, dtype=float), np.asarray(golden, dtype=float), None
    if predictions is not None:
        answers = predictions.assign(example=pd.factorize(predictions["example_id"], sort=True)[0])

    def tables(scores):
        every = scores.reindex(range(table.size + len(golden))).to_numpy()
        return Tables({"x": every[: table.size].reshape(table.shape)}, every[table.size :])

    design = options.pop("design", CrossedDesign)
    rows, columns = options.pop("rows", [table.shape[0]]), options.pop("columns", [table.shape[1]])
    settings = [Setting(m, n, size) for size in test_sizes for m in rows for n in columns]
    how = {"answers": answers, "tables": tables, "metric": named(metric), **options}
    found = ablate_tables(Tables({"x": table}, golden), settings, design.importances, **how)
    return found[list(ABLATION_COLUMNS)]


def test_rows_and_columns_by_hand():
    """Scores tell their coordinates, so what was chosen can be read from the means."""
    table = np.arange(6.0)[:, None] * 10 + np.arange(4.0)
    found = ablation(table, np.arange(24.0), rows=[2, 6], columns=[2, 4], seed=3)
    lines = found[found["factor"] == "x"].set_index(["mitigation_runs", "investigation_runs"])
    assert lines["golden_runs"].to_dict() == {(2, 2): 4, (2, 4): 8, (6, 2): 12, (6, 4): 24}
    assert lines["share_of_baseline"].to_dict() == pytest.approx({(2, 2): 1 / 6, (2, 4): 1 / 3, (6, 2): 0.5, (6, 4): 1})
    # Rows are 10 apart and columns 1: two of each give stds that are a multiple of 5 and of 0.5.
    assert lines.loc[(2, 4), "mitigated_std"] % 5 == pytest.approx(0)
    assert lines.loc[(6, 2), "contributed_std"] % 0.5 == pytest.approx(0)
    assert lines.loc[(2, 2), "mitigated_std"] == lines.loc[(2, 4), "mitigated_std"]
    assert lines.loc[(6, 4), "contributed_std"] == pytest.approx(np.arange(4).std())


def test_order_of_the_predictions_does_not_matter():
    table, golden, predictions = investigation(2)
    options = {"test_sizes": [3, 7], "rows": [3], "seed": 0, "repeats": 2}
    orders = predictions, predictions.sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(*(ablation(table, golden, each, **options) for each in orders))


def test_seeds_and_repeats():
    table, golden, _ = investigation(3)
    first, again, other = (ablation(table, golden, rows=[3], seed=seed, repeats=3) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first, again)
    assert not first["score_mean"].equals(other["score_mean"])
    assert first["repeat"].tolist() == [0, 0, 1, 1, 2, 2]
    assert first["score_mean"].nunique() > 2


def test_cells_with_test_sets_of_their_own():
    table, golden, predictions = investigation(4)
    own = predictions.assign(example_id=predictions["cell"].astype(str) + predictions["example_id"])
    found = ablation(table, golden, own, test_sizes=[5], seed=0, metric="f1_macro")
    assert np.isfinite(found.loc[found["factor"] == "x", "importance"]).all()


def test_missing_cells_and_small_tables_give_nan():
    table, golden, predictions = investigation(5)
    table[2, 1] = np.nan
    without = predictions[predictions["cell"] != 2 * COLUMNS + 1]
    found = ablation(table, golden, without, test_sizes=[None, 5], seed=0)
    assert np.isfinite(found.loc[found["factor"] == "x", "importance"]).all()
    constant = ablation(np.full((4, 3), 0.5), np.full(4, 0.5), rows=[2, 4], seed=0)
    assert constant["importance"].isna().all()
    single = ablation([[0.1, 0.2, 0.4]], [], seed=0)
    assert single["importance"].isna().all()
