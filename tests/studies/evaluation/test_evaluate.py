"""Scoring without training: data frames, the command line, and deleting."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from refusals import refusal, refuses
from run_helpers import CELLS, Place

import mlflow_l3d
from mlflow_l3d import cli
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import Planned
from mlflow_l3d.designs.analyse import analyse
from mlflow_l3d.errors import L3DError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.metrics.known import score as score_of
from mlflow_l3d.studies.evaluation.finished import delete
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.investigation import scoring
from mlflow_l3d.studies.investigation.evaluate import rows_allowed
from mlflow_l3d.studies.investigation.report.runs import Runs
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.studies.investigation.scoring import check_stored, score
from mlflow_l3d.tracking import names

pytestmark = pytest.mark.slow


def frame() -> pd.DataFrame:
    rows = [
        {"phase": "investigation", "row": row, "column": column, "score": 0.5 + 0.1 * row + 0.03 * column * (row + 1)}
        for row in range(3)
        for column in range(4)
    ]
    golden = [{"phase": "golden", "index": at, "score": score} for at, score in enumerate((0.4, 0.6, 0.9))]
    return pd.DataFrame(rows + golden)


def test_a_frame_of_scores() -> None:
    cells = frame()
    cells["factor"] = np.where(cells["phase"] == "golden", None, "factor")
    table = cells["score"].to_numpy()[:12].reshape(3, 4)
    expected = (table.std(axis=1).mean() - table.mean(axis=1).std()) / np.std([0.4, 0.6, 0.9])
    for given in (cells, cells.sample(frac=1, random_state=3)):
        found = analyse(Planned().select(given), metric="score")
        assert found.metrics()["importance"] == pytest.approx(expected, rel=1e-12)
        assert list(found.importances) == ["factor"]


def test_a_frame_of_several_factors_with_predictions() -> None:
    one = frame().assign(factor="one", answer=range(15))
    one.loc[one["phase"] == "golden", "factor"] = None
    two = one[one["phase"] != "golden"].assign(factor="two", answer=None)
    cells = Planned().select(pd.concat([one, two], ignore_index=True))
    answers = {k: pa.table({"example_id": [1, 2], "label": [0, 1], "prediction": [k % 2, 1]}) for k in range(15)}
    found = score(cells, map(answers.get, cells["answer"]), metric=named("score"), planned=Planned()).analysis
    assert list(found.importances) == ["one", "two"]
    # Of four runs of a row two answer 0 and two answer 1 on the first example: 2 of 6 pairs agree; all on the second.
    assert found.metrics()["consistency/one"] == pytest.approx((2 / 6 + 1) / 2)
    assert "consistency/two" not in found.metrics()


def test_rows_that_the_recorded_strategies_allow() -> None:
    cells = frame().assign(factor="a", **{f"seed.{name}": 0 for name in "abc"})
    plan = Planned(mitigated=True)
    assert rows_allowed(plan, "b:0,fewer=c:0+1+2", cells) == 3
    assert rows_allowed(plan, "b:0+1,c:0+1+2", cells.assign(factor="a+b")) == 3
    assert rows_allowed(plan, "c:0+1+2", cells) == rows_allowed(Planned(), "none", cells) == math.inf


def test_predictions_that_were_removed_are_named(
    done: tuple[Place, Investigation], caplog: pytest.LogCaptureFixture
) -> None:
    place, result = done
    whole = evaluate(result.run_id, log=False).analysis
    assert "finished cells have no" not in caplog.text
    lost = place.cells(result.run_id)[0]
    Path(lost.info.artifact_uri.removeprefix("file://"), "predictions.parquet").unlink()
    found = evaluate(result.run_id, log=False).analysis
    assert f"1 of {CELLS} finished cells have no predictions.parquet (the cell of " in caplog.text
    assert f"(run {lost.info.run_id}))" in caplog.text
    assert found.metrics()["golden_std"] == whole.metrics()["golden_std"]


def test_the_latest_investigation(done, capsys, tmp_path) -> None:
    place, _ = done
    last = place.investigate(root_seed=1, mitigation_runs=3)
    before = place.client.get_run(last.run_id)
    assert cli.main(["evaluate"]) == 0
    found = evaluate(log=False)
    assert last.run_id in capsys.readouterr().out
    assert found.run_id == last.run_id
    assert found.analysis.metrics() == pytest.approx(last.analysis.metrics(), rel=1e-12)
    after = place.client.get_run(last.run_id)
    report = html.unescape(place.download(last.run_id, "report.html", tmp_path).read_text())
    for words in (last.run_id, "UTC", "c0, c1", f"mlflow-l3d {mlflow_l3d.__version__}"):
        assert words in report, words
    assert after.data.metrics == pytest.approx(before.data.metrics, rel=1e-12)
    assert after.data.params == before.data.params


def test_tables_that_somebody_else_logged_stay_listed(done: tuple[Place, Investigation]) -> None:
    place, run_id = done[0], done[1].run_id
    theirs = {"path": "theirs.json", "type": "table"}
    place.client.set_tag(run_id, "mlflow.loggedArtifacts", json.dumps([theirs]))
    for _ in range(2):
        evaluate(run_id)
        listed = json.loads(place.client.get_run(run_id).data.tags["mlflow.loggedArtifacts"])
        assert listed == [theirs, *({"path": name, "type": "table"} for name in ("cells.json", "examples.json"))]


def test_nothing_to_evaluate(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate"]) == 2
    assert "there is no investigation in this experiment" in capsys.readouterr().err
    assert cli.main(["evaluate", "0" * 32]) == 2
    assert "no such run on the tracking server" in capsys.readouterr().err
    assert cli.main(["evaluate", "--surce", "x"]) == 2
    assert "--source" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (partial(mlflow_l3d.evaluate, frame()), "source=DataFrame: must be a run id"),
        (partial(mlflow_l3d.delete, frame()), "parent_run_id=DataFrame: must be the id of a run"),
        (partial(mlflow_l3d.ablation, frame()), "parent_run_id=DataFrame: must be a text"),
        (partial(mlflow_l3d.plan_sweep, task=frame()), "task='DataFrame': must be one of"),
        (
            partial(mlflow_l3d.investigate, "synthetic", approach="synthetic", metric=frame()),
            "metric=DataFrame: must be",
        ),
    ],
)
def test_a_frame_in_place_of_a_name(place: Place, call: Callable[..., object], line: str) -> None:
    assert refusal(call).startswith(line)
    assert place.client.search_runs(["0"]) == []


def test_delete_takes_the_children_too(done: tuple[Place, Investigation]) -> None:
    place, first = done
    second = place.investigate(root_seed=1, golden_runs=3)
    assert delete(first.run_id).runs == CELLS + 1
    assert {run.info.run_id for run in place.parents()} == {second.run_id}
    assert len(place.cells()) == CELLS - 1
    refuses("no such run", delete, "0" * 32)
    again = place.investigate()
    assert (again.computed, again.reused) == (CELLS, 0)


def test_a_study_that_was_killed_has_no_failed_runs_and_is_no_baseline(done: tuple[Place, Investigation]) -> None:
    place, first = done
    client, run_id = place.client, first.run_id
    golden = [run for run in place.cells() if run.data.tags[names.PHASE] == "golden"]
    for run in golden[-2:]:  # those that a killed study had not begun
        client.set_tag(run.info.run_id, names.ROLE, "other")
    client.set_tag(run_id, names.STATE, "running")
    client.update_run(run_id, status="RUNNING")
    line = rf"={run_id}: has not finished \(running\)\. Run its command again, which continues it\.$"
    found = evaluate(run_id)
    for study in (
        partial(mlflow_l3d.plan_gate, baseline="latest", candidate="hyperparameters=noise=1", smallest_effect=1),
        partial(mlflow_l3d.referee, action="start", baseline=run_id),
        partial(mlflow_l3d.cure, run_id),
    ):
        refuses(line, study)
    (step, *_), said = found.report().steps, found.cited()
    assert step.text == "2 runs got no score: they did not finish. The same command trains them:"
    assert " 2 runs got no score; the others count. " in said
    assert "failed" not in said
    assert "The study has not finished: its command continues it." in found.summary()


def test_runs_without_a_score_failed_or_did_not_finish() -> None:
    cells = pd.DataFrame({"status": ["FAILED", "FAILED", "FINISHED", "KILLED"]})
    said = Runs(cells=cells).without_score(Analysis(named("accuracy"), {}, cells_failed=3))
    assert said == "3 runs got no score: 2 failed, 1 did not finish. The same command trains them:"
    said = Runs().without_score(Analysis(named("accuracy"), {}, cells_failed=5, cells_deleted=2))
    assert said == "5 runs got no score: 3 failed, 2 were deleted. The same command trains them:"
    said = Runs().without_score(Analysis(named("accuracy"), {}, cells_failed=1, cells_deleted=1))
    assert said == "1 run got no score: it was deleted. The same command trains them:"


def test_a_stored_score_of_all_classes_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int | None] = []
    monkeypatch.setattr(scoring, "score_of", lambda *given: counted.append(given[-1]) or 0.5)
    table = pa.table({"label": np.arange(50), "prediction": np.arange(50)})
    check_stored(SimpleNamespace(run_id="r1", f1_macro=0.5), table, named("f1_macro"), 50)
    assert counted == [50]


def test_cells_of_other_studies_are_told_of_before_and_after_they_are_deleted(
    done: tuple[Place, Investigation], caplog: pytest.LogCaptureFixture
) -> None:
    place, first = done
    second = place.investigate(factor="label_selection")
    delete(first.run_id)
    assert f"; other finished studies lose 4 cells (run {second.run_id})." in caplog.text
    (step, *_) = evaluate(second.run_id).report().steps
    assert step.text == "4 runs got no score: they were deleted. The same command trains them:"
    caplog.clear()
    delete(second.run_id)
    assert "other finished studies" not in caplog.text


@pytest.mark.parametrize("seeded", [True, False])
def test_golden_runs_of_other_code_without_a_factor_are_a_seeds_study(place: Place, seeded: bool) -> None:
    parent = place.client.create_run("0").info.run_id
    tags = {"mlflow.parentRunId": parent, "l3d.role": "cell", "l3d.phase": "golden"}
    for seed in range(10):
        run_id = place.client.create_run("0", tags=tags).info.run_id
        if seeded:
            place.client.log_param(run_id, "seed.seed", seed)
        place.client.log_metric(run_id, "f1_macro", 0.5 + 0.01 * seed)
        place.client.set_terminated(run_id)
    if seeded:
        assert len(evaluate(parent).studies[0].seeds) == 10
    else:
        assert "seed.seed" in refusal(evaluate, parent)


def test_a_stored_score_that_is_not_that_of_the_predictions_is_named() -> None:
    labels, predictions = np.array([0, 1, 1, 2, 0, 1]), np.array([0, 1, 0, -1, 0, 1])
    table = pa.table({"example_id": np.arange(6), "label": labels, "prediction": predictions})
    for name, classes in (("accuracy", 3), ("f1_macro", 3), ("f1_macro", 2), ("f1_macro", None)):
        metric = named(name)
        stored = score_of(metric, labels, predictions, classes)
        check_stored(SimpleNamespace(run_id="r1", **{name: stored}), table, metric, 3)
        with pytest.raises(L3DError, match=rf"^Run r1 has {name} .*, and its predictions .*: one of them was changed"):
            check_stored(SimpleNamespace(run_id="r1", **{name: stored + 0.01}), table, metric, 3)
