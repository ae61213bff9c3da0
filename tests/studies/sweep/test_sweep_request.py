"""What may be asked of a sweep: lists, files, sets, exclusions, overrides; and what is refused, in one line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from refusals import refuses

from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.dry_run import Budget
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.sweep.asked import command_of
from mlflow_l3d.studies.sweep.request import SweepRequest, specify_sweep

VOTE = '{"changes": {}, "kind": "vote", "members": 3, "over": ["data_order"]}'
BASE: dict[str, Any] = {"approach": "synthetic", "metric": "synthetic_score", "executor": "inline"}


def asked(**parameters: Any) -> SweepRequest:
    return specify_sweep({**BASE, **parameters})


def choices(**parameters: Any) -> list[dict[str, Any]]:
    return [dict(point.choices) for point in asked(**parameters).points]


def test_lists_multiply_and_the_last_one_runs_fastest() -> None:
    over = '{"noise": [0, 0.1], "a_data_order": [0, 9]}'
    expected = [
        {"root_seed": float(seed), "noise": noise, "a_data_order": float(a)}
        for seed in (0, 1)
        for noise in (0.0, 0.1)
        for a in (0, 9)
    ]
    assert choices(root_seed="0,1", over=over) == expected
    assert choices(root_seed=[0, 1], over=json.loads(over)) == expected  # as Python has them


def test_a_point_is_the_investigation_of_the_separate_command() -> None:
    [_, point] = asked(
        over={"noise": [0, 0.1]}, hyperparameters="a_data_order=9", factor="data_order,data_split"
    ).points
    alone = specify({**BASE, "factor": "data_order,data_split", "hyperparameters": "a_data_order=9,noise=0.1"})
    assert (point.key, point.context_key) == (alone.key, alone.context_key)
    assert [cell.key for cell in point.design().cells()] == [cell.key for cell in alone.design().cells()]
    again = specify({**point.given, "hyperparameters": point.given["hyperparameters"]})
    assert again.key == point.key


@pytest.mark.parametrize(
    ("name", "value", "values"),
    [
        ("factor", "data_order,data_split", []),  # one investigation of two factors, as in main
        ("factor", "data_order,data_split;data_order", ["data_order,data_split", "data_order"]),
        ("factor", '["data_order,data_split", "data_order"]', ["data_order,data_split", "data_order"]),
        ("factor", ["data_order", "data_split"], []),
        ("factor", [["data_order", "data_split"], "data_order"], ["data_order,data_split", "data_order"]),
        ("mitigation", "none;data_split:0,sample_choice:0+3", ["none", "data_split:0,sample_choice:0+3"]),
        ("cure", VOTE, []),
        ("cure", f"none;{VOTE}", ["none", VOTE]),
        ("cure", ["none", json.loads(VOTE)], ["none", VOTE]),
        ("hyperparameters", "noise=0,a_data_order=1;noise=0.1", ["noise=0,a_data_order=1", "noise=0.1"]),
        ("hyperparameters", '{"noise": 0.5, "a_data_order": 1}', []),
        ("hyperparameters", [{"noise": 0}, {"noise": 0.5}], ['{"noise": 0}', '{"noise": 0.5}']),
        ("mitigation_runs", "auto,30", ["auto", "30"]),
        ("mitigation_runs", (10, 30), [10.0, 30.0]),
    ],
)
def test_a_comma_means_what_it_means_in_main(name: str, value: Any, values: list[Any]) -> None:
    assert [point.get(name) for point in choices(**{name: value})] == (values or [None])


FILE = """
approach: synthetic
metric: synthetic_score
executor: inline
root_seed: [0, 1]
over: {noise: [0, 0.1]}
sets:
  weak: {over: {a_data_order: [9, 99]}}
  strong: {over: {a_data_order: 0}, mitigation_runs: 4}
exclude:
  - {set: weak, a_data_order: 99, noise: 0.1}
  - {root_seed: 1, set: [weak]}
overrides:
  - {when: {noise: 0.1}, investigation_runs: 5, over: {a_data_split: 2}}
