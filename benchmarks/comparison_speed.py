"""How long two parents of 1,000 golden runs x 1,000 test examples take to compare, and to read."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from _common import ENVIRONMENT, machine, table

LABELS = 3


def write_parent(folder: Path, seed: int, runs: int, examples: int) -> str:
    """Log a parent whose artifacts have made-up golden runs; return its run id."""
    import mlflow
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mlflow_l3d.metrics.known import scores_of
    from mlflow_l3d.tracking import names

    random = np.random.default_rng(seed)
    labels = np.random.default_rng(7).integers(0, LABELS, examples)
    hard = np.random.default_rng(8).normal(size=examples) + 0.5 * random.normal(size=examples)
    luck = 0.3 * random.normal(size=runs)
    right = 1 + luck[:, None] + hard + random.normal(size=(runs, examples)) > 0
    guesses = np.where(right, labels, (labels + 1 + random.integers(0, LABELS - 1, right.shape)) % LABELS)
    keys = [f"{seed:04d}{number:028d}" for number in range(runs)]
    number = np.arange(runs)
    cells = pd.DataFrame(
        {
            **{"phase": "golden", "factor": None, "row": pd.NA, "column": pd.NA, "index": number, "run_id": None},
            **{"cell_key": keys, "status": "FINISHED"},
            **pd.DataFrame([scores_of(labels, guess, classes=LABELS) for guess in guesses]).to_dict("list"),
            **{f"seed.{name}": number * 7 + 1 for name in ("data_split", "data_order", "model_initialisation")},
        }
    ).astype({"row": "Int64", "column": "Int64", "index": "Int64"})
    cells.to_parquet(folder / names.CELLS, index=False)
    text = pa.dictionary(pa.int32(), pa.string())
    whole = pa.int64()
    schema = pa.schema(
        [("cell_key", text), ("phase", text), ("example_id", whole), ("label", whole), ("prediction", whole)]
    )
    with pq.ParquetWriter(folder / names.PREDICTIONS, schema, compression="zstd") as writer:
        for key, guess in zip(keys, guesses, strict=True):
            columns = {"cell_key": [key] * examples, "phase": ["golden"] * examples, "example_id": np.arange(examples)}
            writer.write_table(pa.table({**columns, "label": labels, "prediction": guess}, schema=schema))
    with mlflow.start_run(run_name=f"system {seed}") as run:
        mlflow.set_tags({names.ROLE: "investigation", names.STATE: "complete"})
        mlflow.log_params({"approach": f"approach{seed}", "task": "made up", "metric": "f1_macro"})
        mlflow.log_artifacts(str(folder))
    return str(run.info.run_id)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        import mlflow

        from mlflow_l3d.analysis.comparison import compare_systems
        from mlflow_l3d.metrics.known import named
        from mlflow_l3d.studies.comparison.parents import by_task, read_parents
        from mlflow_l3d.studies.comparison.reading import read_runs, systems_of

        mlflow.set_tracking_uri(f"sqlite:///{name}/mlflow.db")
        mlflow.create_experiment("speed", artifact_location=f"file://{name}/artifacts")
        mlflow.set_experiment("speed")
        run_ids = []
        for seed in (1, 2):
            folder = Path(name) / str(seed)
            folder.mkdir()
            run_ids.append(write_parent(folder, seed, options.runs, options.examples))
        client, rows = mlflow.MlflowClient(), []
        for metric in map(named, ("accuracy", "f1_macro")):
            for _ in range(options.repeats):
                start = time.perf_counter()
                parents = next(iter(by_task(read_parents(client, run_ids)).values()))
                read = {name: read_runs(client, parent, metric) for name, parent in parents.items()}
                after_reading = time.perf_counter()
                systems, _ = systems_of(read, metric)
                found = compare_systems({"made up": systems}, metric)
                end = time.perf_counter()
                rows.append([metric.name, f"{after_reading - start:.2f}", f"{end - after_reading:.2f}"])
                assert found.differences[0].shared_examples == options.examples
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
    print(table(["metric", "reading, s", "comparing, s"], rows))
    print(f"\nPeak memory of the process: {peak:.0f} MiB (writing the parents included)")


if __name__ == "__main__":
    main()
