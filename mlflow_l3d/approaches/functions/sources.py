"""What the sources of local modules say of their variables, so that what was set at run time is seen."""

from __future__ import annotations

import ast
import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import resolve_name
from itertools import chain
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.approaches.functions.local_modules import folders_of
from mlflow_l3d.approaches.functions.parts import source

_PURE: Final[dict[str, Any]] = {
    each.__name__: each for each in (bool, bytes, complex, dict, float, frozenset, int, list, range, set, str, tuple)
}
"""What an expression of constants may call."""
_OF_PROCESS: Final = frozenset(
    {"time", "perf_counter", "monotonic", "now", "utcnow", "today", "uuid1", "uuid4", "__file__"}
    | {"getpid", "mkdtemp", "mkstemp", "gettempdir", "gethostname"}
)
"""What an expression names whose value is of a process, its time or its place, and not a setting."""


class Sources:
    """Sources of the local modules around a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._folders = folders_of(function)

    def is_local(self, module: str) -> bool:
        """Return whether a module is one of those whose sources are part of the key."""
        top, file = module.partition(".")[0], getattr(sys.modules.get(module), "__file__", None)
        if file is None or top in ("__main__", "mlflow_l3d"):
            return False
        path = Path(file).resolve()
        return any(path == folder / f"{top}.py" or path.is_relative_to(folder / top) for folder in self._folders)

    def of_module(self, module: str) -> Sequence[ast.stmt]:
        """Return the statements of a module; none if it has no source."""
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        with suppress(OSError, SyntaxError, ValueError):  # being edited, say
            return _parsed(Path(file).read_bytes()) if file.endswith(".py") else []
        return []

    def of_class(self, thing: Any) -> Sequence[ast.stmt]:
        """Return the statements of a class; none if it has no source, or is a function."""
        with suppress(OSError, TypeError, SyntaxError):
            if isinstance(thing, type) and (body := _parsed(textwrap.dedent(source(thing)))):
                return getattr(body[0], "body", [])
        return []

    def imported(self, module: str, name: str) -> tuple[str, str] | None:
        """Return the module and name that a local module imports a variable from; None if it does not."""
        for node in _statements(self.of_module(module)) if self.is_local(module) else ():
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    package = getattr(sys.modules[module], "__package__", None)
                    start = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
                    return self.imported(str(start), alias.name) or (str(start), alias.name)
        return None


@cache
def _parsed(text: str | bytes) -> list[ast.stmt]:
    return ast.parse(text).body


def said_of(body: Sequence[ast.stmt], name: str) -> tuple[list[Any], bool]:
    """Return the constants that statements give a name, and whether they give it something else, too."""
    constants: list[Any] = []
    everything = ast.walk(ast.Module([*body], []))
    is_computed = any(isinstance(node, ast.Global) and name in node.names for node in everything)
    for target, value in chain.from_iterable(map(_assigned, _statements(body))):
        if any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target)):
            try:
                assert isinstance(target, ast.Name)
                constants.append(_constant(value))
            except Exception:  # noqa: BLE001 - not an expression of constants
                is_computed = True
    return constants, is_computed


def is_of_process(body: Sequence[ast.stmt], name: str) -> bool:
    """Return whether statements give a name what differs from process to process, or from folder to folder."""
    for target, value in chain.from_iterable(map(_assigned, _statements(body))):
        if value is not None and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target)):
            words = {getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(value)}
            if words & _OF_PROCESS:
                return True
    return False


def _statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield statements and those in them, but not those of functions and classes."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in ("body", "orelse", "finalbody", "handlers"):
                yield from _statements(getattr(node, part, []))


def _assigned(node: Any) -> Iterator[tuple[ast.AST, Any]]:
    """Yield targets of a statement, and their values if it is an assignment."""
    if isinstance(node, ast.For | ast.With):
        yield from ((each, None) for each in ast.walk(node) if isinstance(each, ast.Name))
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value:
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value


def _constant(expression: ast.expr) -> Any:
    """Return the value of an expression of constants; raise for any other."""
    code = compile(ast.Expression(expression), "source", "eval")
    return eval(code, {"__builtins__": {}}, _PURE)  # noqa: S307 - a part of the source that was imported


def restored(variables: Mapping[tuple[str, str], Any]) -> None:
    """Set variables of local modules as they are where these were pickled."""
    for (module, name), value in variables.items():
        setattr(importlib.import_module(module), name, value)
