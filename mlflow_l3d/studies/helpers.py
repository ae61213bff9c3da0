"""The verbs that help with studies and are none, `names`, `new` and `view`; and what the first two do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import Annotated, Final, TypedDict

from mlflow_l3d import registry
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.parameters import Of, Parameters, declared
from mlflow_l3d.parameters.shared import PARENT
from mlflow_l3d.parameters.verbs import Verb
from mlflow_l3d.studies.shown import OnOneScreen


class _New(TypedDict):
    kind: Annotated[str, Of("", "what to write: approach")]
    name: Annotated[str, Of("", "its name: small letters, digits and underscores")]


PORT: Final = 5070
"""Port of the address of reports, unless told otherwise: browsers refuse 5060 and 5061, which must not follow."""

NAMES_VERB = Verb(
    "names",
    {},
    "mlflow_l3d.studies.helpers:names",
    "list all factors, hyperparameters, tasks, approaches, designs, metrics and executors",
    is_study=False,
    in_project=False,
    examples=("names",),
    order=120,
    returns=("mlflow_l3d.studies.helpers:Names",),
)

NEW_VERB = Verb(
    "new",
    {},
    "mlflow_l3d.studies.helpers:new",
    "write a package with an approach of your own, which passes the conformance suite",
    is_study=False,
    in_project=False,
    words=declared(_New),
    examples=("new approach mine",),
    order=140,
)


_STUDY: Final = "study to open; all: the list of studies; latest: the latest investigation"


class _Study(TypedDict, total=False):
    parent_run_id: Annotated[str, replace(PARENT, default="all", help=_STUDY)]


class ViewOptions(TypedDict, total=False):
    """Of `view`, in addition to the study."""

    bundle: Annotated[
        str | Path, Of("none", "folder that the reports are written to, as pages to share, in place of serving")
    ]
    port: Annotated[
        int, Of(str(PORT), "port of the address, for this machine alone; the next one if it is taken", high=65_535)
    ]
    browser: Annotated[bool, Of("true", "whether a browser is opened")]
    cite: Annotated[
        bool, Of("false", "print what a paper says of the investigation instead: a sentence, a LaTeX table, BibTeX")
    ]
    comment: Annotated[str | Path, Of("none", "file for a comment on a pull request")]
    badge: Annotated[str | Path, Of("none", "SVG file for a badge")]


VIEW: Final[Parameters] = declared(_Study, ViewOptions)
"""Of `view`."""

VIEW_VERB = Verb(
    "view",
    VIEW,
    "mlflow_l3d.studies.evaluation.view:view",
    "open the reports of the studies on the tracking server",
    is_study=False,
    in_project=False,
    question="Where is the report of my study?",
    examples=("view", "view RUN_ID", "view --bundle reports", "view RUN_ID --cite", "view RUN_ID --comment FILE"),
    order=95,
    returns=("mlflow_l3d.studies.evaluation.view:Viewed",),
)


@dataclass(frozen=True, repr=False)
class Names(OnOneScreen):
    """What :func:`names` found.

    Attributes
    ----------
    of
        Parameter -> names it may have.
    factors
        Approach -> its factors.
    hyperparameters
        Approach -> its hyperparameters.
    """

    of: Mapping[str, tuple[str, ...]]
    factors: Mapping[str, tuple[str, ...]]
    hyperparameters: Mapping[str, tuple[str, ...]]

    def summary(self) -> str:
        """Return the text that the command line prints."""
        from mlflow_l3d.report.text import columns

        rows = {f"factor, {approach}": names for approach, names in self.factors.items()}
        rows |= {f"hyperparameter, {approach}": names for approach, names in self.hyperparameters.items() if names}
        rows |= self.of
        wide = max(map(len, rows)) + 2
        lines = [
            fill(
                f"{name:<{wide}}{', '.join(names)}", columns.get(), subsequent_indent=" " * wide, break_on_hyphens=False
            )
            for name, names in rows.items()
        ]
        more = "A task may also be a .csv, .parquet or .jsonl file, a data set folder, or hf:NAME; factors are joined "
        return "\n".join([*lines, "", fill(f"{more}with +, separated by commas, or all.", columns.get())])


def names() -> Names:
    """Return the names of factors, hyperparameters, tasks, approaches, designs, metrics and executors.

    Returns
    -------
    Names
        The names; metrics of all kinds of tasks are among them.

    Examples
    --------
    >>> import mlflow_l3d
    >>> mlflow_l3d.names().of["design"]
    ('crossed', 'fixed', 'levels', 'nested', 'radial', 'random')
    >>> mlflow_l3d.names().factors["finetuning"]
    ('label_selection', 'data_split', 'data_order', 'model_initialisation', 'model_randomness')
    """
    from mlflow_l3d.metrics.known import registered

    approaches = tuple(registry.names("approach"))
    found = {name: tuple(registry.names(name)) for name in ("task", "design", "executor")}
    factors, hyperparameters = {}, {}
    for name in approaches:
        factors[name], hyperparameters[name] = _names_of(name)
    return Names({"approach": approaches, **found, "metric": tuple(registered())}, factors, hyperparameters)


def _names_of(approach: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return factors and hyperparameters of an approach; in place of factors why it cannot be loaded."""
    try:
        made = registry.load("approach", approach)
        if getattr(made, "parameters", ()):  # is built from what the user types
            return ("what {...} of it names",), tuple(made.hyperparameters)
        made = made()
        return tuple(made.factors), tuple(getattr(made, "hyperparameters", None) or ())
    except Exception as error:  # noqa: BLE001 - of another package; the names of all others are still of use
        why = error if isinstance(error, L3DError) else f"cannot be built ({type(error).__name__}: {error})"
        return (str(why),), ()


