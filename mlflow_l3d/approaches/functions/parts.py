"""The parts of functions and classes: sources, names, decorations, what their code looks up, and local modules."""

from __future__ import annotations

import ast
import dis
import inspect
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from mlflow_l3d.approaches.command.files import MOST_FILES, walk


def without_comments(text: str) -> str:
    """Return a source without comments; as it is if it is none, or only a part of a statement."""
    try:
        return ast.unparse(ast.parse(textwrap.dedent(text)))
    except (SyntaxError, ValueError, RecursionError):
        return text


def source(thing: FunctionType | type) -> str:
    """Return a source without comments; of a class of a notebook it comes from the cell of its methods.

    Raises
    ------
    OSError, TypeError
        If there is none.
    """
    if isinstance(thing, FunctionType):
        text = inspect.getsource(thing.__code__)
        if thing.__name__ != "<lambda>" or text.count("lambda") < 2:
            return without_comments(text)
        columns = [column for _, _, column, end in thing.__code__.co_positions() if column is not None and end]
        return f"{text}@{min(columns)}"  # which of several on a line
    try:
        return without_comments(inspect.getsource(thing))
    except (OSError, TypeError):
        for code in (each.__code__ for each in vars(thing).values() if isinstance(each, FunctionType)):
            with suppress(OSError, SyntaxError):
                cell = "".join(inspect.findsource(code)[0])
                classes = [node for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.ClassDef)]
                for node in (node for node in classes if node.name == thing.__name__):
                    if node.lineno <= code.co_firstlineno <= (node.end_lineno or 0):
                        return without_comments(ast.get_source_segment(cell, node) or "")
        raise


def full_name(value: Any) -> str:
    """Return module and name of a function, class or module; a public name of ours stays, wherever it is defined."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if isinstance(value, FunctionType):
        module, name = module_of(value), value.__code__.co_qualname
    is_ours = str(module).startswith("mlflow_l3d.") and name.isidentifier()
    if is_ours and getattr(sys.modules["mlflow_l3d"], name, None) is value:
        module = "mlflow_l3d"
    return ".".join(each for each in (module, name) if each)


def module_of(value: FunctionType | type) -> str:
    """Return the module in which a function or class stands; a decorator names that of what it decorates as its own."""
    return str(value.__globals__.get("__name__") if isinstance(value, FunctionType) else value.__module__)


def decorated(value: Any) -> Iterator[Any]:
    """Yield a decorated function with each of its decorations, the outermost first; not what is decorated."""
    while (inner := getattr(value, "__wrapped__", None)) is not None:
        yield value
        value = inner


def functions(thing: FunctionType | type) -> Iterator[FunctionType]:
    """Yield a function, or those of a class, with their decorations."""
    if isinstance(thing, FunctionType):
        yield thing
        return
    for each in vars(thing).values():
        for held in (each, *(getattr(each, name, None) for name in ("__func__", "fget", "fset", "func"))):
            layers = (*decorated(held), inspect.unwrap(held) if callable(held) else None)
            yield from (layer for layer in layers if isinstance(layer, FunctionType))


GLOBALS: Final = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
ATTRIBUTES: Final = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
IMPORTS: Final = ("IMPORT_NAME",)
_OF_PROCESS: Final = r"\b(time|perf_counter|monotonic|getpid|mkdtemp|mkstemp|gettempdir)\("


def named(code: CodeType, operations: tuple[str, ...] = GLOBALS) -> Iterator[str]:
    """Yield the names that a code, and those within it, look up by these operations: global ones by default."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in operations)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from named(each, operations)


def enclosed(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables of enclosing functions that a function names and that have a value."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it has none yet
            if name != "__class__":
                yield name, cell.cell_contents


def is_of_process(module: str, name: str, value: Any) -> bool:
    """Return whether a variable is of this process: a clock, a number of it or a temporary folder, as its file says."""
    if not (isinstance(value, int | float) or str(value).startswith(tempfile.gettempdir())):
        return False
    with suppress(OSError, TypeError):
        return bool(re.search(rf"^{name}\b.*=.*{_OF_PROCESS}", inspect.getsource(sys.modules[module]), re.MULTILINE))
    return False


def arrow_bytes(frame: Any) -> memoryview:
    """Return the columns of a data frame, with its index, as Arrow writes them; raise if it cannot."""
    import pyarrow as pa

    is_pandas = type(frame).__module__.startswith("pandas")
    table = pa.Table.from_pandas(frame, preserve_index=True) if is_pandas else pa.table(frame)
    table = table.replace_schema_metadata(None).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


_IMPORT: Final = re.compile(r"^\s*(?:from|import)\s+(.+)", re.MULTILINE)
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def local_modules(function: Callable[..., Any], source: str) -> dict[str, str]:
    """Return file -> source of the local modules that a function and its file import, and of those that these import.

    A module is local if it is in the folder of the function's file, or in the working folder. Of a package all
    modules are returned.

    Parameters
    ----------
    function, source
        The function, and its source.
    """
    plain: Any = inspect.unwrap(getattr(function, "func", function))
    folders, followed = folders_of(plain), set[Path]()
    # A notebook has no file that imports what the globals come from.
    used = [each for each in getattr(plain, "__globals__", {}).values() if isinstance(each, FunctionType | type)]
    modules = [each for each in getattr(plain, "__globals__", {}).values() if isinstance(each, ModuleType)]
    texts = [source, *(f"import {each.__module__}" for each in used), *(f"import {each.__name__}" for each in modules)]
    if (file := Path(getattr(getattr(plain, "__code__", None), "co_filename", ""))).is_file():
        texts.append(file.read_text("utf-8", "replace"))
        followed.add(file.resolve())
    sources: dict[str, str] = {}
    while texts:
        names = {name for line in _IMPORT.findall(texts.pop()) for name in re.findall(r"\w+", line)} - {"mlflow_l3d"}
        for folder in folders:
            for path in [path for name in names for path in _files(folder / name)]:
                if path.resolve() not in followed:
                    followed.add(path.resolve())
                    texts.append(without_comments(path.read_text("utf-8", "replace")))
                    sources.setdefault(path.relative_to(folder).as_posix(), texts[-1])
    return dict(sorted(sources.items()))


def folders_of(function: Any) -> list[Path]:
    """Return the folders whose modules are local: that of a function's file, and the working folder."""
    file = Path(getattr(getattr(function, "__code__", None), "co_filename", ""))
    folders = [*([file.resolve().parent] if file.is_file() else []), Path.cwd()]
    return [folder for folder in folders if _INSTALLED.isdisjoint(folder.parts)]


def is_local(module: str, folders: Iterable[Path]) -> bool:
    """Return whether an imported module is in one of these folders."""
    top = module.partition(".")[0]
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or top in ("__main__", "mlflow_l3d"):
        return False
    path = Path(file).resolve()
    return any(path == folder / f"{top}.py" or path.is_relative_to(folder / top) for folder in folders)


def _files(module: Path) -> Iterator[Path]:
    """Yield the files of a module or package, whose name has no ending yet."""
    if (file := module.with_suffix(".py")).is_file():
        yield file
    if module.is_dir():
        yield from (module / name for name, _ in islice(walk(module), MOST_FILES) if name.endswith(".py"))
