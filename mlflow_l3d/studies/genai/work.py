"""The cells of one call under way: found or carried out, one after the other, as far as the budget goes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.report.numbers import counted, listed
from mlflow_l3d.studies.genai.contents import repeated
from mlflow_l3d.studies.genai.request import AnswerCell, GenaiRequest, Judging
from mlflow_l3d.studies.shown import progress_bar
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.children import condition, found, search
from mlflow_l3d.tracking.claims import Claims
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.evaluating import (
    Answers,
    Substitutes,
    answers_of,
    cell_run,
    check_judgements,
    failure_of,
    has_failed,
    write_answers,
    write_judgements,
)
from mlflow_l3d.tracking.judged import read_judged
from mlflow_l3d.tracking.parent import current_experiment_id, set_tags

if TYPE_CHECKING:
    from tqdm import tqdm


class _Judged(NamedTuple):
    """What a run judged: the answers of a cell, of which some failed, by a judge for the nth time."""

    cell: AnswerCell
    judging: Judging
    number: int
    failed: Mapping[tuple[str, str], str]


@dataclass
class Work:
    """The cells of one call.

    Attributes
    ----------
    request, client, parent_id, progress
        What is asked for, where the runs go, and whether a progress bar is shown.
    computed, reused
        Cells that were carried out now, and that were found.
    missing_answers, missing_judgements
        Cells that the budget left out.
    """

    request: GenaiRequest
    client: Client
    parent_id: str
    progress: bool
    computed: int = 0
    reused: int = 0
    missing_answers: int = 0
    missing_judgements: int = 0
    _requests: int = 0
    _judged: dict[str, _Judged] = field(default_factory=dict)

    def carry_out(self) -> pd.DataFrame:
        """Return the table of judgements, of cells that were found and of those that the budget allows.

        Raises
        ------
        L3DError
            If the app or a scorer always fails, or the budget allows no judgement.
        """
        self._began = time.monotonic()
        self._experiment_id = current_experiment_id(self.client)
        tags = {names.ROLE: "cell", names.CONTEXT_KEY: self.request.context_key}
        runs = search(self.client, [self._experiment_id], condition(tags, "FINISHED"))
        self._recorded = {run.data.tags.get(names.CELL_KEY, ""): run for run in runs}
        self._statuses = {self.parent_id: "FINISHED"}
        cells = self.request.cells
        total = len(cells) * (1 + sum(each.times for each in self.request.judgings))
        with progress_bar("cells", "cell", total=total, shown=self.progress) as bar:
            for cell in cells:
                self._carry_out(cell, bar)
        if not self._judged:
            fix = f"A judgement needs 2 cells, those of answers and of their judgement; {total} are asked for in all."
            raise ParameterError("budget", self.request.budget, "allows no judgement", fix)
        return self._table()

    def missing(self) -> str:
        """Return what the budget left out; the empty text if nothing."""
        numbers = ((self.missing_answers, "answers"), (self.missing_judgements, "judgements"))
        parts = [f"{counted(number, 'cell')} of {what}" for number, what in numbers if number]
        left_out = f"The budget ({self.request.budget}) left out {listed(parts)}" if parts else ""
        return f"{left_out}: the same call continues with them." if parts else ""

    def _carry_out(self, cell: AnswerCell, bar: tqdm[None]) -> None:
        """Let the app answer, and all judge."""
        judgings = [(judging, number) for judging in self.request.judgings for number in range(judging.times)]
        answering = self._answered(cell)
        bar.update()
        if answering is None:
            self.missing_judgements += len(judgings)
            return
        run_id, answers = answering
        failed = {place: trace.info.trace_id for place, trace in answers.items() if has_failed(trace)}
        for judging, number in judgings:
            if judged_id := self._judge(cell, run_id, judging, number):
                self._judged[judged_id] = _Judged(cell, judging, number, failed)
            bar.update()

    def _answered(self, cell: AnswerCell) -> tuple[str, Answers] | None:
        """Return the run of a cell, and its answers to all rows; None if the budget is spent."""
        places = repeated(self.request.rows, cell.replicate)
        if (run := self._recorded.get(cell.key)) is not None:
            answers = answers_of(self._experiment_id, run.info.run_id, cell.key)
            if answers.keys() == {*places}:  # somebody may have deleted some
                return self._reuse(run), answers
        if not self._affords():
            self.missing_answers += 1
            return None
        values = {name: level.value for name, level in cell.levels.items()}
        passed = {name: values[name] for name in self.request.passed}
        substitutes = Substitutes({value.name: value for name, value in values.items() if name not in passed})
        own = {names.CELL_KEY: cell.key, names.PARENT: self.parent_id}
        own |= {f"{names.FACTOR}.{name}": label for name, label in cell.labels.items()}
        rows = [
            {**row, "tags": {**row["tags"], names.REPEAT: repeat, **own}}
            for row, (_, repeat) in zip(self.request.rows, places, strict=True)
        ]
        with self._opened(cell.key, "answers", cell.name, {}, cell.params) as run_id:
            write_answers(run_id, self.request.app, rows, passed, substitutes, self.request.workers)
            answers = answers_of(self._experiment_id, run_id, cell.key)
            self._check(cell, run_id, answers, substitutes)
        return run_id, answers

    def _check(self, cell: AnswerCell, run_id: str, answers: Answers, substitutes: Substitutes) -> None:
        """Raise an L3DError if answers were lost or all failed, or the app did not use the prompt."""
        asked = len(self.request.rows)
        if len(answers) < asked:
            fix = "Check that tracing is on and not sampled, or use fewer workers."
            raise L3DError(f"predict_fn: {len(answers)} of {asked} answers have a trace on the server. {fix}")
        if all(map(has_failed, answers.values())):
            failure = failure_of(answers_of(self._experiment_id, run_id, cell.key, spans=True))
            raise L3DError(f"predict_fn: failed on all {counted(asked, 'row')} ({failure}). Correct it, or the data.")
        if substitutes.prompts and not substitutes.count:
            name, app = next(iter(substitutes.prompts)), self.request.app_name
            factor = next(factor for factor, level in cell.levels.items() if level.is_prompt)
            why = f"has no effect: {app} neither has a parameter {factor} nor loads {name} in the thread that calls it"
            fix = f"Load it there with mlflow.genai.load_prompt, or write def {app}(..., {factor})."
            raise ParameterError(f"factors={factor}", name, why, fix)

    def _judge(self, cell: AnswerCell, answers_id: str, judging: Judging, number: int) -> str:
        """Return the run in which a judge rates the answers of a cell; the empty text if the budget is spent."""
        key = content_key({"answers": answers_id, "scorer": judging.content, "judgement": number})
        if (run := self._recorded.get(key)) is not None:
            return self._reuse(run)
        if not self._affords():
            self.missing_judgements += 1
            return ""
        answers = answers_of(self._experiment_id, answers_id, cell.key, spans=True)
        places = zip(self.request.rows, repeated(self.request.rows, cell.replicate), strict=True)
        pairs = [(row, answers[place]) for row, place in places if not has_failed(answers[place])]
        params = {**cell.params, "judge": judging.judge, "judgement": str(number)}
        name = f"judgements of {judging.judge}: {cell.name.removeprefix('answers ')}"
        with self._opened(key, "judgements", name, {names.ANSWERS: answers_id}, params) as run_id:
            write_judgements(pairs, judging.scorer, self.request.workers)
            judged = answers_of(self._experiment_id, answers_id, cell.key)
            check_judgements(judged.values(), run_id, judging.scorer.name)
        return run_id

    def _affords(self) -> bool:
        """Return whether the budget allows one more cell."""
        budget, spent = self.request.budget, time.monotonic() - self._began
        requests = self._requests + len(self.request.rows)
        return (
            (budget.cells is None or self.computed < budget.cells)
            and (budget.requests is None or requests <= budget.requests)
            and (budget.seconds is None or spent < budget.seconds)
        )

    def _reuse(self, run: Run) -> str:
        """Return the id of a cell that was found; one of an interrupted parent becomes a child of this one."""
        self.reused += 1
        holder, run_id = run.data.tags.get(names.PARENT_RUN_ID, ""), str(run.info.run_id)
        if holder not in self._statuses:
            parent = found(self.client.get_run, holder)
            self._statuses[holder] = "" if parent is None else parent.info.status
        if self._statuses[holder] != "FINISHED":
            set_tags(self.client, run_id, {names.PARENT_RUN_ID: self.parent_id})
        return run_id

    @contextmanager
    def _opened(
        self, key: str, phase: str, name: str, tags: Mapping[str, str], params: Mapping[str, str]
    ) -> Iterator[str]:
        """Open the run of a cell, which no other process of this machine may carry out meanwhile."""
        store = content_key({"store": str(self.client.tracking_uri), "experiment": self._experiment_id})
        claims = Claims(cache_folder() / "claims" / f"genai-{store}")
        shared = {names.CELL_KEY: key, names.CONTEXT_KEY: self.request.context_key, names.PHASE: phase}
        try:
            if not claims.lock(key):
                raise L3DError(f"Another process on this machine works on {name!r}: wait for it, then call again.")
            with cell_run(self.client, self.parent_id, name, {**shared, **tags}, params) as run_id:
                yield run_id
        finally:
            claims.close()
        self.computed += 1
        self._requests += len(self.request.rows)

    def _table(self) -> pd.DataFrame:
        """Return the judgements of all cells, with the answers that failed: nobody judged these."""
        table = read_judged(self.client, *self._judged).table
        judged = [self._judged[run_id] for run_id in table["run_id"]]
        table["judgement"] = [each.number for each in judged]
        is_own = [each.judging.scorer.name == name for each, name in zip(judged, table["scorer"], strict=True)]
        table["scorer"] = np.where(is_own, [each.judging.rates for each in judged], table["scorer"])
        is_judge = [each.judging.is_judge for each in judged]
        table["judge"] = np.where(is_judge, [each.judging.judge for each in judged], table["judge"])
        for factor in self.request.factors:
            table[factor] = [each.cell.labels[factor] for each in judged]
        first = table.drop_duplicates(["run_id", "scorer", "judge"])
        of_failed = [
            {**like, "row": row, "answer": answer, "repeat": int(repeat), "value": float("nan"), "failed": "answer"}
            for like in first.to_dict("records")
            for (row, repeat), answer in self._judged[like["run_id"]].failed.items()
        ]
        return (
            pd.concat([table, pd.DataFrame(of_failed, columns=table.columns)], ignore_index=True)
            if of_failed
            else table
        )
