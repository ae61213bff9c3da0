"""Parts of a page as HTML: sentences with terms that it explains on the spot, snippets, and bars of test examples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from mlflow_l3d.report.draw import parts_bar
from mlflow_l3d.report.numbers import minus, points, shorten
from mlflow_l3d.report.text import marked

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Environment

    from mlflow_l3d.analysis.consistency.examples import ExampleVotes

TERMS: Final = MappingProxyType(
    {
        "std": "Standard deviation: the typical distance of one run from the mean. About two runs in three lie within "
        "one of it.",
        "golden": "A training with a new seed for every factor.",
        "pooled": "The cells of all tables together, in place of trainings with a new seed for every factor. They vary "
        "less.",
        "agree": "Consistency (CON): how often two runs predict the same for a test example that both saw.",
        "right": "Correct consistency (CCON): how often two runs predict the same for a test example, and are right.",
        "share": "The part of the score's variance in which this factor is involved, alone or together with others "
        "(total Sobol index). What two factors do together counts for both, so shares may add up to more than 100 %.",
        "alone": "The share of the factor by itself, without what it does together with others (first Sobol index).",
        "moves": "How far the score typically moves if only this factor changes: a standard deviation, without the "
        "bias of few runs.",
        "verdict": "Interval of the share wholly above 50 %: dominates. Wholly below: minor. Else undecided, as is a "
        "factor whose interval cannot be trusted.",
        "published": "Importance of Pecher et al. 2024: (contributed \N{MINUS SIGN} mitigated) / golden standard "
        "deviation. They call a factor important if it is above 0.",
        "corrected": "√share \N{MINUS SIGN} √(1 \N{MINUS SIGN} share): the published importance without its errors "
        "from few rows and columns. Above 0 exactly if the share is above 50 %.",
        "contributed": "As published: the mean of the standard deviations within rows, in which only this factor "
        "changes.",
        "mitigated": "As published: the standard deviation of the row means, between which all other factors change.",
        "letters": "Factors that share a letter do not differ significantly.",
        "kappa": "Agreement of two runs beyond chance (Fleiss): 1 is always, 0 is chance.",
        "disagreement": "How often runs disagree on an example if only this factor changes, over how often if every "
        "factor does. The two come from different runs, so that chance may lift it above 100 %.",
        "failed": "Cells of the plan that have no score.",
        "luck": "Two runs that differ by chance alone lie further apart than this one time in twenty.",
        "collapsed": "The score is at or below chance and far below the others, or all predictions are the same.",
        "var": "Standard deviation over seeds as published (Zhou et al. 2025 call it VAR): divided by their number.",
        "rank": "The place of a seed among the seeds of one task, averaged over tasks: 1 is the best.",
        "fanova": "Share of the variance of the score over the coarse space that the hyperparameter alone accounts for "
        "(fANOVA). Luck counts as a cause, so a small share is not a finding.",
        "repeated": "Repeated confidence interval: the intervals of all interim analyses hold together at this level, "
        "whichever of them ends the gate.",
    }
)
"""Term -> what it means, in one or two sentences."""
MOST_EXAMPLES: Final = 40
"""Examples on a page."""
_CLASSES: Final = 8
"""Colours of classes; more classes share them."""
_NAMED: Final = 20
"""Most classes that a legend names."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a page with a template of its own, and the values that it shows."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __html__(self) -> str:
        """Return it as HTML, every value escaped."""
        return environment().get_template(self.template).render(self.values)


def chip(kind: str, text: str) -> Markup:
    """Return a short word on a coloured ground, for a cell of a table; `kind` is a class of the style sheet."""
    return Markup('<span class="chip {}">{}</span>').format(kind, text)


def prose(text: str) -> Markup:
    """Return a sentence as HTML: its marks become bold words, and words with their meaning."""
    safe = (
        str(escape(minus(text)))
        .replace(" %", "\N{NO-BREAK SPACE}%")
        .replace("\N{PLUS-MINUS SIGN} ", "\N{PLUS-MINUS SIGN}\N{NO-BREAK SPACE}")
    )
    return Markup(marked(safe, "<b>{}</b>".format, _term))  # noqa: S704 - escaped


