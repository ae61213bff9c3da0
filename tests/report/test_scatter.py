"""Dots over two axes."""

import re

import numpy as np

from mlflow_l3d.report.draw import Axis
from mlflow_l3d.report.plots import scatter


def test_the_larger_value_is_above_and_what_is_hollow_is_marked():
    places, values = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    more = {"names": ["low", "high"], "hollow": [1], "line": values}
    drawn = scatter(places, values, Axis.over(values), [(0.0, "x")], "l", **more)
    dots = re.findall(r'<circle class="dot( hollow)?" data-run="" cx="([\d.]+)%" cy="([\d.]+)"', drawn)
    assert [hollow for hollow, *_ in dots] == ["", " hollow"]
    (first, low), (last, high) = [map(float, place) for _, *place in dots]
    assert first < last
    assert low > high
    assert drawn.count('class="mean"') == 2
