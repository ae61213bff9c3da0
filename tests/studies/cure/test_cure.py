"""A cure from the stored runs to verified golden runs, with a page, a file to use, and nothing trained twice."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from filelock import FileLock
from pages import Page
from refusals import fails, refuses
from run_helpers import Place, copied, sqlite_place
from scipy.stats import binom

from mlflow_l3d import FunctionApproach, L3DError, cure, cured, evaluate, investigate, load, plan_cure, seeds
from mlflow_l3d.analysis.cure import NAMED, Prediction, Range, Remedy
from mlflow_l3d.analysis.cure.examples import other_labels
from mlflow_l3d.approaches.cured.sessions import read_member
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.parameters.cures import text_of
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.report.remedies import remedy_words
from mlflow_l3d.studies import base
from mlflow_l3d.studies.cure import remedies, request, run
from mlflow_l3d.studies.cure.gather import Gathered
from mlflow_l3d.studies.cure.numbers import CureAnswer
from mlflow_l3d.studies.cure.request import specify_cure
from mlflow_l3d.studies.cure.run import Cure
from mlflow_l3d.studies.investigation.remedies import chosen_by_other
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split
from mlflow_l3d.tasks.sources.packaged import generate

pytestmark = pytest.mark.slow

RIGHT = 0.7
SIZES: dict[str, Any] = {
    "investigation_runs": 7,
    "mitigation_runs": 5,
    "golden_runs": 12,
    "factor": "model_randomness",
    "design": "nested",
}
COMMON: dict[str, Any] = {**SIZES, "metric": "accuracy", "executor": "inline", "self_test": "skip", "test_size": 100}
trained: list[int] = []
"""Seeds of the trainings, in their order."""
Coins = tuple[Place, Investigation]
Verified = tuple[Place, Cure, int]
limit = {"most": 1000}
"""The user interrupts before more are trained."""


def coin(task: Task, split: Split, seeds: dict[str, int], hyperparameters: Any) -> npt.NDArray[np.int64]:
    """Return predictions of which each is right with the probability RIGHT, by one factor alone."""
    del hyperparameters
    if len(trained) >= limit["most"]:
        raise KeyboardInterrupt
    trained.append(seeds["model_randomness"])
    labels = task.labels[split.test]
    right = stream(seeds["model_randomness"], "coin").random(len(labels)) < RIGHT
    return np.asarray(np.where(right, labels, 1 - labels))


def approach() -> FunctionApproach:
    return FunctionApproach(coin, name="coin", version="1", factors=["model_randomness"])


@pytest.fixture(scope="module")
def coins(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> Coins:
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("coins"))
    with place.entered():
        return place, investigate("synthetic", approach=approach(), **COMMON)


@pytest.fixture
def place(coins: Coins, tmp_path: Path) -> Iterator[Place]:
    """Let the test work in a copy of that place."""
    with copied(coins[0], tmp_path / "place").entered() as place:
        yield place


@pytest.fixture(scope="module")
def verified(coins: Coins, tmp_path_factory: pytest.TempPathFactory) -> Verified:
    """Give a verified cure in a place of its own, and how many trainings it took."""
    place = copied(coins[0], tmp_path_factory.mktemp("verified") / "place")
    trained.clear()
    with place.entered():
        return place, coins[1].cure(verify=1, executor="inline", most_members=3), len(trained)


def test_a_first_screen_names_what_would_help_and_the_command(coins: Coins, place: Place) -> None:
    result = coins[1]
    document = result.report()
    assert [each.question for each in document.answers][3:] == ["What would help?"]
    assert "ote of" in document.answers[3].lead
    assert f"mlflow_l3d.cure({result.run_id!r})\n" in document.to_text()  # no command can train an object of Python
    assert len(document.to_text().splitlines()) <= 25 + len(result.about.notes)
    first = Page(document.to_html(folded=False)).text
    assert len(first.split("factor verdict")[0].split()) <= 120
    assert len(first.split()) <= 600
    again, loaded = evaluate(result.run_id, log=False).analysis, load(result.run_id).analysis
    assert repr(again.remedies) == repr(loaded.remedies) == repr(result.analysis.remedies)
    assert load(result.run_id).report().to_html() == document.to_html()


def test_predicted_and_achieved_are_those_of_the_binomial_distribution(verified: Verified) -> None:
    _, result, trainings = verified
    (found,) = result.answer.verified
    assert found.prediction.remedy.kind == "vote"
    assert found.prediction.remedy.members == 3
    assert trainings == 12 * 2  # the stored golden runs are members
    change = binom.sf(1, 3, RIGHT) - RIGHT
    assert found.mean_change.value == pytest.approx(change, abs=0.04)
    assert found.prediction.mean_change.value == pytest.approx(change, abs=0.04)
    assert found.mean_change.low < change < found.mean_change.high
    assert found.consistency > found.plain_consistency
    assert result.answer.smallest_effect == result.answer.std / 2
    assert "--verify 1" not in result.report().to_text()  # no command can train an object of Python
    agreed = RIGHT**2 + (1 - RIGHT) ** 2
    assert found.plain_consistency == pytest.approx(agreed, abs=0.05)


def test_the_page_and_the_run_hold_what_was_found(verified: Verified, tmp_path: Path) -> None:
    place, result, _ = verified
    (found,) = result.answer.verified
    run = place.client.get_run(result.run_id)
    tags = run.data.tags
    assert (tags["l3d.role"], tags["l3d.state"]) == ("cure", "complete")
    assert tags["l3d.investigation"] == result.parent_run_id
    assert tags["l3d.investigations"] == f"{result.parent_run_id},{found.run_id}"
    assert run.data.metrics["cured_std"] == pytest.approx(found.cured.value)
    assert place.client.get_run(found.run_id).data.tags["l3d.role"] == "golden_runs"
    with place.entered():
        assert load(result.run_id).report().to_html() == result.report().to_html()
    text = Page(place.download(result.run_id, "report.html", tmp_path).read_text()).text
    for words in ("Predicted and achieved", "What stays luck?", "which hides luck", "without predicted achieved"):
        assert words in text
    first = Page(result.report().to_html(folded=False)).text
    assert len(first.split("remedy std (predicted)")[0].split()) <= 120
    frame = result.to_frame().dropna(subset="less_spread")
    assert frame["achieved_std"].tolist() == [found.cured.value]


def test_a_verified_remedy_is_a_file_that_other_commands_take(
    coins: Coins, verified: Verified, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, result = copied(verified[0], tmp_path / "place"), verified[1]
    assert result.answer.best is None  # twelve pairs do not establish that votes of coins vary less
    assert "cure.json" not in [each.path for each in place.client.list_artifacts(result.run_id)]
    monkeypatch.setattr(CureAnswer, "best", property(lambda answer: answer.verified[0]))
    with place.entered():
        established = coins[1].cure(verify=1, executor="inline", most_members=3)
    file = place.download(established.run_id, "cure.json", tmp_path)
    assert json.loads(file.read_text()) == {"changes": {}, "kind": "vote", "members": 3, "over": ["model_randomness"]}
    assert cured(approach(), file).name == "coin, vote of 3 over model_randomness"
    assert f"--run-id {established.run_id} --artifact-path cure.json" in established.report().to_text()


def test_nothing_finished_is_trained_again_after_an_interruption(
    coins: Coins, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"verify": 1, "executor": "inline", "most_members": 3}
    trained.clear()
    monkeypatch.setitem(limit, "most", 9)
    with pytest.raises(KeyboardInterrupt):
        coins[1].cure(**options)
    monkeypatch.undo()
    coins[1].cure(**options)
    assert len(trained) == 12 * 2  # a member of the cell that was under way, too
    trained.clear()
    assert len(coins[1].cure(**options).answer.verified) == 1
    assert trained == []


def test_a_dry_run_counts_what_verifying_trains(coins: Coins, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "expected_workers", lambda _: 3)
    trained.clear()
    plan = plan_cure(coins[1], verify=1, executor="inline", most_members=3)
    assert plan.parts[["cells", "done", "to_compute"]].to_numpy().tolist() == [[36, 12, 24]]
    assert "36 trainings, 12 done, 24 to compute" in plan.summary()
    assert plan.workers == 3
    small = plan_cure(coins[1], verify=1, executor="inline", most_members=3, budget="13 cells")
    assert small.parts["to_compute"].tolist() == [12]  # six golden runs of two trainings each
    none = plan_cure(coins[1], verify=1, executor="inline", most_members=3, budget="3 cells")
    assert len(none.parts) == 0
    assert "the budget does not pay for 5 golden runs" in none.summary()
    remedies = coins[1].analysis.remedies
    name = remedy_words(remedies.best[0].remedy)  # as the command on the first screen has it
    assert name in plan_cure(coins[1], verify=1, executor="inline", remedy=name).parts.to_string()
    why = r"remedy=vote of 4 cats: .* none has this name.*mean 'vote of 9 runs over model_randomness'"
    fails(why, plan_cure, coins[1], verify=1, executor="inline", remedy="vote of 4 cats")
    assert trained == []


def test_members_that_remedies_share_are_counted_and_trained_once(
    coins: Coins, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def votes(each: request.CureRequest) -> list[Prediction]:
        known = [one for one in each.predictions if one.remedy.kind == "vote" and not one.also]
        return known[: each.arguments["verify"]]

    def planned(verify: int) -> Any:
        plan = plan_cure(coins[1], verify=verify, executor="inline")
        return plan.parts[["cells", "done", "to_compute"]].to_numpy().tolist()

    monkeypatch.setattr(request.CureRequest, "chosen", votes)
    monkeypatch.setattr(run, "say", said.extend)
    trained.clear()
    assert planned(2) == [[36, 12, 24], [60, 12, 24]]  # of the votes of five 24 are those of the votes of three
    small = plan_cure(coins[1], verify=2, executor="inline", budget="36 cells")
    assert small.parts["to_compute"].tolist() == [24, 12]  # six votes of five
    coins[1].cure(verify=1, executor="inline")
    assert planned(2) == [[36, 36, 0], [60, 36, 24]]
    coins[1].cure(verify=2, executor="inline")
    assert len(trained) == 48
    assert said == ["vote of 3 runs over model_randomness: trained before."]


def test_only_remedies_with_members_have_their_keys(coins: Coins, place: Place) -> None:
    golden = specify_cure(coins[1], {}, place.client).golden
    vote, labels = Remedy("vote", ("model_randomness",), 3), other_labels(20, 10)
    cured_parent = replace(golden, setup=replace(golden.setup, approach=cured(approach(), vote)))
    for given in (golden, remedies.cured_request(cured_parent, labels)):
        context, keys = remedies.member_keys(given)
        assert (context, keys) == (given.context_key, {cell.key: [cell.key] for cell in given.cells()})
    context, keys = remedies.member_keys(remedies.cured_request(golden, vote))
    assert context == golden.context_key
    assert [first for first, *_ in keys.values()] == [cell.key for cell in golden.cells()]


def test_the_oldest_members_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    monkeypatch.setattr(remedies, "MOST_KEPT", 25)
    for age, key in enumerate(["new", "middle", "old", "oldest"]):
        path = cache_folder("members") / f"{key}.parquet"
        path.write_bytes(bytes(10))
        os.utime(path, (1000 - age, 1000 - age))
    assert remedies.kept_members(["new", "middle", "old"]) == set()  # ten bytes are no whole member
    assert {each.stem for each in path.parent.iterdir()} == {"new", "middle"}
    (path.parent / "new.parquet").write_bytes(b"rest PAR1")
    assert remedies.kept_members(["new", "middle"]) == {"new"}  # a plan does not read the rest


def test_other_parents_work_or_say_why(coins: Coins, place: Place) -> None:
    study = seeds("synthetic", approach=approach(), seeds=list(range(9)), metric="accuracy", executor="inline")
    result = cure(study.run_id)
    assert result.answer.shown()
    assert result.answer.std == pytest.approx(place.client.get_run(study.run_id).data.metrics["seed_std/accuracy"])
    assert "--verify" not in result.report().to_text()  # nobody compares seeds with golden runs
    fails(r"verify=1: .*seeds study", cure, study.run_id, verify=1)
    script = "python -c 'import sys; print(\"acc:\", int(sys.argv[1]) % 9 / 9)' {seed}"
    only = seeds(approach="command", command=script, seeds=3, executor="inline")
    fails(r"verify=1: .*seeds study", cure, only.run_id, verify=1)  # of the only seed: golden runs can be trained
    with pytest.raises(L3DError, match=r"verify=1: needs more golden runs .*coin"):
        cure(coins[1].run_id, verify=1)  # of an approach that only the other process knows
    fails(r"runs=99: run .* has 12 golden runs", cure, coins[1], verify=1, runs=99, executor="inline")
    fails("parent_run_id", cure, "0" * 32)
    scored = evaluate(coins[1].run_id, log=False, metric="accuracy")
    (record,) = coins[1].analysis.importances.values()
    said = scored.cure()
    assert said.answer.std == pytest.approx(record.golden.std(ddof=1))
    assert place.client.get_run(said.run_id).data.metrics["golden_std"] == pytest.approx(record.golden_std)


def test_the_latest_finished_investigation_counts_without_its_deleted_cells(coins: Coins, place: Place) -> None:
    tags = {"l3d.role": "investigation", "l3d.state": "running"}
    cells = coins[1].cells
    golden = cells[cells["phase"].eq("golden")]
    place.client.create_run("0", tags=tags)
    place.client.delete_run(golden["run_id"].iloc[0])
    result = cure()
    assert result.parent_run_id == coins[1].run_id
    assert result.answer.std == pytest.approx(golden["accuracy"].iloc[1:].std(ddof=1))
    request = specify_cure(coins[1], {}, place.client)
    assert request.stored == request.golden.runs == 12  # the last one has its pair, too
    options: dict[str, Any] = {"verify": 1, "executor": "inline", "most_members": 3}
    assert plan_cure(coins[1], **options).parts["to_compute"].tolist() == [22]  # what lacks its pair is not trained
    trained.clear()
    (found,) = coins[1].cure(**options).answer.verified
    assert (len(trained), found.runs, found.failed) == (22, 11, 1)


def test_trainings_of_a_cured_parent_count_as_often_as_each_of_its_runs_has_them() -> None:
    trainings: Any = request.CureRequest.each.fget  # type: ignore[attr-defined]
    parent: Any = SimpleNamespace(data=SimpleNamespace(params={"cure": text_of(Remedy("vote", ("data_order",), 7))}))
    assert trainings(SimpleNamespace(gathered=SimpleNamespace(parent=parent), golden=None)) == 7
    plain: Any = SimpleNamespace(data=SimpleNamespace(params={"cure": "none"}))
    assert trainings(SimpleNamespace(gathered=SimpleNamespace(parent=plain), golden=None)) == 1
    setup = SimpleNamespace(approach=cured("synthetic", {"kind": "vote", "over": ["data_order"], "members": 5}))
    assert trainings(SimpleNamespace(gathered=None, golden=SimpleNamespace(setup=setup))) == 5


def test_only_the_score_that_chooses_among_runs_predicts_the_best_of_several() -> None:
    both, f1_macro = pd.DataFrame(columns=["validation_f1_macro", "validation_accuracy"]), named("f1_macro")
    assert chosen_by_other(both, f1_macro) == "accuracy"
    assert chosen_by_other(both, named("accuracy")) == ""
    assert chosen_by_other(pd.DataFrame(columns=["validation_f1_macro"]), f1_macro) == ""
    assert chosen_by_other(pd.DataFrame(columns=["f1_macro"]), f1_macro) == ""


def test_only_other_sizes_of_the_same_data_show_what_more_labels_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def investigated(run_id: str, size: int, digest: str) -> Any:
        return SimpleNamespace(
            info=SimpleNamespace(run_id=run_id),
            data=SimpleNamespace(params={"task": "reviews.csv", "num_labelled": str(size)}),
            inputs=SimpleNamespace(dataset_inputs=[SimpleNamespace(dataset=SimpleNamespace(digest=digest))]),
        )

    runs = [investigated(*each) for each in (("a", 60, "x"), ("b", 120, "x"), ("c", 240, "y"))]
    monkeypatch.setattr(remedies, "search", lambda *_: runs)
    monkeypatch.setattr(
        remedies, "known_document", lambda _, run_id, __: {"golden": [0.4, 0.6, None, "abc".index(run_id)]}
    )
    gathered: Any = SimpleNamespace(parent=runs[0])
    first, second = remedies._points(remedies._scores_by_size(None, gathered))  # type: ignore[arg-type]
    assert (first.size, second.size) == (60, 120)  # c has another file of that name
    assert second.mean == pytest.approx(
        (2 / 3, 2 / 3 - 4.302653 * 0.305505 / 3**0.5, 2 / 3 + 4.302653 * 0.305505 / 3**0.5)
    )


def test_what_other_numbers_of_examples_do_has_a_row_or_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remedies, "_scores_by_size", lambda *_: {})
    members = SimpleNamespace(test_size=100, luck_of_tests=lambda *_: 0.0016, draw_tests=True)
    gathered: Any = SimpleNamespace(
        parent=SimpleNamespace(data=SimpleNamespace(params={"num_labelled": "20"})),
        importances={"a": None},
        members=members,
        spread=Range(0.05, 0.04, 0.06),
        metric=named("f1_macro"),
        classes=2,
        cells=pd.DataFrame(),
    )
    (labels,) = remedies.labels_remedy(cast("Any", None), gathered, None, np.zeros(0))  # nothing can be trained here
    (tests,) = remedies.data_remedies(gathered, generate(60))
    assert labels.reason.endswith("A second one shows it: mlflow-l3d investigate ... --num-labelled 40")
    assert remedy_words(tests.remedy) == "200 test examples in place of 100 (the data have no 200)"
    assert tests.std.value == pytest.approx(math.sqrt(0.0017))
    members.draw_tests = False  # shared test examples are no luck of these runs
    assert not [*remedies.data_remedies(gathered, generate(60))]


@pytest.mark.parametrize(
    ("scores", "collapsed"),
    [([0.4] * 20, 20), ([0.9, 0.91, 0.92, 0.9, 0.91] * 3 + [0.5], 1), ([0.52, 0.6, 0.55, 0.49, 0.57, 0.53] * 3, 0)],
)
def test_runs_that_score_no_better_than_chance_collapsed_if_they_are_many_or_apart(
    scores: list[float], collapsed: int
) -> None:
    gathered: Any = SimpleNamespace(metric=named("accuracy"), classes=2, golden=np.array(scores))
    gathered.chance = Gathered.chance.fget(gathered)  # type: ignore[attr-defined]
    assert Gathered.collapsed.fget(gathered) == collapsed  # type: ignore[attr-defined]


def test_a_remedy_that_another_process_trains_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    path = tmp_path / "k.lock"
    other, said = FileLock(path), []
    other.acquire()

    def say(lines: list[str]) -> None:
        said.extend(lines)
        other.release()

    monkeypatch.setattr(base, "say", say)
    for waiting in ("Waiting for it.", "Not needed.", ""):
        with base.locked(path, waiting) as is_held:
            assert is_held
    assert said == ["Waiting for it."]
    other.acquire()
    with base.locked(path) as is_held:
        assert not is_held


def test_a_member_is_whole_whenever_another_process_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    table = pa.table({"example_id": [1], "label": [0], "prediction": [0]})
    monkeypatch.setattr(remedies, "member_keys", lambda _: ("context", {"c": ["k"]}))
    runs = pd.DataFrame({"cell_key": ["k"], "seed.a": [7], "f1_macro": [0.5]})
    monkeypatch.setattr(remedies, "stored_runs", lambda *_: runs)
    monkeypatch.setattr(remedies, "read_predictions", lambda *_, **__: [(None, table)])
    file, replace, read = cache_folder("members") / "k.parquet", Path.replace, []

    def read_before(path: Path, target: Path) -> Path:
        read.append(read_member(file))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", read_before)
    nothing: Any = None
    remedies.fetch_members(nothing, nothing)
    assert read == [None]
    assert read_member(file).metrics == {"f1_macro": 0.5}


def test_the_report_names_what_cure_names(coins: Coins, place: Place) -> None:
    result = coins[1]
    remedies = result.analysis.remedies
    assert remedies.best
    answer = result.cure().answer
    assert [each.remedy for each in answer.helping()[:NAMED]] == [each.remedy for each in remedies.best]


def test_golden_runs_of_an_object_take_the_executor_that_is_asked_for(
    coins: Coins, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, client = coins[1], place.client

    def placed(**options: object) -> tuple[str, int | None]:
        how = specify_cure(found, options, client).side.request.setup.how
        return how.executor, how.workers

    assert placed() == ("inline", 1)
    assert placed(workers=3) == ("processes", 3)
    why = r"which cannot be trained here: .* in Python cure\(result, verify=1\)"
    refuses(why, specify_cure, found.run_id, {"verify": 1}, client)
    refuses("device=cpu: has no effect on the result of an object", placed, device="cpu")
    nothing = Mock(side_effect=ParameterError("run", "x", "has none"))
    monkeypatch.setattr("mlflow_l3d.studies.gate.sides._is_pilot", nothing)
    refuses(r"^verify=1: run=x: has none\. Use verify=0\.$", placed, verify=1)
