"""Finished studies read back from their runs: what they returned, and after `evaluate` the page that they wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refuses
from run_helpers import Place, sqlite_place

import mlflow_l3d
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.files import _written
from mlflow_l3d.studies.investigation.evaluate import rewritten
from mlflow_l3d.studies.investigation.report import investigation_document
from mlflow_l3d.studies.investigation.results import Evaluation

pytestmark = pytest.mark.slow

NAMED = {"approach": "synthetic", "metric": "synthetic_score", "executor": "inline"}
SIZES: dict[str, Any] = {**NAMED, "investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 5}
ALIKE = {"hyperparameters": {"noise": 0.31}}
Studied = tuple[Place, dict[str, Any]]


def imported(folder: Path) -> Any:
    """Import two runs of six examples."""
    rows = pd.DataFrame({"example_id": range(6), "label": [0, 1] * 3})
    runs = {1: [0, 1, 0, 0, 1, 1], 2: [0, 1, 1, 0, 0, 1]}
    frame = pd.concat([rows.assign(prediction=predictions, seed=seed) for seed, predictions in runs.items()])
    frame.to_csv(folder / "runs.csv", index=False)
    return mlflow_l3d.evaluate(folder / "runs.csv")


@pytest.fixture(scope="module")
def studied(migrated_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Studied:
    """Give a place with one finished study of each kind, and what they returned."""
    folder = tmp_path_factory.mktemp("load")
    place = sqlite_place(migrated_store, folder / "place")
    with place.entered(), pytest.MonkeyPatch.context() as patch:
        results = {
            "investigation": mlflow_l3d.investigate(**{**SIZES, "metric": "auto"}, factor="data_order,data_split"),
            "other": mlflow_l3d.investigate(**{**SIZES, "metric": "auto"}, hyperparameters={"a_data_order": 9}),
            "seeds": mlflow_l3d.seeds(
                **{**NAMED, "metric": "auto"}, seeds=list(range(8)), hyperparameters={"fail_every": 4}
            ),
            "sweep": mlflow_l3d.sweep(**{**SIZES, "golden_runs": 2}, over={"noise": [0.1, 0.2]}),
            "search": mlflow_l3d.search(
                **NAMED, space="a_data_order=0..9", coarse_trials=2, fine_trials=2, held_out_runs=2
            ),
            "strategies": mlflow_l3d.strategies(**SIZES, factor="data_order"),
            "imported": imported(folder),
        }
        one, other = results["investigation"].run_id, results["other"].run_id
        results["compare"] = mlflow_l3d.compare(one, other, self_check=20)
        results["gate"] = mlflow_l3d.gate(baseline=one, candidate=ALIKE, most_runs=8, smallest_effect=5)
        ablation = place.client.create_run("0").info.run_id
        patch.setenv("MLFLOW_RUN_ID", ablation)
        results[f"ablation {ablation}"] = mlflow_l3d.ablation(one, rows=2, columns="all", test_sizes=20, repeats=2)
    return place, results


@pytest.fixture(autouse=True)
def entered(studied: Studied) -> Iterator[None]:
    """Let each test work there."""
    with studied[0].entered():
        yield


KINDS = ("investigation", "seeds", "sweep", "search", "strategies", "imported", "compare", "gate", "ablation")


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_study_says_what_it_returned(studied: Studied, kind: str, tmp_path: Path) -> None:
    place, results = studied
    name = next(each for each in results if each.startswith(kind))
    result, run_id = results[name], name.partition(" ")[2] or results[name].run_id
    loaded = mlflow_l3d.load(run_id)
    assert type(loaded) is type(result)
    assert loaded.summary() == result.summary()
    assert result.report() is result.report() or kind == "sweep", "built once"
    page = place.download(run_id, f"{kind if kind in ('sweep', 'search') else 'report'}.html", tmp_path).read_text()
    assert loaded.report().to_html() == result.report().to_html() == page
    pd.testing.assert_frame_equal(loaded.to_frame(), result.to_frame())
    assert getattr(loaded, "request", None) is None


def test_a_command_builds_its_report_once(studied: Studied, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def counted(*given: Any, **more: Any) -> Document:
        built.append(more["title"])
        return investigation_document(*given, **more)

    monkeypatch.setattr(f"{Evaluation.__module__}.investigation_document", counted)
    for result in (mlflow_l3d.investigate(**SIZES, root_seed=7), mlflow_l3d.evaluate()):
        assert result.report().to_text() == result.summary()
    assert len(built) == 2


@pytest.mark.parametrize(("kind", "page"), [("investigation", "report"), ("seeds", "report"), ("sweep", "sweep")])
def test_evaluated_again_a_study_has_the_page_that_it_wrote(
    studied: Studied, kind: str, page: str, tmp_path: Path
) -> None:
    place, results = studied
    result = results[kind]
    before = place.download(result.run_id, f"{page}.html", tmp_path / "before").read_text()
    mlflow_l3d.evaluate(result.run_id)
    loaded = mlflow_l3d.load(result.run_id)
    assert place.download(result.run_id, f"{page}.html", tmp_path / "after").read_text() == before
    assert type(loaded) is type(result)
    assert loaded.summary() == result.summary()


def test_a_page_says_what_it_was_evaluated_with_if_that_is_another_metric_or_version(studied: Studied) -> None:
    about = studied[1]["investigation"].about
    assert rewritten(about, named("f1_macro")) == about
    old = replace(about, settings={**about.settings, "versions": "mlflow-l3d 0.1"})
    new = rewritten(old, named("accuracy"))
    assert new.settings["evaluated with"] == about.settings["versions"]
    assert (new.settings["metric"], new.source.given["metric"]) == ("accuracy", "accuracy")


def test_an_evaluation_and_one_without_a_result(studied: Studied) -> None:
    place, results = studied
    ids = [results[name].run_id for name in ("investigation", "other")]
    beside = mlflow_l3d.evaluate(",".join(ids))
    assert mlflow_l3d.load(beside.run_id).summary() == beside.summary()
    place.client.log_dict(ids[1], {"result": "Investigation", "content": {"strange": 1}}, "result.json")
    refuses("holds no result. If it has ended, first use mlflow-l3d evaluate", mlflow_l3d.load, ids[1])
    place.client.set_tag(ids[1], "l3d.role", "search")  # which evaluate does not score
    refuses("If it has ended, give its command again", mlflow_l3d.load, ids[1])
    place.client.set_tag(ids[1], "l3d.role", "investigation")
    again = mlflow_l3d.evaluate(ids[1])
    loaded = mlflow_l3d.load(ids[1])
    assert type(loaded) is Evaluation
    assert loaded.summary() == again.summary()


@pytest.mark.parametrize("kind", ["gate", "compare", "search", "strategies"])
def test_evaluate_says_what_it_does_not_take(studied: Studied, kind: str) -> None:
    _, results = studied
    fix = f"mlflow-l3d view {results[kind].run_id}, or mlflow_l3d.load"
    refuses(fix, mlflow_l3d.evaluate, results[kind].run_id)


def test_a_frame_has_the_units_of_the_report(studied: Studied) -> None:
    _, results = studied
    pairs = {
        "investigation": ("moves score by (pp)", "moves_by_std"),
        "sweep": ("std of golden runs (pp)", "run_std"),
        "seeds": ("accuracy (%)", "accuracy"),
        "search": ("synthetic_score (%)", "score"),
        "compare": ("difference (pp)", "difference"),
        "gate": ("difference (pp)", "difference"),
    }
    for kind, (head, name) in pairs.items():
        short, full = results[kind].to_frame(), results[kind].to_frame(full=True)
        np.testing.assert_allclose(short[head], 100 * full[name])
        assert short.shape[1] <= 11
    short, table = results["investigation"].to_frame(), results["investigation"].report().table
    assert [f"{share:.0f} %" for share in short["share of variance (%)"]] == [
        row[3].split("\n")[0] for row in table.rows
    ]
    scores = pd.DataFrame({"score": [2.0], "std": [0.5]})
    assert unit_of(named("rmse")).heads(scores, {"score": "rmse"}, {"std": "std"}).to_dict("list") == {
        "rmse": [2.0],
        "std": [0.5],
    }


def test_texts_are_no_part_of_a_result() -> None:
    assert "secret" not in str(_written(Source(texts={1: "secret"}, task="t")))


def test_fragile_examples_of_a_loaded_investigation_need_the_task(studied: Studied) -> None:
    _, results = studied
    result = results["investigation"]
    loaded = mlflow_l3d.load(result.run_id)
    frame = loaded.fragile(result.request.setup.task, 5)
    pd.testing.assert_frame_equal(frame, result.fragile(count=5))
    assert list(frame)[-2:] == ["c0", "c1"]
    assert frame["text"].str.len().min() > 0
    refuses(r"task=none: must hold the texts .*make_task", loaded.fragile)
    refuses(r"task=reviews.csv: ", loaded.fragile, "reviews.csv")


def test_a_file_is_read_from_the_columns_that_were_investigated(studied: Studied, tmp_path: Path) -> None:
    loaded = mlflow_l3d.load(studied[1]["investigation"].run_id)
    file = tmp_path / "reviews.csv"
    labels = studied[1]["investigation"].request.setup.task.labels
    rows = [f"text {at},{at % 3},c{label}\n" for at, label in enumerate(labels)]
    file.write_text("".join(["text,label,mood\n", *rows]), encoding="utf-8")
    source = replace(loaded.about.source, given={"label_column": "mood"})
    known = replace(loaded, about=replace(loaded.about, source=source))
    frame = known.fragile(str(file), 3)
    assert list(frame)[-2:] == ["c0", "c1"]
    assert list(frame["text"]) == [f"text {at}" for at in frame["example_id"]]
    pd.testing.assert_frame_equal(known.fragile(pd.read_csv(file), 3), frame)
    refuses(r"has other classes than the investigated one \(c0, c1\)", loaded.fragile, str(file))
    file.write_text("".join(["text,label,mood\n", *rows[1:]]), encoding="utf-8")
    refuses(r"has another class for \d+ of \d+ of the examples that the runs evaluated", known.fragile, str(file))
