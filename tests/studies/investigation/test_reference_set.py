"""A reference set through a whole study: no run trains on it, consistency uses it, and no score does."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_helpers import Place

import mlflow_l3d
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.comparison.parents import Parent
from mlflow_l3d.studies.comparison.reading import read_runs
from mlflow_l3d.studies.gate.sides import recorded_side
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split
from mlflow_l3d.tracking.earlier.reader import fetch_document, parent_run, read_investigation, read_predictions

pytestmark = pytest.mark.slow

REFERENCE, TESTED = 30, 12
SIZES = {"num_labelled": 20, "test_size": TESTED, "reference_size": REFERENCE, "self_test": "skip"}
RUNS = {"investigation_runs": 3, "mitigation_runs": 3, "golden_runs": 4}
SMALLEST = {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 2}
FRAME = pd.DataFrame({"text": [f"text {k}" for k in range(400)], "label": ["no", "yes"] * 200})
SPLITS: list[Split] = []


def noisy(task: Task, split: Split, seeds: Any, hyperparameters: Any) -> Any:
    """Name the right class of 4 in 5 test examples, and of none of the reference set; which, the seed decides."""
    SPLITS.append(split)
    generator = stream(seeds["data_order"], "noise")
    wrong = (generator.random(len(split.test)) > hyperparameters.get("rate", 0.8)) | np.isin(
        split.test, split.reference
    )
    if not task.form.has_classes:
        return task.labels[split.test] + 100.0 * wrong
    return (task.labels[split.test] + wrong) % 2


def approach(**given: Any) -> FunctionApproach:
    return FunctionApproach(noisy, name="noisy", version="1", factors=("data_order",), **given)


def investigated(place: Place, frame: pd.DataFrame = FRAME, **given: Any) -> Investigation:
    SPLITS.clear()
    usual = {"approach": approach(), "metric": "accuracy", "factor": "data_order", **SIZES, **RUNS}
    return place.investigate(task=frame, **{**usual, **given})


def golden_scores(result: Investigation) -> Any:
    return next(iter(result.analysis.importances.values())).golden


def check_apart(splits: list[Split], size: int = REFERENCE) -> None:
    """Check that all splits keep the same examples apart."""
    assert splits
    for split in splits:
        assert np.array_equal(split.reference, splits[0].reference)
        assert len(split.reference) == size
        used = np.concatenate([split.train, split.validation, split.scored])
        assert not np.isin(split.reference, used).any()


@pytest.mark.parametrize(
    "given",
    [
        {**SMALLEST, "design": "nested", "test_selection": "fixed"},
        {"design": "radial", "factor": "label_selection", "golden_runs": "auto", "investigation_runs": 10},
    ],
    ids=["nested", "radial"],
)
def test_all_cells_of_all_designs_share_it_and_none_trains_on_it(place: Place, given: dict[str, Any]) -> None:
    result = investigated(place, **given)
    check_apart(SPLITS)
    cells = read_investigation(result.run_id, place.client).cells
    tables = dict(read_predictions(place.client, cells, reference=True))
    assert len(tables) == len(SPLITS)
    for run_id, table in tables.items():
        frame = table.to_pandas()
        tested = frame[~frame["reference"]]
        assert (len(tested), len(frame)) == (TESTED, TESTED + REFERENCE)
        score = cells.set_index("run_id").loc[run_id, "accuracy"]
        assert score == pytest.approx((tested["label"] == tested["prediction"]).mean())
        assert (frame["label"] != frame["prediction"])[frame["reference"]].all()
    notes = [note for note in result.about.notes if "reference examples" in note]
    assert notes == ["DataFrame: no run trains on the same 30 reference examples, and each predicts them"]
    assert f"{TESTED} test examples." in result.about.notes[0]


def check_golden_consistency(place: Place, result: Investigation) -> None:
    """Check it against all pairs of golden runs, which share few of 12 test examples of 400."""
    cells = read_investigation(result.run_id, place.client).cells
    read = read_predictions(place.client, cells[cells["phase"].eq("golden")], reference=True)
    tables = [table.to_pandas().set_index("example_id")["prediction"] for _, table in read if table is not None]
    agree, shared = 0, 0
    for one, other in itertools.combinations(tables, 2):
        both = one.index.intersection(other.index)
        assert REFERENCE <= len(both) < REFERENCE + 5
        agree, shared = agree + (one[both] == other[both]).sum(), shared + len(both)
    assert result.analysis.consistencies["golden"].consistency == pytest.approx(agree / shared)


def test_consistency_and_fragile_examples_use_it_and_scores_do_not(place: Place, elsewhere: Place) -> None:
    result = investigated(place, factor="data_order", design="crossed")
    votes = result.analysis.examples
    shared = votes.frame.set_index("example_id").reindex(SPLITS[0].reference)
    assert (shared["runs"] == shared["runs"].max()).all()  # every run predicts it, and is wrong
    assert (shared["share_right"] == 0).all()
    check_apart(SPLITS)
    check_golden_consistency(place, result)
    scores = golden_scores(result)
    assert scores.min() > 0.4

    again = mlflow_l3d.evaluate(result.run_id, log=False)
    assert again.analysis.metrics() == result.analysis.metrics()

    run = parent_run(place.client, result.run_id)
    document = fetch_document(place.client, result.run_id, "investigation.json")
    with elsewhere.entered():
        runs = read_runs(place.client, Parent(run, document), named("accuracy"))
    answers = runs.predictions
    assert len(answers.label) == RUNS["golden_runs"] * TESTED
    right = np.bincount(answers.run, answers.label == answers.prediction) / TESTED
    np.testing.assert_allclose(right, scores)

    with elsewhere.entered():
        side = recorded_side(place.client, "baseline", result.run_id)
        tables = [*side.predictions(place.client, RUNS["golden_runs"])]
    assert [len(table) for table in tables if table is not None] == [TESTED] * RUNS["golden_runs"]
    # It refuses predictions from which its metric does not follow.
    ablation = mlflow_l3d.ablation(result.run_id, rows=[3], columns=[3], test_sizes=[10], repeats=2)
    assert {*ablation.frame["test_examples"]} >= {10}


def test_another_size_trains_again_and_the_same_does_not(place: Place) -> None:
    trained = []
    for size in (30, 30, 20):
        investigated(place, reference_size=size, design="crossed", **SMALLEST)
        trained.append(len(SPLITS))
    check_apart(SPLITS, 20)
    assert trained == [6, 0, 6]


def test_numbers(place: Place) -> None:
    frame = FRAME.assign(label=np.linspace(0, 1, len(FRAME)))
    given = {"approach": approach(task_kinds=("regression",)), "metric": "mae", "task_kind": "regression"}
    result = investigated(place, frame, design="crossed", **SMALLEST, **given)
    check_apart(SPLITS)
    # One in five is 100 off; each of the reference set would be.
    assert golden_scores(result).max() < 70


def test_seeds(place: Place) -> None:
    given = {**SIZES, "approach": approach(), "seeds": 4, "executor": "inline", "task_kind": "classification"}
    SPLITS.clear()
    study = mlflow_l3d.seeds(FRAME, **given)
    again = mlflow_l3d.evaluate(study.run_id, log=False)
    check_apart(SPLITS)
    assert study.study.scores["accuracy"].min() > 0.4
    assert len(study.study.examples.frame) == TESTED + REFERENCE
    assert again.studies[0].metrics() == study.study.metrics()
    bare = mlflow_l3d.seeds_study(
        pd.DataFrame({"seed": [1, 2]}),
        pd.DataFrame(
            {
                "seed": [1, 1, 2, 2],
                "example_id": [1, 2, 1, 2],
                "label": 0,
                "prediction": [0, 1, 0, 0],
                "reference": [False, True] * 2,
            }
        ),
    )
    assert bare.scores["accuracy"].tolist() == [1.0, 1.0]
    assert bare.pairs["consistency"].mean == 0.5


def test_a_search_is_scored_without_it(place: Place) -> None:
    stages = {"coarse_trials": 2, "fine_trials": 2, "search_seeds": 1, "held_out_runs": 2, "space": "rate=0.8..1"}
    searched = approach(hyperparameters={"rate": Hyperparameter(0.2, "share of right answers", 0.0, 1.0)})
    given = {name: value for name, value in SIZES.items() if name != "self_test"}
    SPLITS.clear()
    mlflow_l3d.search(FRAME, approach=searched, executor="inline", metric="accuracy", **given, **stages)
    tried, held_out = ([split for split in SPLITS if bool(len(split.reference)) is wanted] for wanted in (False, True))
    check_apart(held_out)
    assert {len(split.test) for split in tried} == {4}
    assert not any(np.isin(np.concatenate([each.train, each.test]), held_out[0].reference).any() for each in tried)


def test_scores_of_classes_are_stored_unless_that_is_refused(place: Place) -> None:
    small = {**SMALLEST, "num_labelled": 20, "test_size": 20, "design": "crossed"}
    for store, columns, given in ((False, 3, {"root_seed": 1}), (True, 3, {"root_seed": 1}), (True, 5, {})):
        result = place.investigate(store_scores=store, **small, **given)
        cells = read_investigation(result.run_id, place.client).cells
        widths = {table.num_columns for _, table in read_predictions(place.client, cells, scores=True)}
        assert widths == {columns}  # the second takes what the first has trained


def test_an_approach_with_data_or_scores_of_its_own_has_none(place: Place) -> None:
    alone = FunctionApproach(lambda *_: 0.5, name="own", version="1", factors=("data_order",), metrics=("s",))
    with pytest.raises(mlflow_l3d.ParameterError, match="reference_size=30: has no effect: approach=own has data of"):
        place.investigate(approach=alone, metric="s", reference_size=30)
    scored = FunctionApproach(lambda *_: {"accuracy": 0.5}, name="scored", version="1", factors=("data_order",))
    with pytest.raises(mlflow_l3d.L3DError, match="no predictions, without which a reference set is of no use"):
        investigated(place, approach=scored, self_test="run")
