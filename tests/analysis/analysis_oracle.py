"""Importance in plain Python loops, written from the formulas alone, to compare the package with."""

from __future__ import annotations

import math
import statistics

import numpy as np
from scipy import stats

from mlflow_l3d.analysis.stability.classes import ClassComparison
from mlflow_l3d.analysis.stability.comparable import Group
from mlflow_l3d.analysis.stability.examples import ExampleVotes, ranked_votes
from mlflow_l3d.analysis.stability.groups import consistency_of
from mlflow_l3d.analysis.stability.prediction_matrix import UNPARSED, PredictionMatrix


def published(table, golden):
    rows = len(table)
    row_means = [statistics.fmean(row) for row in table]
    contributed = sum(statistics.pstdev(row) for row in table) / rows
    mitigated = statistics.pstdev(row_means)
    golden_std = statistics.pstdev(golden)
    return {
        "contributed_std": contributed,
        "mitigated_std": mitigated,
        "golden_std": golden_std,
        "importance": (contributed - mitigated) / golden_std,
    }


def variances(table):
    """Contributed and (truncated) mitigated variance."""
    ms_r, ms_f, ms_e = mean_squares(table)
    return (ms_f - ms_e) / len(table) + ms_e, max(0.0, (ms_r - ms_e) / len(table[0]))


def mean_squares(table):
    """Of rows, columns and residuals."""
    m, n = len(table), len(table[0])
    row_means = [statistics.fmean(row) for row in table]
    column_means = [statistics.fmean(row[j] for row in table) for j in range(n)]
    grand = statistics.fmean(row_means)
    residual = 0.0
    for i in range(m):
        for j in range(n):
            residual += (table[i][j] - row_means[i] - column_means[j] + grand) ** 2
    return n * statistics.variance(row_means), m * statistics.variance(column_means), residual / ((m - 1) * (n - 1))


def corrected(table):
    tau2, s2_r = variances(table)
    share = tau2 / (tau2 + s2_r)
    return math.sqrt(share) - math.sqrt(1 - share)


def logit(table):
    tau2, s2_r = variances(table)
    share = tau2 / (tau2 + s2_r)
    return math.log(share / (1 - share))


def interval(table):
    """The jackknife interval; None where rows do not differ for certain and the package takes another one."""
    m, n = len(table), len(table[0])
    ms_r, _, ms_e = mean_squares(table)
    if ms_r / ms_e <= stats.f.ppf(0.975, m - 1, (m - 1) * (n - 1)):
        return None
    without_row = [logit([row for k, row in enumerate(table) if k != i]) for i in range(m)]
    without_column = [logit([[y for k, y in enumerate(row) if k != j] for row in table]) for j in range(n)]
    variance = 0.0
    for values in (without_row, without_column):
        mean = statistics.fmean(values)
        variance += (len(values) - 1) / len(values) * sum((value - mean) ** 2 for value in values)
    half = stats.t.ppf(0.975, min(m, n) - 1) * math.sqrt(variance)
    ends = []
    for end in (logit(table) - half, logit(table) + half):
        share = 1 / (1 + math.exp(-end))
        ends.append(math.sqrt(share) - math.sqrt(1 - share))
    return tuple(ends)


def example_votes_of_frame(frame, *, min_runs=2) -> ExampleVotes:
    """Examples of runs that may have different test sets, counted run by run."""
    matrix = PredictionMatrix.from_frame(frame, "run")
    width = int(max(matrix.predictions.max(initial=0), matrix.labels.max(initial=0))) + 2
    counts = [[int((column == guess).sum()) for guess in range(UNPARSED, width - 1)] for column in matrix.predictions.T]
    return ranked_votes(matrix.example_ids, matrix.labels, np.array(counts), min_runs)


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
        return {group.member: one.found.per_run for group, one in self.compared.groups.items()}
