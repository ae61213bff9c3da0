"""Names are found through entry points: ours with and without an installation, a stranger's, and broken ones."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from mlflow_l3d import cli, registry
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.parameters import values
from mlflow_l3d.parameters.verbs import Verb, verbs
from mlflow_l3d.studies.investigation.request import specify

ROOT = Path(__file__).resolve().parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package with entry points on the path, as pip would."""

    def put(name: str, entry_points: str, **modules: str) -> None:
        site = tmp_path / name
        information = site / f"{name}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(entry_points)
        for module, code in modules.items():
            (site / f"{module}.py").write_text(code)
            monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.syspath_prepend(str(site))

    return put


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the distribution away; the sources stay."""

    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    registry._source_entry_points.cache_clear()
    monkeypatch.setattr(registry, "distribution", missing)
    monkeypatch.setattr(registry, "_installed", lambda *_: ())
    yield
    registry._source_entry_points.cache_clear()


@pytest.mark.parametrize("is_installed", [True, False])
@pytest.mark.parametrize("parameter", sorted(set(registry.GROUPS) - {"metric"}))
def test_ours_are_found(parameter: str, is_installed: bool, request: pytest.FixtureRequest) -> None:
    if not is_installed:
        request.getfixturevalue("not_installed")
    declared, names = DECLARED[registry.GROUPS[parameter]], registry.names(parameter)
    assert names == sorted({*names, *declared} if is_installed else declared)
    for name in declared:
        loaded = registry.load(parameter, name)
        assert isinstance(loaded, Verb) if parameter == "study" else callable(loaded)


def test_only_an_installation_has_all_entry_points_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a script, which `sys.path` begins with, changes with each file that is written into it."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    nothing = registry._packages()
    (tmp_path / "mlflow.db").touch()
    assert registry._packages() == nothing == ()
    (tmp_path / "package-1.0.dist-info").mkdir()
    first = registry._packages()
    assert [Path(name).name for name, _ in first] == ["package-1.0.dist-info"]
    (tmp_path / "package-1.0.dist-info").rmdir()
    (tmp_path / "package-1.0.dist-info").mkdir()
    os.utime(tmp_path, (1, 1))  # as if it were later, on a disk with coarse times
    os.utime(tmp_path / "package-1.0.dist-info", (2, 2))
    assert registry._packages() != first


@pytest.mark.usefixtures("not_installed")
def test_neither_installed_nor_in_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "package" / "registry.py"))
    assert registry.names("metric") == []
    line = r"^design: the installation of mlflow-l3d is old and has none\. Run pip install -e \. again\.$"
    with pytest.raises(L3DError, match=line):
        registry.names("design")
    with pytest.raises(L3DError, match=line.replace("design", "approach")):
        registry.load("approach", "synthetic")


@pytest.mark.usefixtures("not_installed")
def test_a_stale_installation_is_one_line_on_the_command_line(tmp_path, monkeypatch, capsys) -> None:
    values.Choice.__str__.cache_clear()
    verbs.cache_clear()
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "package" / "registry.py"))
    assert cli.main(["investigate", "--help"]) == 1
    assert capsys.readouterr().err.strip().endswith("Run pip install -e . again.")


def test_a_broken_study_of_another_package_costs_its_command_only(monkeypatch, capsys, caplog) -> None:
    listed, load = registry.names, registry.load

    def broken(parameter: str, name: str) -> object:
        if name == "broken":
            raise L3DError("study=broken: the entry point cannot be loaded.")
        return load(parameter, name)

    monkeypatch.setattr(registry, "names", lambda name: [*listed(name), *["broken"] * (name == "study")])
    monkeypatch.setattr(registry, "load", broken)
    verbs.cache_clear()
    assert cli.main(["names"]) == 0
    assert "study=broken: the entry point cannot be loaded. It is left out." in caplog.text
    assert "rotten_tomatoes" in capsys.readouterr().out
    verbs.cache_clear()


def test_a_clone_that_is_not_installed_works(tmp_path: Path) -> None:
    """In a process without the environment's metadata of ours: what `mlflow run` does."""
    shutil.copytree(ROOT / "mlflow_l3d", tmp_path / "mlflow_l3d", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    code = (
        "import importlib.metadata as m\n"
        "def missing(name): raise m.PackageNotFoundError(name)\n"
        "m.distribution, m.entry_points = missing, lambda **_: ()\n"
        "from mlflow_l3d import registry\n"
        "print(registry.__file__, registry.load('approach', 'synthetic')().name, *registry.names('executor'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    source = str(tmp_path / "mlflow_l3d" / "registry.py")
    assert done.stdout.split() == [source, "synthetic", "inline", "processes", "ray", "submitit"]


def test_a_strangers_approach_is_found(install: Install) -> None:
    entry_points = "[mlflow_l3d.approaches]\nmine = stranger_approach:Mine\n"
    install("stranger", entry_points, stranger_approach="class Mine: name = 'mine'\n")
    assert "mine" in registry.names("approach")
    assert registry.load("approach", "mine").name == "mine"
    assert "mine" not in registry.names("task")
    with pytest.raises(ParameterError, match=r"^approach='mien': .* Did you mean 'mine'\?$"):
        registry.load("approach", "mien")


def test_an_entry_point_is_loaded_only_when_it_is_asked_for(install: Install) -> None:
    install("stranger", "[mlflow_l3d.tasks]\nmine = stranger_loud:task\n", stranger_loud="raise SystemExit('loaded')\n")
    assert "mine" in registry.names("task")
    assert callable(registry.load("task", "synthetic"))


@pytest.mark.parametrize(
    ("value", "code", "reason"),
    [
        ("no_such_module_anywhere:x", "", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("stranger_broken:missing", "", "AttributeError: module 'stranger_broken' has no attribute 'missing'"),
        ("stranger_broken:x", "import not_there_either", "ModuleNotFoundError: No module named 'not_there_either'"),
        ("stranger_broken:x", "def broken(:\n", "SyntaxError: "),
        ("stranger_broken:x", "raise RuntimeError('needs\\na licence')", "RuntimeError: needs a licence"),
    ],
)
def test_a_broken_entry_point_is_one_line(install: Install, value: str, code: str, reason: str) -> None:
    install("stranger", f"[mlflow_l3d.approaches]\nbroken = {value}\n", stranger_broken=code)
    with pytest.raises(L3DError) as caught:
        registry.load("approach", "broken")
    line = str(caught.value)
    assert line.startswith(f"approach=broken: the entry point {value!r} cannot be loaded ({reason}")
    assert "\n" not in line
    assert caught.value.__cause__ is not None
    assert callable(registry.load("approach", "synthetic"))


def test_a_name_that_two_packages_declare_is_refused(install: Install) -> None:
    """Which one was meant would depend on the order of the path."""
    install("thief", "[mlflow_l3d.approaches]\nsynthetic = thief:Synthetic\n", thief="class Synthetic: ...\n")
    with pytest.raises(L3DError) as caught:
        registry.load("approach", "synthetic")
    assert str(caught.value).startswith("approach=synthetic: is declared more than once, as ")
    assert "'thief:Synthetic'" in str(caught.value)
    assert "'mlflow_l3d.approaches.synthetic:Synthetic'" in str(caught.value)


def test_the_same_entry_point_twice_is_one(install: Install) -> None:
    install("copy", "[mlflow_l3d.approaches]\nsynthetic = mlflow_l3d.approaches.synthetic:Synthetic\n")
    assert registry.load("approach", "synthetic").name == "synthetic"


def test_an_approach_that_lacks_a_method_is_one_line(install: Install) -> None:
    text = "from mlflow_l3d.approaches.base import Approach\nclass Half(Approach): name = 'half'\n"
    install("stranger", "[mlflow_l3d.approaches]\nhalf = stranger_half:Half\n", stranger_half=text)
    with pytest.raises(L3DError, match=r"^approach=half: its entry point cannot be called \(.*abstract.*prepare"):
        specify({"approach": "half"})


def test_something_else_than_an_approach(install: Install) -> None:
    install("stranger", "[mlflow_l3d.approaches]\nodd = stranger_odd:Odd\n", stranger_odd="class Odd: name = 'odd'\n")
    with pytest.raises(ParameterError, match=r"^approach=Odd: is not an approach: it is not a subclass of"):
        specify({"approach": "odd"})


def test_another_package_adds_a_study(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    code = """
from typing import Annotated, TypedDict
from mlflow_l3d.parameters import Of, declared
from mlflow_l3d.parameters.verbs import Verb, verbs

class Options(TypedDict, total=False):
    runs: Annotated[int, Of("3", "how many", low=1)]

class Counted:
    def __init__(self, runs):
        self.runs = runs
    def summary(self):
        return f"{self.runs} runs"

def count(runs="3"):
    return Counted(runs)

VERB = Verb("count", declared(Options), "counting:count", "count runs", question="How many?", in_project=False)
"""
    install("counter", "[mlflow_l3d.studies]\ncount = counting:VERB\n", counting=code)
    verbs.cache_clear()
    try:
        assert cli.main(["count", "--runs", "7"]) == 0
        assert capsys.readouterr().out == "7 runs\n"
        assert cli.main(["count", "--rnus", "7"]) == 2
        assert "Did you mean '--runs'" in capsys.readouterr().err
    finally:
        verbs.cache_clear()
