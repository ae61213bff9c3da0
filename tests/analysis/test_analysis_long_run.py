"""What the published importance tends to, and the verdict: simulated tables whose truth is known."""

import math

import numpy as np
import pytest
from checks_cases import checks_of
from scipy import stats

from mlflow_l3d.analysis.importance import importance, radial_importance
from mlflow_l3d.analysis.importance.estimators import CROSSED, LEVELS, NESTED
from mlflow_l3d.analysis.importance.long_run import published_interval
from mlflow_l3d.analysis.importance.variances import std_shrinkage
from mlflow_l3d.analysis.importance.verdicts import joint_level, verdict_of
from mlflow_l3d.analysis.intervals import jackknife_variance

MITIGATED = 0.72


def uneven(generator, rows, columns):
    """Rows whose spreads have mean 1 and a squared coefficient of variation of 1."""
    spread = generator.standard_exponential((rows, 1))
    others = math.sqrt(MITIGATED) * generator.standard_normal((rows, 1))
    return others + spread * generator.standard_normal((rows, columns))


def test_the_two_importances_have_an_interval_each_and_differ_for_good():
    generator, held = np.random.default_rng(0), np.zeros(4)
    published = (1 - math.sqrt(MITIGATED)) / math.sqrt(2 + MITIGATED)
    corrected = (math.sqrt(2) - math.sqrt(MITIGATED)) / math.sqrt(2 + MITIGATED)
    for _ in range(40):
        record = importance(uneven(generator, 80, 8), uneven(generator, 400, 1)[:, 0], model=NESTED)
        ends = [(record.importance_ci_low, record.importance_ci_high), record.corrected_interval]
        held += [low <= truth <= high for low, high in ends for truth in (published, corrected)]
    assert held[0] >= 35
    assert held[1] <= 25
    assert held[2] <= 25
    assert held[3] >= 30  # variances of exponential spreads have a long tail


@pytest.mark.parametrize(("model", "sure"), [(CROSSED, True), (NESTED, True), (CROSSED, False), (NESTED, False)])
def test_the_interval_is_that_of_each_row_column_and_golden_run_left_out(model, sure):
    generator = np.random.default_rng(7)
    table = generator.standard_normal((9, 1)) * (2 if sure else 0.1) + generator.standard_normal((9, 6)) / 3
    table, golden = table + generator.standard_normal((1, 6)) / 9, 9 * generator.standard_normal(15)

    def of(scores):
        within = (scores.std(axis=1, ddof=1) / std_shrinkage(scores.shape[1] - 1)).mean()
        return within, max(0.0, model.estimate(scores).squares.mitigated) ** 0.5

    axes = (0, 1) if model is CROSSED else (0,)
    left = [np.array([of(np.delete(table, unit, axis)) for unit in range(table.shape[axis])]) for axis in axes]
    (within, of_rows), std = of(table), golden.std(ddof=1)
    logs = np.log([np.delete(golden, run).std() for run in range(15)])
    of_log = math.sqrt(sum(jackknife_variance(np.log(each[:, 0])) for each in left))
    quantile = stats.t.ppf(0.975, min(len(each) for each in left) - 1)
    centre = (within - of_rows) / std
    if sure:
        gaps = [(each[:, 0] - each[:, 1]) / std for each in left]
        centre -= sum((len(each) - 1) * (each.mean() - centre) for each in gaps)
        error = sum(map(jackknife_variance, [*gaps, centre * logs])) - (within / std * of_log) ** 2
        rest, limits = quantile * math.sqrt(max(0.0, error)), (0.0, 0.0)
    else:
        rest = quantile * abs(centre) * math.sqrt(jackknife_variance(logs))
        limits = [math.sqrt(end) - of_rows for end in reversed(model.estimate(table).squares.mitigated_limits(0.95))]
    parts = [within * math.expm1(sign * quantile * of_log) for sign in (-1, 1)]
    low, high = (math.hypot(rest, math.hypot(*each) / std) for each in zip(parts, limits, strict=True))
    assert published_interval(table, golden, model) == pytest.approx((centre - low, centre + high))


