"""Importance in plain Python loops, written from the formulas alone, to compare the package with."""

from __future__ import annotations

import math
import statistics
from types import SimpleNamespace

import numpy as np
from proof_oracle import counted_twice, crossed_shifts
from scipy import stats

from mlflow_l3d.analysis.consistency.classes import ClassComparison
from mlflow_l3d.analysis.consistency.comparable import Group
from mlflow_l3d.analysis.consistency.examples import ExampleVotes, ranked_votes
from mlflow_l3d.analysis.consistency.groups import consistency_of
from mlflow_l3d.analysis.consistency.runs import class_agreement, number_agreement
from mlflow_l3d.metrics.classification import UNPARSED


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
    variances = []
    for values in (without_row, without_column):
        mean = statistics.fmean(values)
        variances.append((len(values) - 1) / len(values) * sum((value - mean) ** 2 for value in values))
    variance = max(sum(variances) - counted_twice(np.array(table)), *variances)
    degrees = sum(variances) ** 2 / (variances[0] ** 2 / (m - 1) + variances[1] ** 2 / (n - 1))
    low, high = crossed_shifts(np.array(table), variance, stats.t.ppf(0.975, degrees))
    ends = []
    for end in (logit(table) - low, logit(table) + high):
        share = 1 / (1 + math.exp(-end))
        ends.append(math.sqrt(share) - math.sqrt(1 - share))
    return tuple(ends)


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
    left = [np.delete(predictions, run, axis=0) for run in range(len(predictions)) if len(predictions) > 1]
    without = [class_agreement(each, labels).pairs for each in left]
    return SimpleNamespace(
        **found.together,
        consistency=con.mean,
        correct_consistency=ccon.mean,
        consistency_std=con.std,
        correct_consistency_std=ccon.std,
        consistency_ci_low=con.mean_ci_low,
        consistency_ci_high=con.mean_ci_high,
        per_run=con.per_run,
        per_run_correct=ccon.per_run,
        accuracy_mean=(predictions == labels).mean() if predictions.size else math.nan,
        leave_one_out=np.array([each["consistency"].mean for each in without]),
        leave_one_out_correct=np.array([each["correct_consistency"].mean for each in without]),
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
        return {group.member: one.found.per_run for group, one in self.compared.groups.items()}


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
