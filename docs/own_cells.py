"""Cells that other code logs: five rows and four columns of one factor, and ten golden runs."""

import tempfile
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd

from mlflow_l3d import evaluate

COLUMNS, ROWS, GOLDEN = 4, 5, 10  # small, so that it is done in seconds

data = np.random.default_rng(0)
labels = data.integers(0, 2, 600)
features = np.column_stack([data.normal(size=(600, 5)) + 0.7 * labels[:, None], np.ones(600)])
test = np.arange(400, 600)


def train(seeds):
    """Train a perceptron on 20 labelled examples, one pass; return its predictions for the test examples."""
    chosen = np.random.default_rng(seeds["label_selection"]).choice(400, 20, replace=False)
    weights = np.zeros(6)
    for example in np.random.default_rng(seeds["data_order"]).permutation(chosen):
        predicted = int(features[example] @ weights > 0)
        weights += (labels[example] - predicted) * features[example]
    return (features[test] @ weights > 0).astype(int)


def log_cell(seeds, **tags):
    with mlflow.start_run(nested=True):
        mlflow.set_tags(
            {"l3d.role": "cell", "l3d.schema": "1"} | {f"l3d.{name}": value for name, value in tags.items()}
        )
        mlflow.log_params({f"seed.{factor}": seed for factor, seed in seeds.items()})
        predictions = train(seeds)
        mlflow.log_metric("accuracy", float((predictions == labels[test]).mean()))
        table = pd.DataFrame({"example_id": test, "label": labels[test], "prediction": predictions})
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "predictions.parquet"
            table.to_parquet(file, index=False)
            mlflow.log_artifact(str(file))


with mlflow.start_run(run_name="perceptron: data order") as parent:
    for row in range(ROWS):
        for column in range(COLUMNS):
            # The investigated factor has the same seeds in every row; the others change with the row.
            seeds = {"data_order": column, "label_selection": 1000 + row}
            log_cell(seeds, phase="investigation", factor="data_order", row=row, column=column)
    for index in range(GOLDEN):
        # In a golden run every factor has a seed that nobody else has.
        log_cell({"data_order": 2000 + index, "label_selection": 2000 + index}, phase="golden", index=index)

result = evaluate(parent.info.run_id, metric="accuracy")
print(result.analysis.to_frame().T)
