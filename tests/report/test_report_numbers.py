"""Numbers as people read them."""

import math

import pytest

from mlflow_l3d.report.numbers import between, duration, plain, signed


@pytest.mark.parametrize(
    ("value", "unsigned", "with_sign"), [(-0.001, "0.00", "-0.00"), (-0.0, "0.00", "+0.00"), (-0.006, "-0.01", "-0.01")]
)
def test_a_zero_has_a_sign_only_where_signs_say_something(value, unsigned, with_sign):
    assert (plain(value), signed(value)) == (unsigned, with_sign)


def test_an_interval_that_holds_zero_shows_it():
    assert between(-0.004, 0.9) == "-0.00 to +0.90"
    assert between(-0.004, float("nan")) == "n/a"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (59.94, "59.9 s"), (59.97, "1 min 00 s"), (754, "12 min 34 s"), (7261, "2 h 01 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
    assert duration(math.nan) == "n/a"
