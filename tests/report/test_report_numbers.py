"""Numbers as people read them."""

import math

import pytest

from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.numbers import between, duration, plain, signed, unit_of
from mlflow_l3d.report.text import effect_step
from mlflow_l3d.studies.investigation.report import share_cell


@pytest.mark.parametrize(
    ("value", "unsigned", "with_sign"), [(-0.001, "0.00", "-0.00"), (-0.0, "0.00", "+0.00"), (-0.006, "-0.01", "-0.01")]
)
def test_a_zero_has_a_sign_only_where_signs_say_something(value, unsigned, with_sign):
    assert (plain(value), signed(value)) == (unsigned, with_sign)


def test_an_interval_that_holds_zero_shows_it():
    assert between(-0.004, 0.9) == "-0.00 to +0.90"
    assert between(-0.004, float("nan")) == "n/a"


def test_small_scores_in_units_keep_two_digits():
    unit, percent = unit_of(named("mse")), unit_of(named("accuracy"))
    small = {0.0: "0.000", 0.00042: "0.00042", 0.0096: "0.0096", 0.0123: "0.012", 12.0: "12.000"}
    assert {value: unit.text(value) for value in small} == small
    assert (unit.change(-0.0004), unit.size(-0.0004), unit.typical(0.0004)) == ("-0.0004", "0.0004", "± 0.00040")
    sizes = {0.0: "0.0 points", 0.84: "0.84 points", 0.004: "0.004 points", 1.25: "1.2 points"}
    assert {value: percent.size(value / 100) for value in sizes} == sizes


@pytest.mark.parametrize(
    ("metric", "mean", "std", "text"),
    [
        ("accuracy", 0.876512, 0.000012, "87.6512 ± 0.0012"),
        ("accuracy", 0.8765, 0.0005, "87.65 ± 0.05"),
        ("accuracy", 0.8764, 0.02, "87.6 ± 2.0"),
        ("accuracy", 0.7, 0.0, "70.0 ± 0.0"),
        ("mse", 12.346, 0.00011, "12.34600 ± 0.00011"),
        ("mse", 12.346, 0.2, "12.346 ± 0.200"),
    ],
)
def test_a_mean_has_the_decimals_of_its_deviation(metric, mean, std, text):
    unit = unit_of(named(metric))
    assert f"{unit.text(mean, unit.digits(std))} {unit.typical(std)}" == text


def test_a_limit_is_not_rounded_onto_the_half_that_decides():
    assert share_cell(0.962, 0.504, 1.0, digits=0) == "96.2 %\n(50.4 to 100.0)"
    assert share_cell(0.2, 0.1, 0.49998, digits=0) == "20.000 %\n(10.000 to 49.998)"
    assert share_cell(0.6, 0.5, 0.8, digits=0) == "60 %\n(50 to 80)"
    assert share_cell(0.96, 0.64, math.nan) == "96.0 %"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (59.94, "59.9 s"), (59.97, "1 min 00 s"), (754, "12 min 34 s"), (7261, "2 h 01 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
    assert duration(math.nan) == "n/a"


@pytest.mark.parametrize(
    ("ends", "effect"), [((-0.0679, 0.1012), "11"), ((-0.05, 0.02), "5"), ((-0.0084, 0.003), "0.84")]
)
def test_the_smallest_effect_that_an_interval_settles_has_two_digits(ends, effect):
    (step,) = effect_step(ends, unit_of(named("accuracy")), "compare --smallest-effect {}".format)
    assert f"From {effect} points on, these runs settle it:" in step.text
    assert step.command == f"compare --smallest-effect {effect}"
