"""Where hyperparameters come from: every form that may be typed, what is recorded of it, and every mistake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from specification_helpers import FakeApproach, fake, small

from mlflow_l3d.approaches.base import Approach, resolve_hyperparameters
from mlflow_l3d.approaches.finetuning.approach import Finetuning
from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.icl.approach import InContextLearning
from mlflow_l3d.approaches.meta_learning import MetaLearning
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters.search_document import FoundSearch, Searches, Subject, search_document, splits_of
from mlflow_l3d.parameters.sources import choose, parse
from mlflow_l3d.parameters.values import as_text
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate

RUN_ID = "0123456789abcdef" * 2
VALUES: dict[str, Any] = {"rate": 0.25, "steps": 7, "deep": True, "kind": "fancy"}
SUBJECT = Subject("words", "f" * 32, "fake", "1", "", "none", SplitSettings(num_labelled=20, test_size=20))


def settings(**changes: Any) -> dict[str, Any]:
    return {"num_labelled": 20, "test_size": 20, "test_selection": "label_selection", **changes}


def left(subject: Subject = SUBJECT, **changes: Any) -> dict[str, Any]:
    """Return what a search of a subject leaves."""
    document = {
        **asdict(subject),
        "schema": 1,
        "hyperparameters": VALUES,
        "score": 0.8,
        "metric": "f1_macro",
        "search_run_id": RUN_ID,
        "searched_on": [{"data_split": 5, "label_selection": 0, "data_order": 9}],
        "settings": settings(),
    }
    return {**document, **changes}


def finder(document: Mapping[str, Any], asked: list[tuple[str, Subject]] | None = None) -> Searches:
    def find(text: str, subject: Subject) -> FoundSearch:
        if asked is not None:
            asked.append((text, subject))
        return FoundSearch(RUN_ID, document)

    return find


def chosen(text: str, approach: Approach | None = None, subject: Subject = SUBJECT, **changes: Any) -> Any:
    return choose(text, approach or FakeApproach(), lambda: subject, finder(left(subject, **changes)))


def unasked() -> Subject:
    pytest.fail("the data was loaded for nothing")


def refused(text: str, *, approach: Approach | None = None, searches: Searches | None = None) -> str:
    with pytest.raises(L3DError) as caught:
        choose(text, approach or FakeApproach(), lambda: SUBJECT, searches)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_values_in_all_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(VALUES))
    (tmp_path / "odd,name.json").write_text(json.dumps(VALUES))
    forms = {
        "rate=0.25,steps=7,deep=true,kind=fancy": "inline",
        " rate = 2.5e-1 , steps = 7.0 , deep = TRUE , kind = fancy ": "inline",
        "default,rate=0.25,steps=7,deep=true,kind=fancy": "default",
        json.dumps(VALUES): "inline",
        f"  {json.dumps(VALUES, indent=2)}": "inline",
        json.dumps({**VALUES, "steps": 2}) + " , steps=7": "inline",
        str(file): "file",
        f"{file},steps=7": "file",
        "~/mine.json": "file",
        f"{tmp_path}/odd,name.json": "file",
        f"{tmp_path}/odd,name.json,rate=0.25": "file",
        as_text("hyperparameters", VALUES): "inline",
    }
    for form, source in forms.items():
        values, origin = choose(form, FakeApproach(), unasked)
        assert values == VALUES, form
        assert (origin.source, origin.search_run_id, origin.notes) == (source, "", ()), form
    assert choose("default", FakeApproach(), unasked)[0] == resolve_hyperparameters(FakeApproach(), {})


def test_a_file_named_like_a_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse("kind=x.json").values == {"kind": "x.json"}


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parse("template=a=b").values == {"template": "a=b"}
    assert parse("paper,template=a=b").overrides == {"template": "a=b"}


@given(st.dictionaries(st.sampled_from("abcdef"), st.text("xyz0123456789.=-", max_size=5), min_size=1), st.data())
def test_pairs_are_read_back_beside_any_source(values: dict[str, str], data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(["default", "paper", "latest", RUN_ID]))
    blank = data.draw(st.sampled_from(["", " "]))
    pairs = ",".join(f"{blank}{name}={value}" for name, value in values.items())
    beside = parse(f"{blank}{source}{blank},{pairs}")
    assert beside.source == ("search" if source in {"latest", RUN_ID} else source)
    assert beside.name == source
    assert beside.overrides == values
    assert parse(pairs).values == values


def test_the_latest_search_and_a_search_by_its_run() -> None:
    for text in ("latest", RUN_ID):
        asked: list[tuple[str, Subject]] = []
        values, origin = choose(text, FakeApproach(), lambda: SUBJECT, finder(left(), asked))
        assert values == VALUES
        assert origin.document() == {"source": "search", "search_run_id": RUN_ID, "overridden": []}
        assert origin.notes == ()
        assert asked == [(text, SUBJECT)]


def test_values_beside_a_source_win_and_are_noted() -> None:
    values, origin = chosen("latest,steps=9,kind=fancy")
    assert values == {**VALUES, "steps": 9}
    assert origin.overridden == ("steps", "kind")
    assert origin.notes == ("Hyperparameters were searched with steps=7, and are used with steps=9.",)


def test_a_file_that_a_search_left(tmp_path: Path) -> None:
    file = tmp_path / "hyperparameters.json"
    file.write_text(json.dumps(left()))
    for text, source in ((str(file), "file"), (json.dumps(left()), "inline")):
        values, origin = choose(text, FakeApproach(), lambda: SUBJECT)
        assert values == VALUES
        assert (origin.source, origin.search_run_id, origin.searched) == (source, RUN_ID, left())
    file.write_text(json.dumps(left(search_run_id="/home/ann/mlruns/x")))
    assert choose(str(file), FakeApproach(), lambda: SUBJECT)[1].search_run_id == ""


def test_a_value_of_a_search_is_checked_like_any_other() -> None:
    for values, line in (
        ({"rat": 0.5}, "hyperparameters='rat': must be a name of fake: deep, kind, rate, steps. Did you mean 'rate'?"),
        ({"rate": 2}, "hyperparameters.rate=2: must lie in [0, 1]."),
        ({"rate": [1]}, "hyperparameters.rate=[1]: must be a float."),
    ):
        shown = refused("latest", searches=finder(left(hyperparameters=values)))
        assert shown == f"{line} The values come from latest; name=value after it overrides one."
    assert chosen("latest,rate=1", hyperparameters={"rate": 2})[0]["rate"] == 1


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"task": "others", "task_fingerprint": "0"}, "on the task others, and are used on words"),
        ({"task_fingerprint": "0"}, "on data of that name whose content differs from today's words"),
        ({"model": "bert", "model_revision": "0"}, "with the model bert, and are used with mini"),
        ({"model_revision": "0"}, "with other weights of mini"),
        ({"approach_version": "0"}, "with version 0 of fake, and are used with version 1"),
        (
            {"settings": settings(num_labelled=None, test_selection="fixed")},
            "with num_labelled=auto, and are used with 20",
        ),
    ],
)
def test_what_differs_from_the_search_is_noted(changes: dict[str, Any], note: str) -> None:
    subject = replace(SUBJECT, model="mini", model_revision="abc")
    values, origin = chosen("latest", subject=subject, **changes)
    assert values == VALUES
    assert origin.notes == (f"Hyperparameters were searched {note}.",)


def test_a_search_of_another_approach_is_refused() -> None:
    shown = refused("latest", searches=finder(left(approach="icl")))
    assert shown == f"hyperparameters=latest: search {RUN_ID} was one of approach=icl, not of fake."


@pytest.mark.parametrize(
    "document",
    [
        left(schema=2),
        left(schema="1"),
        left(hyperparameters=[1]),
        left(searched_on={"data_split": 1}),
        left(searched_on=[[1]]),
        left(searched_on=[{"data_split": "1"}]),
        left(searched_on=[{"data_split": 1.5}]),
        left(searched_on=None),
        left(settings=[]),
        {},
    ],
)
def test_what_no_search_leaves(document: dict[str, Any]) -> None:
    shown = refused("latest", searches=finder(document))
    assert shown.startswith("hyperparameters=latest: is not the hyperparameters.json (schema 1) that a search leaves.")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "must be default, paper, latest, the id of a search run, a .json file, a JSON object, or name=value,"),
        ("rate", "must be default, paper, latest,"),
        ("rate=1,", "must be default, paper, latest,"),
        ("=1", "must be default, paper, latest,"),
        ("latest,", "must be default, paper, latest,"),
        ("latest,paper", "must be default, paper, latest,"),
        ("rate=1,latest", "must be default, paper, latest,"),
        (RUN_ID + "0", "must be default, paper, latest, the id of a search run"),
        (RUN_ID.upper(), "must be default, paper, latest, the id of a search run"),
        ("lates", "Did you mean 'latest'?"),
        ("Paper,rate=1", "Did you mean 'paper'?"),
        ("rate=1,rate=2", "must name rate once"),
        ("paper,rate=1,rate=2", "must name rate once"),
        ("{rate: 1}", "is not valid JSON"),
        ('{"rate": 1', "is not valid JSON"),
        ('{"rate": 1}{}', "must be a JSON object; a comma and name=value may follow it"),
        ('{"rate": 1},steps', "must be default, paper, latest,"),
        ("no_such_file.json", "the file cannot be read (No such file or directory)"),
        ("no_such_file.json,rate=1", "the file cannot be read (No such file or directory)"),
        ("~nobody-of-that-name/x.json", "the file cannot be read"),
        ("x" * 5000 + ".json", "the file cannot be read (File name too long)"),
    ],
)
def test_what_cannot_be_read(text: str, line: str) -> None:
    shown = refusal(parse, text)
    assert shown.startswith(f"hyperparameters={text}: ")
    assert line in shown


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"[1, 2]", "must hold a JSON object"), (b"\xff\xfe\x00", "cannot be read"), (b"", "not valid JSON")],
)
def test_files_that_hold_something_else(tmp_path: Path, content: bytes, line: str) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ParameterError, match=line):
        parse(str(tmp_path / "x.json"))


def test_a_wrong_value_beside_a_search_is_named_before_anything_is_loaded() -> None:
    for text in ("latest,rate=2", "paper,rate=2", f"{RUN_ID},rate=2"):
        with pytest.raises(ParameterError, match=r"^hyperparameters\.rate=2: must lie in \[0, 1\]\.$"):
            choose(text, FakeApproach(), unasked)


def test_without_a_tracking_server_there_is_no_search() -> None:
    said = "hyperparameters=latest: a search can only be looked up on a tracking server. Give a file or values."
    assert refused("latest") == said


@dataclass
class Published(FakeApproach):
    """An approach whose authors published values for two tasks, unless one asks for steps."""

    def published(self, task: str, given: Mapping[str, Value], model: str = "") -> dict[str, Value] | None:
        return {"rate": 0.125} if task in ("sst2", "trec") and "steps" not in given else None


def test_published_values() -> None:
    sst2 = replace(SUBJECT, task="sst2", model="mini")
    values, origin = choose("paper", Published(), lambda: sst2)
    assert values == {"rate": 0.125, "steps": 3, "deep": False, "kind": "plain"}
    assert origin.document() == {"source": "paper", "search_run_id": None, "overridden": []}
    assert origin.notes == (
        "Hyperparameters are those that were published for sst2 with the authors' models; whether they suit mini was "
        "not looked at.",
    )
    assert choose("paper,rate=1", Published(), lambda: sst2)[0]["rate"] == 1
    assert refused("paper", approach=Published()) == (
        "hyperparameters=paper: there are no published hyperparameters of fake for the task words. "
        "There are some for sst2, trec."
    )
    assert refused("paper,steps=2", approach=Published()) == (
        "hyperparameters=paper,steps=2: there are no published hyperparameters of fake with steps=2 for the task words."
        " Use default, latest, or values."
    )
    assert "no published hyperparameters of fake for the task words" in refused("paper")


AUTHORS = {
    ("finetuning", "sst2"): {"trainable": "full", "learning_rate": 1e-5, "epochs": 5, "batch_size": 8},
    ("finetuning", "boolq"): {"trainable": "full", "learning_rate": 1e-5, "epochs": 10, "batch_size": 8},
    ("finetuning", "snips"): {"trainable": "full", "learning_rate": 1e-5, "epochs": 10, "batch_size": 8},
    # Their 4 tasks of 32 batches, and 32 of 66, with a step after every task.
    ("protonet", "cola"): {"tasks": 1, "steps": 128, "epochs": 5, "meta_learning_rate": 1e-4, "meta_optimizer": "sgd"},
    ("maml", "mrpc"): {"tasks": 14, "steps": 66, "epochs": 16, "meta_learning_rate": 5e-4, "meta_optimizer": "adam"},
    ("reptile", "mrpc"): {"tasks": 1, "steps": 2112, "inner_learning_rate": 5e-4, "inner_optimizer": "adam"},
    ("reptile", "cola"): {"tasks": 1, "steps": 132, "epochs": 10, "meta_learning_rate": 1e-2, "inner_steps": 1},
    ("icl", "dbpedia"): {"shots": 2, "prompt_format": "A", "decision": "generate", "max_new_tokens": 10},
}


@pytest.mark.parametrize(("which", "task"), AUTHORS)
def test_what_the_authors_published(which: str, task: str) -> None:
    approaches: dict[str, Approach] = {"finetuning": Finetuning(), "icl": InContextLearning()}
    approach = approaches.get(which, MetaLearning())
    text = "paper" if which in approaches else f"paper,learner={which}"
    values, _ = choose(text, approach, lambda: replace(SUBJECT, task=task))
    assert {name: values[name] for name in AUTHORS[which, task]} == AUTHORS[which, task]


@pytest.mark.parametrize("learner", ["protonet", "maml", "reptile"])
def test_the_defaults_of_meta_learning_have_as_many_tasks_as_the_authors(learner: str) -> None:
    approach = MetaLearning()
    values, _ = choose(f"paper,learner={learner}", approach, lambda: replace(SUBJECT, task="sst2"))
    default, _ = choose(f"learner={learner}", approach, unasked)
    ours = {"max_length"}
    if learner != "maml":
        ours |= {"tasks", "steps", "meta_learning_rate"} | ({"inner_learning_rate"} if learner == "reptile" else set())
    assert {name for name in values if values[name] != default[name]} == ours
    assert len({way["tasks"] * way["steps"] for way in (values, default)}) == 1


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("flan-t5-base", ("none", "right", "auto")),
        ("google/flan-t5-base", ("none", "right", "auto")),
        ("zephyr-7b-alpha", ("turns", "none", "fp4")),
        ("mistralai/Mistral-7B-Instruct-v0.1", ("turns", "none", "fp4")),
        ("smollm2-135m-instruct", ("turns", "none", "auto")),
    ],
)
def test_how_the_authors_asked_a_model(model: str, asked: tuple[str, str, str]) -> None:
    values = InContextLearning().published("sst2", {}, model)
    complete = resolve_hyperparameters(InContextLearning(), values)
    assert (complete["chat"], complete["truncation"], complete["quantise"]) == asked


def test_what_the_authors_did_not_publish() -> None:
    sst2 = replace(SUBJECT, task="sst2")
    for approach, text in ((Finetuning(), "paper,trainable=head"), (MetaLearning(), "paper,learner=fomaml")):
        with pytest.raises(ParameterError, match=f"no published hyperparameters of {approach.name} with "):
            choose(text, approach, lambda: sst2)
    with pytest.raises(ParameterError, match=r"There are some for cola, mrpc, sst2\.$"):
        choose("paper", MetaLearning(), lambda: SUBJECT)
    with pytest.raises(ParameterError, match=r"There are some for ag_news, cola, dbpedia, mrpc, snips, sst2, trec\.$"):
        choose("paper", InContextLearning(), lambda: SUBJECT)


def searched(**changes: Any) -> InvestigationRequest:
    """Specify an investigation of a fake approach with what a search of the same subject found."""
    plain = fake()

    def find(_text: str, subject: Subject) -> FoundSearch:
        return FoundSearch(RUN_ID, left(subject, **changes))

    given_ = {**plain.given, "hyperparameters": "latest"}
    del given_["approach"], given_["task"]
    return specify(given_, approach=FakeApproach(), task=generate(400), searches=find)


def test_a_specification_says_where_its_hyperparameters_came_from() -> None:
    request = searched(approach_version="0")
    document = request.document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["hyperparameters"] == VALUES
    assert document["parameters"]["hyperparameters"] == "latest"
    assert json.loads(request.resolved()["hyperparameters"]) == VALUES
    found = {"source": "search", "search_run_id": RUN_ID, "overridden": []}
    splits = [{"label_selection": 0, "data_split": 5}]
    assert document["hyperparameters_from"] == {**found, "searched_splits": splits}
    assert document["notes"] == ["Hyperparameters were searched with version 0 of fake, and are used with version 1."]
    typed = fake(hyperparameters=VALUES)
    assert request.context_key == typed.context_key  # the values count, not where they are from
    assert typed.document()["hyperparameters_from"]["source"] == "inline"
    nothing = {"search_run_id": None, "overridden": [], "searched_splits": []}
    assert small().document()["hyperparameters_from"] == {"source": "default", **nothing}


def test_an_investigation_tells_which_share_of_its_test_examples_chose_its_hyperparameters() -> None:
    places = [{"data_split": number, "label_selection": number} for number in range(40)]
    request = searched(searched_on=places, settings={"num_labelled": None, "test_size": None})
    [note] = [each for each in request.notes(pd.DataFrame()) if "scored the trials" in each]
    share = int(note.split()[0])
    assert share > 99, note
    request = searched(searched_on=places[:1], settings={"num_labelled": None})
    [note] = [each for each in request.notes(pd.DataFrame()) if "scored the trials" in each]
    assert 10 <= int(note.split()[0]) <= 22, note
    for changes in ({"searched_on": []}, {"task_fingerprint": "0", "searched_on": places}):
        assert not [each for each in searched(**changes).notes(pd.DataFrame()) if "scored the trials" in each]


def test_the_subject_of_a_search_is_data_approach_and_weights() -> None:
    parts = {"task": "f" * 32, "approach": "fake", "model": "none"}
    assert SUBJECT.key == content_key(parts)
    renamed = replace(SUBJECT, task="renamed", approach_version="2", model="renamed", settings=SplitSettings())
    assert renamed.key == SUBJECT.key
    changed = {replace(SUBJECT, **{name: "x"}).key for name in ("task_fingerprint", "approach", "model_revision")}
    assert len(changed | {SUBJECT.key}) == 4


ON_TWO_SPLITS = [{"data_split": 1, "label_selection": 2, "data_order": order} for order in (3, 4)]
ON_TWO_SPLITS += [{"data_split": 1, "label_selection": 5}]


@pytest.mark.parametrize(
    ("changes", "splits"),
    [
        ({}, ({"label_selection": 0, "data_split": 5},)),
        ({"searched_on": []}, ()),
        ({"searched_on": [{"data_order": 1}]}, ()),
        (
            {"searched_on": ON_TWO_SPLITS},
            ({"label_selection": 2, "data_split": 1}, {"label_selection": 5, "data_split": 1}),
        ),
        ({"task_fingerprint": "0"}, ()),
        ({"settings": {}}, ()),
        ({"settings": settings(num_labelled=40)}, ()),
        ({"settings": settings(test_size=10)}, ()),
        ({"settings": settings(test_selection="fixed")}, ()),
    ],
)
def test_splits_that_were_searched_on(changes: dict[str, Any], splits: tuple[dict[str, int], ...]) -> None:
    assert searched(**changes).searched_splits() == splits


def test_only_factors_with_an_effect_decide_a_split() -> None:
    _, origin = chosen("latest")
    same = (SUBJECT.task_fingerprint, SUBJECT.settings)
    assert splits_of(origin.searched, *same, ("data_order", "data_split")) == ({"data_split": 5},)
    assert splits_of(origin.searched, *same, ("data_order",)) == ({},)
    assert splits_of(origin.searched, "0", SUBJECT.settings, ("data_order",)) == ()
    assert splits_of({}, *same, ("data_order",)) == ()
    fixed = replace(SUBJECT.settings, test_selection="fixed", fixed_seed=3)
    for seed, splits in ((3, ({"data_split": 5},)), (4, ())):
        _, origin = chosen("latest", settings=settings(test_selection="fixed", fixed_seed=seed))
        assert splits_of(origin.searched, SUBJECT.task_fingerprint, fixed, ("data_split",)) == splits


def test_what_a_search_writes_is_what_is_read() -> None:
    seeds = [{"data_split": 5, "label_selection": 0, "data_order": 9}]
    about = {"score": 0.8, "metric": "f1_macro", "search_run_id": RUN_ID, "searched_on": seeds}
    document = search_document(SUBJECT, VALUES, **about)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document == left(settings=settings(fixed_seed=0, train_fraction=0.8, reference_size=0))
    assert chosen("latest", settings=document["settings"])[1].notes == ()
    same = (SUBJECT.task_fingerprint, SUBJECT.settings)
    assert splits_of(document, *same, ("data_split",)) == ({"data_split": 5},)
    apart = replace(SUBJECT.settings, reference_size=10)
    assert splits_of(document, SUBJECT.task_fingerprint, apart, ("data_split",)) == ()
    inner = replace(SUBJECT, settings=replace(SUBJECT.settings, evaluated="validation"))
    assert search_document(inner, VALUES, **about) == document
