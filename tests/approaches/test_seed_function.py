"""Functions of seeds: what they may return, a Trainer of transformers, and what looks like one of Lightning."""

import importlib
import linecache
import random
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mlflow_l3d
from mlflow_l3d import SeedFunction
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.command import files
from mlflow_l3d.approaches.functions import of_seeds
from mlflow_l3d.approaches.functions.parts import full_name
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.testing import one_cell


def outcomes_of(function, cells=2, **given):
    """Return approach, task, the seeds of some cells, and their outcomes."""
    approach = SeedFunction(function, **given)
    hyperparameters = resolve_hyperparameters(approach, {})
    task = approach.own_task(hyperparameters, mlflow_l3d.paths.cache_folder())
    session = approach.prepare(task, hyperparameters, model="", device="cpu", cache=None)
    trained = [one_cell(approach.factors, configuration=number) for number in range(cells)]
    return approach, task, [cell.seeds["seed"] % 2**31 for cell in trained], list(session.run(trained))


EVENT = threading.Event()


def by_number(seed):
    return np.float32(seed % 100 / 128)


def by_mapping(seed):
    return {"val_loss": 1, "test_acc": seed % 100 + 2}


def by_global_generators(seed):
    return {"accuracy": random.random(), "f1": random.random()}


class Bolt:
    """Looks like a trainer of Lightning."""

    def __init__(self, seed):
        self.seed, self.seen = seed, []

    def fit(self, *data):
        self.seen.append(data)

    def test(self, *data):
        assert self.seen == [data] == [("module", "data")]
        return [{"test_loss": 2.0}, {"test_acc": self.seed % 100 / 128}]


def by_lightning(seed):
    return Bolt(seed), "module", "data"


@pytest.mark.parametrize(
    ("function", "score", "expected"),
    [
        (by_number, "score", lambda seed: seed % 100 / 128),
        (by_mapping, "test_acc", lambda seed: (seed % 100 + 2) / 100),
        (by_global_generators, "accuracy", lambda seed: random.Random(seed).random()),
        (by_lightning, "test_acc", lambda seed: seed % 100 / 128),
    ],
)
def test_the_score_of_what_a_function_returns(function, score, expected):
    random.seed(3)
    before = random.getstate()
    approach, _, seeds, outcomes = outcomes_of(function)
    assert approach.metric == score
    assert [outcome.metrics[score] for outcome in outcomes] == pytest.approx(list(map(expected, seeds)))
    assert random.getstate() == before


def with_tolerance(seed, tolerance=0.5, *more, **named):
    return tolerance * (not more and not named)


def with_defaults(tolerance=0.5, num_seed=1, use_seed=True, seed=0):
    return tolerance * num_seed * use_seed


@pytest.mark.parametrize("function", [with_tolerance, partial(with_tolerance, tolerance=0.5), with_defaults])
def test_a_parameter_that_has_a_value_keeps_it(function):
    approach, _, _, outcomes = outcomes_of(function)
    assert approach.factors == ("seed",)
    assert [outcome.metrics["score"] for outcome in outcomes] == [0.5, 0.5]


def by_file(seed):
    Path("best.txt").write_text(f"{seed % 100 / 128}")
    return float(Path("best.txt").read_text())


def by_same_file(seed):
    return by_file(seed)


@pytest.mark.parametrize(
    ("function", "most", "why"),
    [(by_file, 20_000, "best.txt changed while the function ran"), (by_same_file, 1, "more than 1 files, too many")],
)
def test_runs_of_a_function_that_writes_into_the_folder_follow_one_another(
    function, most, why, tmp_path, monkeypatch, caplog
):
    monkeypatch.chdir(tmp_path)
    for module in (files, of_seeds):
        monkeypatch.setattr(module, "MOST_FILES", most)
    approach, _, seeds, outcomes = outcomes_of(function)
    assert why in approach.first.alone
    assert f"Runs follow one another, since {approach.first.alone}. Write to a folder that" in caplog.text
    assert [outcome.metrics["score"] for outcome in outcomes] == [seed % 100 / 128 for seed in seeds]


