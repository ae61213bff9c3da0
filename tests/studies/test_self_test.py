"""Commands from end to end, and whether seeds do what they say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient
from refusals import fails, refuses

import mlflow_l3d
from mlflow_l3d.approaches.base import Approach, CellwiseSession, answered
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.gate.golden import GoldenRuns, specify_golden
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.investigation.run import investigate
from mlflow_l3d.studies.referee.golden import GoldenSource
from mlflow_l3d.studies.seeds.run import seeds
from mlflow_l3d.studies.self_test import _change
from mlflow_l3d.studies.sweep.run import sweep
from mlflow_l3d.tracking import names

SCRIPT = """
import json, os, sys
a, b, c = map(int, sys.argv[1:])
drawn = int.from_bytes(os.urandom(4), "big") if LEAK else 0
score = (a % 1000 + b % 100 + drawn % 1000) / 1100
json.dump({"rmse": score}, open("metrics.json", "w"))
"""
TYPED = {"approach": "command", "command": "python -SE train.py {a} {b} {c}", "metric": "rmse", "executor": "inline"}
SIZES = {"factor": "a,b", "investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 2}


@pytest.fixture(autouse=True)
def store(tracking_uri, monkeypatch):
    """Let every study log to a store that is ready, in the folder of the test."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)


@pytest.fixture
def script(tmp_path):
    """Write the script where the command is typed."""

    def write(*, leak=False, of_c="0"):
        text = SCRIPT.replace("LEAK", str(leak)).replace("drawn % 1000", f"drawn % 1000 + {of_c}")
        (tmp_path / "train.py").write_text(text)

    return write


@pytest.mark.slow
def test_a_command_is_investigated_as_any_approach(script):
    script(of_c="c % 7")
    found = investigate(**TYPED, **SIZES)
    assert (found.computed, found.request.setup.all_factors) == (10, ("a", "b", "c"))
    assert found.analysis.importances["a"].contributed_std > found.analysis.importances["b"].contributed_std
    parent = MlflowClient().get_run(found.run_id)
    assert parent.data.params["command"] == TYPED["command"]
    assert "num_labelled" not in {name.removeprefix("resolved.") for name in parent.data.params if "resolved" in name}
    again = investigate(**TYPED, **SIZES)
    assert (again.computed, again.reused) == (0, 10)
    script(of_c="c % 11")
    assert investigate(**TYPED, **SIZES).computed == 10


@pytest.mark.slow
def test_a_seed_that_does_nothing_stops_before_the_cells(script):
    script()
    fails(
        r"^self-test: c: 2 .* rmse: they may not .* give predictions or a loss too, which show it\. Mend",
        investigate,
        **TYPED,
        **SIZES,
    )
    (parent,) = MlflowClient().search_runs(["0"], f"tags.`{names.ROLE}` = 'investigation'")
    assert (parent.info.status, parent.data.tags.get("l3d.error", "self-test")[:9]) == ("FAILED", "self-test")
    assert investigate(**TYPED, **SIZES, self_test="skip").computed == 10


@pytest.mark.slow
def test_what_is_drawn_beside_the_seeds_is_found(script):
    script(leak=True, of_c="c % 7")
    found = mlflow_l3d.self_test(**TYPED, **SIZES)
    assert found.exit_status == 1
    assert set(found.effects) == {"a", "b", "c", "replicate"}
    assert "drawn that no seed decides, or runs side by side share a file (use workers=1" in found.summary()
    assert MlflowClient().search_runs(["0"]) == []
    investigate(**TYPED, **SIZES, deterministic="false")


