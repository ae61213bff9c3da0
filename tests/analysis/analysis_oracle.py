"""Importance in plain Python loops, written from the formulas alone, to compare the package with."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np

from mlflow_l3d.analysis.consistency.comparisons import ClassComparison
from mlflow_l3d.analysis.consistency.examples import ExampleVotes, ranked_votes
from mlflow_l3d.analysis.consistency.groups import Group, consistency_of
from mlflow_l3d.analysis.consistency.runs import class_agreement, number_agreement
from mlflow_l3d.metrics.classification import UNPARSED


def example_votes_of_frame(frame, *, min_runs=2) -> ExampleVotes:
    """Examples of runs that may have different test sets, counted one by one."""
    ids = frame["example_id"].unique()
    width = int(max(frame["prediction"].max(), frame["label"].max())) + 2
    own = dict(iter(frame.groupby("example_id")))
    counts = [[int((own[each]["prediction"] == guess).sum()) for guess in range(UNPARSED, width - 1)] for each in ids]
    labels = np.array([own[each]["label"].iloc[0] for each in ids])
    return ranked_votes(np.asarray(ids), labels, np.array(counts), min_runs)


def consistency_matrixwise(predictions, labels) -> SimpleNamespace:
    """Agreement of runs with one test set, by short names."""
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    found = class_agreement(predictions, labels)
    con, ccon = found.pairs["consistency"], found.pairs["correct_consistency"]
    return SimpleNamespace(
        **found.together,
        consistency=con.mean,
        correct_consistency=ccon.mean,
        consistency_std=con.std,
        consistency_ci_low=con.mean_ci_low,
        consistency_ci_high=con.mean_ci_high,
        per_run=con.per_run,
        accuracy_mean=(predictions == labels).mean() if predictions.size else math.nan,
    )


def put(stability, phase, factor, row, column, predictions, ids=None, *, index=None, labels=None):
    """Add a run to a stability; its examples are numbered, and their labels 0, if nothing else is given."""
    numbers = np.arange(len(predictions))
    stability.add(
        phase=phase,
        factor=factor,
        row=row,
        column=column,
        index=index,
        example_ids=numbers if ids is None else ids,
        labels=0 * numbers if labels is None else labels,
        predictions=predictions,
    )


class VoteCounter:
    """Groups of runs with class numbers, by any names."""

    def __init__(self):
        self.compared = ClassComparison()

    def add(self, group, ids, labels, predictions):
        self.compared.add([Group("all", group)], np.asarray(ids), np.asarray(labels), np.asarray(predictions))

    def close(self, group):
        self.compared.groups[Group("all", group)].close()

    def result(self, name):
        return consistency_of(self.compared.of("all"), name)

    def per_group(self):
        return {group.member: consistency_of([one], "") for group, one in self.compared.groups.items()}

    def per_run(self):
        return {group.member: one.found for group, one in self.compared.groups.items()}


def regression_consistency(predictions) -> SimpleNamespace:
    """Agreement of predicted numbers, by short names."""
    found = number_agreement(np.asarray(predictions, dtype=float))
    pearson, ccc = found.pairs["consistency_pearson"], found.pairs["consistency_ccc"]
    return SimpleNamespace(
        **found.together,
        pearson=pearson.mean,
        pearson_std=pearson.std,
        concordance=ccc.mean,
        concordance_std=ccc.std,
        per_run_pearson=pearson.per_run,
        per_run_concordance=ccc.per_run,
    )
