import html
import math
import re
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.report.style import GRID, dress, new_figure, save_png, settings, to_svg, tooltip_url, typical_range
from mlflow_l3d.studies.investigation.report import figures
from mlflow_l3d.studies.investigation.report.heatmap import heatmap
from mlflow_l3d.studies.investigation.report.verdicts import Shown


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("shape", [(2, 2), (20, 10), (100, 10), (1, 5), (4, 60)])
def test_heatmap_draws_the_table_in_percentage_points(importance, shape):
    record = importance("data_order", rows=shape[0], columns=shape[1])
    figure = heatmap(record, metric=F1_MACRO)
    drawn = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(drawn, 100 * record.table)
    assert figure.axes[-1].get_ylabel() == "f1_macro (percentage points)"


def test_small_heatmap_shows_cells_means_and_stds_as_numbers(importance):
    record = importance("data_order", rows=3, columns=2, missing=[(1, 0)])
    cells, means, stds, bar = heatmap(record, metric=F1_MACRO).axes
    shown = 100 * record.table
    assert texts(cells) == [f"{value:.1f}" for value in shown.ravel() if np.isfinite(value)]
    assert texts(means) == [f"{np.nanmean(row):.2f}" for row in shown]
    assert texts(stds) == [f"{np.nanstd(row):.2f}" for row in shown]
    assert means.get_title() == f"row mean\nstd {100 * record.mitigated_std:.2f}"
    assert stds.get_title() == f"row std\nmean {100 * record.contributed_std:.2f}"
    assert bar.get_ylabel().endswith("hatched: no score")


def test_large_heatmap_shows_means_as_dots_and_stds_as_bars(importance):
    record = importance("data_order", rows=100, missing=[(7, 3)])
    cells, means, stds, _ = heatmap(record, metric=F1_MACRO).axes
    assert texts(cells) == []
    expected = 100 * np.nanmean(record.table, axis=1)
    np.testing.assert_allclose(means.lines[0].get_xdata(), expected)
    widths = [patch.get_width() for patch in stds.patches]
    np.testing.assert_allclose(widths, 100 * np.nanstd(record.table, axis=1))
    assert means.get_ylim() == stds.get_ylim() == (99.5, -0.5)


def test_missing_cells_are_masked_over_a_hatched_ground(importance):
    record = importance("data_order", missing=[(0, 1), (5, 5)])
    cells = heatmap(record, metric=F1_MACRO).axes[0]
    assert np.argwhere(np.ma.getmaskarray(cells.images[0].get_array())).tolist() == [[0, 1], [5, 5]]
    assert cells.patch.get_hatch()
    assert not heatmap(importance("data_order")).axes[0].patch.get_hatch()


def test_collapsed_run_does_not_take_the_colours(importance):
    record = importance("data_order")
    record.table[2, 2] = 0.33
    figure = heatmap(record, metric=F1_MACRO)
    low, high = figure.axes[0].images[0].get_clim()
    assert 70 < low < high < 90
    assert "33.0" in texts(figure.axes[0])


def test_typical_range():
    assert typical_range(np.array([1.0, 2.0, 3.0, 4.0, 100.0])) == (1.0, 4.0)
    assert typical_range(np.array([5.0, 5.0, math.nan])) == (4.5, 5.5)
    assert typical_range(np.array([math.nan])) == (0.0, 100.0)
    low = np.nextafter(0.1, 1)
    assert typical_range(np.array([low, low + 2 * np.spacing(low)])) == (low, low + 2 * np.spacing(low))


def test_bars_are_sorted_and_show_both_scores(six):
    axes = figures.importance_bars(Shown(six)).axes[0]
    published = sorted((record.importance for record in six.importances.values()), reverse=True)
    np.testing.assert_allclose([patch.get_width() for patch in axes.patches], published)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert [six.importances[name].importance for name in names] == published
    corrected = [six.importances[name].importance_corrected for name in names]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), corrected)
    whiskers = [segment[:, 0].tolist() for segment in axes.collections[0].get_segments()]
    bounds = [
        [six.importances[name].importance_corrected_ci_low, six.importances[name].importance_corrected_ci_high]
        for name in names
    ]
    np.testing.assert_allclose(whiskers, bounds)