@pytest.mark.parametrize("model", [pytest.param(CROSSED, marks=pytest.mark.slow), NESTED, LEVELS])
def test_what_a_factor_moves_has_no_bias_and_rows_of_levels_show_their_spread(model):
    generator, found = np.random.default_rng(1), []
    for _ in range(300 if model is CROSSED else 20):
        table = generator.standard_normal((6, 1)) + 2 * generator.standard_normal((1, 5))
        table = table + 0.1 * generator.standard_normal((6, 5))
        found.append(importance(table, [0.0, 1.0, 3.0], model=model))
    if model is CROSSED:  # five columns: the root of tau2 is 6 % too small on average
        assert np.mean([each.moves_by_std for each in found]) == pytest.approx(math.sqrt(4.01), rel=0.05)
        assert np.mean([math.sqrt(each.components.contributed) for each in found]) < 0.96 * math.sqrt(4.01)
    if model is LEVELS:
        spreads = found[0].table.std(axis=1)
        ratio = spreads.var(ddof=1) / (spreads.mean() ** 2 - spreads.var(ddof=1) / 6)
        assert found[0].unevenness == pytest.approx(ratio)
    for each in found[:20]:
        assert -1 <= each.importance_ci_low <= each.importance <= each.importance_ci_high <= max(1, each.importance)


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("model", [CROSSED, NESTED])
def test_an_interval_contains_its_estimate(model, scale):
    """Golden runs that vary less than the table put the published importance outside -1 to 1."""
    generator, sizes = np.random.default_rng(5), set()
    for factor in (scale, 1 / scale):
        table = generator.standard_normal((6, 1)) / factor + factor * generator.standard_normal((6, 5))
        record = importance(table, 0.3 * generator.standard_normal(20) * table.std(), model=model)
        assert record.importance_ci_low <= record.importance <= record.importance_ci_high
        assert record.importance_corrected_ci_low <= record.importance_corrected <= record.importance_corrected_ci_high
        sizes.add(abs(record.importance) > 1)
    assert scale == 1 or True in sizes


def test_halves_of_rows_that_contradict_each_other_show_no_unevenness():
    spread = np.arange(1.0, 7.0)
    assert importance(np.stack([0 * spread, 0 * spread, spread, 7 - spread], axis=1), [1, 2, 3]).unevenness == 0


def test_pairs_do_not_show_how_rows_are_spread():
    generator = np.random.default_rng(2)
    (record,) = radial_importance(generator.normal(size=30), {"f": generator.normal(size=30)}).values()
    assert np.isnan([record.importance_ci_low, record.importance_ci_high, record.unevenness]).all()
    assert record.moves_by_std > math.sqrt(record.components.contributed)


@pytest.mark.parametrize(("rows", "columns", "tail"), [(20, 10, "log-normal"), (4, 10, "normal"), (3, 3, "normal")])
def test_long_tails_and_few_rows_have_no_verdict(rows, columns, tail):
    """True importance 0: without the rule 14 % of log-normal nested tables have a false one."""
    generator, words = np.random.default_rng(3), set()
    draw = generator.lognormal if tail == "log-normal" else generator.normal
    for _ in range(25):
        table = draw(size=(rows, 1)) + draw(size=(rows, columns))
        golden = draw(size=rows * columns) + draw(size=rows * columns)
        record = importance(table, golden, factor="f", model=NESTED)
        words.add(verdict_of(record, checks_of({"f": record}, golden)).word)
    assert words == {"undecided"}


def test_equal_rows_and_equal_columns_are_decided_by_many_rows_alone():
    generator = np.random.default_rng(4)
    columns = np.repeat(generator.standard_normal((1, 8)), 12, axis=0)
    for rows, word in ((6, "undecided"), (12, "dominates")):
        record = importance(columns[:rows] + 1e-3 * generator.standard_normal((rows, 8)), [0.0, 1.0], factor="f")
        assert verdict_of(record).word == word
    assert verdict_of(importance(columns.T[:, :1] @ np.ones((1, 6)), [0.0, 1.0])).word == "undecided"
    assert joint_level(0.95, 5) == pytest.approx(0.99)
