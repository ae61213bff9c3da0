from itertools import combinations

import numpy as np
import pytest

from mlflow_l3d.report.numbers import size_text
from mlflow_l3d.report.style import new_figure, settings
from mlflow_l3d.studies.seeds.report.figures import name_points, size_ticks


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ((240, 1000), [200, 500, 1000]),
        ((250, 363_846), [1e3, 1e4, 1e5]),
        ((64, 64), [64]),
        ((100, 100), [100]),
        ((2, 3e9), [1e1, 1e4, 1e7]),
    ],
)
def test_ticks_are_few_and_lie_within(sizes: tuple[float, float], wanted: list[float]) -> None:
    found = size_ticks(*sizes)
    assert found == pytest.approx(wanted)
    assert len(found) <= 4


def test_sizes_are_short() -> None:
    assert [size_text(size) for size in (64, 500, 1000, 2500, 1e5, 5e6)] == ["64", "500", "1k", "2.5k", "100k", "5M"]


def test_names_stand_clear_of_each_other() -> None:
    rng = np.random.default_rng(0)
    with settings():
        figure = new_figure(3.4)
        axes = figure.subplots()
        x, y = 10 ** rng.uniform(2, 5, 12), rng.uniform(0, 5, 12)
        axes.set_xscale("log")
        axes.plot(x, y, "o")
        axes.margins(x=0.12, y=0.12)
        figure.draw_without_rendering()
        name_points(axes, [f"task {at}" for at in range(12)], x, y)
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 12
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    frame = axes.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_as_many_points_as_there_are_in_one_place_are_named() -> None:
    with settings():
        figure = new_figure(3.4)
        axes = figure.subplots()
        same = np.full(9, 2.0)
        axes.plot(same, same, "o")
        figure.draw_without_rendering()
        name_points(axes, ["$x$"] * 9, same, same)
    assert [text.get_text() for text in axes.texts] == ["$x$"] * 9
