"""Predictions that are not classes, from runs of somebody else's code to metrics and artifacts of their parent."""

from __future__ import annotations

import itertools
import json
import math
import re
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pages import Page
from refusals import refuses
from run_helpers import Place, one_line, sqlite_place

from mlflow_l3d import cli
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.designs import Planned
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.investigation.report import investigation_document
from mlflow_l3d.studies.investigation.scoring import score

CROSSED = [
    *(
        {"phase": "investigation", "factor": "order", "row": row, "column": column}
        for row in (0, 1)
        for column in (0, 1)
    ),
    *({"phase": "golden", "index": index} for index in (0, 1, 2)),
]
"""Two rows of two cells, and three golden runs."""
RADIAL = [
    cell
    for row in (0, 1, 2)
    for cell in (
        {"phase": "base", "row": row},
        {"phase": "swap", "factor": "order", "row": row},
        {"phase": "swap", "factor": "split", "row": row},
    )
]
IDS = ["q1", "q2", "q3"]
TRUTHS = ["the secretcat sat", "red secretsky", "a secretdog"]
ANSWERS = [
    ["the secretcat sat", "red secretsky", "secretdog"],
    ["the secretcat", "red secretsky", "secretcat"],
    ["the secretcat sat down", "blue secretsky", "a secretdog"],
    [None, "red secretsky", "a secretdog"],
    ["the secretcat sat", "red secretsky", "a secretdog"],
    ["the secretcat sat", None, "a secretcat"],
    ["a secretcat", None, "a secretdog"],
]
"""Of each cell of CROSSED; every answer and every truth holds the word secret."""


