"""The result of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import pandas as pd

from mlflow_l3d.analysis.comparison import SelfCheck
from mlflow_l3d.analysis.comparison.results import Comparison
from mlflow_l3d.analysis.intervals import known, with_interval
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.comparison.report import comparison_document
from mlflow_l3d.studies.comparison.report.words import ComparedParent, advice_on
from mlflow_l3d.studies.files import save_result, write_json, write_tables
from mlflow_l3d.studies.shown import OnOneScreen, built_once
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import AuxiliaryRun
from mlflow_l3d.tracking.pages import run_page


@dataclass(frozen=True, repr=False)
class ComparedRuns(OnOneScreen):
    """The result of a comparison of parent runs.

    Attributes
    ----------
    run_id
        The run with the result.
    parents
        The compared parent runs.
    comparison
        Differences, ranks, and over tasks.
    scores
        One row per run: task, system, score, and `pair`, which two runs with the configurations of the same run of the
        first system share.
    importances
        Which luck decides the differences: one row per pair and factor that both investigated, see
        :func:`mlflow_l3d.studies.comparison.reading.importances_of_differences`; may be empty.
    self_checks
        How often a difference was claimed for equal systems; empty without `self_check`.
    source
        The run, its page and its command, for the report.
    """

    run_id: str
    parents: tuple[ComparedParent, ...]
    comparison: Comparison
    scores: pd.DataFrame
    importances: pd.DataFrame
    self_checks: tuple[SelfCheck, ...] = ()
    source: Source = field(default_factory=Source)

    def to_frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return one row per pair and task in the units of the report; intervals hold for all rows together.

        Parameters
        ----------
        full
            Whether to return all numbers, scores as fractions, as :class:`Comparison` has them.
        """
        frame = self.comparison.to_frame()
        means = {"mean_first": "mean of first", "mean_second": "mean of second"}
        heads = {"difference": "difference", "difference_joint_low": "low", "difference_joint_high": "high"}
        shown = frame[["task", "first", "second", "verdict", *means, *heads]]
        return frame if full else unit_of(self.comparison.metric).heads(shown, means, heads)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the run."""
        metrics = self.comparison.metrics()
        if len(self.comparison.differences) == 1:
            of_factor = ("importance", *with_interval("importance_corrected"))
            for row in self.importances.to_dict("records"):
                metrics |= known({f"difference_{name}/{row['factor']}": row.get(name, math.nan) for name in of_factor})
        if self.self_checks:
            metrics["false_claims_nominal"] = self.self_checks[0].nominal
        return metrics | {f"false_claims/{check.what}": check.rate for check in self.self_checks}

    @built_once
    def report(self) -> Document:
        """Return the comparison as people read it."""
        settings = {}
        for each in self.parents:
            choices = [f"{name}={value}" for name, value in each.choices.items()]
            settings[f"{each.system} ({each.task})"] = ", ".join([*choices, f"run {each.run_id}"])
        return comparison_document(
            self.comparison,
            self.scores,
            self.importances,
            self.self_checks,
            parents=self.parents,
            source=self.source,
            settings=settings,
        )


def finish_comparison(opened: AuxiliaryRun, compared: ComparedRuns, tags: Mapping[str, str]) -> None:
    """Write tables, report and result to the run of a comparison, with links to the parents in its description."""
    comparison = compared.comparison
    frame = compared.to_frame(full=True)
    report = compared.report()
    parents = pd.DataFrame(compared.parents)[["task", "system", "run_id", "experiment_id"]]
    checks = [asdict(check) | {"rate": check.rate} for check in compared.self_checks]
    advice = [asdict(advice_on(each)) for each in comparison.differences]
    more = {"parents": parents, "metrics": compared.metrics(), "self_checks": checks, "advice": advice}
    without_functions = replace(comparison, metric=Metric(comparison.metric.name))
    document = {**asdict(without_functions), "metric": comparison.metric.name, **more}
    frames = {"differences": frame, "ranks": comparison.ranks_frame(), "over_tasks": comparison.over_tasks_frame()}
    frames |= {"importances": None if compared.importances.empty else compared.importances}
    frames |= {"self_check": pd.DataFrame(checks) if checks else None}
    links = [
        f"* {each.system}, {each.task}: [{each.run_id}]({run_page(each.experiment_id, each.run_id)})"
        for each in compared.parents
    ]
    note = report.description(report.about, *report.notes, "\n".join(links))
    tags = {names.INVESTIGATIONS: ",".join(each.run_id for each in compared.parents), names.NOTE: note, **tags}
    frame.to_csv(opened.folder / "differences.csv", index=False)
    compared.scores.to_parquet(opened.folder / "scores.parquet", index=False)
    write_json(opened.folder / "comparison.json", document, indent=2)
    save_result(opened.folder, compared)
    tables = write_tables(opened.folder, {f"{name}.json": each for name, each in frames.items()})
    opened.finish(metrics=compared.metrics(), tags=tags, tables=tables)
