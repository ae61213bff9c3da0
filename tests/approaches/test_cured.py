"""A cured approach is what its members are, combined: in any session, with and without stored members."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from finetuning_helpers import handmade_task
from refusals import refusal

import mlflow_l3d
from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.analysis.cure.ensembles import combine
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.cured import Cured
from mlflow_l3d.approaches.cured.sessions import write_member
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.icl.approach import InContextLearning
from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.cells.cell import cell_key
from mlflow_l3d.cells.factors import stream, stream_seed
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.sessions import session_of
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import check_approach, differences, one_cell
from mlflow_l3d.testing.cells import run_cells
from mlflow_l3d.tracking.records import CellRecord
from mlflow_l3d.tracking.spool import Spool

TASK = replace(generate(150, 3), settings=SplitSettings(num_labelled=15, test_size=15))
WORDS = handmade_task(100, num_labelled=40, test_size=16)
VOTE = Remedy("vote", ("data_order",), 3)
NUMBERS = make_task("numbers", [["a", "b"] * 20], np.linspace(0, 1, 40), kind="regression")
ANSWERS = make_task("texts", [["a", "b"] * 20], ["yes", "no"] * 20, kind="generation")
HEAD = {"hidden_units": 8, "epochs": 3, "learning_rate": 0.001}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Give a folder in which texts are encoded once."""
    return tmp_path_factory.mktemp("cache")


def job_of(approach, task, cache, **given):
    complete = approach.complete(resolve_hyperparameters(approach, given))
    return Job(approach, task, complete, approach.default_model, "cpu", cache)


def outcomes_of(job, cells, at_once=None):
    """Return key -> outcome, of calls of so many cells; all in one if None."""
    with session_of(job) as session:
        size = at_once or len(cells)
        calls = (cells[start : start + size] for start in range(0, len(cells), size))
        return {key: each for call in calls for key, each in run_cells(session, call, job).items()}


def seeds_of_members(seeds, over, count):
    """Return what the docs say of members, in other words."""
    redrawn = [{name: stream_seed(seeds[name], "member", str(number)) for name in over} for number in range(1, count)]
    return [seeds, *({**seeds, **one} for one in redrawn)]


def plain_members(job, cell, over, count):
    """Train the members of a cell as cells of their own, one a call."""
    members = seeds_of_members(cell.seeds, over, count)
    cells = [replace(cell, seeds=seeds, key=cell_key("plain", seeds)) for seeds in members]
    outcomes = outcomes_of(job, cells, at_once=1)
    return [outcomes[each.key] for each in cells]


@pytest.mark.parametrize(
    ("remedy", "task", "given"),
    [
        (VOTE, TASK, {"noise": 0.5}),
        (Remedy("mean", ("sample_choice", "model_initialisation"), 2), TASK, {}),
        (Remedy("training", changes={"a_data_order": 0.0}), TASK, {}),
    ],
)
def test_keeps_the_contract_around_the_synthetic_approach(remedy, task, given, tmp_path):
    check_approach(Cured(Synthetic(), remedy), task, hyperparameters=given, cache=tmp_path, configurations=4)


@pytest.mark.parametrize("kind", ["vote", "mean", "choose"])
def test_keeps_the_contract_around_the_head(kind, cache):
    remedy = Remedy(kind, ("data_order", "model_initialisation"), 2, {"epochs": 2})
    check_approach(
        Cured(Finetuning(), remedy), WORDS, hyperparameters=HEAD, cache=cache, configurations=2, tolerance=1e-5
    )


@pytest.mark.parametrize(("kind", "over"), [("vote", ["data_order"]), ("mean", ["model_initialisation", "data_order"])])
@pytest.mark.parametrize("approach", ["synthetic", "finetuning"])
def test_a_cell_is_what_combine_makes_of_plain_cells_with_the_seeds_of_its_members(kind, over, approach, cache):
    cured = mlflow_l3d.cured(approach, {"kind": kind, "over": over, "members": 3})
    task, given = (TASK, {"noise": 0.5}) if approach == "synthetic" else (WORDS, HEAD)
    plain_job, job = job_of(cured.approach, task, cache, **given), job_of(cured, task, cache, **given)
    cells = [one_cell(cured.factors, number) for number in range(5)]
    in_turn, together = outcomes_of(job, cells, at_once=1), outcomes_of(job, cells)
    for cell in cells:
        members = plain_members(plain_job, cell, cured.remedy.over, 3)
        predictions, scores = combine(
            kind,
            np.stack([member.predictions for member in members]),
            np.stack([member.scores for member in members]),
            classes=len(task.class_names),
        )
        alone = in_turn[cell.key]
        assert alone.error is None
        assert alone.predictions.tobytes() == predictions.tobytes()
        assert alone.scores.tobytes() == scores.tobytes()
        assert not differences(alone, together[cell.key], tolerance=1e-5)
        own = "synthetic_score" if approach == "synthetic" else "validation_f1_macro"
        assert alone.metrics[own] == pytest.approx(np.mean([member.metrics[own] for member in members]))
        assert alone.duration_seconds > 0
        assert alone.curves == {}


