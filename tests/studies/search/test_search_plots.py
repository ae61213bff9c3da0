import json
import math
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import optuna
import pytest
from search_examples import DEFAULT, KINDS, coarse, fine, grid, study, true_score

from mlflow_l3d.errors import L3DError
from mlflow_l3d.studies.search.report import plots as module
from mlflow_l3d.studies.search.report.figures import PALE
from mlflow_l3d.studies.search.report.pictures import save_pngs
from mlflow_l3d.studies.search.report.plots import plots
from mlflow_l3d.studies.search.results import CELL
from mlflow_l3d.studies.search.studies import in_points, log_ticks, two_lines

SHARES = {"learning_rate": 0.91, "layers": 0.03, "batch_size": 0.004}


@pytest.fixture(scope="module")
def drawn():
    return plots({"coarse": coarse(), "fine": fine()}, "f1_macro", SHARES)


def one(drawn, kind, level):
    return next(plot for plot in drawn if (plot.kind, plot.level) == (kind, level))


def test_every_kind_for_both_levels(drawn):
    kinds = {"history", "slice", "parallel_coordinate", "intermediate_values"}
    expected = {(kind, level) for kind in kinds for level in ("coarse", "fine")} | {("importances", "coarse")}
    assert {(plot.kind, plot.level) for plot in drawn} == expected
    assert {plot.title for plot in drawn} == {"level 1: coarse", "level 2: fine"}


def test_history_holds_percentage_points_of_complete_trials(drawn):
    best, points = one(drawn, "history", "coarse").figure.data
    complete = [trial for trial in coarse().trials if trial.state.name == "COMPLETE"]
    assert list(points.x) == [trial.number for trial in complete]
    assert list(points.y) == pytest.approx([100 * trial.value for trial in complete])
    assert max(best.y) == pytest.approx(max(points.y))
    assert list(best.y) == sorted(best.y)


def test_both_histories_have_one_scale(drawn):
    ranges = [one(drawn, "history", level).figure.layout.yaxis.range for level in ("coarse", "fine")]
    assert ranges[0] == ranges[1]
    scores = [100 * trial.value for each in (coarse(), fine()) for trial in each.trials if trial.value is not None]
    complete = [100 * true_score(DEFAULT), *scores]
    assert ranges[0][1] > max(complete)


def test_importances_are_ours_and_not_made_to_sum_to_one(drawn):
    (bars,) = one(drawn, "importances", "coarse").figure.data
    assert dict(zip(bars.y, bars.x, strict=True)) == pytest.approx({name: 100 * v for name, v in SHARES.items()})
    assert bars.text[0] == "<1 %"
    assert bars.y[-1] == "learning_rate"


def test_slice_has_a_panel_for_what_was_varied(drawn):
    figure = one(drawn, "slice", "coarse").figure
    titles = [axis.title.text for axis in figure.select_xaxes()]
    assert titles == ["batch_size", "layers", "learning_rate"]
    assert one(drawn, "slice", "coarse").width > one(drawn, "slice", "fine").width
    assert list(figure.layout.xaxis3.ticktext) == ["1e-5", "1e-4", "0.001", "0.01"]


def test_the_best_line_stands_out_and_lies_on_top(drawn):
    lines = one(drawn, "parallel_coordinate", "coarse").figure.data
    assert lines[-1].y[0] == max(line.y[0] for line in lines) == 1
    assert lines[-1].line.width > max(line.line.width for line in lines[:-1])


def test_pruned_trials_are_pale_in_the_curves(drawn):
    lines = one(drawn, "intermediate_values", "coarse").figure.data
    pale = [line.name for line in lines if line.line.color == PALE]
    assert sorted(pale) == ["Trial3", "Trial4"]
    assert lines[-1].y[0] == pytest.approx(100 * (0.8 - 0.1))


def test_documents_are_json_that_no_script_element_ends(drawn):
    names = {"</script><b>": KINDS["batch_size"], "learning_rate": KINDS["learning_rate"]}
    points = [{"</script><b>": size, "learning_rate": 1e-3} for size in (4, 8)]
    bad = plots({"coarse": study(points, lambda params: params["</script><b>"] / 10, names)}, "<!--", {})
    for plot in [*bad, *drawn]:
        text = plot.document()
        assert "<" not in text
        assert set(json.loads(text)) == {"data", "layout"}
    assert all(len(plot.document()) < 25_000 for plot in drawn)


