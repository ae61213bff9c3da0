"""A real search of two stages, as people see it."""

import math
import re

import pytest
from search_cases import Climb
from search_stages import Search, space_of

from mlflow_l3d.analysis.search import SearchResult
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.search.page import drawn, render, summary
from mlflow_l3d.studies.search.importances import importances
from mlflow_l3d.studies.search.results import best_of, stage_summary, trials_table
from mlflow_l3d.studies.search.samplers import grid_settings

DEFAULT = {"x": 0.9, "kind": "a", "epochs": 8}


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    def run(search, trials, queue, best):
        return search.stage(hear).run(trials, InlineExecutor(job=search.job), queue, best=best)

    heard = {}

    def hear(trial):
        if trial.outcome is not None:
            heard[trial.key] = {**trial.outcome.metrics, "duration_seconds": trial.outcome.duration_seconds}

    folder = tmp_path_factory.mktemp("search")
    first = Search(folder, space=space_of("x=0..1,epochs=1..16,kind=a|b|broken"), pruner="median")
    grid = grid_settings(first.space, trials=27, seed=0, done=[DEFAULT])
    coarse = run(first, 28, [DEFAULT, *grid], None)
    best = best_of(coarse)
    second = Search(folder, space=first.space.around(best.params))
    fine = run(second, 8, [], best)
    default = resolve_hyperparameters(Climb(), {})
    trials = {"coarse": coarse, "fine": fine}
    shares, note = importances(first.space, coarse, seed=0)
    names = list(first.space.ranges)
    return SearchResult(
        title="climb on synthetic: search",
        metric=named("height"),
        stages=(
            stage_summary("coarse", "grid", first.space.ranges, coarse),
            stage_summary("fine", "tpe", second.space.ranges, fine),
        ),
        trials=trials_table(
            trials, names, default=default, run_of=lambda key: "f" * 32 if key == coarse[0].key else "", metrics=heard
        ),
        best=best_of(fine).hyperparameters,
        default=default,
        best_score=best_of(fine).score,
        default_score=coarse[0].score,
        importances=shares,
        configurations=1,
        validation_examples=20,
        seconds=3.0,
        notes=(note,) if note else (),
    )


def test_counts(searched):
    coarse, fine = searched.stages
    assert coarse.trials == coarse.complete + coarse.pruned + coarse.failed == 28
    # All of the kind that is broken, and those that the approach refuses.
    assert coarse.failed >= 9
    assert coarse.pruned > 0
    assert (fine.trials, fine.failed) == (8, 0)
    assert fine.best_score >= coarse.best_score
    assert "kind" not in fine.ranges
    assert len(searched.trials) == 28 + 9
    assert list(searched.trials["origin"]).count("taken over") == 1
    assert searched.trials["is_default"].sum() == 1
    assert searched.trials["run_id"][0] == "f" * 32
    assert math.isfinite(searched.trials["duration_seconds"][0])


@pytest.mark.slow
def test_page_pictures_and_text(searched):
    figures = drawn(searched)
    page = render(searched, figures, settings={})
    assert list(figures) == ["importances", "history", "slice"]
    assert len(re.findall("<figure", page)) == 3
    assert set(searched.importances) == {"x", "epochs", "kind"}
    assert "taken over" in page
    text = summary(searched)
    assert f"{100 * searched.best_score:.2f}" in text
    assert "The best of 36 trials looks better" in " ".join(text.split())