@pytest.mark.slow
def test_runs_of_the_self_test_that_the_study_has_are_its_cells(script, tmp_path, monkeypatch):
    """Base run and swaps of the radial design, and two seeds of a study of seeds, are trained once."""
    script(of_c="c % 7")
    count = tmp_path.with_name("count")  # not in the folder of the script, and not named by it: both are looked at
    count.write_text("")
    text = (tmp_path / "train.py").read_text()
    (tmp_path / "train.py").write_text(text + "open('/'.join(['..', 'count']), 'a').write('.')\n")
    for study, given, cells in (
        (investigate, {"factor": "all", "design": "radial", "mitigation_runs": 2}, 8),
        (seeds, {"seeds": 3, "command": "python -SE train.py {seed} 1 1"}, 3),
    ):
        monkeypatch.setenv("L3D_CACHE", str(tmp_path / study.__name__))
        before = len(count.read_text())
        assert study(**{**TYPED, **given}).computed == cells
        assert len(count.read_text()) - before == 1 + cells + 1  # which metrics it has; the replicate


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_a_seed_that_does_nothing_stops_a_study_of_seeds(script, count):
    script()
    given = {**TYPED, "command": "python -SE train.py 1 1 {seed}", "seeds": count}
    fails(r"^self-test: seed: 2 new seeds gave the same rmse: they may not", seeds, **given)
    (parent,) = MlflowClient().search_runs(["0"], "tags.`l3d.role` != 'cell'")
    assert parent.info.status == "FAILED"
    assert mlflow_l3d.self_test_seeds(**given).problems
    assert seeds(**given, self_test="skip").computed == count


@pytest.mark.parametrize("also", ["loss", "seed"])
def test_a_seed_that_moves_another_score_reaches_the_training(tmp_path, also):
    """Of few test examples the score of another seed is often the same; a seed that is printed is no score."""
    written = f"{{'acc': 0.5, '{also}': int(sys.argv[1])}}"
    (tmp_path / "train.py").write_text(f"import json, sys\njson.dump({written}, open('metrics.json', 'w'))")
    found = mlflow_l3d.self_test_seeds(approach="command", command="python -SE train.py {seed}", executor="inline")
    assert (found.exit_status, found.effects["seed"][:5]) == ((0, "loss ") if also == "loss" else (1, "nothi"))
    assert found.effects["replicate"] == "nothing"


def test_seeds_that_move_the_test_set_are_found_before_training(tmp_path):
    lines = "print('example_id,label,prediction')\nfor i in range(4): print(f'{(i + SEED) % 9},0,{(i * SEED) % 2}')"
    text = f"import sys; sys.stdout = open('predictions.csv', 'w')\n{lines}"
    (tmp_path / "train.py").write_text(text.replace("SEED", "int(sys.argv[1])"))
    given = {"approach": "command", "command": "python -SE train.py {seed}", "executor": "inline", "seeds": 2}
    with pytest.raises(L3DError, match=r"^self-test: seed: which examples are evaluated, and only shared ones"):
        seeds(**given, hyperparameters="classes=0|1")
    assert not MlflowClient().search_runs(["0"], "tags.`l3d.role` = 'cell'")
    kept = seeds(**given, hyperparameters="classes=0|1", self_test="skip")
    assert (kept.computed, kept.failed, kept.study.own.runs, kept.study.unshared) == (2, 0, 2, 2)
    assert sorted(kept.study.examples.frame["example_id"]) == [0, 7, 8]


@pytest.mark.parametrize(("after", "shown"), [(0.6679999828338623, "0.64 to 0.668"), (None, "0.64 to n/a")])
def test_a_changed_score_is_shown_in_few_digits(after, shown):
    one, other = (
        Outcome(name, metrics={"val_acc": score}) for name, score in (("a", 0.6399999856948853), ("b", after))
    )
    other = other if after else Outcome("b")
    assert _change(one, other, "val_acc") == f"val_acc {shown}"


def test_a_trial_run_that_fails_says_so(script, tmp_path):
    script()
    specified = specify({**TYPED, **SIZES})  # it is run once: which metrics it has
    assert specified.setup.title("split") == "split · train.py"
    (tmp_path / "train.py").write_text("raise SystemExit('no data.')")
    with pytest.raises(L3DError, match=r"^self-test: a trial run before the study failed: .*no data\. Mend it"):
        seeds(**TYPED, seeds=2, hyperparameters="classes=none")


