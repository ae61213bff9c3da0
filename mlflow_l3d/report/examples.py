"""The examples on which runs differ, as a page and a terminal show them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from mlflow_l3d.analysis.consistency.examples import ExampleVotes
from mlflow_l3d.report.draw import parts_bar
from mlflow_l3d.report.html import Snippet
from mlflow_l3d.report.numbers import points, shorten

MOST: Final = 40
"""Examples on a page."""
_CLASSES: Final = 8
"""Classes that have a colour of their own."""


def fragile_examples(
    worst: pd.DataFrame | None,
    *,
    classes: Sequence[str] = (),
    texts: Mapping[object, str] | None = None,
    runs: str = "runs",
    opens: bool = False,
    are_rows: bool = False,
) -> Snippet | None:
    """Return the examples whose votes differ most; None if there are none.

    Parameters
    ----------
    worst
        From :meth:`mlflow_l3d.analysis.consistency.examples.ExampleVotes.most_fragile`.
    classes
        Name of each class; class numbers stand for names that are not known.
    texts
        Example id -> text, if the user asked for them.
    runs
        What votes.
    opens
        Whether the page can say what every run predicts.
    are_rows
        Whether ids are places in the data, from 0; people count rows from 1.
    """
    if worst is None or worst.empty:
        return None
    names = list(classes) or [str(number) for number in range(max(map(len, worst["votes"])))]
    rows: list[dict[str, Any]] = []
    linked: set[str] = set()
    for row in worst.head(MOST).to_dict("records"):
        votes = [*row["votes"], *[0] * (len(names) - len(row["votes"]))]
        shown = [*zip(votes, names, strict=False), *([(int(row["unparsed"]), "no class")] if row["unparsed"] else [])]
        label, name = int(row["label"]), re.sub(r"[^\w-]", "-", str(row["example_id"]))
        rows.append(
            {
                "id": shorten(str(row["example_id"] + 1 if are_rows else row["example_id"]), 40),
                "link": "" if name in linked else f"example-{name}",
                "text": shorten((texts or {}).get(row["example_id"], ""), 240),
                "label": names[label] if 0 <= label < len(names) else str(label),
                "votes": parts_bar(*zip(*shown, strict=True)),
                "wrong": f"{points(1 - float(row['share_right']), 0)} %",
                "entropy": f"{float(row['entropy']):.3f}",
            }
        )
        linked.add(name)
    values = {
        "rows": rows,
        "classes": sorted({row["label"] for row in rows}),
        "legend": [(number % _CLASSES, name) for number, name in enumerate(names)][:20],
        "runs": runs,
        "opens": opens,
        "head": "row of the data, from 1" if are_rows else "example",
        "has_texts": bool(texts),
    }
    return Snippet("examples.html", values)


def shares_bar(shares: Sequence[tuple[str, float]]) -> Markup:
    """Return how many examples are right in every run, in some and in none, as one bar with its legend."""
    kinds = ("robust", "fragile", "never")
    bar = Markup("").join(
        Markup('<span class="{}" style="width:{}%"></span>').format(kind, f"{100 * share:.3f}")
        for kind, (_, share) in zip(kinds, shares, strict=True)
    )
    key = Markup("").join(
        Markup('<span><i class="{}"></i>{} {}\N{NO-BREAK SPACE}%</span>').format(kind, name, points(share, 1))
        for kind, (name, share) in zip(kinds, shares, strict=True)
    )
    label = ", ".join(f"{name} {points(share, 1)} %" for name, share in shares)
    picture = Markup('<div class="parts" role="img" aria-label="{}">{}</div><p class="legend">{}</p>')
    return picture.format(label, bar, key)


def changed_predictions(share: float, unit: str = "seed") -> str:
    """Return how many predictions change if a run is repeated, as the end of a sentence on how often two runs agree."""
    if share == 0:
        return ": none changes"
    if share < 0.001:
        return ": almost none changes"
    return f": **about {in_words(share)}** with the {unit}" if share <= 0.4 else ""


def in_words(share: float) -> str:
    """Return which share changes: one in so many if that is right within a tenth, else so many in ten."""
    number = round(1 / share)
    return f"one in {number:,} changes" if abs(number * share - 1) <= 0.1 else f"{10 * share:.0f} in 10 change"


def fragile_frame(
    votes: ExampleVotes | None, texts: Mapping[object, str], classes: Sequence[str], count: int
) -> pd.DataFrame:
    """Return the examples on which runs differ most, with their texts and the names of the classes.

    Parameters
    ----------
    votes
        What all runs say; None without predictions.
    texts, classes
        Example id -> text, and the names of all classes.
    count
        How many examples at most.

    Returns
    -------
    pandas.DataFrame
        ``example_id``, ``text``, ``true_class``, ``share_right``, and one column of votes a class.
    """
    rows = []
    for row in [] if votes is None else votes.most_fragile(count).to_dict("records"):
        place = {"example_id": row["example_id"], "text": texts.get(row["example_id"], "")}
        place |= {"true_class": classes[int(row["label"])], "share_right": float(row["share_right"])}
        rows.append(place | dict.fromkeys(classes, 0) | dict(zip(classes, row["votes"], strict=False)))
    return pd.DataFrame(rows, columns=["example_id", "text", "true_class", "share_right", *classes])
