"""What Figures 1 to 5 of Pecher et al. (2024) are drawn from: the table of a sweep, next to the printed numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pandas as pd
from audit import signs
from join import named
from published import CLASSES, FACTORS, SYSTEMS

from mlflow_l3d.errors import unknown_name
from mlflow_l3d.studies.sweep.numbers import OF_CHOICE

OURS: Final = "ours"
PUBLISHED: Final = "published"


@dataclass(frozen=True)
class Layout:
    """What a figure of the paper shows.

    Attributes
    ----------
    title
        Next to the number of the figure.
    approaches
        Those of its panels.
    series
        What has a colour: tasks, or formats.
    x
        What bars are grouped by, or the numbers on the axis of lines: a column of :func:`figure_data`.
    factors
        Those that it has.
    printed
        Whether its values are printed in a table, too.
    """

    title: str
    approaches: tuple[str, ...]
    series: str = "task"
    x: str = "factor"
    factors: tuple[str, ...] = FACTORS
    printed: bool = True


FIGURES: Final = {
    "figure1": Layout("importance of the factors", ("icl", "finetuning")),
    "figure2": Layout("examples a class", ("icl",), x="shots", factors=("data_order", "sample_choice"), printed=False),
    "figure3": Layout("prompt formats", ("icl",), series="prompt_format", printed=False),
    "figure4": Layout("meta-learning", ("meta_learning",)),
    "figure5": Layout("prompt formats, all data sets", ("icl",), series="prompt_format", printed=False),
}
_NUMBERS: Final = {
    "importance_corrected": "value",
    "importance_corrected_ci_low": "low",
    "importance_corrected_ci_high": "high",
}
_SETTING: Final = {"shots": 2.0, "prompt_format": "A"}
_COLUMNS: Final = [
    *("source", "approach", "name", "task", "classes", "factor", "shots", "prompt_format"),
    *("value", "low", "high", "published_definition", "certain"),
]


def figure_data(what: str, frame: pd.DataFrame | None = None, *, approach: str = "", model: str = "") -> pd.DataFrame:
    """Return what a figure is drawn from, one row a bar or point: printed values first, then ours.

    Parameters
    ----------
    what
        One of :data:`FIGURES`.
    frame
        Table of a sweep; None for the printed values alone.
    approach, model
        What all its points have, where it has no such column.

    Returns
    -------
    pandas.DataFrame
        ``source`` (:data:`PUBLISHED` or :data:`OURS`), ``approach``, ``name`` (of the panel: the paper's name, or our
        model and learner), ``task``, ``classes`` (nan if it is none of the paper's tasks), ``factor``, ``shots`` and
        ``prompt_format`` (2 and A for printed values, and if the sweep has none), ``value`` (corrected importance)
        with ``low`` and ``high``, ``published_definition`` (of the paper) and ``certain`` (its interval excludes 0).

    Raises
    ------
    ParameterError
        If there is no such figure, or it is not known which approach the points have.
    """
    if what not in FIGURES:
        raise unknown_name("figure", what, FIGURES)
    layout = FIGURES[what]
    parts = [_printed(layout)] if layout.printed else []
    parts += [] if frame is None else [_ours(frame, layout, approach, model)]
    rows = pd.concat([part for part in parts if len(part)]) if any(map(len, parts)) else pd.DataFrame(columns=_COLUMNS)
    tasks = {task: at for at, task in enumerate(CLASSES)}
    rows = rows.assign(
        classes=rows["task"].map(CLASSES),
        certain=(rows["low"] > 0) | (rows["high"] < 0),
        _task=rows["task"].map(tasks).fillna(len(tasks)),
        _factor=rows["factor"].map({factor: at for at, factor in enumerate(FACTORS)}),
        _source=rows["source"] == OURS,
    )
    order = ["_source", "_name", "_task", "_factor", "shots", "prompt_format"]
    names = {name: at for at, name in enumerate(rows["name"].drop_duplicates())}
    rows = rows.assign(_name=rows["name"].map(names)).sort_values(order, kind="stable")
    return rows[_COLUMNS].reset_index(drop=True)


def _printed(layout: Layout) -> pd.DataFrame:
    rows = signs()
    rows = rows[rows["approach"].isin(layout.approaches) & rows["factor"].isin(layout.factors)]
    return rows.assign(
        source=PUBLISHED, name=rows["system"], **_SETTING, value=rows["estimate"],
        published_definition=rows["importance"],
    )  # fmt: skip


def _ours(frame: pd.DataFrame, layout: Layout, approach: str, model: str) -> pd.DataFrame:
    rows = named(frame, approach, model)
    rows = rows[rows["factor"].isin(layout.factors) & rows["approach"].isin(layout.approaches)]
    for name, value in _SETTING.items():
        column = rows.get(OF_CHOICE + name)
        settings = pd.Series(value, rows.index) if column is None else column.where(column.notna(), value)
        rows = rows.assign(**{name: settings.astype(type(value))})
        if name not in (layout.x, layout.series):
            rows = rows[rows[name] == value]
    places = {learner: at for at, (_, _, learner) in enumerate(SYSTEMS.values()) if learner}
    # As in the paper.
    rows = rows.sort_values("learner", key=lambda learners: learners.map(places).fillna(-1), kind="stable")
    names = [_name(*row) for row in rows[["approach", "model", "learner"]].itertuples(index=False)]
    return rows.rename(columns={**_NUMBERS, "importance": "published_definition"}).assign(source=OURS, name=names)


def _name(approach: str, model: str, learner: str) -> str:
    """Return the paper's name of what it has itself, else ours."""
    for system, system_key in SYSTEMS.items():
        if system_key == (approach, model, learner):
            return system
    short = model.removeprefix("package:") or "our model"
    return f"{learner}, {short}" if learner else short
