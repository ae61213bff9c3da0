"""A scikit-learn script whose remedies `docs/evidence/simulations.md` verifies: 120 texts (`--task`), three seeds.

mlflow-l3d investigate --golden-runs 150 --investigation-runs 2 --mitigation-runs 2 --design nested --metric accuracy
--hyperparameters environment=L3D_DATA -- python benchmarks/cure_script.py --select {label_selection}
--order {data_order} --init {model_initialisation} --out {output}
"""

import argparse
import csv
import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier


def main() -> None:
    """Train three epochs from drawn weights, and write the predictions of the test questions."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("--select", "--order", "--init"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--task", default="trec", help="file of $L3D_DATA; at most 1,000 of its test texts are predicted"
    )
    options = parser.parse_args()
    table = pd.read_parquet(Path(os.environ["L3D_DATA"]) / f"{options.task}.parquet")
    pool, test = (table[table["split"] == part].reset_index(drop=True) for part in ("train", "test"))
    test = test.sample(min(len(test), 1000), random_state=0).sort_index().reset_index(drop=True)
    chosen = pool.iloc[np.random.default_rng(options.select).choice(len(pool), 120, replace=False)]
    chosen = chosen.iloc[np.random.default_rng(options.order).permutation(len(chosen))]
    vectorizer = HashingVectorizer(n_features=4096, alternate_sign=False)
    model = SGDClassifier(loss="log_loss", shuffle=False, learning_rate="constant", eta0=1.0, alpha=1e-6)
    features = vectorizer.transform(chosen["text"])
    model.partial_fit(features[:1], chosen["label"][:1], classes=np.unique(table["label"]))
    model.coef_[:] = np.random.default_rng(options.init).normal(0, 0.5, model.coef_.shape)
    model.intercept_[:] = 0
    for _ in range(3):
        model.partial_fit(features, chosen["label"])
    with (options.out / "predictions.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["example_id", "label", "prediction"])
        predictions = model.predict(vectorizer.transform(test["text"]))
        writer.writerows(zip(range(len(test)), test["label"], predictions, strict=True))


if __name__ == "__main__":
    main()
