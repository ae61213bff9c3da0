"""The published method next to its baselines on one task (Pecher et al. 2024, Tables 1 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Unpack

import pandas as pd

from mlflow_l3d.analysis.importance.verdicts import (
    GOLDEN_ROW,
    StrategyResult,
    golden_strategy,
    interactions_strategy,
    strategy_frame,
    strategy_table,
)
from mlflow_l3d.analysis.intervals import known
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.parameters import with_signature
from mlflow_l3d.parameters.values import check_names
from mlflow_l3d.report.numbers import bracketed, signed, unit_of
from mlflow_l3d.report.page import Document, Item, Section
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.table import Table
from mlflow_l3d.report.text import Answer
from mlflow_l3d.studies.base import entry_point, say, specified
from mlflow_l3d.studies.dry_run import StudyPlan, plan_cells, record_plan
from mlflow_l3d.studies.files import save_result, write_tables
from mlflow_l3d.studies.investigation.report import golden_strip
from mlflow_l3d.studies.investigation.report.runs import Runs
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.report.words import steps
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.studies.investigation.run import InvestigationStudy
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.studies.strategies.parameters import STRATEGIES, StrategiesOptions
from mlflow_l3d.tasks.base import TaskLike
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.children import condition, found, search
from mlflow_l3d.tracking.connection import Client, connect
from mlflow_l3d.tracking.earlier import find_search
from mlflow_l3d.tracking.parent import current_experiment_id, set_tags

DESIGNS: Final = ("random", "fixed", "crossed")
"""In the paper's order; the last is the published method, *interactions*."""
_WORDS: Final = {True: "important", False: "not important", None: "without a verdict"}
_WHY: Final = {"random": "in its runs all factors vary.", "fixed": "in its runs the other factors never change."}