def test_convergence_draws_the_path_in_order_of_rows(importance, path):
    frame = path(importance("data_order"))
    axes = figures.convergence(frame.sample(frac=1, random_state=1), "data_order").axes[0]
    corrected, published = axes.lines[0], axes.lines[1]
    np.testing.assert_array_equal(published.get_xdata(), frame["rows"])
    np.testing.assert_allclose(published.get_ydata(), frame["importance"])
    np.testing.assert_allclose(corrected.get_ydata(), frame["importance_corrected"])
    assert texts(axes)[-1] == f"{frame['importance'].iloc[-1]:+.2f}".replace("-", "\N{MINUS SIGN}")
    assert frame["rows"].is_monotonic_increasing, "the caller's frame stays as it was"


def test_golden_distribution_counts_every_run_once(six):
    panels = figures.golden_distribution(Shown(six)).axes
    assert len(panels) == 7
    assert panels[0].get_ylabel().startswith("golden runs\n")
    for panel in panels:
        assert sum(patch.get_height() for patch in panel.patches) == pytest.approx(1)
    record = Shown(six).records[0]
    assert panels[1].get_ylabel() == (
        f"{record.factor}\n{100 * record.table.mean():.2f} ± {100 * record.table.std():.2f}"
    )


def test_golden_distribution_counts_outliers_at_the_edge(importance, analysis):
    record = importance("data_order")
    record.table[2, 2:4] = (0.33, 0.2)
    record.golden[0] = 0.99
    golden, table = figures.golden_distribution(Shown(analysis([record]))).axes
    assert texts(golden) == ["1 above, highest 99.0 →"]
    assert texts(table) == ["← 2 below, lowest 20.0"]
    assert sum(patch.get_height() for patch in table.patches) == pytest.approx(198 / 200)


@pytest.mark.slow
def test_png_is_the_same_twice_and_carries_no_metadata(importance, tmp_path):
    record = importance("data_order", rows=4, columns=3, missing=[(1, 1)])
    for name in ("a.png", "b.png"):
        save_png(heatmap(record, metric=F1_MACRO), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        assert set(image.info) <= {"dpi"}
        assert image.width == round(7.6 * 150)


def test_svg_follows_the_page_and_has_ids_of_its_own(importance):
    record = importance("data_order", rows=4, columns=3, missing=[(1, 1)])
    first = to_svg(heatmap(record, metric=F1_MACRO), "one")
    assert first == to_svg(heatmap(record, metric=F1_MACRO), "one")
    assert "<metadata" not in first
    assert 'id="one-figure_1"' in first
    assert "var(--ink)" in first


def test_marks_tell_their_numbers_without_a_script():
    with settings():
        figure = new_figure(2)
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], url=tooltip_url('a <b> & "c"', "2.00"))
        axes.scatter([0, 1, 2], [0, 1, 0], urls=[tooltip_url(f"run {at}") for at in range(3)])
    titles = re.findall(r'<g class="told"><title>(.*?)</title>\s*<(path|use|g)', to_svg(figure, "f"), flags=re.DOTALL)
    assert {html.unescape(title) for title, _ in titles} == {'a <b> & "c"\n2.00', "run 0", "run 1", "run 2"}
    assert "told:" not in to_svg(figure, "f")


def test_figures_leave_no_global_state(importance, path, tmp_path):
    record = importance("data_order", rows=3, columns=3)
    before = dict(mpl.rcParams)
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    save_png(figures.convergence(path(record), "a"), tmp_path / "a.png")
    to_svg(heatmap(record, metric=F1_MACRO), "a")
    assert dict(mpl.rcParams) == before
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


@pytest.mark.slow
def test_neither_import_nor_drawing_loads_pyplot():
    code = (
        "import sys, numpy as np\n"
        "from mlflow_l3d.studies.investigation.report import figures, heatmap, page\n"
        "from mlflow_l3d.report.style import save_png\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from mlflow_l3d.analysis.importance.results import Importance\n"
        "record = Importance('a', *[0.1] * 10, np.eye(3), np.arange(3.0), 3, 0, 0)\n"
        "save_png(heatmap.heatmap(record), sys.argv[1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "/dev/null"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
