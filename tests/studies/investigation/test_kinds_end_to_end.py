"""Investigations whose answers are numbers, or one of several choices: every study reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient
from run_helpers import Place, sqlite_place

from mlflow_l3d import seeds
from mlflow_l3d.analysis.consistency.choice import scoring
from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.metrics.known import scores_of
from mlflow_l3d.studies.ablation.run import ablation
from mlflow_l3d.studies.comparison.run import compare
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.studies.investigation.run import investigate
from mlflow_l3d.tasks.base import Task, TaskKind
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.settings import Split
from mlflow_l3d.tracking.earlier.reader import read_predictions

pytestmark = pytest.mark.slow

LABELS = np.random.default_rng(0).normal(20, 5, 200)
TEXTS = [[f"text {k}" for k in range(200)]]
FACTORS = ("data_order", "model_initialisation")
SIZES = {"investigation_runs": 3, "mitigation_runs": 3, "golden_runs": 4, "num_labelled": 40, "test_size": 30}


def numbers(task: Task, split: Split, seeds: Mapping[str, int], given: Mapping[str, Any]) -> np.ndarray:
    shift, noise = (np.random.default_rng(seeds[name]) for name in FACTORS)
    return task.labels[split.test] + shift.normal() + noise.normal(size=len(split.test))


def worse_numbers(task: Task, split: Split, seeds: Mapping[str, int], given: Mapping[str, Any]) -> np.ndarray:
    return numbers(task, split, seeds, given) + 10


def choices(task: Task, split: Split, seeds: Mapping[str, int], given: Mapping[str, Any]) -> np.ndarray:
    wrong = np.random.default_rng(seeds["data_order"]).random(len(split.test)) < 0.2
    return np.where(wrong, 1 - task.labels[split.test], task.labels[split.test])


def investigated(place: Place, kind: TaskKind, function: Any = numbers, **given: Any) -> Investigation:
    more = {"choices": TEXTS * 2} if kind == "multiple_choice" else {}
    labels = LABELS if kind == "regression" else np.arange(200) % 2
    approach = FunctionApproach(function, name=function.__name__, version="1", factors=FACTORS, task_kinds=[kind])
    task = make_task("mine", TEXTS, labels, kind=kind, **more)
    with place.entered():
        return investigate(approach=approach, task=task, executor="inline", self_test="skip", **{**SIZES, **given})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> Place:
    return sqlite_place(migrated_store, tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="module")
def scored(place: Place) -> Investigation:
    return investigated(place, "regression", factor=",".join(FACTORS), metric="rmse")


def test_numbers_have_the_importance_of_the_scores(scored: Investigation, place: Place) -> None:
    cells = scored.cells[scored.cells["factor"] == "data_order"]
    table = cells.pivot(index="row", columns="column", values="rmse").to_numpy()
    golden = scored.cells.loc[scored.cells["phase"] == "golden", "rmse"].to_numpy()
    assert np.allclose(np.square(golden), scored.cells.loc[scored.cells["phase"] == "golden", "mse"])
    found = scored.analysis.importances["data_order"]
    assert found.importance == pytest.approx(importance(table, golden, factor="data_order").importance)
    # A shift moves the error, and neither the order of predictions nor what Pearson's correlation sees.
    of_runs = scored.analysis.regression
    assert of_runs["data_order"]["consistency_pearson"] == pytest.approx(1)
    assert of_runs["data_order"]["consistency_ccc"] < 1
    text = scored.summary()
    assert f"gave {golden.min():.3f} to {golden.max():.3f} (rmse)" in " ".join(text.split())
    assert "points" not in text


def test_other_studies_read_them(scored: Investigation, place: Place) -> None:
    with place.entered():
        again = evaluate(scored.run_id, metric="mae", log=False)
        fewer = ablation(scored.run_id, test_sizes="10", rows="3", columns="3", repeats=2)
    assert again.analysis.metric.name == "mae"
    kept = fewer.frame[fewer.frame["factor"] == "golden_model"].set_index("test_examples")["score_mean"]
    assert np.unique(kept.loc[10]).size > 1  # which examples there are moves the error
    assert kept[kept.index.isna()].to_numpy() == pytest.approx(scored.cells.query("phase == 'golden'")["rmse"].mean())
    assert "points" not in fewer.summary()
    other = investigated(place, "regression", factor="data_order", metric="rmse", function=worse_numbers)
    with place.entered():
        text = " ".join(compare(f"{other.run_id},{scored.run_id}").summary().split())
    # The mean absolute error is 10 larger: less is better, and nothing is in points.
    assert "numbers is better than worse_numbers by" in text
    assert "points" not in text


def test_choices(place: Place) -> None:
    radial = {"design": "radial", "investigation_runs": 10, "golden_runs": "auto"}
    found = investigated(place, "multiple_choice", choices, factor="data_order", **radial)
    assert found.analysis.metric.name == "accuracy"
    assert found.analysis.consistencies["data_order"].consistency < 1


WORDS = ["red", "green", "blue", "black", "white", "brown", "pink", "grey"]
PEOPLE = [["B-PER", "I-PER", "O", "O"], ["O", "O", "B-LOC", "O"]]
UNCLASSED: dict[TaskKind, list[Any]] = {
    "generation": [f"the {WORDS[k % 8]} {WORDS[k // 8 % 8]} one" for k in range(200)],
    "tagging": [PEOPLE[k % 2] for k in range(200)],
    "ranking": [{WORDS[k % 8]: 2, WORDS[(k + 1) % 8]: 1} for k in range(200)],
}


def texts_of(task: Task, split: Split, seeds: Mapping[str, int], given: Mapping[str, Any]) -> list[Any]:
    """Spoil some answers: which, the order decides, and how, the initialisation."""
    wrong = np.random.default_rng(seeds["data_order"]).random(len(split.test)) < 0.3
    how = int(np.random.default_rng(seeds["model_initialisation"]).integers(8))
    spoilt = {"generation": f"the {WORDS[how]} one", "tagging": ["O"] * 4, "ranking": WORDS[how:] + WORDS[:how]}
    right = [json.loads(label) if label[0] in "[{" else label for label in task.labels[split.test]]
    answers = [list(each) if isinstance(each, dict) else each for each in right]
    return [spoilt[task.kind] if bad else answer for answer, bad in zip(answers, wrong, strict=True)]


@pytest.mark.parametrize(
    ("kind", "metric", "agreement"),
    [
        ("generation", "squad_f1", "squad_f1"),
        ("tagging", "token_accuracy", "token_match"),
        ("ranking", "ndcg_at_10", "ndcg"),
    ],
)
def test_texts_tags_and_rankings(place: Place, kind: TaskKind, metric: str, agreement: str) -> None:
    approach = FunctionApproach(texts_of, name=f"texts_of_{kind}", version="1", factors=FACTORS, task_kinds=[kind])
    task = make_task("mine", [[f"text {k} of four" for k in range(200)]], UNCLASSED[kind], kind=kind)
    own = {"approach": approach, "task": task, "executor": "inline", "self_test": "skip"}
    sizes = {name: SIZES[name] for name in ("num_labelled", "test_size")}
    with place.entered():
        found = investigate(**own, factor="data_order", metric=metric, **SIZES)
        other = investigate(**own, factor="data_order", metric=metric, **{**SIZES, "golden_runs": 5})
        fewer = ablation(found.run_id, test_sizes="10", rows="3", columns="3", repeats=2)
        text = " ".join(compare(f"{found.run_id},{other.run_id}").summary().split())
        over_seeds = seeds(**own, seeds="0,1,2", **sizes)
        cells = found.cells[found.cells["phase"] == "golden"]
        read = [table.to_pandas() for _, table in read_predictions(MlflowClient(), cells)]
    assert other.reused == 13
    # Scores are those of recorded predictions, and golden runs agree as the scoring function says of every pair.
    assert cells[metric].tolist() == pytest.approx(
        [scores_of([*t["label"]], [*t["prediction"]], kind)[metric] for t in read]
    )
    function, pairs = scoring(agreement), []
    for one, two in combinations([t.set_index("example_id")["prediction"] for t in read], 2):
        for example in one.index.intersection(two.index):
            answers = [each[example] if kind == "generation" else json.loads(each[example]) for each in (one, two)]
            pairs.append(function(*answers))
    assert found.analysis.agreement == agreement
    assert found.analysis.consistencies["golden"].consistency == pytest.approx(np.mean(pairs))
    assert fewer.frame["score_mean"].notna().all()
    assert "The luck of the test examples is not counted" not in text
    assert over_seeds.study.metric.name == task.metric
    assert "fleiss_kappa" not in over_seeds.study.together
