"""Numbers as people read them."""

import math

import pytest

from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.numbers import between, duration, plain, signed, unit_of


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
    assert [unit.text(value) for value in (0.0, 0.00042, 0.0096, 0.0123, 12.0)] == [
        *("0.000", "0.00042", "0.0096", "0.012", "12.000"),
    ]
    assert (unit.change(-0.0004), unit.size(-0.0004), unit.typical(0.0004)) == ("-0.0004", "0.0004", "± 0.0004")
    assert [percent.size(value / 100) for value in (0.0, 0.84, 0.004, 1.25)] == [
        *("0.0 points", "0.84 points", "0.004 points", "1.2 points"),
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (59.94, "59.9 s"), (59.97, "1 min 00 s"), (754, "12 min 34 s"), (7261, "2 h 01 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
    assert duration(math.nan) == "n/a"