"""


def test_a_file_with_sets_exclusions_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(FILE)
    points = specify_sweep({"file": str(path)}).points
    sets = [(point.choices["set"], point.choices["noise"], point.choices["a_data_order"]) for point in points]
    assert sets == [("weak", 0, 9), ("weak", 0, 99), ("weak", 0.1, 9)] + 2 * [("strong", 0, 0), ("strong", 0.1, 0)]
    assert [point.plan.investigation_runs for point in points] == [10, 10, 5, 10, 5, 10, 5]
    assert [point.plan.mitigation_runs for point in points] == [20, 20, 20, 4, 4, 4, 4]
    # What follows from an override differs between points, too, and is a choice of each.
    assert [point.choices["a_data_split"] for point in points] == [4.5, 4.5, 2, 4.5, 2, 4.5, 2]
    # What is typed wins over the file.
    assert {point.plan.root_seed for point in specify_sweep({"file": str(path), "root_seed": "7,1"}).points} == {7, 1}
    path.write_text(json.dumps({**BASE, "over": {"noise": [0, 1]}}))
    assert len(specify_sweep({"file": str(path)}).points) == 2


class Named(Synthetic):
    """An approach of the user's own, by the name of the default one."""

    name = "finetuning"


def test_objects_in_place_of_names() -> None:
    own = Named()
    given = {"metric": "synthetic_score", "executor": "inline", "task": "synthetic"}
    points = specify_sweep(given, approach=[own, "synthetic"]).points
    assert points[0].setup.approach is own
    assert [point.choices for point in points] == [{"approach": "finetuning"}, {"approach": "synthetic"}]
    [point] = specify_sweep(given, approach=own).points
    assert point.setup.approach is own
    assert point.choices == {}


def test_data_that_points_share_is_read_once_and_is_one_object() -> None:
    points = asked(over={"noise": [0, 0.1, 0.2]}, num_labelled="100,200").points
    tasks = [point.setup.task for point in points]
    assert len({id(task) for task in tasks}) == 2
    assert len({id(task.texts[0]) for task in tasks}) == 1


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"shots": "2"}, r"parameter='shots': must be one of .*"),
        ({"executor": "inline,processes"}, r"executor=inline,processes: must be one value: .*"),
        ({"device": ["cpu", "cuda"]}, r"device=cpu,cuda: must be one value: .*"),
        ({"root_seed": "0,"}, r"root_seed=0,: must name values, and no empty one\."),
        ({"root_seed": []}, r"root_seed=: must name values, and no empty one\."),
        ({"root_seed": "0,x"}, r"root_seed=x: at the point root_seed=x: must be a whole number of at least 0\."),
        ({"over": {"nois": [0, 1]}}, r"hyperparameters='nois': at the point nois=0: .* Did you mean 'noise'\?"),
        ({"over": {"noise": [0, 2]}}, r"hyperparameters\.noise=2: at the point noise=2: must lie in \[0, 1\]\."),
        ({"over": "{noise: 0}"}, r"over=\{noise: 0\}: is not valid JSON .*"),
        ({"over": "[1]"}, r"over=\[1\]: must be a mapping: .*"),
        ({"over": {"noise": []}}, r"over\.noise=\[\]: must be values of that hyperparameter, at least one\."),
        ({"over": {"noise": [0]}, "hyperparameters": "noise=1"}, r"hyperparameters=noise=1: names noise, which .*"),
        ({"over": {"noise": [0.5, "0.50"]}}, r"point=2 \(noise=0\.50\): is the same .* as point 1 \(noise=0\.5\)\. .*"),
        ({"missing": "anova,reml"}, r"point=2 \(missing=reml\): is the same investigation as point 1 .*"),
        ({"budget": "2 days"}, r"budget=2 days: must be none, a time as in .*"),
        ({"file": "no.yaml"}, r"file=no\.yaml: the file cannot be read \(No such file or directory\)\."),
    ],
)
def test_what_is_wrong_is_said_in_one_line(parameters: dict[str, Any], line: str) -> None:
    refuses(rf"^{line}$", asked, **parameters)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("[1, 2]", r"file=.*: must hold a mapping: .*"),
        ("over: {noise: [0, 1}", r"file=.*: is neither YAML nor JSON .*"),
        ("ovr: {}", r"file='ovr': must be one of .* Did you mean 'over'\?"),
        ("sets: {a: {shots: 2}}", r"sets\.a='shots': must be one of .*"),
        ("{over: {noise: [0, 1]}, exclude: [{noise: [0, 1]}]}", r"exclude=.*: leaves none of the 2 points\."),
        ("{over: {noise: [0, 1]}, exclude: [{noise: 5}]}", r"exclude=.*: matches no point of this sweep\."),
        ("{over: {noise: [0, 1]}, exclude: [{nois: 0}]}", r"exclude='nois': must be .* Did you mean 'noise'\?"),
        ("{over: {noise: [0, 1]}, overrides: [{noise: 0}]}", r"overrides=.*: needs `when`, .*"),
        (
            "{over: {noise: [0, 1]}, overrides: [{when: {noise: 0}, root_seed: [1, 2]}]}",
            r"overrides\.root_seed=1,2: must be one value\.",
        ),
    ],
)
def test_what_is_wrong_in_a_file(content: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(content)
    refuses(rf"^{line}$", asked, file=str(path))


def test_an_error_of_another_kind_names_its_point_too() -> None:
    with pytest.raises(L3DError, match=r"^At the point hyperparameters=latest: hyperparameters=latest: a search .*"):
        asked(hyperparameters="default;latest")


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("none", Budget()),
        ("5000", Budget(cells=5000)),
        ("5000 cells", Budget(cells=5000)),
        (12, Budget(cells=12)),
        ("2h", Budget(seconds=7200.0)),
        ("1h30m", Budget(seconds=5400.0)),
        ("1.5h", Budget(seconds=5400.0)),
        ("90m", Budget(seconds=5400.0)),
    ],
)
def test_budgets(text: object, budget: Budget) -> None:
    assert Budget.parse(text) == budget
    assert bool(budget) == (text != "none")