@pytest.fixture
def place(tmp_path: Path, migrated_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.chdir(tmp_path)
    made = sqlite_place(migrated_store, tmp_path)
    with made.entered():
        yield made


def logged(
    folder: Path,
    answers: Sequence[Sequence[Any]],
    truths: Sequence[Any] | Sequence[Sequence[Any]],
    cells: Sequence[Mapping[str, Any]] = CROSSED,
) -> tuple[str, list[str]]:
    """Log cells as foreign code would, with MLflow's fluent functions; return the parent's id, and the children's."""
    children = []
    with mlflow.start_run(run_name="theirs") as parent:  # a random name may be secretive
        for at, (cell, own) in enumerate(zip(cells, answers, strict=True)):
            with mlflow.start_run(nested=True) as run:
                mlflow.set_tags({"l3d.role": "cell"} | {f"l3d.{name}": value for name, value in cell.items()})
                mlflow.log_metric("quality", 0.5 + 0.03 * ((7 * at) % 5))
                frame = pd.DataFrame({"example_id": IDS[: len(own)], "label": truths, "prediction": own})
                frame.to_parquet(folder / "predictions.parquet", index=False)
                mlflow.log_artifact(str(folder / "predictions.parquet"))
                children.append(run.info.run_id)
    return parent.info.run_id, children


def direct(
    folder: Path, answers: Sequence[Sequence[Any]], truths: Sequence[Any], agreement: str = "auto", **more: Any
) -> Analysis:
    """Score the same tables without a tracking server, but through the same files."""
    frames = []
    for own in answers:
        frame = pd.DataFrame({"example_id": IDS[: len(own)], "label": truths, "prediction": own})
        frame.to_parquet(folder / "own.parquet", index=False)
        frames.append(pd.read_parquet(folder / "own.parquet"))
    cells = pd.DataFrame(CROSSED, columns=["phase", "factor", "row", "column", "index"])
    cells = cells.astype(dict.fromkeys(("row", "column", "index"), "Int64")).assign(quality=0.5)
    return score(
        cells,
        map(pa.Table.from_pandas, frames),
        metric=named("quality"),
        planned=Planned(),
        agreement=agreement,
        **more,
    ).analysis


def told(analysis: Analysis, *, ten_times: bool = False) -> str:
    """Return what the page says, or would say if all were found in ten times the examples and comparisons."""
    times = 10 if ten_times else 1
    more = {
        name: replace(one, pairs_of_predictions=one.pairs_of_predictions * times)
        for name, one in analysis.consistencies.items()
    }
    known = replace(analysis, consistencies=more, test_examples=analysis.test_examples * times)
    return Page(investigation_document(known, title="mine").to_html()).text


def means(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.fmean(pair[0] for pair in pairs), statistics.fmean(pair[1] for pair in pairs)


def pair_of(metrics: Mapping[str, float], ending: str = "") -> tuple[float, float]:
    return metrics[f"consistency{ending}"], metrics[f"correct_consistency{ending}"]


def artifacts_of(place: Place, run_id: str, folder: Path) -> dict[str, Path]:
    place.client.download_artifacts(run_id, "", str(folder))
    return {path.name: path for path in folder.rglob("*") if path.is_file()}


def content(path: Path) -> str:
    """Return everything that a file holds as text."""
    if path.suffix == ".parquet":
        return json.dumps(pd.read_parquet(path).astype(str).to_dict("list"))
    return path.read_bytes().decode("utf-8", errors="ignore")


@pytest.mark.slow
def test_texts_are_compared_letter_by_letter_and_never_logged(place: Place, tmp_path: Path) -> None:
    parent, _ = logged(tmp_path, ANSWERS, TRUTHS)
    found = evaluate(parent, metric="quality")
    # Row 0: q2 agrees, rightly. Row 1: q2 and q3 agree, rightly. Golden: q1 one pair of three, right; q3 none.
    data = place.client.get_run(parent).data
    row_0, row_1 = 1 / 3, 1 / 3
    assert ANSWERS[2][1] != ANSWERS[3][1]
    assert pair_of(data.metrics) == pytest.approx(((row_0 + row_1) / 2,) * 2, rel=1e-12)
    assert pair_of(data.metrics, "/golden") == pytest.approx((2 / 9, 2 / 9), rel=1e-12)
    assert data.metrics["unparsed_share/golden"] == pytest.approx(2 / 9)
    assert data.metrics["unparsed_share"] == pytest.approx(1 / 12)
    share = (1 - 1 / 3) / (1 - 2 / 9)
    assert data.metrics["prediction_share"] == pytest.approx(share)
    assert not {"fleiss_kappa", "robust_share", "consistency_ccc"} & set(data.metrics)
    assert data.metrics == pytest.approx({**found.analysis.metrics()}, rel=1e-12)
    history = place.client.get_metric_history(parent, "consistency")
    assert {each.step: each.value for each in history} == pytest.approx({1: 1 / 3, 2: 1 / 3})

    files = artifacts_of(place, parent, tmp_path / "downloaded")
    assert {"report.html", "importance.json", "cells.parquet", "cells.json", "summary.svg"} <= set(files)
    assert not {"examples.json", "predictions.parquet"} & set(files)
    assert [name for name, path in files.items() if "secret" in content(path)] == []
    assert "secret" not in json.dumps([data.params, data.tags])
    document = json.loads(files["importance.json"].read_text(), parse_constant=pytest.fail)
    assert document["agreement"] == "exact_match"
    assert document["regression"] == {}
    assert document["consistency"]["golden"]["consistency"] == pytest.approx(2 / 9)
    assert document["consistency"]["golden"]["fleiss_kappa"] is None
    report = files["report.html"].read_text()
    assert "Predictions are compared by exact_match." in report
    assert "two runs predict the same answer, and the same, right answer" in report
    assert "could not be read" in report
    assert "name no class" not in report
    assert "kappa" not in report
    beside = pd.read_parquet(files["cells.parquet"])["agreement"]
    assert beside.tolist() == pytest.approx([1 / 3] * 4 + [1 / 3, 1 / 6, 1 / 6])
    listed = json.loads(data.tags["mlflow.loggedArtifacts"])
    assert listed == [{"path": "cells.json", "type": "table"}]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rougeL", "squad_f1", "squad_exact"])
def test_graded_scores_of_texts(tmp_path: Path, name: str) -> None:
    analysis = direct(tmp_path, ANSWERS, TRUTHS, name)
    assert 0 < analysis.metrics()["consistency"] < 1
    assert "is not reported: there are 3 test examples, and at least 10 are needed" in told(analysis)
    text = told(analysis, ten_times=True)
    assert re.search(rf"Two runs agree to [\d.]+ % \({name}\)", text)
    assert "Both are right" not in text
    assert "changes with the seed" not in text


NUMBERS = [
    [1.0, 2.5, 4.0],
    [1.5, 2.0, 4.5],
    [1.0, 3.0, 3.5],
    [2.0, 3.5, 5.0],
    [0.5, 2.0, 4.0],
    [1.0, math.nan, 3.0],
    [1.5, 2.5, 2.0],
]
SCALES = [1.25, 2.5, 4.0]


def correlation(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return Pearson's and Lin's coefficient of the examples that both runs have."""
    a, b = np.array(one), np.array(other)
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    shared = ((a - a.mean()) * (b - b.mean())).mean()
    return float(np.corrcoef(a, b)[0, 1]), float(2 * shared / (a.var() + b.var() + (a.mean() - b.mean()) ** 2))


def correlations(runs: Sequence[Sequence[float]]) -> tuple[float, float]:
    return means([correlation(*pair) for pair in itertools.combinations(runs, 2)])


def numbers_in(metrics: Mapping[str, float], ending: str = "") -> tuple[float, float]:
    return metrics[f"consistency_pearson{ending}"], metrics[f"consistency_ccc{ending}"]


@pytest.mark.slow
def test_numbers_are_regression(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parent, _ = logged(tmp_path, NUMBERS, SCALES)
    assert cli.main(["evaluate", parent, "--metric", "quality"]) == 0
    printed = capsys.readouterr().out
    metrics = place.client.get_run(parent).data.metrics
    order = means([correlations(NUMBERS[:2]), correlations(NUMBERS[2:4])])
    golden = correlations(NUMBERS[4:])
    assert numbers_in(metrics) == pytest.approx(order, rel=1e-9)
    assert numbers_in(metrics, "/golden") == pytest.approx(golden, rel=1e-9)
    assert not [name for name in metrics if name.startswith(("consistency/", "correct_consistency", "robust_share"))]
    assert "consistency" not in metrics
    history = place.client.get_metric_history(parent, "consistency_ccc")
    assert {each.step: each.value for each in history} == pytest.approx({1: correlations(NUMBERS[:2])[1], 2: order[1]})

    files = artifacts_of(place, parent, tmp_path / "downloaded")
    assert not {"examples.json", "predictions.parquet"} & set(files)
    document = json.loads(files["importance.json"].read_text(), parse_constant=pytest.fail)
    assert document["agreement"] == "regression"
    assert document["regression"]["golden"]["consistency_ccc"] == pytest.approx(golden[1])
    report = files["report.html"].read_text()
    for shown in (f"{order[0]:.2f}", f"{order[1]:.2f}", f"{golden[0]:.2f}", f"{golden[1]:.2f}"):
        assert f">{shown}<" in report
    assert "Pearson" in report
    assert "no predictions to compare" not in report + printed
    flat = " ".join(printed.split())
    assert (
        f"Of the numbers that two golden runs predict, mean over pairs: Pearson's correlation {golden[0]:.2f}" in flat
    )
    analysis = evaluate(parent, metric="quality", log=False).analysis
    for line in investigation_document(analysis, title="mine").to_text().splitlines():
        assert len(line) <= 100, line


TAGS = [["O", "PER"], ["O"], []]
TAGGED = [
    [["O", "PER"], ["O"], []],
    [["O", "LOC"], ["O"], []],
    [["O", "PER"], ["O", "O"], []],
    [["O", "PER"], ["O"], ["O"]],
    [["LOC", "LOC"], ["O"], []],
    [["O", "PER"], None, []],
    [["O", "LOC"], ["O"], []],
]
ARCS = [[[2, 0], [0, 1]], [[0, 1]]]
PARSED = [ARCS, [[[2, 1], [0, 1]], [[0, 1]]], *[ARCS] * 5]
CATS = [["a cat", "sky"], ["cat sat", "sky"], *[["dog", "sky"]] * 5]
RANKED = [[[1, 2, 3]], [[1, 4, 2]], *[[[1, 2, 3]]] * 5]


CON, CCON, GOLDEN = "consistency", "correct_consistency", "consistency/golden"


@pytest.mark.parametrize(
    ("agreement", "answers", "truths", "found"),
    [
        # Row 0: q1 2 / 3 without the truth, (1 + 2 / 3) / 2 with it. Row 1: 1, and 0.
        ("squad_f1", CATS, ["cat", "sky"], {CON: (5 / 6 + 1) / 2, CCON: (11 / 12 + 1 / 2) / 2}),
        # Row 0: differences of 1/2 everywhere. Row 1: 1, 1/2 and 3/2.
        # Golden: q2 is read by two runs of three, 1/2 apart; q1 differs by 1/2, 1, 1/2, q3 by 1, 2, 1.
        ("closeness:scale=2", NUMBERS, SCALES, {CON: (0.75 + 0.5) / 2, GOLDEN: (0.75 + 2 + 0.5 + 0 + 0.5) / 9}),
        # Row 0: q1 one tag of two, the others agree. Row 1: q2 one of two, q3 none.
        ("token_match", TAGGED, TAGS, {CON: (2.5 / 3 + 1.5 / 3) / 2, GOLDEN: (1 + 1 + 3) / 9}),
        ("las", PARSED, ARCS, {CON: (0.75 + 1) / 2}),
        ("uas", PARSED, ARCS, {CON: 1, CCON: 1}),
        ("overlap:k=2", RANKED, [[1]], {CON: (0.5 + 1) / 2}),
        ("auto", ANSWERS, [None, None, "a secretdog"], {CON: 1 / 3, CCON: math.nan}),
    ],
)
def test_agreement_by_hand(tmp_path: Path, agreement: str, answers: Any, truths: Any, found: dict[str, float]) -> None:
    metrics = direct(tmp_path, answers, truths, agreement).metrics()
    assert {name: metrics.get(name, math.nan) for name in found} == pytest.approx(found, nan_ok=True)


def test_closeness_is_told_beside_correlations(tmp_path: Path) -> None:
    analysis = direct(tmp_path, NUMBERS, SCALES, "closeness:scale=2")
    assert numbers_in(analysis.metrics(), "/golden") == pytest.approx(correlations(NUMBERS[4:]), rel=1e-9)
    text = told(analysis, ten_times=True)
    assert "(closeness:scale=2)" in text
    assert "Of the numbers that two golden runs predict" in text


def test_numbers_that_never_vary_have_no_correlation(tmp_path: Path) -> None:
    analysis = direct(tmp_path, [[0.5, 0.5, 0.5]] * 7, SCALES)
    assert not [name for name in analysis.metrics() if name.startswith("consistency")]
    assert "The runs share too few test examples, or predict too few different numbers, to correlate." in " ".join(
        investigation_document(analysis, title="mine").to_text().split()
    )


def test_lists_need_a_name(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parent, _ = logged(tmp_path, TAGGED, TAGS)
    assert cli.main(["evaluate", parent, "--metric", "quality"]) == 2
    line = one_line(capsys.readouterr().err)
    assert "agreement=auto: labels are lists, predictions are lists: must be one of token_match" in line
    assert cli.main(["evaluate", parent, "--metric", "quality", "--agreement", "token_macht"]) == 2
    assert "Did you mean 'token_match'?" in one_line(capsys.readouterr().err)
    assert place.client.get_run(parent).data.metrics == {}


CLASSES = [[0, 1, 1], [0, -1, 1], [1, 1, 1], [0, 1, -1], [0, 1, 1], [-1, 1, 0], [0, 1, 1]]


@pytest.mark.slow
def test_a_class_that_is_null_is_an_answer_that_names_none(place: Place, tmp_path: Path) -> None:
    nulls = [[None if each == -1 else each for each in run] for run in CLASSES]
    parent, _ = logged(tmp_path, nulls, [0, 1, 1])
    found = evaluate(parent, metric="quality").analysis
    expected = direct(tmp_path, CLASSES, [0, 1, 1])
    assert found.agreement is None
    assert found.consistencies == expected.consistencies
    assert {"fleiss_kappa", "robust_share"} <= set(found.metrics())
    assert found.metrics()["unparsed_share/golden"] == pytest.approx(1 / 9)
    files = artifacts_of(place, parent, tmp_path / "downloaded")
    written = pd.read_parquet(files["predictions.parquet"])["prediction"]
    assert written.tolist() == list(itertools.chain(*CLASSES))
    assert written.dtype == np.int64
    assert "examples.json" in files
    assert "name no class" in files["report.html"].read_text()
    assert json.loads(files["importance.json"].read_text())["agreement"] is None


@pytest.mark.parametrize("first", [[0, -1, 1], [-1, -1, -1]])
def test_a_class_that_is_null_in_the_first_cell(tmp_path: Path, first: list[int]) -> None:
    classes = [first, *CLASSES[1:]]
    found = []
    for number, lost in enumerate((-1, None)):
        answers = [[lost if each == -1 else each for each in run] for run in classes]
        file = tmp_path / f"{number}.parquet"
        analysis = direct(tmp_path, answers, [0, 1, 1], table_file=file)
        found.append((analysis.metrics(), pd.read_parquet(file).to_dict("list")["prediction"]))
    assert found[0] == found[1]
    assert found[0][1] == list(itertools.chain(*classes))
    assert "fleiss_kappa" in found[0][0]


def test_truth_values_are_classes(tmp_path: Path) -> None:
    as_bool = [[None if each == -1 else bool(each) for each in run] for run in CLASSES]
    found = direct(tmp_path, as_bool, [False, True, True])
    assert found.metrics() == direct(tmp_path, CLASSES, [0, 1, 1]).metrics()


@pytest.mark.slow
def test_texts_in_the_radial_design(place: Place, tmp_path: Path) -> None:
    base = [["a", "b"], ["a", "c"], ["b", "b"]]
    order = [["a", "b"], ["b", "c"], ["b", None]]
    split = [["b", "b"], ["b", "c"], ["a", "c"]]
    answers = [each[row] for row in range(3) for each in (base, order, split)]
    parent, children = logged(tmp_path, answers, ["a", "b"], RADIAL)
    assert len(children) == 9
    analysis = evaluate(parent, metric="quality").analysis
    assert analysis.design == "radial"
    metrics = place.client.get_run(parent).data.metrics
    assert pair_of(metrics, "/order") == pytest.approx(((1 + 0.5 + 0.5) / 3, (1 + 0 + 0) / 3))
    assert pair_of(metrics, "/split") == pytest.approx(((0.5 + 0.5 + 0) / 3, (0.5 + 0 + 0) / 3))
    # Sets of independent runs. Base: q1 1 pair of 3, q2 1; order: q1 1, q2 0; split: q1 1, q2 1.
    assert metrics["consistency/golden"] == pytest.approx((2 / 6 + 1 / 6 + 2 / 6) / 3)
    files = artifacts_of(place, parent, tmp_path / "downloaded")
    assert not {"examples.json", "predictions.parquet"} & set(files)
    assert "two base runs" in files["report.html"].read_text()


@pytest.mark.slow
def test_numbers_in_the_radial_design(place: Place, tmp_path: Path) -> None:
    runs = np.random.default_rng(2).normal(size=(9, 3)).round(3).tolist()
    parent, _ = logged(tmp_path, runs, SCALES, RADIAL)
    metrics = evaluate(parent, metric="quality", agreement="regression").analysis.metrics()
    base, order, split = runs[0::3], runs[1::3], runs[2::3]
    for factor, swaps in (("order", order), ("split", split)):
        expected = means([correlation(*pair) for pair in zip(base, swaps, strict=True)])
        assert numbers_in(metrics, f"/{factor}") == pytest.approx(expected, rel=1e-9)
    expected = means([correlations(each) for each in (base, order, split)])
    assert numbers_in(metrics, "/golden") == pytest.approx(expected, rel=1e-9)
    assert "consistency_ccc" not in metrics


@pytest.mark.parametrize(
    ("first", "other", "agreement", "message"),
    [
        ([0, 1, 1], ["secret", "b", "c"], "auto", "prediction=texts: must be class numbers"),
        ([0, 1, 1], ["secret", None, "c"], "auto", "prediction=texts: must be class numbers"),
        ([0, 1, 1], [0.5, 1.5, 1.0], "auto", "prediction=numbers: must be class numbers.*agreement=regression"),
        ([0, 1, 1], [0, -7, 1], "auto", "prediction=-7: class numbers must be -1 or above"),
        (["a", "b", "c"], [1, 2, 3], "auto", "prediction=numbers: must be texts, as in the cells before"),
        (["a", "b", "c"], [["secret"], [], []], "exact_match", "prediction=lists: must be texts"),
        (["a", "b", "c"], [1, 2, 3], "squad_f1", "prediction=int: must be a text"),
        ([0.5, 1.5, 2.5], ["secret", "b", "c"], "auto", "prediction=str: must be a number"),
        ([0.5, 1.5, 2.5], [math.inf, 1.0, 1.0], "auto", "prediction=inf: must be a finite number"),
        ([["a"], ["b"], []], ["secret", "b", "c"], "token_match", "prediction=a text, of example q1: must be a list"),
    ],
)
def test_mixed_kinds_name_the_cell(tmp_path, first, other, agreement, message) -> None:
    with pytest.raises(ParameterError, match=message) as error:
        direct(tmp_path, [first, first, first, other, first, first, first], first, agreement)
    text = str(error.value)
    assert text.endswith("It is in the cell of phase investigation, factor order, row 1, column 1.")
    assert "\n" not in text
    assert "secret" not in text


@pytest.mark.slow
def test_mixed_kinds_name_the_run(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parent, children = logged(tmp_path, [*ANSWERS[:5], [1, 2, 3], ANSWERS[6]], TRUTHS)
    assert cli.main(["evaluate", parent, "--metric", "quality"]) == 2
    line = one_line(capsys.readouterr().err)
    assert "prediction=numbers: must be texts, as in the cells before." in line
    assert f"It is in the cell of phase golden, index 1 (run {children[5]})." in line
    assert place.client.get_run(parent).data.metrics == {}


def test_agreement_of_too_few_common_examples_is_logged_after_no_row() -> None:
    place = {"phase": "investigation", "factor": "order", "row": [0, 0, 1, 1], "column": [0, 1, 0, 1], "index": None}
    rows = pd.DataFrame(place).assign(score=[0.1, 0.2, 0.4, 0.8])
    for last, logged_after in ((2, {1, 2}), (3, set())):  # two pairs of runs share two examples, or one
        given = [pd.DataFrame({"example_id": [each], "label": 0, "prediction": 0}) for each in (1, 1, 2, last)]
        found = score(rows, map(pa.Table.from_pandas, given), metric=named("score"), planned=Planned())
        assert {row for row, values in found.consistency_steps.items() if values} == logged_after


def test_labels_that_are_missing_or_of_another_kind() -> None:
    for labels, message in (
        ([0, None], "label=null: must be a class number in every row.*row 1"),
        (["a", "b"], "label=texts: must be class numbers.*row 1"),
        ([0, -1], "label=-1: class numbers must be 0 or above.*row 1"),
        ([1, 1], "label=0 in one run and 1 in another.*row 1"),
    ):
        given = [pd.DataFrame({"example_id": [1, 2], "label": each, "prediction": [0, 1]}) for each in ([0, 1], labels)]
        found = map(pa.Table.from_pandas, given)
        rows = pd.DataFrame({"phase": "investigation", "factor": "order", "row": [0, 1], "column": 0, "index": None})
        refuses(message, score, rows.assign(score=0.5), found, metric=named("score"), planned=Planned())


@pytest.mark.slow
def test_the_evaluator_of_mlflow_gives_the_same(place: Place, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        # What MLflow says about itself when these are imported for the first time.
        warnings.simplefilter("ignore")
        import mlflow.models.evaluation.default_evaluator
        import mlflow.models.evaluation.evaluator_registry

    parent, _ = logged(tmp_path, ANSWERS, TRUTHS)
    config = {"metric": "quality", "agreement": "squad_f1"}
    with mlflow.start_run(run_id=parent):
        result = mlflow.models.evaluate(
            data=mlflow.data.from_l3d_runs(parent), model_type="l3d", evaluators="l3d", evaluator_config=config
        )
    expected = evaluate(parent, metric="quality", agreement="squad_f1", log=False).analysis.metrics()
    assert dict(result.metrics) == expected
    data = place.client.get_run(parent).data
    assert {name: data.metrics[name] for name in expected} == expected
    files = artifacts_of(place, parent, tmp_path / "downloaded")
    assert not {"examples.json", "predictions.parquet"} & set(files)
    assert [name for name, path in files.items() if "secret" in content(path)] == []
    assert "squad_f1 of the predictions of two runs for one test example" in files["report.html"].read_text()
    with mlflow.start_run(run_id=parent), pytest.raises(L3DError, match="agreement='squad'"):
        mlflow.models.evaluate(
            data=mlflow.data.from_l3d_runs(parent),
            model_type="l3d",
            evaluators="l3d",
            evaluator_config={**config, "agreement": "squad"},
        )