def test_what_has_nothing_to_show_is_left_out():
    assert plots({"coarse": study([])}, "f1", {}) == []
    assert plots({"coarse": study(grid()[:2], failed=(0, 1))}, "f1", SHARES) == []
    single = plots({"coarse": study([grid()[0]], reports=False)}, "f1", {})
    assert [plot.kind for plot in single] == ["history"]
    json.loads(single[0].document())
    same = plots({"coarse": study(grid(), lambda params: 0.5, reports=False)}, "f1", {})
    assert {plot.kind for plot in same} == {"history", "slice", "parallel_coordinate"}


def test_reports_of_trials_of_which_none_is_complete_are_no_error():
    assert plots({"coarse": study(grid()[:3], pruned=(0, 1, 2))}, "f1", {}) == []


def test_first_trial_without_a_score():
    found = plots({"coarse": coarse(failed=(0,))}, "f1", {})
    best = found[0].figure.data[0]
    assert "Infinity" not in found[0].document()
    assert math.isinf(best.y[0])


def test_copy_in_points_keeps_numbers_and_the_study_as_it_is():
    original = coarse()
    copy = in_points(original)
    assert [trial.number for trial in copy.trials] == [trial.number for trial in original.trials]
    assert [trial.state for trial in copy.trials] == [trial.state for trial in original.trials]
    assert copy.best_value == pytest.approx(100 * original.best_value)
    assert original.best_value <= 1
    assert max(copy.trials[1].intermediate_values.values()) > 1


def test_unfinished_trials_and_defaults_outside_the_range():
    source = coarse()
    source.ask()
    rate = {"learning_rate": 0.5, "layers": 9, "batch_size": 64}
    source.add_trial(
        optuna.trial.create_trial(value=0.6, params={}, distributions={}, user_attrs={CELL: {"params": rate}})
    )
    copy = in_points(source)
    assert copy.trials[-2].state.name == "FAIL"
    # A choice that is none of the choices cannot be shown, numbers can.
    assert copy.trials[-1].params == {"learning_rate": 0.5, "layers": 9}
    assert source.trials[-1].params == {}
    assert len(plots({"coarse": source}, "f1", {})) == 4


def test_png_files(tmp_path):
    plt.close("all")
    mine = plt.figure()
    before = dict(mpl.rcParams)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        files = save_pngs({"coarse": coarse(), "fine": fine()}, "f1_macro", tmp_path)
    assert [str(warning.message) for warning in seen] == []
    assert [path.name for path in files] == ["history.png", "slice.png", "parallel_coordinate.png"]
    for path in files:
        pixels = plt.imread(path)
        height, width = pixels.shape[:2]
        assert 1100 <= width <= 1600
        assert 800 <= height <= 1100
        levels = (pixels[: height // 2, :, :3], pixels[height // 2 :, :, :3])
        assert all(np.mean(level < 0.9) > 0.005 for level in levels)
        assert path.stat().st_size < 600_000
    assert plt.get_fignums() == [mine.number]
    assert dict(mpl.rcParams) == before
    plt.close("all")


def test_pngs_are_the_same_bytes_again(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        save_pngs({"fine": fine()}, "f1_macro", folder)
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()


def test_pngs_of_little(tmp_path):
    assert save_pngs({"coarse": study([]), "fine": study([])}, "f1", tmp_path) == []
    single = save_pngs({"coarse": study([grid()[0]])}, "f1", tmp_path)
    assert [path.name for path in single] == ["history.png"]
    same = save_pngs({"coarse": study(grid(), lambda params: 0.5)}, "f1", tmp_path)
    assert len(same) == 3
    first_failed = save_pngs({"coarse": coarse(failed=(0,))}, "f$_{1$ \u00e9", tmp_path)
    assert len(first_failed) == 3


def test_ticks_and_names():
    assert log_ticks([1e-5, 1e-2, 3e-4]) == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2])
    assert log_ticks([1e-8, 1]) == pytest.approx([1e-8, 1e-5, 1e-2])
    assert log_ticks([2e-4, 5e-3]) == pytest.approx([2e-4, 1e-3, 5e-3])
    assert log_ticks([3.0, 3.0]) == [3.0]
    assert two_lines("freeze_embeddings", "|") == "freeze_|embeddings"
    assert two_lines("dropout", "|") == "dropout"


def test_missing_plotly_is_one_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(L3DError, match=r"pip install 'mlflow-l3d\[search\]'"):
        module.need_plotly()