def forgetful(task, split, seeds, hyperparameters):
    """Draw beside the seeds."""
    return np.random.default_rng().integers(len(task.class_names), size=len(split.test))


@pytest.mark.slow
def test_a_function_is_tried_in_every_study():
    approach = FunctionApproach(forgetful, name="forgetful", version="1", factors=["data_order"])
    given = {"approach": approach, "task": "synthetic", "num_labelled": 20, "test_size": 50, "executor": "inline"}
    for study, more in ((investigate, {}), (seeds, {}), (sweep, {"task": ["synthetic"]})):
        point = "At the point synthetic: " * (study is sweep)
        fails(rf"^{point}self-test: the same seeds gave another result", study, **{**given, **more})


class Forgetful(Approach):
    """A class of a user's own package, which says nothing of tests."""

    name, version, factors = "forgetful_class", "1", ("label_selection", "data_split")

    def prepare(self, task, hyperparameters, **_):
        return ForgetfulSession(task)


class ForgetfulSession(CellwiseSession):
    def __init__(self, task):
        self.task = task

    def run_cell(self, cell):
        test = self.task.split(cell.seeds).test
        return answered(cell.key, self.task, test, np.random.default_rng().integers(2, size=len(test)))


def test_a_class_of_ones_own_is_tried_before_the_cells():
    sizes = {"num_labelled": 20, "test_size": 50, "executor": "inline"}
    with pytest.raises(L3DError, match=r"^self-test: the same seeds gave another result"):
        investigate("synthetic", approach=Forgetful(), factor="data_split", **sizes)


@pytest.mark.slow
def test_points_of_a_sweep_are_tried_once(script, tmp_path):
    script(of_c="c % 7")
    script_of = (tmp_path / "train.py").read_text()
    (tmp_path / "train.py").write_text(script_of + f"open({str(tmp_path / 'count')!r}, 'a').write('.')\n")
    found = sweep(**TYPED, **SIZES, root_seed=[0, 1])
    runs = len((tmp_path / "count").read_text())
    assert (len(found.points), found.computed) == (2, 20)
    assert runs == 1 + 20 + 4  # which metrics it has; of five trial runs, the first is a cell of the study
    assert all(point.analysis for point in found.points)
    assert specify({**TYPED, "factor": "auto"}).factors == ("a", "b", "c")
    with pytest.raises(ParameterError, match=r"^self_test=only: is for the commands investigate and seeds"):
        sweep(**TYPED, **SIZES, root_seed=[2, 3], self_test="only")


@pytest.mark.slow
@pytest.mark.parametrize("of_c", ["0", "c % 7"])
def test_golden_runs_of_a_gate_are_tried_before_the_first(script, of_c):
    script(of_c=of_c)
    asked = replace(specify_golden("candidate", TYPED, phase="golden"), runs=3)
    runs = GoldenRuns(asked)
    if of_c == "0":
        with pytest.raises(L3DError, match=r"^self-test: c: 2 new seeds"), runs.opened():
            runs.advance(2)
        return
    with runs.opened():
        runs.advance(2)
        assert np.isfinite(runs.scores[:2]).all()
        assert runs.computed + runs.missing_runs(3) == 3
        runs.finish(2)


def test_trial_runs_of_a_sweep_name_the_point_at_which_they_fail(tmp_path):
    (tmp_path / "one.py").write_text(
        "import sys; a, b, c = map(int, sys.argv[1:]); print('reward:', a % 9 + b % 7 / c)"
    )
    command = [f"python -SE one.py {{a}} {{b}} {added}" for added in (0, 2)]
    typed = {"approach": "command", "factor": "a", "executor": "inline", "hyperparameters": "classes=none"}
    with pytest.raises(L3DError, match=r"^At the point command=python -SE one.py {a} {b} 0: .*division by zero"):
        sweep(**typed, command=command, metric="reward", investigation_runs=2, mitigation_runs=2)


