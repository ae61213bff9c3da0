"""What mypy must accept and refuse at the door of the package; it is checked with the package, and never run.

An ignored error that does not occur is an error itself.
"""

import mlflow_l3d

mlflow_l3d.investigate("reviews.csv", factor=["data_order", "label_selection"], golden_runs=30, deterministic=False)
mlflow_l3d.investigate(golden_runs="pooled", workers=None, cell_timeout=2.5, hyperparameters={"epochs": 3})
mlflow_l3d.seeds(seeds=[0, 42], metric="accuracy")
mlflow_l3d.plan_gate(candidate={"model": "bert-base"})
mlflow_l3d.gate(dry_run=True)  # type: ignore[call-arg]
mlflow_l3d.search(space={"epochs": [1, 2]}, coarse_trials=None)
mlflow_l3d.strategies(investigation_runs=4)
mlflow_l3d.plan(half_width=0.2, assurance=0.9)

mlflow_l3d.investigate(factr="data_order")  # type: ignore[call-arg]
mlflow_l3d.investigate(golden_runs="lots")  # type: ignore[arg-type]
mlflow_l3d.investigate(investigation_runs="10")  # type: ignore[arg-type]
mlflow_l3d.investigate(device=3)  # type: ignore[arg-type]
mlflow_l3d.investigate(stop="never")  # type: ignore[arg-type]
mlflow_l3d.gate(bseline="latest")  # type: ignore[call-arg]
mlflow_l3d.seeds(deterministic="no")  # type: ignore[arg-type]
mlflow_l3d.strategies(design="nested")  # type: ignore[call-arg]
