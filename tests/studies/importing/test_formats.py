"""Readers, on files that the tools themselves wrote (SmolLM2-135M on questions of ours), and on broken ones."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import fails, refuses

from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.importing import RecordedRun, flat
from mlflow_l3d.studies.importing.checking import _scored, read_runs, with_kinds
from mlflow_l3d.studies.importing.formats import FORMATS, apps, csv_file, tool_of
from mlflow_l3d.studies.seeds.numbers import seeds_study
from mlflow_l3d.studies.seeds.report.words import study_answers

LOGS = Path(__file__).parent / "logs"


def read(source: str, path: Path, metric: str = "auto", **columns: str) -> list[RecordedRun]:
    runs = FORMATS[source].read(path, columns, metric)
    for each in runs:
        if isinstance(each, L3DError):
            raise each
    return [each for each in runs if isinstance(each, RecordedRun)]


def with_kind(runs: list[RecordedRun], task_kind: str = "auto", classes: str = "auto") -> list[RecordedRun]:
    return with_kinds(runs, task_kind, classes)[0]


def lm_eval(task: str) -> list[Path]:
    return sorted(path for path in LOGS.glob("lm_eval/samples_*") if f"samples_{task}_2" in path.name)


def test_lm_eval_multiple_choice():
    for path in lm_eval("reviews"):
        (run,) = read("lm-eval", path)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert (run.task, run.kind) == ("reviews", "classification")
        assert run.settings["model"] == "SmolLM2-135M-Instruct"
        assert {run.settings["num_fewshot"], run.settings["fewshot_seed"]} <= {"1", "2", "4"}
        right = run.predictions == run.labels
        assert right.tolist() == [line["acc"] == 1.0 for line in lines]
        assert run.scores["accuracy"] == right.mean()


def test_lm_eval_generated_text():
    (run,) = read("lm-eval", lm_eval("capitals_text")[0])
    assert run.kind == "multiple_choice"
    assert run.labels[:2].tolist() == ["Ottawa", "Canberra"]
    assert run.predictions[1] == "Sydney"
    assert (run.predictions == run.labels).mean() == run.scores["exact_match"]


def test_lm_eval_values_of_changing_type_are_read_line_by_line(tmp_path: Path):
    path = lm_eval("reviews")[0]
    shutil.copy(LOGS / "lm_eval" / path.name.replace("samples_reviews", "results").replace("jsonl", "json"), tmp_path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines[1:]:  # as versions before 0.4.5 wrote them
        line["filtered_resps"] = [[float(score), greedy == "True"] for score, greedy in line["filtered_resps"]]
    (tmp_path / path.name).write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    old, new = read("lm-eval", tmp_path / path.name)[0], read("lm-eval", path)[0]
    assert np.array_equal(old.predictions, new.predictions)
    assert old.key == new.key


def _with_lines(
    folder: Path, results: dict[str, Any] | None = None, metric: str = "auto", **changed: Any
) -> RecordedRun:
    """Read the samples of `reviews` with some entries of every line changed, and other results."""
    path = lm_eval("reviews")[0]
    name = path.name.replace("samples_reviews", "results").replace("jsonl", "json")
    document = json.loads((LOGS / "lm_eval" / name).read_text(encoding="utf-8"))
    document |= {} if results is None else {"results": results}
    (folder / name).write_text(json.dumps(document), encoding="utf-8")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for place, line in enumerate(lines):
        line |= {name: value(place) for name, value in changed.items()}
    (folder / path.name).write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return read("lm-eval", folder / path.name, metric=metric)[0]


def test_lm_eval_choices_whose_truth_is_a_text(tmp_path: Path):
    resps = [[["-1.0", "False"], ["-2.0", "False"]], [["-2.0", "False"], ["-1.0", "False"]]]
    run = _with_lines(
        tmp_path,
        target=lambda place: "AB"[place % 2],
        filtered_resps=lambda place: resps[place // 2 % 2],
        acc=lambda place: float(place % 2 == place // 2 % 2),
    )
    assert run.predictions[:4].tolist() == ["A", "choice 0", "choice 1", "B"]


def test_lm_eval_a_text_alone_is_right_where_its_accuracy_says_so(tmp_path: Path):
    run = _with_lines(
        tmp_path,
        target=lambda place: " word",
        filtered_resps=lambda place: [["-2.5", str(place % 2 == 0)]],
        metrics=lambda place: ["perplexity", "acc"],
        perplexity=lambda place: -2.5,
        acc=lambda place: float(place % 2 == 0),
    )
    assert (*run.scores,) == ("accuracy", "log_likelihood")
    assert (run.predictions == run.labels).mean() == run.scores["accuracy"]


def test_lm_eval_a_share_of_what_is_right_is_a_score_alone(tmp_path: Path):
    """As of truthfulqa_mc2."""
    run = _with_lines(tmp_path, acc=lambda place: 0.25 + place % 2 / 2)
    assert run.scores == {"score_mean": 0.5}
    assert run.predictions is None


def test_lm_eval_one_number_for_all_samples_is_taken_beside_the_answers(tmp_path: Path):
    """As of cola, whose samples hold pairs of true and predicted class."""
    run = _with_lines(
        tmp_path, metrics=lambda place: ["mcc"], mcc=lambda place: [0, 1], results={"reviews": {"mcc,none": 0.25}}
    )
    assert run.scores == {"mcc": 0.25}
    assert _scored(run).scores["accuracy"] == (run.predictions == run.labels).mean()
    both = {"reviews": {"acc,none": 1.0, "mcc,none": 0.25}}
    run = _with_lines(tmp_path, metrics=lambda place: ["acc", "mcc"], mcc=lambda place: [0, 1], results=both)
    assert {*run.scores} == {"accuracy", "mcc"}
    assert run.scores["mcc"] == 0.25
    with pytest.raises(L3DError, match=r"no metric has a number for each sample, or for all \(mcc\)"):
        _with_lines(tmp_path, metrics=lambda place: ["mcc"], mcc=lambda place: [0, 1])


@pytest.mark.parametrize(("metric", "wanted"), [("auto", [0, 1]), ("acc_norm", [1, 1]), ("acc_mutual_info", [0, 0])])
def test_lm_eval_chooses_as_the_metric_does(tmp_path: Path, metric: str, wanted: list[int]):
    logs = [[-2.0, -3.0], [-4.0, -1.0]]
    alone = [[-2.0, -1.5], [-9.0, -1.0]]
    texts = [" a", " eight ch"]
    own = {
        "acc": [0, 1],
        "acc_norm": [int(np.argmax(np.divide(each, [1, 8]))) for each in logs],
        "acc_mutual_info": [int(np.argmax(np.subtract(*each))) for each in zip(logs, alone, strict=True)],
    }
    run = _with_lines(
        tmp_path,
        metric=metric,
        target=lambda place: "0",
        metrics=lambda place: [*own],
        arguments=lambda place: {f"gen_args_{at}": {"arg_0": "x", "arg_1": text} for at, text in enumerate(texts * 2)},
        filtered_resps=lambda place: [[str(log), "False"] for log in logs[place % 2] + alone[place % 2]],
        **{name: (lambda place, name=name: float(own[name][place % 2] == 0)) for name in own},
    )
    assert run.predictions[:2].tolist() == own[metric.replace("auto", "acc")] == wanted
    assert run.scores["acc_norm"] == 0.0
    odd = _with_lines(tmp_path, acc=lambda place: 1.0)
    assert odd.scores == {"accuracy": 1.0}
    assert odd.predictions is None, "the recorded choices are not those that the tool scored"


def test_runs_that_answered_alike_are_one_where_they_took_the_same_time():
    run = read("lm-eval", lm_eval("reviews")[0])[0]
    assert replace(run, source="copy").key == run.key
    assert replace(run, duration_seconds=run.duration_seconds + 1).key != run.key


@pytest.mark.parametrize("uneven", [False, True])
def test_lm_eval_filters_are_runs_whatever_the_number_of_choices(tmp_path: Path, uneven: bool):
    path = lm_eval("reviews")[0]
    shutil.copy(LOGS / "lm_eval" / path.name.replace("samples_reviews", "results").replace("jsonl", "json"), tmp_path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    draw = np.random.default_rng(5)
    for place, line in enumerate(lines):
        count = 2 + place % 3 * uneven
        line["filtered_resps"] = [[str(value), "False"] for value in draw.choice([-1.5, -2, -3], size=count)]
    twice = [{**line, "filter": name} for line in lines for name in ("strict", "flexible")]
    for line in twice[1::2]:
        line["filtered_resps"] = line["filtered_resps"][::-1]
    for line in twice:
        logs = [float(value) for value, _ in line["filtered_resps"]]
        line["acc"] = float(logs.index(max(logs)) == int(line["target"]))
    (tmp_path / path.name).write_text("\n".join(map(json.dumps, twice)), encoding="utf-8")
    runs = read("lm-eval", tmp_path / path.name)
    assert [run.settings["filter"] for run in runs] == ["strict", "flexible"]
    for run, own in zip(runs, (twice[::2], twice[1::2]), strict=True):
        logs = [[float(value) for value, _ in line["filtered_resps"]] for line in own]
        assert run.predictions.tolist() == [values.index(max(values)) for values in logs]
        assert run.scores["accuracy"] == np.mean([line["acc"] for line in own])


def test_lm_eval_broken_files_say_where(tmp_path: Path):
    path = lm_eval("reviews")[0]
    fails(r"results_\S+, which has the settings, is not next to it", read, "lm-eval", Path(shutil.copy(path, tmp_path)))
    shutil.copy(LOGS / "lm_eval" / path.name.replace("samples_reviews", "results").replace("jsonl", "json"), tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    (tmp_path / path.name).write_text("\n".join([*lines[:2], lines[2][:50]]), encoding="utf-8")
    fails("line 3: is not JSON", read, "lm-eval", tmp_path / path.name)
    (tmp_path / path.name).write_text(lines[0] + '\n{"doc_id": 1}\n', encoding="utf-8")
    fails("line 2: has no target", read, "lm-eval", tmp_path / path.name)


def test_inspect():
    pytest.importorskip("inspect_ai", reason="inspect_ai reads its logs itself; it is installed where it is used")
    plain, asked = (read("inspect", LOGS / "inspect" / f"{name}-seed-1.eval")[0] for name in ("plain", "asked"))
    assert plain.labels.tolist() == ["Ottawa", "Canberra", "Brasilia", "Ankara", "Warsaw", "Vienna"]
    assert (plain.settings["template"], asked.settings["template"]) == ("plain", "asked")
    assert plain.settings["seed"] == "1"
    assert plain.scores["accuracy"] == (plain.predictions == plain.labels).mean()


def sample(number: int, answer: str = "Paris", **scores: Any) -> SimpleNamespace:
    given = {name: SimpleNamespace(value=value, answer=answer) for name, value in scores.items()}
    error = None if given else SimpleNamespace(message="rate limit")
    output = SimpleNamespace(completion="no")
    return SimpleNamespace(id=number, target="Paris", scores=given, output=output, error=error)


def inspected(values: Sequence[dict[str, Any]], metric: str = "auto") -> RecordedRun:
    samples = [sample(number, **scores) for number, scores in enumerate(values)]
    return apps._inspect_run("log", SimpleNamespace(task="capitals"), samples, {}, metric)


def test_inspect_answers_are_right_as_the_chosen_scorer_says():
    values = [{"match": "C", "choice": "I"}, {"match": "C", "choice": "C"}]
    first, chosen = inspected(values), inspected(values, "choice")
    assert first.scores == {"accuracy": 1.0, "choice": 0.5}
    assert chosen.scores == {"choice": 0.5, "match": 1.0}
    assert (chosen.predictions == chosen.labels).tolist() == [False, True]  # type: ignore[union-attr]


def test_inspect_scores_that_grade_are_a_mean_without_right_and_wrong():
    run = inspected([{"judge": 0.25}, {"judge": "P"}])
    assert run.scores == {"score_mean": 0.375}
    assert run.predictions is None


def test_inspect_leaves_out_an_epoch_with_a_failed_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    values = [{"match": "C"}, {"match": "I"}, {"match": "C"}]
    samples = [(epoch, sample(at, **each)) for epoch in range(1, 5) for at, each in enumerate(values)]
    samples[3] = (2, sample(0))
    plan = SimpleNamespace(config=SimpleNamespace(model_dump=lambda **_: {}))
    about = SimpleNamespace(task="capitals", model="m", model_args={}, task_args={}, solver="s")
    about.model_generate_config = plan.config
    epochs = [SimpleNamespace(epoch=epoch, **vars(each)) for epoch, each in samples]
    log = SimpleNamespace(status="success", samples=epochs, eval=about, plan=plan)
    module = SimpleNamespace(read_eval_log=lambda _: log)
    monkeypatch.setitem(sys.modules, "inspect_ai", SimpleNamespace(log=module))
    monkeypatch.setitem(sys.modules, "inspect_ai.log", module)
    (tmp_path / "a.eval").touch()
    runs, problems = read_runs(tmp_path, "inspect", {}, "auto")
    assert [run.settings["epoch"] for run in runs] == ["1", "3", "4"]
    why = "sample 0 has no score of match (rate limit). Evaluate again with --retry-on-error."
    assert problems == [f"a.eval (epoch 2): {why}"]


def test_inspect_a_number_of_a_dictionary_is_chosen():
    values = [{"judge": {"a": 1, "b": 0.5}}, {"judge": {"a": 0, "b": 0.5}}]
    fails(r"Choose one of its numbers, --metric judge\.a or --metric judge\.b", inspected, values)
    assert inspected(values, "judge.a").scores == {"judge.a": 0.5, "judge.b": 0.5}


def test_inspect_needs_no_answers_if_scores_only_grade():
    values = [{"v1.judge": {"a": 0.5}}, {"v1.judge": {"a": 1}}]
    assert inspected(values, "v1.judge.a").scores == {"v1.judge.a": 0.75}


def test_inspect_answers_of_a_dictionary_are_those_of_its_scorer():
    samples = [sample(number, **{"v1.judge": {"a": right}}) for number, right in enumerate((1, 0))]
    for each in samples:
        each.scores["v1"] = SimpleNamespace(value=1, answer="Rome")
    run = apps._inspect_run("log", SimpleNamespace(task="capitals"), samples, {}, "v1.judge.a")
    assert run.scores["v1.judge.a"] == 0.5
    assert list(run.predictions) == ["Paris", "(the label, called wrong)"]  # type: ignore[arg-type]


def test_csv_long_and_wide_hold_the_same_runs(tmp_path: Path):
    labels = ["no", "yes", "yes", "no", "no", "yes"]
    answers = {1: ["no", "yes", "no", "no", "", "yes"], 2: ["no", "maybe", "yes", "yes", "no", "yes"]}
    long = pd.concat(
        [
            pd.DataFrame({"id": range(6), "gold": labels, "answer": given, "seed": seed, "text": "abcdef"[seed]})
            for seed, given in answers.items()
        ]
    ).drop(columns="text")
    long.to_csv(tmp_path / "one.csv", index=False)
    wide = pd.DataFrame({"id": range(6), "gold": labels, "seed=1": answers[1], "prediction_seed_2": answers[2]})
    wide.to_csv(tmp_path / "two.csv", index=False)
    first = with_kind(read("csv", tmp_path / "one.csv", example_id="id", label="gold", prediction="answer"))
    second = with_kind(read("csv", tmp_path / "two.csv", example_id="id", label="gold"))
    for runs in (first, second):
        assert [run.settings for run in runs] == [{"seed": "1"}, {"seed": "2"}]
    for run, other in zip(first, second, strict=True):
        assert run.kind == other.kind == "classification"
        assert run.predictions.tolist() == other.predictions.tolist()  # type: ignore[union-attr]
    assert first[0].predictions.tolist() == [0, 1, 0, 0, -1, 1]  # type: ignore[union-attr]
    assert first[1].predictions.tolist() == [0, 2, 1, 1, 0, 1]  # type: ignore[union-attr]


WIDE = {"example_id": range(4), "label": [0, 1, 1, 0], "seed_1": [0, 1, 1, 0], "seed_2": [0, 1, 0, 0]}


@pytest.mark.parametrize("more", ["has_link_1", "fold_1", "feature_2"])
def test_other_numbered_columns_of_a_wide_file_are_no_runs(tmp_path: Path, more: str):
    pd.DataFrame({**WIDE, more: [1, 0, 0, 1]}).to_csv(tmp_path / "wide.csv", index=False)
    assert [run.settings for run in read("csv", tmp_path / "wide.csv")] == [{"seed": "1"}, {"seed": "2"}]
    frame = pd.DataFrame({**WIDE, more: [1, 0, 0, 1]}).rename(columns={"seed_1": "bert_1", "seed_2": "bert_2"})
    frame.to_csv(tmp_path / "wide.csv", index=False)
    with pytest.raises(L3DError, match=f"columns bert_1 and {more} both look like runs. Rename the columns of runs"):
        read("csv", tmp_path / "wide.csv")
    frame = frame.rename(columns={"bert_1": "bert=1"})
    frame.to_csv(tmp_path / "wide.csv", index=False)
    assert [run.settings for run in read("csv", tmp_path / "wide.csv")] == [{"bert": "1"}, {"bert": "2"}]


def test_csv_numbers_and_texts(tmp_path: Path):
    fix = "Correct it, or take the example away from all runs."
    columns = {"example_id": [1, 2, 3], "label": [0.5, 1.5, 2.0], "seed_1": [0.4, "", 2.1], "seed_2": [1, 2, 3]}
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "numbers.csv", index=False)
    (whole,), (problem,), notes = with_kinds(read("csv", tmp_path / "numbers.csv"), "auto", "auto")
    assert (whole.kind, whole.settings["seed"], notes) == ("regression", "2", ["Read as regression."])
    assert problem == f"numbers.csv (seed=1): the prediction of example 2 is empty (1 such). {fix}"
    frame.assign(label=["a b", "c", "d"], seed_1=["a b", "e", ""]).to_csv(tmp_path / "texts.csv", index=False)
    assert read("csv", tmp_path / "texts.csv")[0].predictions.tolist() == ["a b", "e", None]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("columns", "named", "said"),
    [
        (["case", "label", "prediction"], {}, "has no column example_id, but case, label, prediction"),
        (["text", "answer"], {}, "no column example_id and no label, .* --columns example_id=COLUMN,label=COLUMN"),
        (["example_id", "label", "text"], {}, "neither a column prediction nor any that names a run"),
        (["example_id", "label", "prediction"], {"label": "gold"}, "no such column"),
        (["example_id", "label", "prediction"], {"lable": "gold"}, "must be one of"),
        (["example_id", "label", "prediction", "latency"], {"settings": "latency"}, "another value in almost every"),
    ],
)
def test_csv_says_which_column_is_wanted(tmp_path: Path, columns: list[str], named: dict[str, str], said: str):
    pd.DataFrame({name: range(8) for name in columns}).to_csv(tmp_path / "runs.csv", index=False)
    fails(said, read, "csv", tmp_path / "runs.csv", **named)


def test_a_folder_of_a_file_per_run_and_usual_names_of_columns_are_seeds_of_one_task(tmp_path: Path):
    for name in ("bert_seed1", "bert_seed2", "run-7"):
        frame = pd.DataFrame({"id": [3, 4], "gold": ["a", "b"], "y_pred": ["a", "a"]})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    runs = [run for path in sorted(tmp_path.iterdir()) for run in read("csv", path)]
    expected = [("bert", {"seed": "1"}), ("bert", {"seed": "2"}), (tmp_path.name, {"run": "7"})]
    assert [(run.task, run.settings) for run in runs] == expected
    assert [(run.ids.tolist(), run.labels.tolist()) for run in runs] == [(["3", "4"], ["a", "b"])] * 3
    assert [run.predictions.tolist() for run in runs] == [["a", "a"]] * 3


def promptfoo_row(provider: str, test: int, output: str | None, *, right: bool) -> dict[str, object]:
    case = {"vars": {"country": test}, "assert": [{"type": "equals", "value": f"capital {test}"}]}
    row = {"provider": {"id": provider}, "prompt": {"raw": "Name it: {{country}}", "label": "short"}, "testIdx": test}
    row |= {"vars": case["vars"], "testCase": case, "response": {"output": output}}
    return {**row, "success": right, "score": right}


def test_promptfoo(tmp_path: Path):
    rows = [
        promptfoo_row(provider, test, output, right=output == f"capital {test}")
        for provider, test, output in [("a", 1, "capital 1"), ("a", 2, "x"), ("b", 1, None), ("b", 2, "capital 2")] * 2
    ]
    (tmp_path / "out.json").write_text(json.dumps({"results": {"version": 3, "results": rows}}), encoding="utf-8")
    runs = read("promptfoo", tmp_path / "out.json")
    assert [(run.settings["model"], run.settings["repeat"], run.scores["accuracy"]) for run in runs] == [
        (model, repeat, 0.5) for repeat in "01" for model in "ab"
    ]
    assert runs[0].predictions.tolist() == ["capital 1", "x"]  # type: ignore[union-attr]
    assert runs[0].examples == runs[1].examples
    rows[1] |= {"failureReason": 2, "error": "API error: 429"}
    (tmp_path / "out.json").write_text(json.dumps({"results": {"version": 3, "results": rows}}), encoding="utf-8")
    fails(r"has no answer \(API error: 429\)", read, "promptfoo", tmp_path / "out.json")
    (tmp_path / "out.json").write_text("{}", encoding="utf-8")
    fails("holds no results", read, "promptfoo", tmp_path / "out.json")


AIRLINE = (
    "0000 0100 0010 0000 0000 0100 1000 0010 0000 0000 0000 1000 1111 0110 0000 0011 0001 0001 1111 0000 1111 0111 "
    "0000 0000 1111 0000 1010 0110 0000 1000 0101 1001 0000 0000 1101 1111 1111 0111 1111 1000 1101 0101 1111 1000 "
    "1010 1001 0110 0100 1111 1111"
)
"""Rewards of 50 tasks in 4 trials: sierra-research/tau-bench, historical_trajectories/gpt-4o-airline.json."""


def test_tau_bench(tmp_path: Path):
    rewards = [(task, trial, float(each[trial])) for trial in range(4) for task, each in enumerate(AIRLINE.split())]
    first = [{"task_id": task, "reward": reward, "info": {}, "trial": trial} for task, trial, reward in rewards]
    second = [
        {"id": "x", "task_id": str(task), "trial": trial, "reward_info": {"reward": reward}}
        for task, trial, reward in rewards
    ]
    about = {"num_trials": 4, "agent_info": {"llm": "gpt"}, "environment_info": {"domain_name": "airline"}}
    for place, document in (("airline", first), ("airline2", {"info": about, "simulations": second})):
        (tmp_path / place).mkdir()
        file = tmp_path / place / "airline.json"
        file.write_text(json.dumps(document, indent=2), encoding="utf-8")
        assert tool_of(file, "auto") == "tau-bench"
        runs = with_kind(read("tau-bench", file))
        assert [run.settings["trial"] for run in runs] == ["0", "1", "2", "3"]
        # The README of tau-bench has pass^1 = 0.420 for this file.
        assert sum(run.scores["accuracy"] for run in runs) / 4 == pytest.approx(0.42)
        assert len({run.examples for run in runs}) == 1
        assert runs[0].task == "airline"
    # pass^1 to pass^4 of this file, as published there.
    scores = pd.DataFrame([{"seed": number, **run.scores} for number, run in enumerate(runs)])
    tables = [
        pd.DataFrame({"seed": number, "example_id": run.ids, "label": run.labels, "prediction": run.predictions})
        for number, run in enumerate(runs)
    ]
    settings = pd.DataFrame([run.settings for run in runs])
    study = seeds_study(scores, pd.concat(tables), metric="accuracy", kind="multiple_choice", recorded=settings)
    assert study.passes["all_pass"].round(3).tolist() == [0.42, 0.273, 0.22, 0.2]
    assert study.metrics()["pass_hat_3"] == pytest.approx(0.22)
    assert "**20.0 %** of the examples are right in all 4 runs" in str(study_answers(study))
    del second[7]["reward_info"]
    file.write_text(json.dumps({"info": about, "simulations": second}), encoding="utf-8")
    fails("task 7 of trial 0 has no reward", read, "tau-bench", file)


def test_settings_of_a_csv_file_show_no_private_folder(tmp_path: Path):
    frame = pd.DataFrame({"example_id": [1, 2], "label": ["a", "b"], "prediction": ["a", "a"]})
    both = pd.concat([frame.assign(model=name) for name in ("/home/someone/lora", "org/full")])
    both.to_csv(tmp_path / "runs.csv", index=False)
    assert [run.settings["model"] for run in read("csv", tmp_path / "runs.csv")] == ["lora", "org/full"]


def test_trainer(tmp_path: Path):
    folder = tmp_path / "mrpc" / "run-7"
    (folder / "checkpoint-10").mkdir(parents=True)
    history = [{"loss": 0.7}, {"eval_loss": 0.5, "eval_accuracy": 0.8, "eval_runtime": 1.0}]
    state = {"log_history": history, "max_steps": 10}
    for place in (folder, folder / "checkpoint-10"):
        (place / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    card = "# mrpc\n\n### Training hyperparameters\n\n- learning_rate: 2e-05\n- seed: 7\n"
    (folder / "README.md").write_text(card, encoding="utf-8")
    assert read("huggingface-trainer", folder / "checkpoint-10" / "trainer_state.json") == []
    (run,) = read("huggingface-trainer", folder / "trainer_state.json")
    assert run.task == "mrpc"
    assert run.scores == {"accuracy": 0.8, "loss": 0.5}
    assert (run.settings["seed"], run.settings["learning_rate"]) == ("7", "2e-05")
    answers = pd.DataFrame({"example_id": [1, 2], "label": [0, 1], "prediction": [0, 0]})
    answers.to_csv(folder / "predictions.csv", index=False)
    (run,) = with_kind(read("huggingface-trainer", folder / "trainer_state.json"))
    assert run.predictions.tolist() == [0, 0]  # type: ignore[union-attr]
    (folder / "trainer_state.json").write_text('{"log_history": []}', encoding="utf-8")
    fails("has no evaluation", read, "huggingface-trainer", folder / "trainer_state.json")


def test_the_tool_is_recognised_by_its_files(tmp_path: Path):
    for tool, name, text in (
        ("lm-eval", "samples_a.jsonl", ""),
        ("inspect", "a.eval", ""),
        ("inspect", "log.json", '{"version": 2, "eval": {}, "results": {}}'),
        ("promptfoo", "out.json", '{"evalId": "x", "results": {}}'),
        ("csv", "answers.jsonl", '{"example_id": 1}'),
        ("tau-bench", "rewards.json", '[\n  {\n    "task_id": 0,'),
        ("csv", "a.tsv", ""),
        ("huggingface-trainer", "trainer_state.json", "{}"),
    ):
        folder = tmp_path / f"{tool}-{name}"
        folder.mkdir()
        (folder / name).write_text(text, encoding="utf-8")
        assert tool_of(folder, "auto") == tool_of(folder / name, "auto") == tool
    for name in ("predictions.csv", "results.json"):
        (folder / name).write_text('{"results":', encoding="utf-8")
    assert tool_of(folder, "auto") == "huggingface-trainer"
    assert tool_of(LOGS / "lm_eval", "auto") == "lm-eval"
    scores = tmp_path / "scores"
    scores.mkdir()
    shutil.copy(next(LOGS.glob("lm_eval/results_*.json")), scores)
    for refused in (lambda: tool_of(scores, "auto"), lambda: read_runs(scores, "lm-eval", {}, "auto")):
        why = r"Use lm_eval --log_samples and name the folder of samples_\*\.jsonl, or write a CSV: seed,acc"
        refuses(why, refused)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("", encoding="utf-8")
    refuses(r"no file of a tool that is known\. Name the tool, --from lm-eval\|", tool_of, tmp_path / "notes", "auto")
    for name, text in (("a.eval", ""), ("b.json", '{"evalId":')):
        (tmp_path / "notes" / name).write_text(text, encoding="utf-8")
    refuses("files of inspect and promptfoo", tool_of, tmp_path / "notes", "auto")
    (tmp_path / "table.parquet").touch()
    assert tool_of(tmp_path / "table.parquet", "auto") == "csv"


def test_unknown_columns_are_parameters():
    refuses("columns", read, "csv", LOGS / "none.csv", idd="x")


def test_credentials_in_recorded_settings_are_hidden() -> None:
    settings = {"model_args": {"api_key": "abc123", "base_url": "https://me:pw12345@host/v1", "max_length": 512}}
    shown = {"model_args.api_key": "***", "model_args.base_url": "https://***@host/v1", "model_args.max_length": "512"}
    assert flat(settings) == shown


@pytest.mark.parametrize("columns", ["accuracy\n0.81\n0.81\n0.79", "lr,accuracy\n1,0.81\n1,0.81\n1,0.79"])
def test_runs_without_a_seed_that_score_alike_are_runs_of_their_own(columns: str, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(columns, encoding="utf-8")
    runs = csv_file.read(tmp_path / "scores.csv", {})
    assert [run.scores["accuracy"] for run in runs] == [0.81, 0.81, 0.79]
    assert len({run.key for run in runs}) == 3


def test_a_comma_of_thousands_is_no_decimal_one(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text('seed,perplexity\n1,"1,234"\n2,"2,345"\n', encoding="utf-8")
    fails("1,234 in column perplexity may be a thousand or a decimal", csv_file.read, tmp_path / "scores.csv", {})
    (tmp_path / "scores.csv").write_text('seed,perplexity\n1,"0,816"\n2,"12,5"\n', encoding="utf-8")
    assert [run.scores["perplexity"] for run in csv_file.read(tmp_path / "scores.csv", {})] == [0.816, 12.5]