def test_what_does_not_go_with_a_command(script):
    script()
    for given, why in (
        ({"task": "sst2"}, "task=sst2: has no effect: approach=command has data of its own"),
        ({"num_labelled": 10}, "num_labelled=10: has no effect"),
        ({"factor": "data_order"}, "factor='data_order': must be a factor of command: a, all, b, c, replicate"),
        ({"factor": "auto", "command": "python -SE train.py {a} 1 1"}, "factor=all: needs two .* mlflow-l3d seeds"),
        ({"metric": "f1_macro"}, r"metric=f1_macro: is not among what the command wrote \(rmse\)"),
        ({"approach": "synthetic", "metric": "f1_macro"}, "command=.*has no effect. Use approach=command"),
    ):
        refuses(f"^{why}", specify, {**TYPED, **SIZES, **given})


@pytest.mark.parametrize("study", [investigate, seeds])
def test_only_trying_seeds_is_refused_before_a_run_opens(study):
    refuses(r"^self_test=only: trains nothing.*call mlflow_l3d\.self_test or", study, **TYPED, self_test="only")
    assert MlflowClient().search_runs(["0"]) == []


def test_a_command_that_prints_one_number_needs_no_name_of_it_and_takes_a_direction(tmp_path, caplog):
    (tmp_path / "one.py").write_text("import sys; print('widgets:', 5 + int(sys.argv[1]) % 7)")
    typed = {"approach": "command", "command": "python -SE one.py {seed}", "seeds": 3, "executor": "inline"}
    named, lower = seeds(**typed), seeds(**typed, metric="widgets:lower")
    assert "The score is widgets" in caplog.text
    assert (named.study.metric.greater_is_better, lower.study.metric.greater_is_better) == (True, False)
    assert named.study.scores["widgets"].tolist() == lower.study.scores["widgets"].tolist()
    assert "more is taken to be better" not in lower.summary()
    best = min(lower.study.scores["widgets"])
    assert f"({best:.3f}); worst" in mlflow_l3d.evaluate(lower.run_id).summary()
    started: dict[str, Any] = {"shared_seeds": True, "fresh_half": False, "executor": "inline"}
    source = GoldenSource(MlflowClient(), lower.run_id, "auto", **started)
    # What a referee's session records of itself, from which a later call continues it.
    assert not GoldenSource(MlflowClient(), lower.run_id, source.identity["metric"], **started).metric.greater_is_better


@pytest.mark.slow
def test_a_seed_that_moves_the_split_of_a_function_is_found_before_training():
    labels = np.arange(60) % 3 == 0

    def train(seed):
        test = np.random.default_rng(seed).permutation(60)[:30]
        return labels[test], np.random.default_rng(seed).random(30) < 0.3

    with pytest.raises(L3DError, match=r"^self-test: seed: .*an id must name the same example .* or give scores alone"):
        seeds(train, seeds=3, executor="inline")
    assert not MlflowClient().search_runs(["0"], "tags.`l3d.role` = 'cell'")
    one = Outcome("a", np.array([0, 1]), np.array([0, 1]), np.array([0, 0]))
    other = Outcome("b", np.array([1, 0]), np.array([0, 1]), np.array([0, 0]))
    assert _change(one, other, "accuracy").startswith("an id must name the same example")  # in two processes
    assert _change(one, replace(one, key="b"), "accuracy") == ""
    assert _change(one, replace(one, metrics={"loss": 0.5}), "loss") == "loss n/a to 0.5"  # with equal predictions
    undefined = replace(one, metrics={"pearson": float("nan"), "loss": 0.5})
    assert _change(undefined, replace(undefined, metrics={**undefined.metrics}), "pearson", "loss") == ""
    other_loss = replace(undefined, metrics={"pearson": float("nan"), "loss": 0.6})
    assert _change(undefined, other_loss, "pearson", "loss") == "loss 0.5 to 0.6"
