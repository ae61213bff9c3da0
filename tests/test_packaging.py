"""What is installed is whole, light to import, and pinned the same everywhere."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from project_scripts import load_script
from warm_start import WarmStart

from mlflow_l3d.parameters.verbs import Verb

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENTRY_POINTS = {f"{group}:{name}": to for group, names in PROJECT["entry-points"].items() for name, to in names.items()}
ENTRY_POINTS |= PROJECT["scripts"]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
SOURCES = sorted((ROOT / "mlflow_l3d").rglob("*.py"))
FORBIDDEN = {
    "pickle": r"^\s*(?:import|from)\s+(?:pickle|cloudpickle|dill|joblib|marshal|shelve)\b",
    "pickle file": r"\b(?:pickle\.(?:dump|load)\(|torch\.(?:save|load)\(|(?:to|read)_pickle|allow_pickle\s*=\s*True)",
    "code of others": r"trust_remote_code[\"']?\s*(?:=(?!=)\s*(?!False)|:\s*True)",
    "global numpy generator": r"\bnp\.random\.(?!default_rng|Generator|SeedSequence|PCG64|BitGenerator)\w+",
    "global random": r"\brandom\.(?:seed|random|shuffle|choice|randint|sample)\(",
}
EXCEPT = {
    # Jobs go to workers through a pipe of our own, or a folder; the conformance suite checks that an approach can.
    "pickle": {"execution/processes.py", "execution/worker.py", "execution/slurm/seat.py", "testing/approaches.py"},
    # For libraries that draw from nothing else, and to show that an approach does not listen to them.
    "global numpy generator": {"approaches/global_seeds.py", "testing/approaches.py"},
    "global random": {"approaches/global_seeds.py", "testing/approaches.py"},
}


def read_pins(lines: list[str]) -> dict[str, str]:
    """Read ``name==version`` lines; anything else (a path, a host, a bound) fails."""
    found = [re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][A-Za-z0-9.!]*)", line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    return {canonicalize_name(match[1]): match[2] for match in found if match}


CONSTRAINTS = read_pins(
    [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
)
CONDA: dict[str, Any] = yaml.safe_load((ROOT / "conda.yaml").read_text(encoding="utf-8"))
CONDA_PINS = read_pins(next(entry["pip"] for entry in CONDA["dependencies"] if isinstance(entry, dict)))


@pytest.mark.parametrize("name", sorted(ENTRY_POINTS))
def test_entry_points_name_what_exists(name: str) -> None:
    module, _, attribute = ENTRY_POINTS[name].partition(":")
    named = importlib.import_module(module)
    if attribute:  # plug-ins of pytest are modules
        named = getattr(named, attribute)
        assert isinstance(named, Verb) or callable(named)


def test_version_is_said_once_and_the_changelog_has_it() -> None:
    import mlflow_l3d

    assert PROJECT["version"] == mlflow_l3d.__version__
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_mlflow_finds_the_plugins_whatever_is_imported_first() -> None:
    """Each order in a process of its own, which begins with what MLflow itself needs."""
    code = (
        "import matplotlib.pyplot, os, pandas, scipy.stats, sklearn.base, sqlalchemy, sys\n"
        "import fastapi, google.protobuf.json_format, opentelemetry.sdk.trace, pyarrow, requests, rich.console\n"
        "for first in ('mlflow_l3d.plugin.dataset', 'mlflow_l3d.plugin.evaluator'):\n"
        "    if child := os.fork():\n"
        "        _, status = os.waitpid(child, 0)\n"
        "        assert status == 0, first\n"
        "        continue\n"
        "    __import__(first)\n"
        "    import mlflow\n"
        "    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as evaluators\n"
        "    assert 'l3d' in evaluators._registry and callable(mlflow.data.from_l3d_runs)\n"
        "    print([name for name in ('torch', 'transformers', 'datasets') if name in sys.modules])\n"
        "    sys.exit()\n"
        "assert not any(name.startswith('mlflow') for name in sys.modules)"
    )
    strict = "error:Failure attempting to register:UserWarning"  # all that MLflow says of a plug-in it leaves out
    done = subprocess.run([sys.executable, "-W", strict, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["[]", "[]", ""]


@pytest.mark.parametrize("what", sorted(FORBIDDEN))
def test_package_has_no(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what], re.MULTILINE)
    found = {path.relative_to(ROOT / "mlflow_l3d").as_posix(): pattern.findall(path.read_text()) for path in SOURCES}
    assert {path: hits for path, hits in found.items() if hits and path not in EXCEPT.get(what, ())} == {}


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("pickle", "from pickle import loads"),
        ("pickle file", "torch.load(path)"),
        ("code of others", "f(trust_remote_code=True)"),
        ("code of others", "f(trust_remote_code=asked)"),
        ("code of others", "{'trust_remote_code': True}"),
        ("global numpy generator", "np.random.seed(1)"),
        ("global random", "random.shuffle(items)"),
    ],
)
def test_forbidden_things_are_recognised(what: str, line: str) -> None:
    assert re.search(FORBIDDEN[what], line)


@pytest.mark.slow
def test_wheel_holds_the_package_and_its_templates(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "mlflow_l3d", source / "mlflow_l3d", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    templates = {str(path.relative_to(ROOT)) for path in (ROOT / "mlflow_l3d").rglob("templates/*.*")}
    assert templates
    more = {"mlflow_l3d/py.typed", "mlflow_l3d/ci/pull_request.sh"}
    assert {str(path.relative_to(ROOT)) for path in SOURCES} | templates | more <= held
    assert not [name for name in held if name.startswith(("tests/", "benchmarks/", "projects/"))]


def test_conda_and_constraints_pin_the_same_versions() -> None:
    assert {name: CONSTRAINTS.get(name) for name in CONDA_PINS} == CONDA_PINS
    assert CONSTRAINTS["torch"] == "2.13.0"


def test_conda_pins_a_full_python_and_leaves_this_project_out() -> None:
    (python,) = [entry for entry in CONDA["dependencies"] if str(entry).startswith("python")]
    assert re.fullmatch(r"python=3\.\d+\.\d+", python)  # MLflow builds no environment from less
    assert canonicalize_name(PROJECT["name"]) not in CONDA_PINS | CONSTRAINTS


@pytest.mark.parametrize(("extra", "pins"), [("demo", CONDA_PINS), ("icl", CONDA_PINS), ("dev", CONSTRAINTS)])
def test_pins_hold_every_requirement_within_its_bounds(extra: str, pins: dict[str, str]) -> None:
    required: list[Requirement] = load_script(".ci/pins.py").declared(extra)
    assert len(required) > len(PROJECT["dependencies"])
    for requirement in required:
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not pinned"
        assert requirement.specifier.contains(version), f"{requirement} does not allow {version}"


def test_conda_holds_what_the_requirements_need_in_turn() -> None:
    pins = load_script(".ci/pins.py")
    assert set(pins.closure(pins.declared("demo", "icl"))) - set(CONDA_PINS) == set()


@pytest.mark.slow
def test_default_project_runs_from_any_folder_without_an_installation(tmp_path: Path, tracking_uri: str) -> None:
    """MLflow starts the command in the project's folder; it must reach this package and the caller's store."""
    copy = tmp_path / "clone"
    shutil.copytree(ROOT / "projects", copy / "projects")
    shutil.copy(ROOT / "conda.yaml", copy / "conda.yaml")
    (copy / "mlflow_l3d").mkdir()
    (copy / "mlflow_l3d" / "__init__.py").touch()
    (copy / "mlflow_l3d" / "__main__.py").write_text(
        "import json, os, sys\n"
        f"with open({str(tmp_path / 'seen.json')!r}, 'w') as file:\n"
        "    json.dump([os.path.dirname(__file__), sys.argv[1:], dict(os.environ)], file)\n"
    )
    command = ["-m", "mlflow", "run", f"{copy}#projects/default", "--env-manager", "local"]
    process = WarmStart([*command, "-P", "factor=data_split"], tmp_path, os.environ)
    _, stderr = process.communicate(timeout=200)
    assert process.returncode == 0, stderr

    import mlflow

    (run,) = mlflow.MlflowClient(tracking_uri).search_runs(["0"])
    assert run.info.status == "FINISHED"
    package, arguments, variables = json.loads((tmp_path / "seen.json").read_text())
    assert package == str(copy / "mlflow_l3d")
    assert arguments[:7] == ["investigate", *["--task", "auto", "--approach", "finetuning", "--factor", "data_split"]]
    assert (variables["MLFLOW_TRACKING_URI"], variables["MLFLOW_RUN_ID"]) == (tracking_uri, run.info.run_id)
    assert run.data.params["factor"] == "data_split"


def test_hosted_workflow_runs_what_anybody_runs_and_may_only_read() -> None:
    workflow = yaml.safe_load(WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets" not in WORKFLOW
    job = workflow["jobs"]["run"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert job["strategy"]["matrix"]["python"][0] == PROJECT["requires-python"].removeprefix(">=")
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(path.read_text(encoding="utf-8")), path


def test_hosted_workflow_tries_the_oldest_and_the_newest_mlflow_that_may_be_installed() -> None:
    job = yaml.safe_load(WORKFLOW)["jobs"]["mlflow"]
    (bounds,) = (need.specifier for need in map(Requirement, PROJECT["dependencies"]) if need.name == "mlflow")
    oldest, newest = (Requirement(each).specifier for each in job["strategy"]["matrix"]["mlflow"])
    low, high = ({part.operator: part.version for part in bounds}[operator] for operator in (">=", "<"))
    assert str(oldest) == f"=={low}.0"
    assert str(newest) == f"<{high}"
    *_, tests = [step["run"].split() for step in job["steps"] if "run" in step]
    assert all((ROOT / each).exists() for each in tests if each.startswith("tests/"))


def test_hosted_workflow_tries_the_oldest_and_the_newest_torch_and_transformers_that_may_be_installed() -> None:
    oldest, newest = yaml.safe_load(WORKFLOW)["jobs"]["models"]["strategy"]["matrix"]["include"]
    extras = PROJECT["optional-dependencies"]
    needs = {need.name: need.specifier for need in map(Requirement, extras["models"] + extras["lora"])}
    for side, operator in ((oldest, ">="), (newest, "<")):
        packages = [Requirement(each) for each in side["packages"].split()]
        assert {"torch", "transformers"} <= {each.name for each in packages}
        for each in packages:
            (bound,) = (part.version for part in needs[each.name] if part.operator == operator)
            assert str(each.specifier) == (
                f"<{bound}" if operator == "<" else f"=={bound}{'.0' * ('.' not in bound)}.*"
            )


def test_citation_names_the_papers_of_the_readme() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["license"]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for reference in citation["references"]:
        assert reference["title"].partition(":")[0] in readme
        assert all(author["family-names"] in readme for author in reference["authors"])