def test_what_we_publish_is_known_by_its_public_name_in_whatever_module_it_is_defined():
    objects = mlflow_l3d.importance, SeedFunction, files.walk
    expected = ["mlflow_l3d.importance", "mlflow_l3d.SeedFunction", "mlflow_l3d.approaches.command.files.walk"]
    assert [*map(full_name, objects)] == expected


def test_an_edit_of_a_local_module_makes_another_key(tmp_path, monkeypatch):
    (tmp_path / "l3d_train.py").write_text(
        "def train(seed):\n    from l3d_own.steps import run\n    return run(seed)\n"
    )
    (tmp_path / "l3d_own").mkdir()
    (tmp_path / "l3d_own" / "steps.py").write_text("import l3d_helper\nrun = l3d_helper.half\n")
    helper = tmp_path / "l3d_helper.py"
    helper.write_text("def half(seed):\n    return 0.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    approach = SeedFunction(importlib.import_module("l3d_train").train)
    before = approach.dependencies({}, "")
    assert approach.dependencies({}, "") == before
    assert {*approach.texts} == {"train", "l3d_own/steps.py", "l3d_helper.py"}
    helper.write_text("def half(seed):\n    return 0.25\n")
    assert approach.dependencies({}, "") != before


def test_runs_in_this_process_make_no_other_key_and_an_edit_between_them_does(tmp_path, monkeypatch):
    (tmp_path / "l3d_state.py").write_text("SETTINGS = {'rate': 1}\nCACHE = {}\n")
    source = (
        "    l3d_state.CACHE[seed] = l3d_state.SETTINGS['seed'] = seed\n    return l3d_state.SETTINGS['rate'] / 8\n"
    )
    (tmp_path / "l3d_stateful.py").write_text(f"import l3d_state\ndef train(seed):\n{source}")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("l3d_stateful")
    keys = []
    for rate in (1, 1, 2, 1):
        module.l3d_state.SETTINGS["rate"] = rate
        keys.append(SeedFunction(module.train).dependencies({}, "")["source"])
        approach = SeedFunction(module.train)
        hyperparameters = resolve_hyperparameters(approach, {})
        task = approach.own_task(hyperparameters, tmp_path / "cache")
        assert approach.dependencies({}, "")["source"] == keys[-1]
        session = approach.prepare(task, hyperparameters, model="", device="cpu", cache=tmp_path)
        (outcome,) = session.run([one_cell(approach.factors)])
        assert outcome.metrics == {"score": rate / 8}
        session.close()
    assert keys[0] == keys[1] != keys[2]
    assert len(module.l3d_state.CACHE) > 1


def test_the_source_of_a_class_of_a_notebook_is_in_the_cell_of_its_methods(monkeypatch):
    cell = "class Net:\n    def score(self):\n        return 0.5\n\ndef train(seed):\n    return Net().score()\n"
    monkeypatch.setitem(linecache.cache, "<cell 1>", (len(cell), None, cell.splitlines(keepends=True), "<cell 1>"))
    names = {"__name__": "notebook without a file"}
    exec(compile(cell, "<cell 1>", "exec"), names)
    approach = SeedFunction(names["train"])
    approach.dependencies({}, "")
    train, net = "def train(seed):\n    return Net().score()", "class Net:\n\n    def score(self):\n        return 0.5"
    assert approach.texts == {"train": train, "Net": net}


def by_predictions(seed):
    return np.array([0, 1, 1, 0]), [seed >> place & 1 for place in range(4)]


def test_labels_and_predictions_of_a_function():
    _, task, seeds, outcomes = outcomes_of(by_predictions)
    assert task.class_names == ("0", "1")
    assert [each.predictions.tolist() for each in outcomes] == [by_predictions(seed)[1] for seed in seeds]
    assert outcomes[0].labels.tolist() == [0, 1, 1, 0]
    assert outcomes[0].example_ids.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda: 1, "takes no seed. Give it one: def train"),
        (lambda seeded=True, *seed: seeded, "takes no seed"),
        (lambda seed: None, "returned NoneType, and must return a score"),
        (lambda seed: (0.3, 0.8), r"returned \(0.3, 0.8\). Name scores, such as"),
        (lambda seed: (np.array(0.3), 0.8), "Name scores, such as"),
        (lambda seed: {"test": {"acc": 0.8}}, "returned test={'acc': 0.8}, not a number. Map each name"),
        (lambda seed: ([0, 1], np.eye(2)), r"2 numbers for each label or prediction.*argmax\(axis=1\)"),
        (lambda seed: ([1], [1, 2]), "returned 1 labels and 2 predictions"),
        (lambda seed: {"x": 1, "y": 2}, r"numbers that the function wrote \(x, y\).*metric='x', or return it"),
        (lambda seed: 1 / 0, "^ZeroDivisionError: division by zero$"),
        (lambda seed: EVENT, r"content is not known. Give a version, .*SeedFunction\(<lambda>, version="),
    ],
)
def test_a_function_that_cannot_be_used_says_why(function, why):
    with pytest.raises(L3DError, match=why):
        outcomes_of(function)


