"""The entry point `gate`: decisions and exit statuses, runs that are trained and reused, spent looks, bad input."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pytest
from refusals import fails, refuses
from run_helpers import Place, copied, sqlite_place, wait_until

from mlflow_l3d import FunctionApproach, Hyperparameter, cli, compare, evaluate, investigate, referee, seeds
from mlflow_l3d.analysis.comparison.power import power
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.paths import with_whole_paths
from mlflow_l3d.studies.base import executor_of
from mlflow_l3d.studies.evaluation.finished import delete
from mlflow_l3d.studies.gate.conduct import Gate
from mlflow_l3d.studies.gate.golden import GoldenRuns, specify_golden
from mlflow_l3d.studies.gate.run import gate, plan_gate
from mlflow_l3d.tracking.opening import open_recorder

pytestmark = pytest.mark.slow

FACTORS = ("label_selection", "data_split", "data_order", "sample_choice", "model_initialisation", "model_randomness")
SETTING = {f"a_{factor}": 9.0 for factor in FACTORS}
ALIKE, LOWER = "hyperparameters=a_model_randomness=8.5", "hyperparameters=a_data_order=1,a_model_randomness=2"
FINE: dict[str, Any] = {"most_runs": 60, "smallest_effect": 2}
"""What LOWER is found worse with, after several looks."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> tuple[Place, str]:
    """Give an investigation with 8 golden runs; the tests that take it change nothing."""
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("baseline"))
    return place, place.investigate(golden_runs=8, hyperparameters=SETTING).run_id


OPPOSITE = {"better": "worse", "worse": "better"}


@pytest.mark.parametrize(("metric", "shift", "decision"), [("loss", -0.1, "better"), ("gap:lower", 0.1, "worse")])
def test_a_lower_loss_of_the_candidate_is_better(place: Place, metric: str, shift: float, decision: str) -> None:
    name, runs = metric.removesuffix(":lower"), []

    def loss(task: Any, split: Any, seeds: Any, hyperparameters: Any) -> dict[str, float]:
        return {name: 0.7 + hyperparameters["shift"] + np.random.default_rng(seeds["data_order"]).normal(0, 0.02)}

    shifts = {"shift": Hyperparameter(0.0, "of the loss", -1.0, 1.0)}
    given: dict[str, Any] = {"factors": ["data_order", "data_split"], "metrics": [name], "hyperparameters": shifts}
    approach = FunctionApproach(loss, name="loss", version="1", **given)
    sizes: dict[str, Any] = {"mitigation_runs": 2, "investigation_runs": 2, "golden_runs": 6, "self_test": "skip"}
    for value in (0.0, shift):
        more = {"approach": approach, "hyperparameters": {"shift": value}, "executor": "inline"}
        runs.append(investigate(factor="data_order", **more, **sizes))
    sides: dict[str, Any] = {"baseline": runs[0].run_id, "candidate": runs[1].run_id}
    sides |= {"smallest_effect": 0.01, "most_runs": 6}
    answer = gate(metric=metric, **sides).answer
    assert (answer.decision, answer.candidate) == (decision, f"shift={shift}")
    turned = {**sides, "baseline": runs[1].run_id, "candidate": runs[0].run_id}
    assert gate(metric=metric, **turned).answer.decision == OPPOSITE[decision]
    with pytest.raises(ParameterError, match=rf"auto'?: is 1 percentage point, and {name} has another unit\. Name one"):
        gate(metric=metric, **sides | {"smallest_effect": "auto"})
    with pytest.raises(ParameterError, match=r"^candidate: approach='loss': .* Investigate the candidate, too"):
        gate(metric=metric, **sides | {"candidate": {"hyperparameters": {"shift": shift}}})
    if metric == name:
        return
    assumed = f"Of {name} more is taken to be better"
    other_way = gate(metric=name, **sides)
    assert other_way.answer.decision == OPPOSITE[decision]
    both = f"{runs[0].run_id},{runs[1].run_id}"
    answers = [other_way.summary(), runs[0].summary(), compare(runs=both).summary()]
    assert [assumed in text for text in answers] == [True] * 3
    directed = compare(runs=both, metric=metric).summary()
    assert assumed not in directed
    assert directed.startswith("shift=0.0 is better than shift=0.1")


