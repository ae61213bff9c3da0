"""Numbers as people read them."""

import pytest

from mlflow_l3d.report.numbers import between, plain, signed


@pytest.mark.parametrize(
    ("value", "unsigned", "with_sign"), [(-0.001, "0.00", "-0.00"), (-0.0, "0.00", "+0.00"), (-0.006, "-0.01", "-0.01")]
)
def test_a_zero_has_a_sign_only_where_signs_say_something(value, unsigned, with_sign):
    assert (plain(value), signed(value)) == (unsigned, with_sign)


def test_an_interval_that_holds_zero_shows_it():
    assert between(-0.004, 0.9) == "-0.00 to +0.90"
    assert between(-0.004, float("nan")) == "n/a"
