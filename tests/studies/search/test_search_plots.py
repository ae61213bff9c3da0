"""The figures of a search: what is drawn is what was found."""

import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from search_examples import DEFAULT, coarse, fine, grid, result, study, true_score

from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.search.figures import log_ticks, place_choices, two_lines
from mlflow_l3d.report.search.page import drawn
from mlflow_l3d.report.style import panels, save_png

KINDS_DRAWN = ["importances", "history", "slice"]


@pytest.fixture(scope="module")
def figures():
    return drawn(result({"coarse": coarse(), "fine": fine()}))


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_every_kind_for_both_levels(figures):
    assert list(figures) == KINDS_DRAWN
    assert titles(figures["history"]) == ["level 1: coarse", "level 2: fine"]
    assert [part.get_suptitle() for part in figures["slice"].subfigs] == ["level 1: coarse", "level 2: fine"]


def test_history_holds_percentage_points_of_complete_trials_on_one_scale(figures):
    best, points = figures["history"].axes[0].lines
    complete = [trial for trial in coarse() if trial.state == "complete"]
    assert list(points.get_xdata()) == [trial.number for trial in complete]
    assert list(points.get_ydata()) == pytest.approx([100 * trial.score for trial in complete])
    assert list(best.get_ydata()) == sorted(best.get_ydata())
    limits = [axes.get_ylim() for axes in figures["history"].axes]
    assert limits[0] == limits[1]
    assert limits[0][0] < 100 * true_score(DEFAULT) < limits[0][1]


def test_best_so_far_follows_the_direction_of_the_metric():
    studies = {"coarse": coarse()}
    best, points = drawn(result(studies, metric=named("mse")))["history"].axes[0].lines
    assert list(best.get_ydata()) == pytest.approx(np.minimum.accumulate(points.get_ydata()))


def test_importances_are_not_made_to_sum_to_one(figures):
    axes = figures["importances"].axes[0]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([91, 3, 0.4])
    assert [text.get_text() for text in axes.texts] == ["91 %", "3 %", "<1 %"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["learning_rate", "layers", "batch_size"]


def test_slice_has_a_panel_for_what_was_varied(figures):
    first, second = figures["slice"].subfigs
    assert [axes.get_xlabel() for axes in first.axes] == ["batch_size", "layers", "learning_rate"]
    assert [axes.get_xlabel() for axes in second.axes] == ["learning_rate"]
    assert [label.get_text() for label in first.axes[0].get_xticklabels()] == ["4", "8", "16"]
    assert [axes.get_xscale() for axes in first.axes] == ["linear", "linear", "log"]
    assert [label.get_text() for label in first.axes[2].get_xticklabels()] == ["1e-5", "0.0001", "0.001", "0.01"]
    strength = first.axes[0].collections[0].get_alpha()
    assert list(strength) == sorted(strength)


def test_what_has_nothing_to_show_is_left_out():
    def kinds(each, **more):
        return list(drawn(result({"coarse": each}, importances={}, **more)))

    assert kinds(study([])) == []
    assert kinds(study(grid()[:2], failed=(0, 1))) == []
    assert kinds(study(grid()[:3], pruned=(0, 1, 2))) == []
    assert kinds(study([grid()[0]])) == ["history"]
    assert kinds(study(grid(), lambda params: 0.5)) == ["history", "slice"]
    assert kinds(coarse(failed=(0,)), metric=named("f$_{1$ \u00e9")) == KINDS_DRAWN[1:]


def test_gaps_defaults_outside_the_range_and_many_hyperparameters(tmp_path):
    studies = {"coarse": coarse()}
    found = result(studies)
    stage = found.stages[0]
    more = {f"a_long_name_of_number_{at}": "linear" for at in range(6)}
    trials = found.trials.assign(**{name: np.arange(len(found.trials)) % 3 for name in more})
    trials.loc[1, ["batch_size", "learning_rate"]] = [64, 0.5]
    trials.loc[2, "layers"] = None
    wide = replace(stage, ranges={**stage.ranges, **more}, scales={**stage.scales, **more})
    figures = drawn(replace(found, trials=trials, stages=(wide,)))
    assert len(figures["slice"].axes) == 12
    for kind, figure in figures.items():
        save_png(figure, tmp_path / f"{kind}.png", 40)


@pytest.mark.slow
def test_pngs_are_small_and_the_same_bytes_again(figures, tmp_path):
    again = drawn(result({"coarse": coarse(), "fine": fine()}))
    for kind in ("history", "slice"):
        paths = tmp_path / f"{kind}.png", tmp_path / f"{kind}-again.png"
        for path, figure in zip(paths, (figures[kind], again[kind]), strict=True):
            save_png(figure, path)
        assert paths[0].read_bytes() == paths[1].read_bytes()
        assert plt.imread(paths[0]).shape[1] == 1140
        assert paths[0].stat().st_size < 200_000


def test_ticks_and_names():
    assert log_ticks(1e-5, 1e-2) == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2])
    assert log_ticks(1e-8, 1) == pytest.approx([1e-8, 1e-5, 1e-2])
    assert log_ticks(2e-4, 5e-3) == pytest.approx([2e-4, 1e-3, 5e-3])
    assert two_lines("freeze_embeddings") == "freeze_\nembeddings"
    assert two_lines("dropout") == "dropout"
    with panels(2.0) as (_, [axes]):
        places = place_choices(axes, pd.Series(["b", None, "a", 3], dtype=object))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3", "a", "b"]
    assert places[0] == 2
    assert math.isnan(places[1])
