"""Examples in docstrings: every public function and class that people call has one, and it gives what it says."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest
from stores import copy_store

import mlflow_l3d
from mlflow_l3d import genai
from mlflow_l3d.parameters.verbs import public_names, verbs

PACKAGE = Path(mlflow_l3d.__file__).parent
RETURNED = {*public_names()["What they return"], *public_names()["Errors"]}
"""Classes that functions return or raise; nobody calls them."""
OF_GENAI = ("annotate", "investigate")
CALLED = sorted({*mlflow_l3d.__all__} - RETURNED - {"__version__"})
TRAINS = re.compile(rf">>> .*\b({'|'.join(verb.function for verb in verbs().values() if verb.plans)})\(")
"""A line that trains a whole study."""


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory, migrated_store: Path) -> str:
    """Give the URI of the tracking store that all examples share: each reuses the finished cells of the others."""
    folder = tmp_path_factory.mktemp("examples")
    return copy_store(migrated_store, folder, (folder / "mlruns" / "0").as_uri())


@pytest.fixture
def place(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an example use the shared store, in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)


def examples_of(thing: object, name: str) -> doctest.DocTest:
    """Return the examples in a docstring; they know only the names that they import and define themselves."""
    tests = doctest.DocTestFinder(recurse=False).find(thing, name, globs={"__name__": "__main__"})
    assert any(test.examples for test in tests), f"mlflow_l3d.{name} has no example in its docstring"
    return tests[0]


def failures(test: doctest.DocTest) -> str:
    """Run examples; return the differences from what they say."""
    lines: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=lines.append)
    return "".join(lines)


def test_every_public_name_has_an_example_of_its_own() -> None:
    for name in CALLED:
        examples = examples_of(getattr(mlflow_l3d, name), name).examples
        assert any(f"mlflow_l3d.{name}" in example.source for example in examples)
        assert not any(example.options.get(doctest.SKIP) for example in examples)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if TRAINS.search(getattr(mlflow_l3d, name).__doc__) else [])
        for name in CALLED
    ],
)
def test_example_of_a_public_name_gives_what_it_says(name: str) -> None:
    assert failures(examples_of(getattr(mlflow_l3d, name), name)) == ""


@pytest.mark.slow
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", OF_GENAI)
def test_example_of_an_evaluation_gives_what_it_says(name: str) -> None:
    assert failures(examples_of(getattr(genai, name), name)) == ""


def test_name_without_an_example_is_named() -> None:
    with pytest.raises(AssertionError, match=r"mlflow_l3d\.L3DError has no example"):
        examples_of(mlflow_l3d.L3DError, "L3DError")


def test_examples_of_other_names_give_what_they_say(tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    for path in sorted(PACKAGE.rglob("*.py")):
        if "\n    >>> " in path.read_text(encoding="utf-8"):
            module = import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
            for test in doctest.DocTestFinder().find(module):
                if test.name.rpartition(".")[2] not in (*CALLED, *OF_GENAI):
                    assert failures(test) == ""


@pytest.mark.parametrize("name", sorted(RETURNED - {"L3DError"}))
def test_class_that_is_returned_or_raised_lists_its_attributes(name: str) -> None:
    assert re.search(r"\n *Attributes\n *-{10}\n", getattr(mlflow_l3d, name).__doc__), name
