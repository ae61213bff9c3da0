"""Who imports whom: the table in docs/architecture.md is the rule, and every room stands in it."""

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mlflow_l3d"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HEAVY = ("mlflow", "torch", "transformers", "optuna")


def module_of(path: Path) -> str:
    """Return the dotted name of a module, without the name of the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "__init__"


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


@cache
def imports() -> dict[str, set[str]]:
    """Return module -> what it imports anywhere, also in functions and for types: ours by module, others by name."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                whole = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, path
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in whole:
                package, _, rest = name.partition(".")
                if package != PACKAGE.name:
                    found[module].add(package)
                    continue
                inside = rest if rest in MODULES else rest.rpartition(".")[0]
                found[module].add(f"own:{inside or '__init__'}")
    return found


def test_files_and_folders_are_small() -> None:
    for folder in {path.parent for path in MODULES.values()}:
        paths = sorted(folder.glob("*.py"))
        assert len(paths) <= 15, f"{folder.relative_to(ROOT)}: {len(paths)} files"
        for path in paths:
            lines = len(path.read_text(encoding="utf-8").splitlines())
            assert lines <= 300, f"{path.relative_to(ROOT)}: {lines} lines"


def room_of(module: str) -> str:
    """Return the row of the table that a module belongs to: its package, and each study by itself."""
    parts = module.split(".")
    study = parts[0] == "studies" and len(parts) > 1 and (PACKAGE / "studies" / parts[1]).is_dir()
    return "/".join(parts[:2]) if study else parts[0]


def storeys() -> dict[str, list[str]]:
    """Return storey -> its rooms, in the order of the page."""
    rows = re.findall(r"^\| (\w+) \| ((?:`[\w/]+`(?:, )?)+) \|$", PAGE, re.MULTILINE)
    return {storey: re.findall(r"`([\w/]+)`", text) for storey, text in rows}


STOREYS = storeys()
ORDER = [room for rooms in STOREYS.values() for room in rooms]
STATISTICS = {*STOREYS["ground"], *STOREYS["statistics"]}


def own_imports(module: str) -> set[str]:
    """Return our modules that a module imports."""
    return {name.removeprefix("own:") for name in imports()[module] if name.startswith("own:")}


def test_every_room_stands_in_the_table_and_imports_from_rooms_before_it() -> None:
    rooms = {room_of(module) for module in MODULES}
    assert rooms == {*ORDER}, f"docs/architecture.md, Who may import whom: {rooms ^ {*ORDER}}"
    for module in MODULES:
        room = room_of(module)
        later = {name for name in own_imports(module) if ORDER.index(room_of(name)) > ORDER.index(room)}
        assert not later, f"{module} imports {sorted(later)}, which stand after {room}"


def test_rooms_of_the_analysis_import_those_before_them_only() -> None:
    order = ["intervals", "importance", "consistency", "planning", "cure", "results", "comparison", "judged"]
    for module in MODULES:
        if module.startswith("analysis."):
            rooms = [name.split(".")[1] for name in own_imports(module) if name.startswith("analysis.")]
            assert not [room for room in rooms if order.index(room) > order.index(module.split(".")[1])], module


@pytest.mark.parametrize("part", ["numbers", "report"])
def test_numbers_of_a_study_are_pure_and_its_report_draws_what_they_say(part: str) -> None:
    for module in MODULES:
        if module.startswith("studies.") and part in module.split("."):
            assert not imports()[module] & set(HEAVY), module
            for name in own_imports(module):
                if name in {
                    "approaches.hyperparameters",
                    "report.numbers",
                }:  # declarations, and how numbers are written
                    continue
                inside = name.startswith("studies.") and not {"numbers", part}.isdisjoint(name.split("."))
                assert room_of(name) in STATISTICS | ({"report"} if part == "report" else set()) or inside, module


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter({module: own_imports(module) - {module} for module in MODULES}).prepare()  # raises CycleError


def test_mlflow_and_torch_are_imported_where_the_page_says() -> None:
    users = {room_of(module) for module, found in imports().items() if "mlflow" in found}
    assert users == {"tracking", "plugin"}
    for module, found in imports().items():
        pure = room_of(module) in {"analysis", "cells", "metrics", "report"}
        if pure or re.match(r"studies\.\w+\.(numbers|report)\b", module):
            assert not found & set(HEAVY), module


@cache
def bound(module: str) -> set[str]:
    """Return the names that a module binds, attributes of its classes included, and some words of its texts."""
    text = MODULES[module].read_text(encoding="utf-8")
    return set(re.findall(r"""(?:^ *(?:def |class )?|import |as |, |self\.|["'])(\w+)""", text, re.MULTILINE))


def binds(module: str, name: str, depth: int = 2) -> bool:
    """Return whether a module has a name, or one that it imports: the base of a class may be there."""
    return name in bound(module) or (depth > 0 and any(binds(each, name, depth - 1) for each in own_imports(module)))


def test_benchmarks_name_what_the_package_has() -> None:
    for path in (ROOT / "benchmarks").glob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        homes = {PACKAGE.name: "__init__"}  # name here -> module that has it
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE.name:
                for alias in node.names:
                    home = (node.module or "").partition(".")[2]
                    inside = f"{home}.{alias.name}".removeprefix(".")
                    homes[alias.asname or alias.name] = inside if inside in MODULES else home
                    assert inside in MODULES or alias.name in bound(home), f"{path.name} imports {inside}"
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in homes:
                name = f"{node.value.id}.{node.attr}"
                assert binds(homes[node.value.id], node.attr), f"{path.name}, line {node.lineno}: {name}"