def test_the_best_on_validation_examples_is_chosen_with_its_metrics(cache):
    cured = Cured(Finetuning(), Remedy("choose", ("model_initialisation",), 4))
    cell = one_cell(cured.factors, 3)
    members = plain_members(job_of(cured.approach, WORDS, cache, **HEAD), cell, ("model_initialisation",), 4)
    validation = [member.metrics["validation_f1_macro"] for member in members]
    assert len(set(validation)) > 1
    chosen = outcomes_of(job_of(cured, WORDS, cache, **HEAD), [cell])[cell.key]
    best = members[int(np.argmax(validation))]
    assert not differences(best, chosen, tolerance=1e-5)


def test_stored_members_are_not_trained_again_and_change_nothing(tmp_path):
    trained = []

    def guess(task, split, seeds, _):
        trained.append(seeds["model_randomness"])
        rng = np.random.default_rng(seeds["model_randomness"])
        return rng.dirichlet(np.ones(3), len(split.test)).astype(np.float32)

    plain = FunctionApproach(guess, name="guess", version="1", factors=("model_randomness",))
    remedy = Remedy("mean", ("model_randomness",), 3)
    cell = one_cell(plain.factors, 2)
    cell = replace(cell, key=cell_key("cured", cell.seeds))
    job = job_of(Cured(plain, remedy), TASK, tmp_path)
    without = outcomes_of(job, [cell])[cell.key]
    assert len(trained) == 3
    # Two of the members are what a tracking server holds of plain runs.
    folder, spool = tmp_path / "members", Spool(tmp_path / "spool", CellRecord)
    folder.mkdir()
    keys = Cured(plain, remedy).member_keys("context", cell.seeds)
    assert keys[0] == cell_key("context", cell.seeds)
    for number in (0, 2):
        member = replace(cell, key=keys[number], seeds=seeds_of_members(cell.seeds, remedy.over, 3)[number])
        outcome = outcomes_of(job_of(plain, TASK, tmp_path), [member])[member.key]
        record = CellRecord.of(member, outcome)
        spool.add(record, outcome)
        table = pd.read_parquet(spool.predictions(member.key))
        write_member(folder / f"{member.key}.parquet", table, record.metrics)
    trained.clear()
    cured = Cured(plain, remedy, members=folder, context="context")
    found = outcomes_of(job_of(cured, TASK, tmp_path), [cell])[cell.key]
    assert len(trained) == 1
    assert not differences(without, found)
    # Another remedy with the same seeds trains what is left: a member that there was not, and what is damaged.
    vote = replace(remedy, kind="vote", members=4)
    cured_vote, without = Cured(plain, vote, members=folder, context="context"), Cured(plain, vote)
    for damaged in (None, b"", spool.predictions(member.key).read_bytes()):  # the last one without its metrics
        trained.clear()
        if damaged is not None:
            (folder / f"{keys[1]}.parquet").write_bytes(damaged)
        read = outcomes_of(job_of(cured_vote, TASK, tmp_path), [cell])[cell.key]
        assert len(trained) == 1
        assert not differences(outcomes_of(job_of(without, TASK, tmp_path), [cell])[cell.key], read)
    # A repetition is trained, and not kept.
    trained.clear()
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    outcomes_of(job_of(cured_vote, TASK, tmp_path), [replace(cell, factor="replicate")])
    assert len(trained) == len(times) == 4
    assert times == {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    # A mean needs class scores, and keeps them.
    table = pd.read_parquet(folder / f"{keys[2]}.parquet").drop(columns=["score_0", "score_1", "score_2"])
    write_member(folder / f"{keys[2]}.parquet", table, {})
    seconds = set()
    for count in (1, 0):
        trained.clear()
        again = outcomes_of(job_of(cured, TASK, tmp_path), [cell])[cell.key]
        seconds.add(again.duration_seconds)
        assert len(trained) == count
        assert not differences(found, again)
    assert len(seconds) == 1  # of the trainings, whenever they were
    # Nothing of the folder is part of the key.
    assert (cured.name, cured.version, cured.identity({})) == (job.approach.name, "1", job.approach.identity({}))


def test_a_member_that_fails_fails_the_cell_and_is_named(tmp_path):
    cured = Cured(Synthetic(), VOTE)
    cells = [one_cell(cured.factors, number) for number in range(6)]
    job = job_of(cured, TASK, tmp_path, fail_every=4)
    with session_of(job) as session:
        errors = [outcome.error for outcome in session.run(cells)]
    assert 0 < sum(error is None for error in errors) < 6
    (first, *_) = [error for error in errors if error]
    assert first.startswith("member ")
    assert first.endswith(" of 3 failed: RuntimeError: this cell fails, as fail_every asks")


def test_cells_of_one_call_reach_the_inner_session_together(cache, monkeypatch):
    cured = Cured(Finetuning(), Remedy("vote", ("data_order",), 3))
    job, calls = job_of(cured, WORDS, cache, **HEAD), []
    with session_of(job) as session:
        inner = session.session
        assert session.cells_at_once == max(1, inner.cells_at_once // 3)
        inner.cells_at_once, run = 7, inner.run

        def spy(cells):
            calls.append(len(cells))
            return run(cells)

        with monkeypatch.context() as patch:
            patch.setattr(inner, "run", spy)
            list(session.run([one_cell(cured.factors, number) for number in range(4)]))
    assert calls == [7, 5]


def test_one_member_is_the_approach_with_other_hyperparameters_and_has_its_keys():
    cured = Cured(Finetuning(), Remedy("training", changes={"epochs": "20", "early_stopping_patience": 0}))
    changed = cured.complete(resolve_hyperparameters(cured, {"epochs": 3}))
    plain = Finetuning().complete(resolve_hyperparameters(Finetuning(), {"epochs": 20, "early_stopping_patience": 0}))
    assert changed == plain
    assert (cured.name, cured.version, cured.identity(changed)) == ("finetuning", "1", Finetuning().identity(plain))
    assert cured.label(changed) == "head, epochs=20, early_stopping_patience=0"
    assert "epochs" not in cured.search_space(changed)


def test_identity_holds_the_remedy_and_the_order_of_factors_does_not_matter():
    pairs = [("model_initialisation", "data_order"), ("data_order", "model_initialisation")]
    one, other = (Cured(Synthetic(), Remedy("vote", over, 3)) for over in pairs)
    assert one.identity({}) == other.identity({}) != Cured(Synthetic(), Remedy("vote", pairs[0], 4)).identity({})
    assert one.name == other.name == "synthetic, vote of 3 over data_order and model_initialisation"


def test_members_of_members_share_no_seed_and_many_factors_are_counted_in_names():
    inner = Cured(Synthetic(), Remedy("vote", ("data_order",), 3))
    outer = Cured(inner, Remedy("vote", ("data_order",), 3))
    seeds = dict.fromkeys(Synthetic.factors, 1)
    drawn = {member["data_order"] for vote in outer.member_seeds(seeds) for member in inner.member_seeds(vote)}
    assert len(drawn) == 9
    assert Cured(Synthetic(), Remedy("vote", Synthetic.factors[:3], 2)).words == "vote of 2 over 3 factors"


REFUSED = [
    ({"kind": "votes", "over": ["data_order"], "members": 3}, "cure.kind='votes': must be one of "),
    ({"kind": "more_data"}, "cure.kind='more_data': must be one of "),
    ({"kind": "vote", "over": ["luck"], "members": 3}, "cure.over='luck': must be a factor of synthetic:"),
    ({"kind": "vote", "over": ["data_order"], "members": 1}, "cure.members=1: must be a whole number of at least 2."),
    ({"kind": "vote", "over": ["data_order"], "members": "5"}, "cure.members=5: must be a whole number"),
    ({"kind": "vote", "members": 3}, "cure.over=(none): must name what differs between the members."),
    ({"kind": "training", "over": ["data_order"], "changes": {"noise": 0}}, "cure.over=data_order: has no effect with"),
    ({"kind": "training", "members": 2, "changes": {"noise": 0}}, "cure.members=2: must be 1 with kind=training."),
    ({"kind": "training"}, "cure.changes={}: must name a hyperparameter to change with kind=training."),
    ({"kind": "training", "changes": {"nois": 0}}, "cure.changes='nois': must be a name of synthetic:"),
    ({"kind": "training", "changes": {"noise": 7}}, "hyperparameters.noise=7: must lie in [0, 1]."),
    ({"kind": "training", "changes": ["noise"]}, "cure.changes=['noise']: must be an object"),
    ({"kind": "vote", "over": 3, "members": 2}, "cure.over=3: must be a list of factors."),
    ({"kind": "vote", "over": ["data_order"], "members": 3, "weights": 1}, "cure='weights': must be one of "),
    ({"over": ["data_order"]}, "must hold a remedy such as"),
    ("{", "cure={: is not valid JSON"),
    ("nowhere.json", "cure=nowhere.json: the file cannot be read (No such file or directory)."),
]


@pytest.mark.parametrize(("remedy", "message"), REFUSED)
def test_what_is_no_remedy_is_refused_in_one_line(remedy, message):
    assert message in refusal(mlflow_l3d.cured, "synthetic", remedy)


def test_what_needs_more_than_a_name_is_refused():
    with pytest.raises(ParameterError, match="approach=command: also needs command"):
        mlflow_l3d.cured("command", {"kind": "vote", "over": ["seed"], "members": 3})


@pytest.mark.parametrize(
    ("remedy", "task", "given", "message"),
    [
        (Remedy("vote", ("label_selection",), 3), TASK, {}, "cure.over=label_selection: draws other test examples"),
        (VOTE, TASK, {"a_data_order": 1e6}, "cure.over=data_order: has no effect, so all members would be the same"),
        (VOTE, NUMBERS, {}, "cure.kind=vote: counts answers, and numbers asks for numbers. Use mean."),
        (
            replace(VOTE, kind="mean"),
            ANSWERS,
            {},
            "cure.kind=mean: needs numbers or class scores, and texts is a generation task. Use vote.",
        ),
    ],
)
def test_a_remedy_that_a_task_does_not_allow_is_refused(remedy, task, given, message, tmp_path):
    job = job_of(Cured(Synthetic(), remedy), task, tmp_path, **given)
    with pytest.raises(ParameterError, match=re.escape(message)), session_of(job):
        pass


def test_members_over_the_labels_share_a_fixed_test_set(tmp_path):
    task = replace(TASK, settings=replace(TASK.settings, test_selection="fixed"))
    cured = Cured(Synthetic(), Remedy("vote", ("label_selection", "data_split"), 3))
    cell = one_cell(cured.factors)
    assert outcomes_of(job_of(cured, task, tmp_path), [cell])[cell.key].error is None


def numbers(task, split, seeds, _):
    return stream(seeds["model_randomness"], "numbers").normal(size=len(split.test))


def texts(task, split, seeds, _):
    words = stream(seeds["model_randomness"], "texts").choice(["yes", "no", "yes indeed"], len(split.test))
    return [str(word) for word in words]


@pytest.mark.parametrize(("kind", "function", "task"), [("mean", numbers, NUMBERS), ("vote", texts, ANSWERS)])
def test_numbers_have_means_and_texts_a_medoid(kind, function, task, tmp_path):
    plain = FunctionApproach(function, name="mine", version="1", factors=("model_randomness",), task_kinds=task.kind)
    cured = Cured(plain, Remedy(kind, ("model_randomness",), 3))
    cell = one_cell(plain.factors, 4)
    members = [each.predictions for each in plain_members(job_of(plain, task, tmp_path), cell, cured.remedy.over, 3)]
    found = outcomes_of(job_of(cured, task, tmp_path), [cell])[cell.key].predictions
    if kind == "mean":
        assert found == pytest.approx(np.mean(members, axis=0))
        return
    for answer, *answers in zip(found, *members, strict=True):
        if len(set(answers)) < 3:
            assert answer == max(answers, key=answers.count)
        assert answer in answers


def test_prompts_vote_over_their_formats_and_examples(causal_folder, tmp_path):
    approach, over = InContextLearning(), ("data_order", "sample_choice", "prompt_format")
    given = {"shots": 1, "prompt_format": "A|B|C", "truncation": "left"}  # its context has 64 letters
    plain_job = replace(job_of(approach, WORDS, tmp_path, **given), model=str(causal_folder))
    job = replace(job_of(Cured(approach, Remedy("vote", over, 3)), WORDS, tmp_path, **given), model=str(causal_folder))
    cell = one_cell(approach.factors, 2)
    members = plain_members(plain_job, cell, over, 3)
    assert len({member.predictions.tobytes() for member in members}) > 1
    outcome = outcomes_of(job, [cell])[cell.key]
    votes = np.sum([member.predictions for member in members], axis=0)  # two classes, an odd number of members
    assert outcome.predictions.tolist() == (votes > 1).astype(int).tolist()
    assert outcome.metrics["prompt_tokens"] == pytest.approx(
        np.mean([member.metrics["prompt_tokens"] for member in members])
    )


def test_what_cannot_be_combined_fails_with_the_reason(tmp_path):
    def wordless(task, split, seeds, _):
        return np.zeros(len(split.test), dtype=int)

    plain = FunctionApproach(wordless, name="mine", version="1", factors=("model_randomness",))
    no_scores = Cured(plain, Remedy("mean", ("model_randomness",), 2))
    no_validation = Cured(plain, Remedy("choose", ("model_randomness",), 2))
    cell = one_cell(plain.factors)
    for cured, why in ((no_scores, "returns no class scores. Use vote."), (no_validation, "no validation score. Use")):
        with session_of(job_of(cured, TASK, tmp_path)) as session:
            (outcome,) = session.run([cell])
        assert why in outcome.error
