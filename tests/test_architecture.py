"""Who imports whom: the table in docs/architecture.md is the rule, and every module stands in it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mlflow_l3d"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HEAVY = ("mlflow", "torch", "transformers", "optuna")


def module_of(path: Path) -> str:
    """Return the dotted name of a module, without the name of the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "__init__"


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


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


IMPORTS = imports()


def room_of(module: str) -> str:
    """Return the row of the table that a module belongs to: its package, and each study by itself."""
    parts = module.split(".")
    study = parts[0] == "studies" and len(parts) > 1 and (PACKAGE / "studies" / parts[1]).is_dir()
    return "/".join(parts[:2]) if study else parts[0]


def table() -> dict[str, set[str]]:
    """Return room -> the rooms that it may import, as the page has them, in its order."""
    rows = re.findall(r"^\| `([\w/]+)` \| ((?:`[\w/]+`(?:, )?)+|nothing) \|$", PAGE, re.MULTILINE)
    return {room: set(re.findall(r"`([\w/]+)`", text)) for room, text in rows}


def test_every_module_stands_in_the_table_and_keeps_to_it() -> None:
    allowed = table()
    used: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        room = room_of(module)
        assert room in allowed, f"{module}: its room is not in the table of docs/architecture.md"
        own = {room_of(name.removeprefix("own:")) for name in IMPORTS[module] if name.startswith("own:")} - {room}
        assert own <= allowed[room], f"{module} imports {sorted(own - allowed[room])}"
        used[room] |= own
    assert {room: rooms for room, rooms in allowed.items() if rooms - used[room]} == {}, "allowed, but not used"


def test_no_room_imports_one_that_stands_below_it() -> None:
    order = list(table())
    for room, rooms in table().items():
        upward = [name for name in rooms if order.index(name) >= order.index(room)]
        assert not upward, f"{room} imports {upward}, which stand below it"


def test_rooms_of_the_analysis_import_those_before_them_only() -> None:
    order = [
        "typing",
        "jackknife",
        "importance",
        "stability",
        "seeds",
        "planning",
        "results",
        "sweep",
        "comparison",
    ]
    for module, found in IMPORTS.items():
        if module.startswith("analysis."):
            own = [name.split(".")[1] for name in found if name.startswith("own:analysis.")]
            room = module.split(".")[1]
            assert not [name for name in own if order.index(name) > order.index(room)], module


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {
        module: {name.removeprefix("own:") for name in found if name.startswith("own:")} - {module}
        for module, found in IMPORTS.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_mlflow_and_torch_are_imported_where_the_page_says() -> None:
    users = {room_of(module) for module, found in IMPORTS.items() if "mlflow" in found}
    studies = {
        f"studies/{study}"
        for study in (
            "investigation",
            "seeds",
            "planning",
            "ablation",
            "comparison",
            "sweep",
            "gate",
            "strategies",
            "importing",
        )
    }
    assert users == {"tracking", "plugin", *studies}
    for module, found in IMPORTS.items():
        pure = room_of(module) in {"analysis", "metrics", "plan", "report"}
        if pure or re.match(r"studies\.\w+\.(numbers|report)\b", module):
            assert not found & set(HEAVY), module
