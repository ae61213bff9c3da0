"""The cells of one call under way: found or carried out, one after the other, as far as the budget goes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.report.numbers import counted
from mlflow_l3d.studies.dry_run import Budget
from mlflow_l3d.studies.genai import REPLICATE, AnswerCell, GenaiRequest, Judging
from mlflow_l3d.studies.genai.contents import repeated
from mlflow_l3d.tracking import evaluating, names
from mlflow_l3d.tracking.children import condition, runs_named, search
from mlflow_l3d.tracking.connection import Client, Run
from mlflow_l3d.tracking.earlier.evaluations import read_judged
from mlflow_l3d.tracking.earlier.judgements import COLUMNS, Judged, check_judgements
from mlflow_l3d.tracking.evaluating import Answers, App, Place
from mlflow_l3d.tracking.opening import open_claims
from mlflow_l3d.tracking.parent import current_experiment_id, set_tags


@dataclass
class Work:
    """The cells of one call.

    Attributes
    ----------
    request, client, parent_id
        The request, the tracking server, and the run below which the runs of the cells are.
    budget, workers
        The most that is computed, and how many threads ask.
    computed, reused, missing
        Cells that were carried out now, that were found, and that the budget left out.
    requests
        Answers and judgements of those that were carried out.
    """

    request: GenaiRequest
    client: Client
    parent_id: str
    budget: Budget
    workers: int | None
    computed: int = 0
    reused: int = 0
    missing: int = 0
    requests: int = 0
    _judged: dict[str, tuple[AnswerCell, Judging]] = field(default_factory=dict)
    _failed: dict[str, dict[Place, str]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many cells are asked for."""
        return len(self.request.cells) * (1 + len(self.request.judgings))

    def carry_out(self, bar: tqdm[Any]) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """Return the table of judgements, of cells that are found and of those that the budget allows, and its notes.

        Raises
        ------
        L3DError
            If the app or a scorer always fails, the budget allows no judgement, or another process does the same.
        """
        self._began = time.monotonic()
        self._prompt = cache(partial(self.client.load_prompt, allow_missing=True, cache_ttl_seconds=0))
        self._experiment_id = current_experiment_id(self.client)
        with closing(open_claims(self.client, self._experiment_id, f"genai-{self._experiment_id}")) as claims:
            if not claims.lock(self.request.context_key, alone=True):
                raise L3DError("Another process or thread investigates this app on these data: wait, then call again.")
            tags = {names.ROLE: "cell", names.CONTEXT_KEY: self.request.context_key}
            runs = list(search(self.client, [self._experiment_id], condition(tags, "FINISHED")))
            self._recorded: dict[str, list[Run]] = {}
            for run in runs:
                self._recorded.setdefault(run.data.tags.get(names.CELL_KEY, ""), []).append(run)
            parents = [*{run.data.tags.get(names.PARENT_RUN_ID, "") for run in runs}]
            self._ended = {run.info.run_id for run in runs_named(self.client, parents) if run.info.status == "FINISHED"}
            for cell in self.request.cells:
                self._carry_out(cell)
                bar.update(self.computed + self.reused + self.missing - bar.n)
        if not self._judged:
            size = f"of {counted(len(self.request.rows), 'request')} each"
            allowed = f"allows no judgement: it needs 2 cells {size}, and all together are {self.total}"
            raise ParameterError("budget", self.budget, allowed)
        judged = read_judged(self.client, *self._judged)
        table = self._table(judged)
        return table, (*judged.notes, *self._names_apart(table))

    def _carry_out(self, cell: AnswerCell) -> None:
        """Let the app answer, and all judge."""
        if not (answers_id := self._answered(cell)):
            self.missing += 1 + len(self.request.judgings)
            return
        for judging in self.request.judgings:
            key = content_key({"answers": answers_id, "scorer": judging.content, "judgement": judging.number})
            if (run := next(self._current(key), None)) is not None:
                self._judged[self._reuse(run)] = cell, judging
            elif self._affords(len(self.request.rows) - len(self._failed[cell.key])):
                self._judged[self._judge(cell, key, answers_id, judging)] = cell, judging
            else:
                self.missing += 1

    def _answered(self, cell: AnswerCell) -> str:
        """Return the run that holds the answers of a cell to all rows; the empty text if the budget is spent."""
        places = repeated(self.request.rows, cell.replicate)
        for run in self._current(cell.key):
            answers = evaluating.answers_of(self._experiment_id, run.info.run_id, cell.key)
            if answers.keys() == {*places}:  # somebody may have deleted some
                self._failed[cell.key] = _failed_answers(answers)
                return self._reuse(run)
        cells = 1 if self._judged else 2  # the first answers are paid only if they can be judged, too
        if not self._affords(cells * len(places), cells):
            return ""
        values = {name: level.value for name, level in cell.levels.items()}
        passed = {name: values[name] for name in self.request.passed}
        prompts = {name: each for name, each in values.items() if name not in passed}
        tags = {f"{names.FACTOR}.{name}": label for name, label in cell.labels.items()}
        app = App(self.request.app, passed, prompts, {**tags, names.CELL_KEY: cell.key, names.PARENT: self.parent_id})
        rows = [
            {"inputs": row["inputs"], "tags": {**row["tags"], names.REPEAT: repeat}}
            for row, (_, repeat) in zip(self.request.rows, places, strict=True)
        ]
        with self._opened(cell, cell.key, f"{cell.name}: answers", {names.PHASE: "answers"}) as run_id:
            evaluating.write_answers(run_id, app, rows, self.workers)
            answers = evaluating.answers_of(self._experiment_id, run_id, cell.key, spans=True)
            self._failed[cell.key] = _failed_answers(answers, len(rows))
            self.requests += len(rows)
        return run_id

    def _judge(self, cell: AnswerCell, key: str, answers_id: str, judging: Judging) -> str:
        """Return the new run in which a judge rates those answers of a cell that did not fail."""
        answers = evaluating.answers_of(self._experiment_id, answers_id, cell.key, spans=True)
        places = zip(self.request.rows, repeated(self.request.rows, cell.replicate), strict=True)
        pairs = [(row, answers[place]) for row, place in places if place not in self._failed[cell.key]]
        tags = {names.PHASE: "judgements", names.ANSWERS: answers_id}
        more = {"judge": judging.judge, "judgement": str(judging.number)}
        name = f"{cell.name}: {judging.judge}" + (f", judgement {judging.number}" if judging.number > 0 else "")
        with self._opened(cell, key, name, tags, more) as run_id:
            evaluating.write_judgements(pairs, judging.scorer, self.workers)
            judged = evaluating.answers_of(self._experiment_id, answers_id, cell.key)
            check_judgements(judged.values(), run_id, judging.scorer.name)
            self.requests += len(pairs)
        return run_id

    def _current(self, key: str) -> Iterator[Run]:
        """Yield the recorded runs of a cell, if the prompts that they loaded still have the same versions."""
        for run in self._recorded.get(key, ()):
            loaded = json.loads(run.data.tags.get(names.PROMPTS, "{}"))
            now = {name: self._prompt(name) for name in loaded}
            if loaded == {name: [str(prompt and prompt.version)] for name, prompt in now.items()}:
                yield run

    def _affords(self, requests: int, cells: int = 1) -> bool:
        """Return whether the budget allows so many more cells, of so many answers or judgements together."""
        spent = self.computed + cells, time.monotonic() - self._began, self.requests + requests
        limits = self.budget.cells, self.budget.seconds, self.budget.requests
        return all(most is None or each <= most for each, most in zip(spent, limits, strict=True))

    def _reuse(self, run: Run) -> str:
        """Return the id of a cell that was found; one of an interrupted parent becomes a child of this one."""
        self.reused += 1
        if run.data.tags.get(names.PARENT_RUN_ID) not in self._ended:
            set_tags(self.client, run.info.run_id, {names.PARENT_RUN_ID: self.parent_id})
        return str(run.info.run_id)

    @contextmanager
    def _opened(
        self, cell: AnswerCell, key: str, name: str, tags: Mapping[str, str], more: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        """Open the run of a cell with its tags and parameters."""
        shared = {names.CELL_KEY: key, names.CONTEXT_KEY: self.request.context_key}
        params = {**cell.labels, REPLICATE: str(cell.replicate), **(more or {})}
        with evaluating.cell_run(self.client, self.parent_id, name, {**shared, **tags}, params) as run_id:
            yield run_id
        self.computed += 1

    def _table(self, judged: Judged) -> pd.DataFrame:
        """Return the judgements of all cells, with the answers that nobody judged."""
        factors, made, failed = [*self.request.factors], [], []
        for run_id, (cell, judging) in self._judged.items():
            judge = judging.judge if judging.is_judge else None
            about = {"run_id": run_id, "own": judging.scorer.name, "rates": judging.rates, "known_as": judge}
            made.append({**about, "judgement": judging.number, **cell.labels})
            failed += [(run_id, row, at, answer, "answer") for (row, at), answer in self._failed[cell.key].items()]
        table = judged.table[[*COLUMNS]].drop(columns="judgement").merge(pd.DataFrame(made), on="run_id")
        table["scorer"] = table["rates"].where(table["scorer"].eq(table["own"]), table["scorer"])
        table["judge"] = table["known_as"].where(table["known_as"].notna(), table["judge"])
        table = table[[*COLUMNS[:6], *factors, *COLUMNS[6:]]]
        columns = ["run_id", "row", "repeat", "answer", "failed"]
        asked = [
            run.answers.assign(run_id=run.run_id, repeat=run.answers["tagged"], failed="judge") for run in judged.runs
        ]
        every = pd.concat([*asked, pd.DataFrame(failed, columns=columns)])[columns].astype({"repeat": int})
        like = table.drop_duplicates(["run_id", "scorer", "judge"]).drop(columns=columns[1:]).assign(value=np.nan)
        lines, key = like.merge(every, on="run_id"), ["run_id", "scorer", "answer"]
        unjudged = lines[~pd.MultiIndex.from_frame(lines[key]).isin(pd.MultiIndex.from_frame(table[key]))]
        return pd.concat([table, unjudged[table.columns]], ignore_index=True)

    def _names_apart(self, table: pd.DataFrame) -> Iterator[str]:
        """Yield a note if judges gave their feedback different names, by which they cannot be compared."""
        judges = {each.judge for each in self.request.judgings if each.is_judge}
        named = table[table["judge"].isin(judges) & table["failed"].eq("")].groupby("judge")["scorer"].unique()
        if len({frozenset(each) for each in named}) > 1:
            listed = ", ".join(f"{judge}: {' and '.join(scorers)}" for judge, scorers in named.items())
            fix = "To compare the judges, let each return its value, or a Feedback without a name."
            yield f"Feedbacks of judges have different names, which are different scorers ({listed}). {fix}"


def _failed_answers(answers: Answers, rows: int = 0) -> dict[Place, str]:
    """Return row and repeat -> trace, of those answers in place of which the app raised.

    Raises
    ------
    L3DError
        If there are fewer answers than `rows`, or all of these failed; then the traces need their spans.
    """
    failed = {place: trace for place, trace in answers.items() if trace.info.state.value == "ERROR"}
    if len(answers) < rows:
        fix = "Check that tracing is on and not sampled, or use fewer workers."
        raise L3DError(f"predict_fn: only {len(answers)} of {rows} answers have a trace on the server. {fix}")
    if rows and len(failed) == rows:
        reason = next(iter(failed.values())).data.spans[0].status.description[:300]
        raise L3DError(f"predict_fn: failed on all {rows} rows ({reason}). Correct it, or the data.")
    return {place: str(trace.info.trace_id) for place, trace in failed.items()}
