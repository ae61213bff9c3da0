"""MLproject: every parameter has our default, occurs in the command, and arrives as it was typed."""

import os
import runpy
import shlex
import shutil
import stat
import subprocess
import sys
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from mlflow.projects._project_spec import load_project

from mlflow_l3d import cli
from mlflow_l3d.parameters import Parameters
from mlflow_l3d.parameters.verbs import verbs

ROOT = Path(__file__).resolve().parents[1]
WHERE: dict[str, tuple[Path, str, str, Parameters]] = {
    verb.entry_point: (ROOT, verb.entry_point, verb.name, verb.parameters)
    for verb in verbs().values()
    if verb.entry_point
}
WHERE["projects/default"] = (ROOT / "projects" / "default", "main", "investigate", verbs()["investigate"].parameters)
HOSTILE = [
    "plain",
    "two words",
    "  spaces  around  ",
    "it's",
    'say "hi"',
    "*",
    "back\\slash",
    "line\nbreak",
    "",
    "a; touch hacked",
    "a && touch hacked",
    "$(touch hacked)",
    "`touch hacked`",
    "$HOME ${PATH}",
    "a > hacked",
    "{factor} {{braces}} {0}",
    '{"a": 1, "b": "x y"}',
    "tags.`l3d.role` = 'cell' and metrics.f1_macro > 0.5",
    "#no comment",
    "ümlaut 数据",
    "!history ~ [a-z] %s",
]
STUB = """#!/bin/sh
printf '%s\\0' "$@" > "$STUB_OUTPUT"
"""


@pytest.fixture(params=sorted(WHERE))
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def entry_point(place: str) -> Any:
    folder, name, _, _ = WHERE[place]
    return load_project(str(folder)).get_entry_point(name)


def run(command: str, tmp_path: Path) -> list[str]:
    """Run a computed command with bash, as MLflow does, with a `python` that writes down its arguments."""
    work = tmp_path / "project" / "projects" / "default"
    work.mkdir(parents=True, exist_ok=True)
    stub = tmp_path / "bin" / "python"
    stub.parent.mkdir(exist_ok=True)
    stub.write_text(STUB)
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    output = tmp_path / "arguments"
    environment = {**os.environ, "PATH": f"{stub.parent}:{os.environ['PATH']}", "STUB_OUTPUT": str(output)}
    subprocess.run(["bash", "-c", command], cwd=work, env=environment, check=True, capture_output=True)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"python", "arguments"}, "the value was run as a command"
    return output.read_text(encoding="utf-8").split("\0")[:-1]


def test_parameters_are_ours_with_the_same_defaults_in_the_same_order(place: str) -> None:
    declared = entry_point(place).parameters
    wanted = {name.rstrip("_"): parameter.default for name, parameter in WHERE[place][3].items()}
    assert {name: str(parameter.default) for name, parameter in declared.items()} == wanted
    assert list(declared) == list(wanted)


def test_every_parameter_has_a_default_and_a_type_that_mlflow_leaves_alone(place: str) -> None:
    for name, parameter in entry_point(place).parameters.items():
        assert parameter.default is not None, name
        assert parameter.type not in {"path", "uri"}, name  # MLflow would change or refuse the value


def test_every_parameter_occurs_in_the_command_once(place: str) -> None:
    command = entry_point(place).command.split()
    for name in entry_point(place).parameters:
        assert command.count(f"{{{name}}}") == 1, f"{name} would vanish silently"
        assert command[command.index(f"{{{name}}}") - 1] == f"--{name.replace('_', '-')}"


def test_defaults_arrive(place: str, tmp_path: Path) -> None:
    _, _, verb, parameters = WHERE[place]
    arguments = run(entry_point(place).compute_command({}, None), tmp_path)
    assert arguments[:3] == ["-m", "mlflow_l3d", verb]
    assert vars(cli.parser(arguments).parse_args(arguments[2:])) == {
        "verb": verb,
        **{name: parameter.default for name, parameter in parameters.items()},
    }


def test_hostile_values_arrive_as_typed(place: str, tmp_path: Path) -> None:
    _, _, verb, parameters = WHERE[place]
    for first in range(0, len(HOSTILE), len(parameters)):
        typed = dict(zip(parameters, cycle(HOSTILE[first:]), strict=False))
        named = {name.rstrip("_"): value for name, value in typed.items()}
        arguments = run(entry_point(place).compute_command(named, None), tmp_path)
        assert vars(cli.parser(arguments).parse_args(arguments[2:])) == {"verb": verb, **typed}


def test_misspelt_parameter_reaches_the_command_line_which_refuses_it(place: str, tmp_path: Path) -> None:
    """MLflow appends what the project does not declare: `-P facotr=data_split`."""
    verb = WHERE[place][2]
    misspelt = {"evaluate": "sourcee", "ablation": "parent_run_idd"}.get(verb, "facotr")
    command = entry_point(place).compute_command({misspelt: "data_split; touch hacked"}, None)
    arguments = run(command, tmp_path)
    assert arguments[-2:] == [f"--{misspelt}", "data_split; touch hacked"]
    assert cli.main(arguments[2:]) == (verbs()[verb].failed or 2)


def test_entry_points_of_the_project() -> None:
    project = load_project(str(ROOT))
    assert project.name == "mlflow-l3d"
    entry_points = {name: shlex.split(each.command)[3] for name, each in project._entry_points.items()}
    assert entry_points == {verb.entry_point: verb.name for verb in verbs().values() if verb.entry_point}
    assert entry_points["main"] == "investigate"
    for place in WHERE.values():
        assert Path(load_project(str(place[0])).env_config_path).resolve() == ROOT / "conda.yaml"


def test_files_are_those_that_the_table_makes(capsys: pytest.CaptureFixture[str]) -> None:
    write = runpy.run_path(str(ROOT / ".ci" / "write.py"))
    assert write["main"](["--check"]) == 0, capsys.readouterr().out
    assert {path.name for path in write["files"]()} == {"MLproject", "parameters.md", "public.md", "__init__.py"}


def test_the_command_needs_nothing_but_the_sources(tmp_path: Path) -> None:
    """`python -m mlflow_l3d` in the project's folder finds the package there, not one that is installed elsewhere."""
    shutil.copytree(ROOT / "mlflow_l3d", tmp_path / "mlflow_l3d", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    version = tmp_path / "mlflow_l3d" / "version.py"
    version.write_text(version.read_text().replace('__version__ = "', '__version__ = "the clone of '))
    command = [sys.executable, "-m", "mlflow_l3d", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "the clone of " in done.stdout
