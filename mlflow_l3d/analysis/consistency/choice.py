"""Which scoring function predictions need, by the kinds of values in the columns of a table, and how these are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.analysis.consistency import structures, texts
from mlflow_l3d.analysis.consistency.scoring import Scoring, is_missing
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.metrics.classification import UNPARSED

SCORINGS: Final[dict[str, Callable[..., Scoring]]] = {
    "exact_match": texts.ExactMatch,
    "closeness": structures.Closeness,
    "bleu": texts.Bleu,
    "chrf": texts.Chrf,
    **{kind: partial(texts.Rouge, kind) for kind in texts.ROUGE_KINDS},
    "token_match": texts.TokenMatch,
    "entity_f1": texts.EntityF1,
    "set_f1": structures.SetF1,
    "las": lambda: structures.Attachment(labelled=True),
    "uas": lambda: structures.Attachment(labelled=False),
    "squad_exact": texts.SquadExact,
    "squad_f1": texts.SquadF1,
    "overlap": structures.Overlap,
    "rbo": structures.RankBiasedOverlap,
    "ndcg": structures.Ndcg,
}
"""Name -> what makes the scoring function."""
AUTO: Final = "auto"
REGRESSION: Final = "regression"
"""Correlations between runs, which no scoring function of single predictions gives."""
_FOR_LISTS: Final = (
    *("token_match", "entity_f1", "set_f1", "las", "uas", "exact_match"),
    *("rbo", "overlap", "ndcg", "squad_f1", "squad_exact"),
)
"""Scoring functions that compare lists."""
WHOLE: Final = "whole numbers"
NUMBERS: Final = (WHOLE, "numbers")
NOTHING: Final = "none"
"""The kind of a column in which nothing is known."""
_LOWEST: Final = {"label": 0, "prediction": UNPARSED}


def scoring(name: str, **options: Any) -> Scoring:
    """Return the scoring function of that name.

    Parameters
    ----------
    name
        A key of :data:`SCORINGS`.
    options
        Its parameters: `scale` of closeness, `k` of overlap and ndcg, `p` of rbo, `stemmer` and `tokenizer` of rouge.

    Raises
    ------
    ParameterError
        If the name is not known, or an option is missing or has no effect.
    """
    if name not in SCORINGS:
        raise unknown_name("scoring", str(name), SCORINGS)
    make = SCORINGS[name]
    known = inspect.signature(make).parameters
    wrong = [option for option in options if option not in known]
    missing = [key for key, one in known.items() if one.default is inspect.Parameter.empty and key not in options]
    if wrong or missing:
        allowed = f"{name} takes {', '.join(known) or 'no options'}"
        raise ParameterError("options", ", ".join(wrong or missing), allowed, "Is one missing?" if missing else "")
    return make(**options)


def choose(name: str, labels: Any, predictions: Any, usual: str = "") -> str | None:
    """Return how the predictions of an investigation are to be compared.

    Parameters
    ----------
    name
        ``auto``, ``regression``, or the name of a scoring function with its options, such as ``rouge1``,
        ``overlap:k=5`` or ``closeness:scale=5``.
    labels, predictions
        The columns of the first table: a sequence, array, or column of pyarrow. What they hold decides what ``auto``
        is: whole numbers are class numbers (a prediction may be missing, a label may not); other numbers are
        regression; texts are compared by `usual`.
    usual
        How texts are compared where nobody says it; by ``exact_match`` where empty.

    Returns
    -------
    str or None
        None for class numbers, which :class:`mlflow_l3d.analysis.consistency.Stability` counts; else what
        :func:`scoring_of` takes.

    Raises
    ------
    ParameterError
        If the name or an option is not known, predictions are lists and `name` is ``auto``, or labels and predictions
        are not of a kind that can be compared.
    """
    own = scoring_of(name) if name not in (AUTO, REGRESSION) else None
    by_column = {"label": kind_of_column(labels), "prediction": kind_of_column(predictions)}
    if isinstance(own, texts.ExactMatch) or name == AUTO:
        _check_kinds(name, by_column)
        known = [kind for kind in by_column.values() if kind != NOTHING]
        labelled = by_column["label"] == WHOLE and not any(map(is_missing, as_list(labels)))
        if labelled and by_column["prediction"] in (WHOLE, NOTHING):
            return None
        if name == AUTO and "numbers" in known:
            return REGRESSION
        return (usual if usual and set(known) == {"texts"} else "exact_match") if name == AUTO else name
    is_close = isinstance(own, structures.Closeness)
    numeric = ("prediction",) if name == REGRESSION else ("label", "prediction") if is_close else ()
    for what in numeric:
        if by_column[what] not in (*NUMBERS, NOTHING):
            fix = "Name a scoring function that compares them, such as exact_match."
            raise ParameterError("agreement", name, f"{what}s must be numbers, they are {by_column[what]}", fix)
    return name


def scoring_of(choice: str) -> Scoring | None:
    """Return the scoring function of what :func:`choose` returned; None for ``regression``.

    Raises
    ------
    ParameterError
        If the name or an option is not known, or an option is missing.
    """
    if choice == REGRESSION:
        return None
    name, _, given = choice.partition(":")
    if name not in SCORINGS:
        raise unknown_name("agreement", name, (AUTO, REGRESSION, *SCORINGS))
    options = {}
    for part in given.split(",") if given else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise ParameterError("agreement", choice, "options must look like overlap:k=5")
        options[key.strip()] = _option(value.strip())
    if name == "closeness" and "scale" not in options:
        allowed = "needs the difference from which on two predictions do not agree at all"
        raise ParameterError("agreement", choice, allowed, "Write it like closeness:scale=5.")
    try:
        return scoring(name, **options)
    except ParameterError as error:
        at_fault = "" if error.name == "options" else f"{error.name} "
        raise ParameterError("agreement", choice, f"{at_fault}{error.allowed}") from error


def _check_kinds(name: str, by_column: Mapping[str, str]) -> None:
    """Raise where equality says nothing: lists without a scoring function, or a label of another kind."""
    wanted = "lists" in by_column.values() and name == AUTO
    known = {family(kind) for kind in by_column.values() if kind != NOTHING}
    if not wanted and len(known) < 2:
        return
    found = ", ".join(f"{what}s are {kind}" for what, kind in by_column.items())
    if wanted:
        raise ParameterError("agreement", name, f"{found}: must be one of {', '.join(_FOR_LISTS)}")
    fix = "Write both in the same form, or name a scoring function that compares them."
    raise ParameterError("agreement", name, f"{found}, which are never equal", fix)


def _option(text: str) -> Any:
    """Return a number, true or false, or the text as it is."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def as_list(values: Any) -> list[Any]:
    """Return a column of pyarrow, an array or a sequence as a list."""
    for method in ("to_pylist", "tolist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)


def kind_of_column(values: Any) -> str:
    """Return ``whole numbers``, ``numbers``, ``texts``, ``lists``, ``none`` (nothing known), or several of these."""
    kinds = {_kind_of(value) for value in as_list(values) if not is_missing(value)} if values is not None else set()
    return "numbers" if kinds == set(NUMBERS) else " and ".join(sorted(kinds)) or NOTHING


def family(kind: str) -> str:
    """Return a kind, and for both kinds of numbers the same one."""
    return "numbers" if kind in NUMBERS else kind


def class_column(column: Any, what: str) -> npt.NDArray[np.int64]:
    """Return a column of class numbers as an array.

    Parameters
    ----------
    column
        A column of pyarrow, an array or a sequence with n values.
    what
        ``label`` or ``prediction``. A prediction that is missing names no class: it becomes -1.

    Returns
    -------
    numpy.ndarray
        Shape (n,): int64.

    Raises
    ------
    ParameterError
        If a value is not a class number, or a label is missing; it shows kinds and numbers, no texts.
    """
    values: npt.NDArray[Any] = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if values.dtype.kind not in "iub":
        listed = values.tolist()
        if (kind := kind_of_column(listed)) not in (WHOLE, NOTHING):
            fix = "Write all in the same form, or name how to compare them: agreement=regression or a scoring function."
            raise ParameterError(what, kind, "must be class numbers, as in the first cell", fix)
        if what == "prediction":
            listed = [UNPARSED if is_missing(value) else value for value in listed]
        if any(map(is_missing, listed)):
            raise ParameterError(what, "null", "must be a class number in every row, as in the first cell")
        values = np.array(listed, dtype=np.float64)
    numbers: npt.NDArray[np.int64] = values.astype(np.int64)
    if len(numbers) and (least := int(numbers.min())) < _LOWEST[what]:
        fix = "If they are not classes, name agreement=regression or a scoring function."
        raise ParameterError(what, least, f"class numbers must be {_LOWEST[what]} or above", fix)
    return numbers


def check_same_kind(known: dict[str, str], what: str, values: Any) -> None:
    """Check that a column has values of one kind in all cells, where comparing two kinds would find nothing equal.

    Parameters
    ----------
    known
        Column -> its kind in the cells before; that of `what` is kept in it.
    what, values
        The column of the next cell.

    Raises
    ------
    ParameterError
        If it is of another kind than before.
    """
    here = family(kind_of_column(values))
    if here != NOTHING and (before := known.setdefault(what, here)) != here:
        raise ParameterError(what, here, f"must be {before}, as in the cells before", "Write all in the same form.")


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        return "texts"
    if isinstance(value, (int, float, np.number, np.bool_)):
        return WHOLE if float(value).is_integer() else "numbers"
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray, Mapping)):
        return "lists"
    return type(value).__name__
