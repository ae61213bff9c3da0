"""The parts of functions and classes: sources, names, decorations, and what their code looks up; and bytes of data."""

from __future__ import annotations

import ast
import dis
import inspect
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any, Final


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
    """Return module and name of a function, class or module."""
    if isinstance(value, FunctionType):
        return f"{module_of(value)}.{value.__code__.co_qualname}"
    names = (getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", "")))
    return ".".join(name for name in names if name)


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
    for step in dis.get_instructions(code):
        if step.opname in operations:
            yield step.argval
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
    table, sink = table.replace_schema_metadata(None).combine_chunks(), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())