@dataclass(frozen=True, repr=False)
class ComparedStrategies(OnOneScreen):
    """What three strategies say about the same factors.

    Attributes
    ----------
    run_id
        The run that holds the table.
    investigations
        ``random``, ``fixed``, ``crossed`` -> the investigation.
    results
        One per factor and strategy, and that of the golden runs.
    title
        Of its report.
    """

    run_id: str
    investigations: Mapping[str, Investigation]
    results: tuple[StrategyResult, ...]
    title: str

    def table(self) -> pd.DataFrame:
        """Return the layout of the paper's Table 1: standard deviations in percentage points, ``(*)`` for important."""
        return strategy_table(self.results, scale=unit_of(self.investigations["crossed"].analysis.metric).scale)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per factor and strategy: std, golden_std, important, as fractions."""
        return strategy_frame(self.results)

    @built_once
    def report(self) -> Document:
        """Return the table and where the strategies differ, as people read it."""
        crossed = self.investigations["crossed"]
        done = ", ".join(f"{part.computed} for {name}" for name, part in self.investigations.items())
        reused = sum(part.reused for part in self.investigations.values())
        source = replace(crossed.about.source, run_id=self.run_id)
        document = strategies_document(crossed.analysis, self.results, title=self.title, source=source)
        line = f"runs computed: {done}; {reused} shared or taken from earlier runs; MLflow run {self.run_id}"
        return replace(document, lines=[line])


@with_signature(StrategiesOptions)
def strategies(
    task: TaskLike = None,
    *,
    approach: Approach | str | None = None,
    progress: bool | None = None,
    **parameters: Unpack[StrategiesOptions],
) -> ComparedStrategies:
    """Investigate the same factors by the strategies random, fixed and interactions (the published method).

    Each strategy is an investigation with the tag ``l3d.comparison``; all share the golden runs. The run with the
    table has the role ``comparison``.

    Parameters
    ----------
    task
        A name, a :class:`~mlflow_l3d.tasks.base.Task`, a pandas data frame, or a data set of the library `datasets`.
    approach
        The name of an approach, or an object: a :class:`~mlflow_l3d.approaches.base.Approach`.
    progress
        Whether to show progress on stderr; None shows it in a notebook and on a terminal.
    **parameters
        As for :func:`mlflow_l3d.studies.investigation.run.investigate`, without ``design`` and what belongs to one
        design.

    Returns
    -------
    ComparedStrategies
        The result; its runs are on the current MLflow tracking server.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> compared = mlflow_l3d.strategies(
    ...     "synthetic", approach="synthetic", factor="data_order",
    ...     investigation_runs=3, mitigation_runs=3, golden_runs=6, executor="inline",
    ... )
    >>> compared.table().loc["data_order"].to_dict()
    {'random': '9.653 (*)', 'fixed': '9.739 (*)', 'interactions': '9.281 (*)'}
    """
    with entry_point() as project_run:
        requests, title, texts = _specified(approach, task, parameters)
        client = connect()
        say(requests["crossed"].setup.origin.notes)
        with auxiliary_run(client, project_run.take(), role="comparison", title=title, parameters=texts) as opened:
            parts: dict[str, Investigation] = {}
            for design, request in requests.items():
                parts[design] = InvestigationStudy(request, progress=progress).run(_finished_part(client, request.key))
                set_tags(client, parts[design].run_id, {names.COMPARISON: opened.run_id})
            interactions = parts["crossed"].analysis.importances
            results = [golden_strategy(next(iter(interactions.values())).golden)]
            for factor, record in interactions.items():
                results += [parts[design].analysis.strategies[factor] for design in _WHY]
                results.append(interactions_strategy(record))
            metrics = {
                "golden_std" if each.strategy == "golden" else f"{each.strategy}_std/{each.factor}": each.std
                for each in results
            }
            about = requests["crossed"].setup.title("strategies")
            comparison = ComparedStrategies(opened.run_id, parts, tuple(results), about)
            frames = {"strategies.json": comparison.table().reset_index()}
            frames["strategy_results.json"] = comparison.to_frame()
            report = comparison.report()
            save_result(opened.folder, comparison)
            assert report.table is not None
            run_ids = ",".join(each.run_id for each in parts.values())
            tags = {names.INVESTIGATIONS: run_ids, names.NOTE: report.description(report.table.markdown())}
            opened.finish(metrics=known(metrics), tags=tags, tables=write_tables(opened.folder, frames))
    return comparison


@with_signature(StrategiesOptions)
def plan_strategies(
    task: TaskLike = None, *, approach: Approach | str | None = None, **parameters: Unpack[StrategiesOptions]
) -> StudyPlan:
    """Return what each strategy would train, what of it is done, and how long the rest takes; no run starts.

    Parameters
    ----------
    task, approach, **parameters
        Those of :func:`strategies`.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> plan = mlflow_l3d.plan_strategies("synthetic", approach="synthetic", golden_runs=50)
    >>> plan.to_frame()[["part", "cells"]]
          part  cells
    0   random    250
    1    fixed    250
    2  crossed    250
    """
    with entry_point() as project_run:
        requests, title, texts = _specified(approach, task, parameters)
        client = connect()
        return record_plan(client, project_run.run_id, plan_cells(client, title, requests), title, texts)


def _specified(
    approach: Approach | str | None, task: TaskLike, parameters: Mapping[str, object]
) -> tuple[dict[str, InvestigationRequest], str, dict[str, str]]:
    """Return the request of each strategy, what they are together, and the parameters as text."""
    check_names("parameter", parameters, STRATEGIES)
    searches = cache(find_search)  # the latest search is the same one for all strategies
    requests: dict[str, InvestigationRequest] = {
        design: specified(specify, approach, task, {**parameters, "design": design}, searches) for design in DESIGNS
    }
    crossed = requests["crossed"]
    texts = {name: crossed.given[name] for name in STRATEGIES}
    return requests, crossed.setup.title(f"strategies: {crossed.factor_words}"), texts


def _finished_part(client: Client, key: str) -> str | None:
    """Return the parent of a part that an interrupted comparison had finished, open again; None if there is none."""
    wanted = {names.INVESTIGATION_KEY: key, names.ROLE: "investigation", names.STATE: "complete"}
    for run in search(client, [current_experiment_id(client)], condition(wanted, "FINISHED")):
        comparison = run.data.tags.get(names.COMPARISON)
        whole = found(client.get_run, comparison) if comparison else None
        if whole is not None and whole.info.status in ("KILLED", "FAILED"):
            client.update_run(run.info.run_id, "RUNNING")
            return str(run.info.run_id)
    return None


def strategies_document(
    analysis: Analysis, results: Sequence[StrategyResult], *, title: str, source: Source
) -> Document:
    """Return what three strategies say as people read it; `analysis` and `source` are of the published method."""
    verdicts: dict[str, dict[str, bool | None]] = {factor: {} for factor in analysis.importances}
    for each in results:
        verdicts.get(each.factor, {})[each.strategy] = each.important
    opening = [Answer("What does the published method say?", "", (_said(verdicts, "interactions"),))]
    every: dict[str, Mapping[str, bool | None]] = {}
    for strategy, why in _WHY.items():
        differing = {name: by for name, by in verdicts.items() if by[strategy] is not by["interactions"]}
        said = f"By {strategy}, {_said(differing, strategy)[:-1]}: {why}" if differing else "**Nowhere.**"
        opening.append(Answer(f"Where does {strategy} differ?", "", (said,)))
        every |= differing
    which = f"{len(every)} of {len(verdicts)} factors"
    if len(every) in (0, len(verdicts)):
        which = f"all {len(verdicts)} factors" if len(verdicts) > 1 else "the factor"
    headline = f"Simpler strategies judge {which} {'otherwise than' if every else 'like'} the published method."
    if all(important is None for by in verdicts.values() for important in by.values()):
        headline = "No strategy gives a verdict: the golden runs do not differ."
    unit = unit_of(analysis.metric)
    frame = strategy_table(results, scale=unit.scale).rename(index={GOLDEN_ROW: "golden model"})
    note = (
        f"std in {unit.name}; (*) important: random and fixed from half of the golden std on, interactions if the "
        "importance is above 0."
    )
    table = Table(("factor", *frame.columns), tuple(map(tuple, frame.itertuples(name=None))), note)
    numbers = []
    for factor, record in analysis.importances.items():
        corrected = f"{signed(record.importance_corrected)} {bracketed(*record.corrected_interval)}"
        numbers.append(Item(f"importance {signed(record.importance)}, corrected {corrected}", factor))
    shown = Shown(analysis)
    return Document(
        title=title,
        headline=headline,
        about=source.about(analysis.metric),
        place=source.place(),
        answers=opening,
        drawing=golden_strip(shown, Runs()),
        table=table,
        steps=steps(shown, source)[:1],
        sections=[Section("What the published method measures", [numbers])],
    )


def _said(verdicts: Mapping[str, Mapping[str, bool | None]], strategy: str) -> str:
    """Return which of some factors a strategy calls important, and which not; `verdicts` are of all strategies."""
    parts = []
    for important, word in _WORDS.items():
        called = [name for name, by in verdicts.items() if by[strategy] is important]
        if called:
            more = f" and {len(called) - 4} more" if len(called) > 4 else ""
            parts.append(f"**{', '.join(called[:4])}{more}** {'is' if len(called) == 1 else 'are'} {word}")
    return f"{'; '.join(parts)}."