def simulate_little(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("mlflow_l3d.studies.gate.run.power", partial(power, draws=500))


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate little, except where that is what is tested."""
    if "budget_is_planned" not in request.node.name:
        simulate_little(monkeypatch)


@pytest.fixture(scope="module")
def _worse(whole: tuple[Place, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Gate]:
    """Give a gate that found the candidate worse."""
    place = copied(whole[0], tmp_path_factory.mktemp("worse") / "place")
    with pytest.MonkeyPatch.context() as patch, place.entered():
        simulate_little(patch)
        return place, gated(LOWER, baseline=whole[1], **FINE)


@pytest.fixture
def worse(_worse: tuple[Place, Gate], tmp_path: Path) -> Iterator[tuple[Place, Gate]]:
    """Let the test work in a copy of the place of that gate."""
    with copied(_worse[0], tmp_path / "copy").entered() as place:
        yield place, _worse[1]


@pytest.fixture(scope="module")
def alike(whole: tuple[Place, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Gate, Path]:
    """Give a gate that found the candidate equivalent, and the summary of its CI step; a copy may be changed."""
    place = copied(whole[0], tmp_path_factory.mktemp("alike") / "place")
    summary = place.cache.parent / "summary.md"
    with pytest.MonkeyPatch.context() as patch, place.entered():
        simulate_little(patch)
        patch.setenv("GITHUB_STEP_SUMMARY", str(summary))
        return place, gated(baseline=whole[1]), summary


@pytest.fixture
def place(whole: tuple[Place, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Let the test work in a copy of that place, and in a folder of its own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with copied(whole[0], tmp_path / "place").entered() as place:
        yield place


@pytest.fixture
def baseline(whole: tuple[Place, str]) -> str:
    return whole[1]


def gated(candidate: Any = ALIKE, **parameters: Any) -> Gate:
    return gate(candidate=candidate, **{"baseline": "latest", "most_runs": 20, "executor": "inline", **parameters})


def of_role(place: Place, role: str) -> list[Any]:
    return place.runs(f"tags.`l3d.role` = '{role}'")


def test_equivalent_candidate_passes_and_leaves_a_true_record(
    alike: tuple[Place, Gate, Path], baseline: str, tmp_path: Path
) -> None:
    place, found, summary = alike
    assert (found.decision, found.exit_status) == ("equivalent", 0)
    [run] = of_role(place, "gate")
    assert run.info.run_id == found.run_id
    assert run.info.status == "FINISHED"
    assert run.data.tags["l3d.decision"] == "equivalent"
    assert run.data.tags["l3d.state"] == "complete"
    last = found.answer.looks[-1]
    assert run.data.metrics["difference"] == last.difference
    assert run.data.metrics["difference_ci_low"] == last.low
    assert run.data.metrics["runs_used"] == last.runs
    assert run.data.metrics["exit_status"] == 0
    history = place.client.get_metric_history(run.info.run_id, "difference")
    assert {each.step for each in history} == set(range(1, len(found.answer.looks) + 1))
    names = {artifact.path for artifact in place.client.list_artifacts(found.run_id)}
    assert names == {"gate.json", "gate.md", "report.html", "result.json", "summary.svg"}
    document = json.loads(place.download(found.run_id, "gate.json", tmp_path).read_text(encoding="utf-8"))
    assert document["content"]["answer"]["looks"][-1]["decision"] == "equivalent"
    assert summary.read_text(encoding="utf-8").startswith(
        "## The candidate is equivalent to the baseline within 1 point."
    )
    assert run.data.tags["mlflow.note.content"].startswith("## The candidate is equivalent")
    assert "| 5 runs | " in summary.read_text(encoding="utf-8")
    # The difference is that of golden runs with equal numbers, and the parent of the candidate holds its own.
    [parent] = of_role(place, "golden_runs")
    assert parent.data.tags["mlflow.parentRunId"] == found.run_id
    cells = place.cells(parent.info.run_id)
    assert len(cells) == found.computed == last.runs
    of_baseline = {cell.data.tags["l3d.index"]: cell for cell in place.cells(baseline) if "l3d.index" in cell.data.tags}
    gaps = [
        cell.data.metrics["synthetic_score"] - of_baseline[cell.data.tags["l3d.index"]].data.metrics["synthetic_score"]
        for cell in cells
    ]
    assert last.difference == pytest.approx(np.mean(gaps))
    assert run.data.tags["l3d.investigations"] == f"{baseline},{parent.info.run_id}"
    assert f"[{baseline}](#/experiments/0/runs/{baseline})" in run.data.tags["mlflow.note.content"]
    seeds = [name for name in cells[0].data.params if name.startswith("seed.")]
    paired = of_baseline[cells[0].data.tags["l3d.index"]].data.params
    assert {name: paired[name] for name in seeds} == {name: cells[0].data.params[name] for name in seeds}


def test_worse_candidate_fails_after_more_runs_of_both_and_the_other_way_round_is_better(
    worse: tuple[Place, Gate], baseline: str
) -> None:
    place, found = worse
    assert (found.decision, found.exit_status) == ("worse", 1)
    assert found.answer.looks[-1].high < 0
    used = found.answer.looks[-1].runs
    sides = {run.info.run_name.partition(":")[0]: run for run in of_role(place, "golden_runs")}
    assert set(sides) == {"baseline", "candidate"}
    assert all(run.data.tags["l3d.state"] == "complete" for run in sides.values())
    assert found.computed == 2 * used - 8  # eight golden runs of the baseline were there
    turned = gated(baseline, baseline=sides["candidate"].info.run_id, **FINE)
    assert (turned.decision, turned.exit_status) == ("better", 0)
    assert turned.answer.candidate == "a_data_order=9.0, a_model_randomness=9.0"
    assert turned.computed == 0
    assert turned.answer.looks[-1].difference == pytest.approx(-found.answer.looks[-1].difference)
    [other] = compare(runs=[sides["candidate"].info.run_id, sides["baseline"].info.run_id]).comparison.differences
    assert other.difference == pytest.approx(found.answer.looks[-1].difference)


def test_a_gate_is_deleted_with_all_that_it_trained(
    whole: tuple[Place, str], alike: tuple[Place, Gate, Path], tmp_path: Path
) -> None:
    before = {run.info.run_id for run in whole[0].runs()}
    place, found = copied(alike[0], tmp_path / "copy"), alike[1]
    with place.entered():
        assert delete(found.run_id).runs == 2 + found.computed
    assert {run.info.run_id for run in place.runs()} == before


def test_a_change_without_an_effect_is_told(
    place: Place, baseline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no folder" / "summary.md"))
    document = json.loads(place.download(baseline, "investigation.json", tmp_path).read_text(encoding="utf-8"))
    del document["hyperparameters"]["spin"]  # as an earlier version that did not have it, and had another one
    document["hyperparameters"]["engine"] = "auto"
    place.client.log_dict(baseline, document, "investigation.json")
    asked = "hyperparameters=duration=1e-9"
    found = gated(asked, most_runs=5, smallest_effect=20)
    assert (found.decision, found.answer.candidate) == ("equivalent", "duration=1e-09")
    look, again = found.answer.looks[-1], gated(asked, most_runs=5, smallest_effect=20)
    assert look.high > 0.01
    for each in (found, again):
        assert each.summary().startswith("The candidate probably has no effect: its 5 runs score as those of the base")
        assert "check that what differs between them has an effect" in " ".join(each.summary().split())


def test_the_same_command_spends_no_look_twice(worse: tuple[Place, Gate]) -> None:
    _, first = worse
    again = gated(LOWER, **FINE)
    assert again.computed == 0
    assert again.answer.looks == first.answer.looks
    assert again.exit_status == 1
    assert any("stays spent" in note for note in again.answer.notes)
    other = gated(LOWER, most_runs=60, smallest_effect=20)
    assert any(note.startswith("1 other question was asked of these two") for note in other.answer.notes)


def test_looks_that_cannot_be_read_are_not_spent_twice(
    worse: tuple[Place, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = worse
    monkeypatch.setattr("mlflow_l3d.studies.gate.record.read_result", lambda *_, **__: None)
    fails(f"looks of the same gate, run {first.run_id}, cannot be read", gated, LOWER, **FINE)


def test_interrupted_it_goes_on_where_it_was(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    advance, asked = GoldenRuns.advance, []

    def stop_at_the_second_look(self: GoldenRuns, runs: int) -> None:
        asked.append(runs)
        if self.request.side == "candidate" and len(set(asked)) == 2:
            raise KeyboardInterrupt
        advance(self, runs)

    with monkeypatch.context() as patch:
        patch.setattr(GoldenRuns, "advance", stop_at_the_second_look)
        with pytest.raises(KeyboardInterrupt):
            gated(LOWER, **FINE)
    [run] = of_role(place, "gate")
    assert (run.info.status, run.data.metrics["looks"]) == ("KILLED", 1)
    assert run.data.tags["l3d.error"] == "Interrupted. The same command continues"
    assert {each.info.status for each in of_role(place, "golden_runs")} == {"KILLED"}
    trained = len(place.cells())
    found = gated(LOWER, **FINE)
    assert found.decision == "worse"
    assert len(place.cells()) == trained + found.computed
    keys = [cell.data.tags["l3d.cell_key"] for cell in place.cells() if cell.info.status == "FINISHED"]
    assert len(keys) == len(set(keys))


def test_what_one_that_was_killed_at_its_end_left_is_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(GoldenRuns, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            gated()
    assert place.spooled()
    found = gated()
    assert (found.decision, found.computed) == ("equivalent", 0)
    assert place.spooled() == set()
    parents = [(each.info.status, "l3d.superseded_by" in each.data.tags) for each in of_role(place, "golden_runs")]
    assert parents in ([("KILLED", True), ("FINISHED", False)], [("KILLED", True)] * 2 + [("FINISHED", False)] * 2)


def test_an_interrupt_while_a_parent_opens_leaves_none_running(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **more: Any) -> Any:
        recorder = open_recorder(*arguments, **more)
        signal.raise_signal(signal.SIGINT)
        return recorder

    monkeypatch.setattr("mlflow_l3d.studies.cells.open_recorder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gated()
    assert [run.info.status for role in ("gate", "golden_runs") for run in of_role(place, role)] == ["KILLED"] * 2


def test_no_run_is_begun_for_nothing_if_both_sides_train(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Cell] = []

    class Eager:
        """Begins whatever there is, as many workers would."""

        def __init__(self, setup: Any) -> None:
            self.own = executor_of(setup)

        def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
            own = list(cells)
            begun.extend(own)
            return self.own.run(iter(own))

    monkeypatch.setattr("mlflow_l3d.studies.gate.golden.executor_of", Eager)
    found = gated(LOWER, most_runs=60, smallest_effect=2)
    assert len(found.answer.looks) > 1
    assert len(begun) == found.computed == 2 * found.answer.looks[-1].runs - 8


def test_workers_of_one_side_stay_while_the_other_trains_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def counted(setup: Any) -> Any:
        started.append(setup)
        return executor_of(setup)

    monkeypatch.setattr("mlflow_l3d.studies.gate.golden.executor_of", counted)
    asked = {"most_runs": 9, "smallest_effect": 0.01}
    gated(**asked)  # trains the baseline's runs, too
    started.clear()
    found = gated("hyperparameters=a_model_randomness=8.6", **asked)
    assert (len(found.answer.looks), found.computed, len(started)) == (3, 9, 1)
    assert len(repr(found).splitlines()) <= 25


def test_runs_that_another_process_trains_are_waited_for(place: Place) -> None:
    slow = {**SETTING, "duration": 0.05}
    baseline = place.investigate(golden_runs=5, hyperparameters=slow).run_id
    given = ",".join(f"{name}={value}" for name, value in slow.items())
    other = place.start(factor="data_split", golden_runs=8, executor="inline", hyperparameters=given)
    # The gate may begin first, and the other waits: what counts is that each cell is trained once.
    wait_until(lambda: len(place.parents()) == 3, "the other's parent")
    found = gated(baseline=baseline, most_runs=8, smallest_effect=0.01, looks=2)
    other.communicate(timeout=60)
    assert other.returncode == 0
    assert [look.runs for look in found.answer.looks] == [5, 8]
    assert 8 <= found.computed <= 8 + 3
    keys = [cell.data.tags["l3d.cell_key"] for cell in place.cells() if cell.info.status == "FINISHED"]
    assert len(keys) == len(set(keys)) == 6 + 8 + 6 + 6 + 8 + 8


def test_a_script_with_one_seed_is_gated_by_its_seeds_study(place: Place) -> None:
    lines = ("import random, sys", "noise = random.Random(sys.argv[2]).gauss(0, 0.02)")
    shift = "print('acc:', 0.7 + noise - 0.1 * ('--fast' in sys.argv))"
    Path("train.py").write_text("\n".join([*lines, shift]))
    command = "python -SE train.py --seed {seed}"

    def git(*words: str) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *name, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    git("add", "train.py")
    git("commit", "-m", "one")
    few, study = (seeds(approach="command", command=command, seeds=count, executor="inline") for count in (4, 6))
    function = seeds(lambda seed: {"acc": 0.7 + seed / 1000}, seeds=6)
    with pytest.raises(ParameterError, match=r"golden runs are compared. Use mlflow-l3d compare --runs"):
        gate(baseline=function.run_id, candidate={"command": command})
    with pytest.raises(ParameterError, match="has 4 golden runs, or seeds, with acc"):
        gate(baseline=few.run_id, candidate={"command": f"{command} --fast"})
    found = gate(baseline=study.run_id, candidate={"command": f"{command} --fast"}, most_runs=10, looks=2)
    code = "mlflow.source.git.commit"
    runs = [place.client.get_run(study.run_id), *place.cells(study.run_id)]
    assert {run.data.tags.get(code) for run in runs} == {git("rev-parse", "HEAD")}
    assert runs[0].data.tags["l3d.git_dirty"] == "false"
    assert (found.decision, found.exit_status) == ("worse", 1)
    assert (found.request.candidate.title, found.computed) == ("fast=yes", 10)  # golden runs have seeds of their own
    assert found.request.noise.std == pytest.approx(np.sqrt(2) * study.study.own.std)
    Path("train.py").write_text("\n".join([*lines, shift.replace("0.7", "0.6")]))
    with pytest.raises(
        ParameterError,
        match=r"can be trained here: train\.py changed. Keep .* give changed files other",
    ):
        gate(baseline=study.run_id, candidate={"command": f"{command} --fast"})
    Path("once.py").write_text("print('acc:', 0.7)\nwith open('ran', 'x'): pass")
    with pytest.raises(L3DError, match="a trial run before the study failed"):
        seeds(approach="command", command="python once.py {seed}", seeds=6, executor="inline")
    with pytest.raises(ParameterError, match=r"is a seeds study without a result. Run its command again"):
        gate(baseline="latest", candidate={"command": f"{command} --fast"})
    shutil.rmtree(unquote(urlparse(runs[0].info.artifact_uri).path))
    evaluate(study.run_id)  # writes a result from the children, which lacks the command
    with pytest.raises(ParameterError, match=r"is a seeds study without a result. Run its command again"):
        gate(baseline=study.run_id, candidate={"command": f"{command} --fast"})


def test_a_candidate_that_is_evaluated_on_other_examples_is_not_compared(place: Place) -> None:
    script = """
import random, sys
draw, out, count = random.Random(sys.argv[1]).random, sys.argv[2], int(sys.argv[3])
rows = [f"{i},{i % 2},{(i + (draw() < 0.2 + (i == 19))) % 2}" for i in range(20)]  # the last one is always wrong
print("example_id,label,prediction", *rows[:count], sep="\\n", file=open(f"{out}/predictions.csv", "w"))
"""
    Path("train.py").write_text(script)
    command = "python -SE train.py {seed} {output}"
    study, less = (
        seeds(approach="command", command=f"{command} {count}", seeds=6, executor="inline") for count in (20, 19)
    )
    notes = compare(runs=f"{study.run_id},{less.run_id}").comparison.notes
    assert any("different test examples (20 and 19, 19 of them in common)" in note for note in notes)
    with pytest.raises(ParameterError, match="has other test examples: 19 of its 19 are among the 20 of the baseline"):
        gate(baseline=study.run_id, candidate={"command": f"{command} 19"}, most_runs=5, executor="inline")
    referee(action="start", baseline=study.run_id, baseline_runs=3, executor="inline")
    with pytest.raises(ParameterError, match="has other test examples: 19 of its 19"):
        referee(action="judge", candidate={"command": f"{command} 19"}, executor="inline")


def test_the_script_of_another_folder_is_gated_and_no_run_holds_its_folder(place: Place, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    script = tmp_path / "private" / "train_it.py"
    lines = ("import random, sys", "noise = random.Random(sys.argv[1]).gauss(0, 0.02)")
    script.write_text("\n".join([*lines, "print('acc:', 0.7 + noise - 0.1 * ('--fast' in sys.argv))"]))
    study = seeds(approach="command", command=f"python {script} {{seed}}", seeds=6, executor="inline")
    assert "command=python train_it.py {seed}" in study.summary()
    for command in ("python train_it.py {seed} --fast", f"python {script} {{seed}} --fast"):
        found = gate(baseline=study.run_id, candidate={"command": command}, most_runs=10, looks=2)
        assert (found.decision, found.request.candidate.title) == ("worse", "fast=yes")
        params = place.client.get_run(found.run_id).data.params
        assert "train_it.py" in params["candidate"]
        assert str(tmp_path) not in f"{params} {found.summary()}"
    assert with_whole_paths("python train_it.py 1", f"python {script} {{seed}}") == f"python {script} 1"
    same = "python train_it.py a.csv a.csv --fold 1"  # which of both is which, nobody knows
    assert with_whole_paths(same, "python train_it.py /a/a.csv /b/a.csv --fold 1 --out /runs/1") == same
    Path("train_it.py").touch()  # a file of this folder comes first
    assert with_whole_paths("python train_it.py 1", f"python {script} {{seed}}") == "python train_it.py 1"


def test_a_seeds_study_is_no_baseline_and_names_the_command_that_makes_one(place: Place) -> None:
    study = seeds("synthetic", approach="synthetic", seeds=[1, 2, 3], executor="inline")
    with pytest.raises(ParameterError, match=r"Train a baseline: mlflow-l3d investigate .* --factor all"):
        gate(baseline=study.run_id, candidate="hyperparameters=noise=1")


def test_dry_run_says_what_there_is_to_do_and_starts_nothing(
    place: Place, baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = len(place.runs())
    arguments = ["gate", "--baseline", baseline, "--candidate", ALIKE, "--dry-run", "--executor", "inline"]
    assert cli.main([*arguments, "--most-runs", "16"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Looks after 5, 7, 9, 12 and 16 runs of either side." in shown
    assert "8 of at most 32 runs are done, 24 are to be trained" in shown
    assert "to find a candidate that is worse by 1.00 points" in shown
    assert len(place.runs()) == before


def test_budget_is_planned_from_the_spread_of_the_baseline(place: Place, baseline: str) -> None:
    planned = plan_gate(baseline=baseline, candidate=ALIKE, smallest_effect=20, executor="inline")
    assert planned.forecast.std == planned.request.noise.std  # type: ignore[union-attr]
    assert planned.forecast.worse.worse >= 0.79  # type: ignore[union-attr]
    assert planned.forecast.same.equivalent >= 0.79  # type: ignore[union-attr]


def test_on_new_examples_intervals_are_wider_and_the_other_is_told(place: Place) -> None:
    given = {"metric": "f1_macro", "smallest_effect": 0.05, "most_runs": 10, "looks": 1}
    fixed = gated(**given).answer
    random = gated(**given, examples="random").answer
    wide, narrow = random.looks[-1], fixed.looks[-1]
    assert wide.difference == narrow.difference
    assert wide.high - wide.low >= narrow.high - narrow.low
    assert (wide.low, wide.high) == pytest.approx(fixed.other)
    assert (narrow.low, narrow.high) == pytest.approx(random.other)


def test_runs_that_fail_do_not_count_and_are_told(place: Place) -> None:
    found = gated("hyperparameters=fail_every=3", most_runs=8, looks=1)
    [look] = found.answer.looks
    assert look.runs == 8
    assert 2 <= look.pairs < 8
    assert any("of the candidate have no score" in note for note in found.answer.notes)
    metrics, [step] = place.client.get_run(found.run_id).data.metrics, found.report().steps
    assert (found.decision, found.exit_status, metrics["runs_used"]) == ("undecided", 2, look.pairs)
    assert "No verdict if more than 10 % of the runs fail" in step.text


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"candidate": "none"}, "candidate=none: must be a run id, or what differs"),
        ({"candidate": "better"}, "candidate=better: must be a run id, or what differs from the baseline as"),
        ({"candidate": "golden_runs=4"}, "candidate='golden_runs': must be hyperparameters=NAME=VALUE, or"),
        ({"candidate": "{"}, "candidate={: is not valid JSON"),
        ({"candidate": "hyperparameters=a_data_ordr=1"}, "candidate: hyperparameters='a_data_ordr': must be"),
        ({"candidate": "0" * 32}, f"candidate={'0' * 32}: no such run on the tracking server"),
        ({"baseline": "f" * 32}, f"baseline={'f' * 32}: no such run"),
        ({"candidate": "reference_size=40"}, "candidate=reference_size=40: must have the test set of baseline"),
        ({"candidate": "task=rotten_tomatoes"}, "candidate=task=rotten_tomatoes: is of the data rotten_tomatoes, and"),
        ({"alpha": 0.7}, "alpha=0.7: must be a number above 0 and below 0.5"),
        ({"smallest_effect": 0.2, "metric": "accuracy"}, "smallest_effect=0.2: must be at least 0.25: one of 400 test"),
        ({"smallest_effect": 0}, "smallest_effect=0: must be auto or a number above 0"),
        ({"most_runs": 4}, "most_runs=4: must be auto or a whole number from 5"),
        ({"metric": "rougeX"}, "metric=rougeX: the golden runs of baseline .* do not have it"),
        ({"metric": "duration_seconds"}, "metric=duration_seconds: is not a score"),
        ({"lok": 4}, "parameter='lok': must be one of"),
    ],
)
def test_mistakes_are_one_line(whole: tuple[Place, str], parameters: dict[str, Any], line: str) -> None:
    place, baseline = whole
    before = len(place.runs())
    with place.entered(), pytest.raises(ParameterError, match=line):
        gated(**{"candidate": ALIKE, "baseline": baseline, **parameters})
    assert len(place.runs()) == before


def test_an_investigation_is_not_its_own_candidate_and_few_golden_runs_are_none(place: Place, baseline: str) -> None:
    refuses("is the baseline itself", gated, baseline, baseline=baseline)
    same = f"candidate=the same: has the same runs as baseline {baseline}"
    refuses(same, gated, {"hyperparameters": SETTING}, baseline=baseline)
    few = place.investigate(golden_runs=4, hyperparameters={**SETTING, "noise": 0.5}).run_id
    refuses(r"has 4 golden runs, or seeds, with synthetic_score; a gate plans from 5 or more", gated, baseline=few)
    pooled = place.investigate(golden_runs="pooled", hyperparameters={**SETTING, "noise": 0.2}).run_id
    refuses("has no golden runs that finished", gated, baseline=pooled)
    place.client.set_tag(few, "l3d.superseded_by", baseline)
    refuses(f"did not finish. Name run {baseline}, which continued it", gated, baseline=few)


def test_base_runs_of_a_radial_investigation_are_compared_with_base_runs(place: Place) -> None:
    size = {"investigation_runs": 10, "mitigation_runs": 6, "golden_runs": "auto"}
    found = gated(baseline=place.investigate(design="radial", **size, hyperparameters=SETTING).run_id, most_runs=8)
    assert found.decision == "equivalent"
    assert {cell.data.tags["l3d.phase"] for cell in place.cells(of_role(place, "golden_runs")[-1].info.run_id)} == {
        "base"
    }


def test_runs_of_another_root_seed_are_compared_as_independent_ones(place: Place, baseline: str) -> None:
    other = place.investigate(golden_runs=8, root_seed=7, hyperparameters=SETTING).run_id
    found = gated(other, baseline=baseline, most_runs=8, looks=1)
    assert not found.answer.paired
    assert found.answer.looks[-1].degrees > 8
    assert any("different root seeds" in note for note in found.answer.notes)


def test_a_stopped_run_that_cannot_be_extended_says_so(place: Place, baseline: str) -> None:
    place.client.set_tag(baseline, "l3d.context_key", "0" * 32)
    refuses(r"has 8 golden runs of 20, and no more can be trained here: its data", gated, baseline=baseline)
    assert gated(baseline=baseline, most_runs=8).decision == "equivalent"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--candidate", "none"], 3),
        (["--candidat", "none"], 3),
        (["--candidate", ALIKE, "--alpha", "2"], 3),
        (["--candidate", LOWER, "--most-runs", "60", "--smallest-effect", "2"], 1),
        (["--candidate", ALIKE, "--most-runs", "5", "--smallest-effect", "0.01"], 2),
        (["--candidate", ALIKE, "--most-runs", "20"], 0),
    ],
)
def test_exit_statuses(
    request: pytest.FixtureRequest,
    baseline: str,
    tmp_path: Path,
    arguments: list[str],
    status: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Two of them were asked already, and train nothing again.
    there = {0: "alike", 1: "_worse"}.get(status, "whole")
    place = copied(request.getfixturevalue(there)[0], tmp_path / "copy")
    with place.entered():
        assert cli.main(["gate", "--baseline", baseline, "--executor", "inline", *arguments]) == status
    assert ("error" in capsys.readouterr().err) is (status == 3)
    decision = {0: {"equivalent"}, 1: {"worse"}, 2: {"undecided"}}.get(status, set())
    assert {run.data.tags["l3d.decision"] for run in of_role(place, "gate")} == decision


def test_golden_runs_without_a_factor_are_an_error_in_one_line(tracking_uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setattr(Approach, "inactive_on", lambda self, *_: dict.fromkeys(self.factors, "it is greedy"))
    with pytest.raises(ParameterError, match=r"factors=.* data_order: it is greedy.*: must have one with an effect"):
        specify_golden("candidate", {"approach": "synthetic"}, phase="golden")


def test_golden_runs_need_to_repeat_only_if_those_that_are_recorded_did(tracking_uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    recorded = {"approach": "synthetic", "deterministic": "false"}
    asked = specify_golden("candidate", recorded, phase="golden", deterministic="true", device="auto")
    assert not asked.setup.deterministic
    assert specify_golden("candidate", {**recorded, "deterministic": "true"}, phase="golden").setup.deterministic