def test_a_function_in_the_place_of_a_task_is_an_approach(tracking_uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    with pytest.raises(ParameterError, match="task=object: must be an object, not its class"):
        mlflow_l3d.seeds(object, seeds=2)
    run = mlflow_l3d.seeds(by_mapping, seeds=[5, 7], executor="inline", metric="test_acc")
    assert run.study.scores["test_acc"].tolist() == pytest.approx([0.07, 0.09])


def strays(seed):
    import mlflow

    mlflow.set_tracking_uri(f"{mlflow.get_tracking_uri().partition('?')[0]}?timeout={30 + seed}")  # the same store
    mlflow.set_experiment("theirs")
    mlflow.start_run()
    mlflow.log_metric("accuracy", seed / 100)
    return {"accuracy": seed / 100}


def test_a_function_that_sets_another_server_and_leaves_a_run_open_moves_no_study(tracking_uri, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    mlflow.set_experiment("mine")
    with mlflow.start_run() as outer:
        run = mlflow_l3d.seeds(strays, seeds=[5, 7], executor="inline")
        assert mlflow.active_run().info.run_id == outer.info.run_id
    assert mlflow.get_tracking_uri() == tracking_uri
    studied = mlflow.get_run(run.run_id)
    assert mlflow.get_experiment(studied.info.experiment_id).name == "mine"
    theirs = mlflow.search_runs(experiment_names=["theirs"])
    assert {*theirs["status"]} == {"FINISHED"}
    assert len(theirs) > 2


def trainer(seed):
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=40, id2label={0: "neg", 1: "pos"}, **sizes)
    examples = [{"input_ids": torch.arange(place % 9, place % 9 + 6), "labels": place % 2} for place in range(30)]
    quiet = {"report_to": "none", "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
    quiet |= {"use_cpu": True}
    arguments = TrainingArguments("unused", num_train_epochs=1, learning_rate=0.01, **quiet)
    return Trainer(
        BertForSequenceClassification(config), arguments, train_dataset=examples[:16], eval_dataset=examples[16:]
    )


def test_a_trainer_that_a_function_returns_is_trained_and_evaluated(tmp_path, monkeypatch):
    import torch

    monkeypatch.chdir(tmp_path)
    before = torch.get_rng_state()
    drawn = [SeedFunction(trainer).execute({"seed": seed}, {}) for seed in (0, 1, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    scores = [np.column_stack([each.scores["neg"], each.scores["pos"]]) for each in drawn]
    assert np.array_equal(scores[1], scores[2])
    assert not np.allclose(scores[0], scores[1])
    assert drawn[0].labels == ["neg", "pos"] * 7
    assert drawn[0].predictions == [("neg", "pos")[place] for place in scores[0].argmax(axis=1)]
    assert drawn[0].metrics["eval_loss"] > 0