def _term(words: str, name: str) -> str:
    if name not in TERMS:  # a name of the user's that looks like a mark
        return words
    tip = escape(TERMS[name])
    return f'<span class="term" tabindex="0">{words}<span class="tip" role="tooltip">{tip}</span></span>'


def _name(text: str) -> Markup:
    """Return a name that may break after an underscore or a plus, its parts marked; an escaped text stays as it is."""
    safe = re.sub(r"_(?=[A-Za-z])", "_<wbr>", str(escape(text)))
    return Markup(re.sub(r"([^+]+\+)(?=[A-Za-z])", r'<span class="joint">\1</span><wbr>', safe))  # noqa: S704 - escaped


def _command(text: str) -> Markup:
    """Return a command that breaks before an option, not within it."""
    return Markup(re.sub(r"(--[\w-]+)", r'<span class="whole">\1</span>', str(escape(text))))  # noqa: S704 - escaped


def _plain(text: str) -> str:
    """Return a head of a table without its marks and pictures."""
    return Markup("{}").format(text).striptags() if hasattr(text, "__html__") else marked(text)


@cache
def environment() -> Environment:
    """Return the templates; jinja2 is loaded with the first page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("mlflow_l3d.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(minus=minus, prose=prose, name=_name, command=_command, plain=_plain)
    return templates


def fragile_examples(
    examples: pd.DataFrame | None,
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
    examples
        All, as in :class:`mlflow_l3d.analysis.consistency.examples.ExampleVotes`, or those whose votes differ.
    classes
        Name of each class; class numbers stand for names that are not known. If all labels are 0, too, answers are
        texts, see :func:`mlflow_l3d.studies.seeds.numbers.compared.numbered`.
    texts
        Example id -> text, if the user asked for them.
    runs
        What votes.
    opens
        Whether the page can say what every run predicts.
    are_rows
        Whether ids are places in the data, from 0; people count rows from 1.
    """
    if examples is None or (worst := examples[examples["entropy"] > 0].head(MOST_EXAMPLES)).empty:
        return None
    names = list(classes) or [str(number) for number in range(max(map(len, worst["votes"])))]
    if are_texts := not (classes or examples["label"].any()):
        names = ["right", *map("wrong {}".format, names[1:])]
    rows: list[dict[str, Any]] = []
    linked: set[str] = set()
    for row in worst.to_dict("records"):
        votes = [*row["votes"], *[0] * (len(names) - len(row["votes"]))]
        shown = [*zip(votes, names, strict=False), *([(int(row["unparsed"]), "no class")] if row["unparsed"] else [])]
        label = int(row["label"])
        name = re.sub(r"[^\w-]", "-", str(row["example_id"]))
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
    parts = [*names, *(["no class"] if worst["unparsed"].any() else [])] if len(names) <= _NAMED else []
    values = {
        "rows": rows,
        "which": "all" if len(rows) < MOST_EXAMPLES else "the first",
        "classes": [] if are_texts else sorted({row["label"] for row in rows}),
        "legend": [*enumerate(" or ".join(parts[at::_CLASSES]) for at in range(_CLASSES) if parts[at:])],
        "runs": runs,
        "opens": opens,
        "head": "row of the data, from 1" if are_rows else "example",
        "has_texts": bool(texts),
    }
    return Snippet("examples.html", values)


def shares_bar(votes: ExampleVotes | None, names: Sequence[str]) -> Markup | None:
    """Return how many examples are right in every run, in some and in none, which have these names, as one bar.

    It has a legend. There is none without predictions, and none of a few examples.
    """
    if votes is None or not votes.are_enough:
        return None
    kinds = ("robust", "fragile", "never")
    shares = [*zip(names, (votes.robust_share, votes.fragile_share, votes.never_right_share), strict=True)]
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
    import pandas as pd

    rows = []
    for row in [] if votes is None else votes.most_fragile(count).to_dict("records"):
        place = {"example_id": row["example_id"], "text": texts.get(row["example_id"], "")}
        place |= {"true_class": classes[int(row["label"])], "share_right": float(row["share_right"])}
        rows.append(place | dict.fromkeys(classes, 0) | dict(zip(classes, row["votes"], strict=False)))
    return pd.DataFrame(rows, columns=["example_id", "text", "true_class", "share_right", *classes])
