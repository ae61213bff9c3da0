"""What decides an answer or a judgement, as JSON: keys of cells are hashes of it."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from types import FunctionType
from typing import Any, Final

from mlflow_l3d.approaches.functions.parts import local_modules
from mlflow_l3d.approaches.functions.versions import content_texts
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.judgements import row_of

_VERSION: Final = 'Give a version, which you change with it: version="1".'


def code_content(parameter: str, thing: Any, version: str) -> dict[str, str]:
    """Return name -> source or content, of a function or class and of all that it names.

    Parameters
    ----------
    parameter, thing
        The parameter that errors name, and what it holds.
    version
        Stands for what has no content that is known; the source is part of the content anyway, if there is one.

    Raises
    ------
    ParameterError
        If something has no known content, and no version was given.
    """
    name = getattr(thing, "__name__", type(thing).__name__)
    try:
        texts = content_texts(thing, name)
    except ParameterError as error:
        if not version:
            raise ParameterError(parameter, name, error.allowed, _VERSION) from None
        texts = {"name": name}
        with suppress(OSError, TypeError):
            texts["source"] = inspect.getsource(inspect.unwrap(thing))
    return {**texts, **local_modules(thing, "\n".join(texts.values())), **({"version": version} if version else {})}


def scorer_content(parameter: str, scorer: Any, version: str, expected: Any = None) -> dict[str, Any]:
    """Return what a scorer of MLflow is made of: its definition, and the sources of one that is the user's code.

    What is expected is part of one that sees it, also in a trace; instructions of `make_judge` name what it sees.
    """
    content: dict[str, Any] = {"name": scorer.name, "class": f"{type(scorer).__module__}.{type(scorer).__qualname__}"}
    seen = getattr(scorer, "template_variables", None) or inspect.signature(scorer.__call__).parameters
    content |= {"expected": expected} if {"expectations", "trace"} & {*seen} else {}
    if function := getattr(scorer, "_original_func", None):
        return content | {"code": code_content(parameter, function, version)}  # by names that the user chose
    try:
        definition = dict(scorer.model_dump())
    except Exception:  # noqa: BLE001 - of a class of the user, which MLflow refuses to describe
        definition = _class_content(parameter, scorer, version)
    return content | {"definition": {name: each for name, each in definition.items() if name != "mlflow_version"}}


def _class_content(parameter: str, scorer: Any, version: str) -> dict[str, Any]:
    """Return the fields of a scorer whose class is the user's, and the sources of its classes and of their methods."""
    fields = {**vars(scorer), **(scorer.__pydantic_private__ or {})}
    content: dict[str, Any] = {"fields": code_content(parameter, fields, version)}
    for kind in takewhile(lambda kind: not kind.__module__.startswith("mlflow."), type(scorer).__mro__):
        with suppress(OSError, TypeError):
            content[kind.__qualname__] = inspect.getsource(kind)
    for each in own_functions(scorer):
        content[each.__qualname__] = code_content(parameter, each, version)
    return content


def own_functions(scorer: Any) -> list[FunctionType]:
    """Return the functions of the user's code that a scorer is made of."""
    if isinstance(function := getattr(scorer, "_original_func", None), FunctionType):
        return [function]
    kinds = takewhile(lambda kind: not kind.__module__.startswith("mlflow."), type(scorer).__mro__)
    held = [(kind, each) for kind in kinds for each in vars(kind).values() if isinstance(each, FunctionType)]
    return [each for kind, each in held if each.__module__ == kind.__module__]  # others are pydantic's


def read_rows(data: Any) -> list[dict[str, Any]]:
    """Return the rows of data as `mlflow.genai.evaluate` takes them, with tags that say which row and repeat each is.

    Rows of equal inputs are one row, and its repeats.

    Raises
    ------
    ParameterError
        If there are none, they have outputs already, JSON changes them, or one row has two expectations.
    """
    frame = data.to_df() if hasattr(data, "to_df") else data
    records = frame.to_dict("records") if hasattr(frame, "to_dict") else list(frame)
    if not records:
        raise ParameterError("data", "[]", "has no rows", 'Give rows such as {"inputs": {"question": "..."}}.')
    rows, seen, first = [], Counter[str](), dict[str, tuple[int, Any]]()
    for number, record in enumerate(records):
        if not isinstance(record, Mapping) or not isinstance(record.get("inputs"), Mapping):
            raise ParameterError("data", f"row {number}", 'needs "inputs", a dict of the arguments of predict_fn')
        if repr(record.get("outputs")) not in ("None", "nan", "{}"):  # what data frames and data sets have for none
            fix = "Leave them out, or read an evaluation of them: mlflow_l3d.evaluate."
            raise ParameterError("data", f"row {number}", "has outputs, which predict_fn is to give", fix)
        kept = {name: record[name] for name in ("inputs", "expectations") if isinstance(record.get(name), Mapping)}
        tags = record["tags"] if isinstance(record.get("tags"), Mapping) else {}
        try:
            if json.loads(json.dumps(kept, allow_nan=False)) != kept:
                raise ValueError("tuples, or keys other than texts: use lists and texts")
            row = str(tags.get(names.ROW) or row_of(kept["inputs"]))
        except (TypeError, ValueError) as error:
            raise ParameterError("data", f"row {number}", f"holds what JSON cannot represent ({error})") from None
        if (expected := kept.get("expectations", {})) != first.setdefault(row, (number, expected))[1]:
            allowed = f"has the inputs of row {first[row][0]}, but other expectations"
            fix = f'Give each a tag of its own: "tags": {{"{names.ROW}": "..."}}.'
            raise ParameterError("data", f"row {number}", allowed, fix)
        rows.append({**kept, "tags": {**tags, names.ROW: row, names.REPEAT: str(seen[row])}})
        seen[row] += 1
    return rows


def repeated(rows: Sequence[Mapping[str, Any]], replicate: int) -> list[tuple[str, str]]:
    """Return row and repeat of the answers of a replicate, in the order of the rows."""
    times = 1 + max(int(row["tags"][names.REPEAT]) for row in rows)
    return [(row["tags"][names.ROW], str(replicate * times + int(row["tags"][names.REPEAT]))) for row in rows]
