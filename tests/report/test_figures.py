import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from mlflow_l3d.report.style import GRID, dress, new_figure, save_png, to_svg


def drawn():
    figure = new_figure(2)
    axes = figure.subplots()
    dress(axes, title="a title", x="an axis")
    axes.plot([0, 1], [0, 1])
    return figure


@pytest.mark.slow
def test_png_is_the_same_twice_and_carries_no_metadata(tmp_path):
    for name in ("a.png", "b.png"):
        save_png(drawn(), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        assert set(image.info) <= {"dpi"}
        assert image.width == round(7.6 * 150)


def test_svg_follows_the_page_and_has_ids_of_its_own():
    first = to_svg(drawn(), "one")
    assert first == to_svg(drawn(), "one")
    assert "<metadata" not in first
    assert 'id="one-figure_1"' in first
    assert "var(--ink)" in first


def test_figures_leave_no_global_state(tmp_path):
    before = dict(mpl.rcParams)
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    save_png(drawn(), tmp_path / "a.png")
    to_svg(drawn(), "a")
    assert dict(mpl.rcParams) == before
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


def test_all_ticks_are_quiet():
    figure = new_figure(2.0)
    axes = figure.add_subplot()
    dress(axes)
    axes.plot([3, 300], [0, 1])
    axes.set_xscale("log")
    figure.canvas.draw()
    ticks = [axes.xaxis.get_major_ticks(), axes.xaxis.get_minor_ticks(), axes.yaxis.get_major_ticks()]
    assert all(ticks)
    assert {tick.tick1line.get_color() for each in ticks for tick in each} == {GRID}