_FILES: Final = ("pyproject.toml", "l3d_mine.py", "test_l3d_mine.py")
"""Files of the package; the folder ``templates`` has the text of each, with the ending .txt."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The package that was written.

    Attributes
    ----------
    folder
        Its folder.
    files
        Names of the files in it.
    """

    folder: Path
    files: tuple[str, ...]

    def summary(self) -> str:
        """Return the names of the files and the commands that try the package."""
        steps = f"Try it: pip install pytest -e {self.folder} && pytest {self.folder}"
        return f"{self.folder}: {', '.join(self.files)}. {steps}"


def new(kind: str, name: str, *, folder: Path | None = None) -> Skeleton:
    """Write a package with an approach, which passes the conformance suite as it is.

    Parameters
    ----------
    kind
        ``approach``.
    name
        Name of the approach: small letters, digits and underscores.
    folder
        Folder in which the package's folder ``l3d-NAME`` is made; the current one if None.

    Returns
    -------
    Skeleton
        Folder and files of the package.

    Raises
    ------
    ParameterError
        If the kind is another, or the name is invalid or taken.
    L3DError
        If the folder exists already.

    Examples
    --------
    >>> import mlflow_l3d
    >>> package = mlflow_l3d.new("approach", "mine")
    >>> package.files
    ('pyproject.toml', 'l3d_mine.py', 'test_l3d_mine.py')
    """
    if kind != "approach":
        raise unknown_name("kind", kind, ["approach"])
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ParameterError("name", name, "must be small letters, digits and underscores, a letter first")
    if name in registry.names("approach"):
        raise ParameterError("name", name, "is the name of an approach that is installed", "Choose another one.")
    root = (folder or Path()) / f"l3d-{name}"
    if root.exists():
        raise L3DError(f"the folder {root} is there already; nothing was written.")
    root.mkdir(parents=True)
    camel = "".join(part.capitalize() for part in name.split("_"))
    files = [file.replace("mine", name) for file in _FILES]
    for file, template in zip(files, _FILES, strict=True):
        text = (Path(__file__).parent / "templates" / f"{template}.txt").read_text(encoding="utf-8")
        (root / file).write_text(text.replace("mine", name).replace("Mine", camel), encoding="utf-8")
    return Skeleton(root, tuple(files))
