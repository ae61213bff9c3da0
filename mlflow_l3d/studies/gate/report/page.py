"""A gate as people read it: in the terminal, as Markdown below a CI job, and as a page."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mlflow_l3d.analysis.sequential.spending import SequentialPlan
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.draw import Axis, difference_cell
from mlflow_l3d.report.numbers import counted, metric_text, percent, plain, shorten, unit_of
from mlflow_l3d.report.page import Document, Item, Section
from mlflow_l3d.report.table import Table, document, verdict_cell
from mlflow_l3d.studies.gate.numbers.gate import GateAnswer
from mlflow_l3d.studies.gate.report import words


def plan_text(title: str, plan: SequentialPlan, metric: Metric, lines: Sequence[str]) -> str:
    """Return a plan as the terminal shows it."""
    note = (
        f"Better and worse are claimed at {percent(plan.alpha / 2)} each, equivalence by two one-sided tests at "
        f"{percent(plan.alpha)} each, over all looks ({plan.spending})."
    )
    return document(title, lines, [bound_table(plan, metric), note])


def bound_table(plan: SequentialPlan, metric: Metric) -> Table:
    """Return the looks that are planned, with their levels."""
    rows = [
        {
            "look": str(number),
            "runs of either": str(runs),
            "level, better or worse": plain(level.difference, 5),
            "level, equivalence": plain(level.equivalence, 5),
        }
        for number, (runs, level) in enumerate(zip(plan.looks, plan.levels, strict=True), 1)
    ]
    return Table.of(rows, title=f"Looks and one-sided levels ({metric})")


def first_table(answer: GateAnswer) -> Table | None:
    """Return the interim analyses as a first screen has them: verdict, and the difference with its interval."""
    if not answer.looks:
        return None
    unit, effect = unit_of(answer.metric), answer.plan.smallest_effect
    drawn = [(look.difference, *words.interval_of(answer, look)[1:]) for look in answer.looks]
    levels = dict.fromkeys(percent(words.interval_of(answer, look)[0]) for look in answer.looks)
    axis = Axis.over([unit.scale * value for value in (-1.5 * effect, 1.5 * effect, *itertools.chain(*drawn))])
    head, rows = axis.head("axis"), []
    for look, numbers in zip(answer.looks, drawn, strict=True):
        said = f"{unit.change(look.difference, answer.digits)}\n({words.limits(answer, *numbers[1:], answer.digits)})"
        value, low, high = (unit.scale * number for number in numbers)
        bar = difference_cell(value, low, high, axis, said.replace("\n", " "), margin=unit.scale * effect)
        row = {"after": counted(look.pairs, "run"), "verdict": verdict_cell(look.decision), head: bar}
        rows.append({**row, f"difference{', points' if unit.scale > 1 else ''} ({', last row '.join(levels)})": said})
    less = "candidate minus baseline" if answer.metric.greater_is_better else "baseline minus candidate"
    note = (
        f"Difference: {less}. Grey in the report: less than your smallest effect, ± {answer.effect}. "
        "The last row decides; [[intervals of all rows hold together|repeated]]."
    )
    return Table.of(rows, note, kind="bars", texts=frozenset({1, 2}), kinds=tuple(x.decision for x in answer.looks))


def gate_document(
    answer: GateAnswer,
    *,
    source: words.GateSource | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
    lines: Sequence[str] = (),
) -> Document:
    """Return a gate as people read it.

    Parameters
    ----------
    answer, source
        What it found, and its origin.
    settings, lines
        As in :class:`mlflow_l3d.report.page.Document`.
    """
    source = source or words.GateSource()
    candidate, status = f"candidate {shorten(answer.candidate, 60)}", f"exit status {answer.exit_status}"
    about = source.about(candidate, metric_text(answer.metric), status)
    runs = counted(2 * answer.looks[-1].pairs if answer.looks else 0, "run")
    notes, advised = [note.partition(". ")[0].rstrip(".") + "." for note in answer.notes], words.advice_on(answer)
    planned = words.plan_lines(answer.plan, answer.before, answer.metric)
    return Document(
        title=f"{answer.candidate} against {answer.baseline}",
        headline=words.headline(answer),
        about=about,
        place=source.place(runs),
        answers=words.answers(answer),
        table=first_table(answer),
        steps=words.steps(answer, source),
        lines=[about, *lines],
        notes=notes,
        in_full=[[Item(advised.lead, advised.question), *map(Item, answer.notes)]],
        sections=[Section("What was planned, and expected", [*planned, bound_table(answer.plan, answer.metric)])],
        settings=settings,
    )


def gate_markdown(answer: GateAnswer, *, run_id: str) -> str:
    """Return the summary for a CI job, which is also the description of the run: the headline comes first."""
    table, (first, *others) = first_table(answer), words.answers(answer)
    blocks = [
        f"## {words.headline(answer)}",
        first.markdown(),
        f"Exit status {answer.exit_status} ({answer.decision}): `{answer.candidate}` against `{answer.baseline}`.",
        *[each.markdown() for each in (*others, words.advice_on(answer))],
        *([table.markdown()] if table else []),
        *(["\n".join(f"- {note}" for note in answer.notes)] if answer.notes else []),
        f"MLflow run `{run_id}`",
    ]
    return "\n\n".join(blocks) + "\n"