def test_over_fills_placeholders_and_a_first_run_that_fails_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the files of the folder are searched for what decides the scores
    script = tmp_path / "score.py"
    lines = ("import sys, pathlib", f"pathlib.Path({str(tmp_path / 'runs')!r}).open('a').write(sys.argv[1] + ' ')")
    script.write_text("\n".join([*lines, "if sys.argv[1] == '2': sys.exit('bad')", "print('accuracy: 0.5')"]))
    command = f"python -SE {script} {{lr}} {{data_order}} {{{{lr}}}} {{data_split}} {{output}}"
    given: dict[str, Any] = {"approach": "command", "metric": "accuracy", "command": command}
    request = asked(**given, over={"lr": [2, 1]}, design="crossed,nested")
    [failed, other] = request.failed
    assert (request.every[0], request.every[2]) == (failed, other)
    assert ("bad" in failed.error, failed.choices) == (True, {"design": "crossed", "lr": 2.0})
    assert other.choices == {"design": "nested", "lr": 2.0}
    assert [dict(point.choices) for point in request.points] == [
        {"design": d, "lr": 1.0} for d in ("crossed", "nested")
    ]
    assert [point.setup.approach.template.words[3] for point in request.points] == ["1", "1"]
    assert (tmp_path / "runs").read_text().split().count("2") == 1
    alone = asked(**given, over={"lr": [1]}, design="crossed,nested")
    assert [point.key for point in alone.points] == [point.key for point in request.points]
    assert alone.key != request.key


@pytest.mark.parametrize("value", ["a b", "it's", '$x "q"', 3])
def test_a_placeholder_is_filled_within_its_word(value: object) -> None:
    words = ("python", "train.py", "{data_order}", "{noise}", "noise: {noise}")
    filled = command_of({"command": shlex.join(words), "noise": value})["command"]
    assert shlex.split(filled) == [*words[:3], str(value), f"noise: {value}"]


def test_the_run_of_a_sweep_has_the_code_of_its_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('accuracy: 0.5')")
    command = "python -SE train.py {rate} {data_order} {data_split}"
    request = asked(approach="command", metric="accuracy", command=command, over={"rate": [1, 2]})
    assert request.card().code == tmp_path
    assert asked(over={"noise": [0, 0.1]}).card().code is None
