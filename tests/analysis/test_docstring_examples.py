"""Examples in docstrings of public functions give what they say."""

from __future__ import annotations

import doctest
import sys

import pytest

from mlflow_l3d.analysis.comparison.leave_out import least_error
from mlflow_l3d.analysis.consistency.runs import consistency
from mlflow_l3d.analysis.importance.importance import importance, radial_importance
from mlflow_l3d.studies.seeds.numbers.study import seeds_study


@pytest.mark.parametrize("function", [importance, radial_importance, consistency, seeds_study, least_error])
def test_the_example_of_a_function_gives_what_it_says(function) -> None:
    names = vars(sys.modules[function.__module__])
    (example,) = doctest.DocTestFinder(recurse=False).find(function, function.__name__, globs=names)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
