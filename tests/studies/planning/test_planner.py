"""The plan before an investigation: what is counted, what it costs, how exact it will be, and where that is written."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from refusals import fails, refusal, refuses
from run_helpers import CELLS, SMALL, Place

import mlflow_l3d
from mlflow_l3d import cli
from mlflow_l3d.analysis.importance.estimate import importance_of_logit, total_index_of
from mlflow_l3d.analysis.importance.estimators import CROSSED
from mlflow_l3d.analysis.importance.variances import VarianceComponents
from mlflow_l3d.analysis.importance.verdicts import Verdict
from mlflow_l3d.analysis.planning.assurance import Outlook, optimal_columns
from mlflow_l3d.designs import base as designs
from mlflow_l3d.designs import design_named
from mlflow_l3d.report.numbers import rough_duration
from mlflow_l3d.studies.base import expected_workers
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.investigation.results import Investigation
from mlflow_l3d.studies.planning import pilot as pilot_module
from mlflow_l3d.studies.planning.pilot import FactorPilot, Pilot, pilot_parameters
from mlflow_l3d.studies.planning.result import PLAN_TABLES, Plan
from mlflow_l3d.studies.planning.run import _assemble
from mlflow_l3d.studies.planning.run import plan as plan
from mlflow_l3d.studies.planning.tables import cell_table, factor_table
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.earlier.reader import read_investigation

TWO = {"factor": "data_order,label_selection"}
BIGGER = {"mitigation_runs": 4, "golden_runs": 8}
"""Twice SMALL, of which it holds every cell: 20 cells, 10 of them in SMALL."""


@pytest.fixture(scope="module", autouse=True)
def _reckoned_once() -> Iterator[None]:
    """Keep the runs that equal variances need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(designs, "runs_needed", cache(designs.runs_needed))
        yield


def assumed_variances(total_index: float, main_share: float) -> VarianceComponents:
    """Return variances with a total of 1: S_T of it by the factor, and `main_share` of that by its main effect."""
    main = total_index * main_share
    return VarianceComponents(
        "crossed",
        "anova",
        rows=0,
        columns=0,
        contributed=total_index,
        mitigated=1 - total_index,
        main=main,
        interaction=total_index - main,
    )


def pilots(*names: str, outlook: Outlook, low: float = 0.0, high: float = 1.0) -> dict[str, FactorPilot]:
    """Return factor -> what a pilot said of it, the same of all."""
    return {name: FactorPilot(outlook, low, high, "x", same=True) for name in names or ("data_order",)}


LARGE = Outlook(replace(assumed_variances(0.8, 0.5), rows=20, columns=10))


def planned(**parameters: Any) -> Plan:
    return plan(**{**SMALL, "executor": "inline", **parameters})


def assembled(request: InvestigationRequest, pilot: Pilot) -> Plan:
    return _assemble(request, set(), pilot, assurance=0.8, pilot_run_id=None, why="")


def widest(text: str) -> int:
    """Return the length of the longest line; a command may be longer."""
    return max(len(line) for line in text.splitlines() if not line.startswith("    mlflow-l3d "))


def durations(place: Place) -> list[float]:
    return [run.data.metrics["duration_seconds"] for run in place.cells()]


def test_the_package_has_it() -> None:
    assert mlflow_l3d.plan is plan


def test_nothing_is_known_and_nothing_is_trained(place: Place) -> None:
    made = planned(**TWO)
    assert (made.cells, made.cells_done, made.cells_to_compute) == (16, 0, 16)
    assert made.counts.fillna("").to_numpy().tolist() == [
        ["investigation", "data_order", 6, 0, 6],
        ["investigation", "label_selection", 6, 0, 6],
        ["golden", "", 4, 0, 4],
    ]
    assert math.isnan(made.seconds_per_cell)
    assert math.isnan(made.hours)
    assert made.to_frame()["factor"].tolist() == ["data_order", "label_selection"]
    assert made.to_frame()["total_index"].isna().all()
    assert made.run_id is None
    assert place.runs() == []
    text = made.summary()
    assert "16 cells, 0 of them done on the tracking server, 16 to compute" in " ".join(text.split())
    assert "--pilot run" in text
    assert len(text.splitlines()) <= 25
    assert "n/a: not known from earlier investigations" in made.details()
    assert text.isascii()
    assert widest(text) <= 100


@pytest.mark.slow
def test_what_is_done_is_free_and_says_what_a_cell_costs(done: tuple[Place, Investigation]) -> None:
    place, _ = done
    made = planned(**BIGGER)
    assert (made.cells, made.cells_done, made.cells_to_compute) == (20, 10, 10)
    assert made.counts["done"].tolist() == [6, 4]
    assert made.seconds_per_cell == pytest.approx(np.mean(durations(place)))
    assert made.hours == pytest.approx(10 * made.seconds_per_cell / 3600)
    assert "mean of 10 finished cells with the same settings" in " ".join(made.summary().split())
    table = made.designs.set_index("design")
    assert table["cells"].to_dict() == {"crossed": 20, "nested": 20, "radial": 8}
    assert table.loc["crossed", "hours"] == pytest.approx(2 * made.hours)
    four = planned(executor="processes", workers=4, **BIGGER)
    assert (made.workers, four.workers) == (1, 4)
    assert four.hours == pytest.approx(made.hours / 4)
    none = planned(pilot="none", **BIGGER)
    assert (none.cells_done, none.cells_to_compute) == (10, 10)
    assert math.isnan(none.hours)


@pytest.mark.parametrize(
    ("executor", "workers", "expected"), [("ray", "auto", 1), ("ray", 8, 8), ("processes", 3, 3), ("inline", "auto", 1)]
)
def test_a_cluster_is_not_taken_for_this_machine(executor: str, workers: Any, expected: int) -> None:
    assert expected_workers(specify({**SMALL, "executor": executor, "workers": workers}).setup) == expected


@pytest.mark.slow
def test_a_budget_is_spent_where_it_says_most(done: tuple[Place, Investigation], tmp_path: Path) -> None:
    place, earlier = done
    scored = {"metric": "f1_macro", **BIGGER}
    made = planned(budget="50 cells", **scored)
    best = made.projection[made.projection["best"]].iloc[0]
    answers = pd.read_parquet(place.download(earlier.run_id, "predictions.parquet", tmp_path))
    # Whatever they cost: as many examples as a test set can have, fewer than occur, and the runs that are paid for.
    assert answers.loc[answers["phase"] == "golden", "example_id"].nunique() > 400
    assert (best["examples"], best["runs"]) == (400, 50)
    assert made.projection["half_width"].is_monotonic_decreasing
    assert made.document()["projection"][-1]["best"] is True
    text = made.summary()
    words = " ".join(text.split())
    assert "The budget gives the mean f1_macro to +- " in words
    assert " with 50 cells, each with 400 test examples." in words
    assert "What the budget says of the mean" in made.details()
    assert widest(text) <= 100
    asked = planned(budget="1000 requests", **scored).projection
    assert (asked["runs"] == 1000 // asked["examples"]).all()
    both = planned(budget="50 cells", **{**scored, "factor": "label_selection,model_initialisation"})
    assert both.pilot_run_id is None  # no factor in common, but golden runs with the same settings
    assert both.projection is not None
    few = planned(budget="2 cells", **scored)
    assert few.projection is None
    assert "budget=2 cells: it does not pay for 3 cells" in few.notes[-1]
    assert "pilot=run measures it" in planned(budget="1h", pilot="none", **BIGGER).notes[-1]
    assert "comes from the approach itself" in planned(budget="50 cells", **BIGGER).notes[-1]
    refuses("cells or requests", planned, budget="9 euros")


@pytest.mark.slow
def test_golden_runs_of_another_factor_are_done(done: tuple[Place, Investigation]) -> None:
    made = planned(factor="label_selection")
    assert (made.cells_done, made.cells_to_compute) == (4, 6)
    assert made.counts["done"].tolist() == [0, 4]
    assert any("label_selection" in note for note in made.notes)


def test_first_row_of_a_crossed_table_is_done_in_the_strategy_fixed(done: tuple[Place, Investigation]) -> None:
    made = planned(design="fixed")
    assert (made.cells, made.cells_done, made.cells_to_compute) == (CELLS, 3 + 4, 3)
    assert made.factors["half_width"].isna().all()
    assert "is a baseline strategy without an interval" in " ".join(made.summary().split())


def test_a_cell_at_two_places_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    request = specify(SMALL)
    cells = list(request.design().cells())
    twice = type("Twice", (), {"cells": lambda self: iter([*cells, *cells[:3]])})()
    monkeypatch.setattr(type(request), "design", lambda self: twice)
    counts = cell_table(request, {cells[0].key})
    assert counts[["cells", "done", "to_compute"]].sum().tolist() == [CELLS + 3, 2, CELLS - 1]


@pytest.mark.slow
def test_similar_runs_are_said_to_be_similar(done: tuple[Place, Investigation]) -> None:
    place, earlier = done
    made = planned(hyperparameters="noise=0.2")
    assert made.cells_done == 0
    assert made.seconds_per_cell == pytest.approx(np.mean(durations(place)))
    assert "other settings differ" in made.cost_source
    assert made.pilot_run_id == earlier.run_id
    assert made.factors["pilot_same"].tolist() == [False]
    assert any("similar at best" in note for note in made.notes)
    same = planned()
    assert not any("similar at best" in note for note in same.notes)
    none = planned(hyperparameters="noise=0.2", pilot="none")
    assert math.isnan(none.seconds_per_cell)
    assert none.factors["total_index"].isna().all()


def test_seconds_of_prompt_cells_are_those_of_as_many_test_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    studies = {
        "small": {"test_size": "auto", "resolved.test_size": "8"},
        "large": {"test_size": "'72'", "reference_size": "120"},
        "seeds": {"test_size": "auto"},  # records no number
        "own data": {"reference_size": "120"},
    }
    parents = [Mock(info=Mock(run_id=name), data=Mock(params=params)) for name, params in studies.items()]
    monkeypatch.setattr(pilot_module, "runs_named", lambda *_: parents)
    cells = [
        Mock(data=Mock(tags={names.PARENT_RUN_ID: name}, metrics={"duration_seconds": seconds}))
        for name, seconds in (("small", 2.0), ("large", 6.0), ("seeds", 50.0), ("own data", 60.0), ("small", math.nan))
    ]
    request = Mock(setup=Mock(task=Mock(first_split=Mock(test=range(400)))))
    assert pilot_module._similar_seconds(request, Mock(), cells) == [8.0, 24.0]
    assert pilot_module._similar_seconds(request, Mock(), cells[2:]) == []
    request.setup.approach.only_evaluates = False
    assert pilot_module._similar_seconds(request, Mock(), cells) == [2.0, 6.0, 50.0, 60.0]


@pytest.mark.slow
def test_variances_of_a_pilot_lead_to_the_numbers_of_the_analysis(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = place.investigate(mitigation_runs=3, golden_runs=2, **TWO)
    asked = {"investigation_runs": 10, "mitigation_runs": 30, "half_width": 0.2, **TWO}
    made, by_its_name = planned(**asked), planned(pilot=earlier.run_id, **asked)
    pd.testing.assert_frame_equal(by_its_name.factors, made.factors)
    assert by_its_name.pilot_run_id == made.pilot_run_id == earlier.run_id
    for row in made.factors.to_dict("records"):
        record = earlier.analysis.importances[row["factor"]]
        known = record.components
        outlook = Outlook.measured(known, CROSSED, CROSSED.estimate(record.table).without)
        assert row["total_index"] == pytest.approx(known.total_index)
        assert total_index_of(record.importance_corrected) == pytest.approx(known.total_index, abs=1e-6)
        assert row["low"] <= row["high"]
        assert row["half_width"] == pytest.approx(
            design_named("crossed").half_width(outlook, rows=30, columns=10, assurance=0.8)
        )
        assert row["nested_optimum"] == optimal_columns(min(known.total_index, 0.99))
        for design in ("crossed", "nested", "radial"):
            needed = design_named(design).needed(0.2, outlook, assurance=0.8)
            found = [row[f"{name}/{design}"] for name in ("rows", "columns", "cells")]
            assert [None if pd.isna(each) else each for each in found] == [needed.rows, needed.columns, needed.cells]
    designs = made.designs.set_index("design")
    for factor, record in earlier.analysis.importances.items():
        outlook = Outlook.measured(record.components, CROSSED, CROSSED.estimate(record.table).without)
        width = design_named("nested").half_width(outlook, rows=30, columns=10, assurance=0.8)
        assert designs.loc["nested", f"half_width/{factor}"] == pytest.approx(width)
    assert designs.loc["radial", "cells_needed"] == 3 * made.factors["cells/radial"].max()
    assert sum("data_order, label_selection (crossed 3 x 3) is too small" in note for note in made.notes) == 1
    assert widest(made.summary() + made.details()) <= 100
    assert "may not settle" not in made.summary()
    monkeypatch.setattr("mlflow_l3d.analysis.results.verdict_of", lambda *_: Verdict("undecided", "L3D013"))
    doubtful = planned(**asked).summary()
    both = "More runs may not settle data_order, label_selection: in the pilot, the scores have long tails"
    assert both in " ".join(doubtful.split())

    def without_spread(*given: Any) -> Any:
        recorded = read_investigation(*given)
        return replace(recorded, cells=recorded.cells.assign(**{str(made.request.metric): 0.5}))

    monkeypatch.setattr("mlflow_l3d.studies.planning.pilot.read_investigation", without_spread)
    for pilot in ("auto", earlier.run_id):
        note = f"All scores of run {earlier.run_id} are equal, so a pilot shows nothing of data_order"
        assert note in " ".join(planned(**asked, pilot=pilot).summary().split())


@pytest.mark.slow
@pytest.mark.parametrize("design", ["crossed", "radial"])
def test_a_pilot_that_is_run_is_part_of_the_plan(place: Place, design: str) -> None:
    rows = {"investigation_runs": 10, "mitigation_runs": 12} if design == "radial" else {"mitigation_runs": 4}
    size: dict[str, Any] = {"investigation_runs": 4, "golden_runs": "auto", "design": design, **rows}
    made = planned(pilot="run", **size)
    assert made.cells_done == 18  # nine and nine: golden runs, or the swaps
    assert [run.info.run_id for run in place.parents()] == [made.pilot_run_id]
    assert made.seconds_per_cell == pytest.approx(np.mean(durations(place)))
    assert np.isfinite(made.factors["total_index"]).all()
    whole = place.investigate(**size)
    assert (whole.reused, whole.computed) == (made.cells_done, made.cells_to_compute)
    after = planned(**size)
    assert after.cells_to_compute == 0
    assert after.pilot_run_id == whole.run_id


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"factor": "all", "golden_runs": "pooled"},
        {"design": "nested", "stop": "interval", "mitigation_runs": "auto", "golden_runs": "auto"},
        {"design": "radial", "investigation_runs": 10, "mitigation_runs": 40, "golden_runs": "auto"},
        {"design": "random"},
        {"design": "fixed"},
        {"design": "crossed", "factor": "data_order+label_selection", "joint": "product", "investigation_runs": 9},
        {"mitigation": "label_selection:0+1+2", "mitigation_runs": 5},
        {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 2},
    ],
)
def test_every_cell_of_a_pilot_is_a_cell_of_the_plan(parameters: dict[str, Any]) -> None:
    whole = specify({**SMALL, **parameters})
    small = specify({**SMALL, **parameters, **pilot_parameters(whole)})
    keys = {cell.key for cell in whole.design().cells()}
    pilot = {cell.key for cell in small.design().cells()}
    assert pilot <= keys
    assert len(pilot) <= len(keys)
    assert small.plan.stop == "none"


@pytest.mark.parametrize("logit", np.linspace(-8, 8, 17))
def test_share_is_the_inverse_of_importance(logit: float) -> None:
    assert total_index_of(importance_of_logit(float(logit))) == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-9)


@pytest.mark.parametrize(("total_index", "rows"), [(0.1, 3), (0.5, 3), (0.9, 3)])
def test_the_half_width_of_a_plan_follows_from_the_variances_of_its_pilot(total_index: float, rows: int) -> None:
    request = specify({**SMALL, "mitigation_runs": rows})
    known = assumed_variances(total_index, 0.5)
    table = factor_table(request, pilots(outlook=Outlook(known)), 0.8)
    assert table.loc[0, "half_width"] == pytest.approx(
        design_named("crossed").half_width(known, rows=rows, columns=3, assurance=0.8)
    )


@pytest.mark.parametrize(("columns", "small"), [(3, True), (40, False)])
def test_a_small_pilot_promises_nothing(columns: int, small: bool) -> None:
    known = replace(assumed_variances(0.5, 1.0), rows=20, columns=columns)
    pilot = Pilot(factors=pilots(outlook=Outlook(known), low=0.2, high=0.8))
    made = assembled(specify(SMALL), pilot)
    assert made.factors.loc[0, "pilot_enough"] == (not small)
    assert sum("is too small for a promise" in note for note in made.notes) == small
    assert sum("simulations 67 to 98 % of plans for 80 % are kept" in note for note in made.notes) == small
    assert ("A guess: the pilot is small." in made.summary()) is small
    assert (", small" in made.details()) is small
    assert "[0.20, 0.80]" in made.details()


@pytest.mark.parametrize(
    ("share", "half_width", "words"),
    [
        (0.5, 0.9, r"204 cells are enough for intervals of ± 0\.9; 204 to compute \(3 min\)\."),
        (0.5, 0.2, r"204 cells are too few for intervals of ± 0\.2; design=\w+ needs about [\d,]+ \(\d+ min\)\."),
        (0.3, 0.001, r"204 cells are too few for intervals of ± 0\.001\."),
    ],
)
def test_headline_says_whether_the_plan_is_exact_enough(share: float, half_width: float, words: str) -> None:
    variances = replace(assumed_variances(share, 0.5), rows=20, columns=10)
    known = pilots(outlook=Outlook(variances))
    size: dict[str, Any] = {"investigation_runs": 10, "mitigation_runs": 20, "half_width": half_width}
    made = assembled(specify({**SMALL, **size, "executor": "inline"}), Pilot(seconds=1.0, factors=known))
    assert re.fullmatch(words, made.report().headline)
    assert len(made.summary().splitlines()) <= 25
    needed = made.cheapest
    if needed is not None and "too few;" in made.report().headline:
        assert f"design={needed['design']} needs about {needed['cells_needed']:,.0f} " in made.report().headline


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"design": "nested", "golden_runs": "auto"},
        {"design": "crossed", "golden_runs": "pooled"},
        {"design": "nested", "stop": "interval", "mitigation_runs": 40},
        {"factor": "data_order,data_split+sample_choice", "joint": "product", "half_width": 0.6},
    ],
)
def test_the_advised_command_has_the_cells_that_the_advice_names(given: dict[str, Any]) -> None:
    """One factor needs many rows and another many columns; all tables of an investigation have one size."""
    request = specify({**SMALL, "factor": "all", "half_width": 0.15, "investigation_runs": 9, **given})
    shares = dict(zip(request.factors, (0.99, 0.3, *[0.01] * 9), strict=False))
    known = {
        name: FactorPilot(Outlook(replace(assumed_variances(share, 0.5), rows=9, columns=9)), 0, 1, "x", same=True)
        for name, share in shares.items()
    }
    made = assembled(request, Pilot(factors=known))
    [command] = [step.command for step in made.report().steps]
    options = shlex.split(command.partition(" --")[2])
    typed = {name.strip("-").replace("-", "_"): value for name, value in zip(options[::2], options[1::2], strict=True)}
    again = assembled(specify(typed), Pilot(factors=known))
    assert again.cells == made.cheapest["cells_needed"]
    assert again.factors["half_width"].max() <= request.plan.half_width


def test_an_advised_command_leaves_out_what_its_design_refuses() -> None:
    source = specify({**SMALL, **TWO, "design": "crossed", "golden_runs": "12", "investigation_runs": 5}).source("")
    assert {"--investigation-runs", "--golden-runs"} <= set(source.command().split())
    assert {"--investigation-runs", "--golden-runs"}.isdisjoint(source.command(design="radial").split())


def test_headline_without_a_pilot_and_without_an_interval() -> None:
    nothing = assembled(specify(SMALL), Pilot())
    exact = "a pilot shows what they cost and how exact the result is."
    assert nothing.report().headline == f"10 cells to compute; {exact}"
    unknown = "The cost is unknown: no cell of this task, approach and model has ended."
    assert unknown in " ".join(nothing.summary().split())
    equal = assembled(specify(SMALL), Pilot(equal="abc")).report()
    assert "all scores of run abc are equal" in equal.headline
    assert [step.command.endswith(" --self-test only") for step in equal.steps] == [True]
    assert not any(each in nothing.summary() for each in ("n/a", "Not known", "cells needed"))
    strategy = assembled(specify({**SMALL, "design": "fixed"}), Pilot())
    assert "design=fixed has no interval." in strategy.report().headline


def test_the_advice_of_a_plan_is_what_its_table_says() -> None:
    """Not that of an investigation without a plan, which goes by the number of cells alone."""
    large = {**SMALL, **TWO, "investigation_runs": 10, "mitigation_runs": 20, "golden_runs": "auto", "half_width": 0.2}
    known = pilots("data_order", "label_selection", outlook=LARGE)
    request = specify(large)
    made = assembled(request, Pilot(factors=known))
    needed = made.designs.set_index("design")["cells_needed"].sort_values()
    answer, before_pilot = (plan.report().answers for plan in (made, assembled(request, Pilot())))
    order = ", ".join(f"design={name} {cells:,.0f}" for name, cells in needed.items())
    assert answer[2].lead.endswith(f"fewest first: {order}.")
    assert [each.question for each in before_pilot] == ["What does it cost?"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (TWO | {"investigation_runs": 10}, "design=radial: several factors need fewer trainings"),
        (TWO, "design=crossed, because of investigation_runs=3. Without, "),
        ({}, "design=crossed: one factor, as published."),
        ({"design": "nested"}, "design=nested, as requested."),
    ],
)
def test_a_plan_says_first_which_design_it_counts(given: dict[str, Any], why: str) -> None:
    known = pilots("data_order", "label_selection", outlook=LARGE)
    for pilot in (Pilot(), Pilot(factors=known)):
        report = assembled(specify({**SMALL, "golden_runs": "auto", **given}), pilot).report()
        assert report.answers[0].lead.startswith(why)


@pytest.mark.parametrize(
    ("given", "possible"),
    [
        ({}, ["crossed", "nested", "radial"]),
        ({"mitigation": "label_selection:0+1"}, ["crossed", "nested"]),
        ({"factor": "data_order,test_sample", "metric": "f1_macro"}, ["crossed", "nested"]),
        ({"factor": "data_order+data_split", "joint": "product", "investigation_runs": 4}, ["crossed"]),
    ],
)
def test_a_plan_lists_possible_designs_only(given: dict[str, Any], possible: list[str]) -> None:
    request = specify({**SMALL, **given})
    known = pilots(*request.factors, outlook=LARGE)
    for pilot in (Pilot(), Pilot(factors=known)):
        made = assembled(request, pilot)
        assert [*made.designs["design"]] == possible
        assert [name for name in made.factors if name.startswith("rows/")] == [f"rows/{name}" for name in possible]
        assert "design=radial" not in " ".join(made.notes) or "radial" in possible


def test_equal_scores_are_no_pilot() -> None:
    nothing = VarianceComponents("crossed", "anova", rows=3, columns=3, contributed=0.0, mitigated=0.0, main=0.0)
    table = factor_table(specify(SMALL), pilots(outlook=Outlook(nothing)), 0.8)
    unknown = ["total_index", "half_width", "cells/crossed", "cells/nested", "cells/radial", "nested_optimum"]
    assert table[unknown].isna().all(axis=None)


@pytest.mark.parametrize("second", [0.02, 0.5])
def test_a_factor_that_no_radial_table_tells(second: float) -> None:
    """It needs more base runs than a plan may have; the cells for the other factor are given all the same."""
    shares = {"data_order": 0.5, "label_selection": second}
    outlooks = {name: Outlook(assumed_variances(share, 1.0)) for name, share in shares.items()}
    assumed = {name: FactorPilot(outlook, 0, 1, "x", same=True) for name, outlook in outlooks.items()}
    given = specify({**SMALL, **TWO, "half_width": 0.02, "executor": "inline"})
    made = assembled(given, Pilot(seconds=3.6, factors=assumed))
    radial = made.designs.set_index("design").loc["radial"]
    never = [name for name, share in shares.items() if share == 0.5]
    assert radial["never"] == ", ".join(never)
    [line] = [line for line in made.details().splitlines() if line.startswith("  radial")]
    if len(never) == 1:
        rows = design_named("radial").needed(0.02, outlooks["label_selection"], assurance=0.8).rows
        assert radial["cells_needed"] == 2 * rows
        assert radial["hours_needed"] == pytest.approx(2 * rows / 1000)
        assert f" {2 * rows}* " in line
    else:
        assert math.isnan(radial["cells_needed"])
        assert " never " in line
    assert any(
        note.startswith(f"No radial table is likely to be narrow enough for {radial['never']}") for note in made.notes
    )
    assert json.loads(json.dumps(made.document(), allow_nan=False))["designs"][2]["never"] == radial["never"]


def test_the_radial_design_tells_a_factor_that_explains_everything() -> None:
    """Its scale has a value where nothing is left of the others, a logit has none."""
    found = design_named("radial").needed(0.1, assumed_variances(1.0, 1.0), assurance=0.8)
    assert found.rows is not None
    assert found.half_width <= 0.1


def test_a_half_width_that_no_table_reaches() -> None:
    known = pilots(outlook=Outlook(assumed_variances(0.3, 1.0)))
    made = assembled(specify({**SMALL, "half_width": 0.001}), Pilot(factors=known))
    notes = [note for note in made.notes if note.startswith("No ")]
    assert [note.split()[1] for note in notes] == ["crossed", "nested", "radial"]
    assert notes[0].endswith("enough for data_order. Use another design, or a larger half_width.")


def test_the_legend_says_what_the_total_index_is() -> None:
    known = pilots(outlook=Outlook(assumed_variances(0.3, 1.0)))
    words = " ".join(assembled(specify(SMALL), Pilot(factors=known)).details().split())
    assert "S_T (in the pilot): share of the variance that the factor causes, alone or in interactions" in words


@pytest.mark.parametrize(
    "wrong",
    [{"factor": "data_ordr"}, {"mitigation_runs": 1}, {"metric": "f2"}, {"executor": "inlin"}, {"half_width": 2}],
)
def test_errors_are_those_of_main(place: Place, wrong: dict[str, Any]) -> None:
    assert refusal(planned, **wrong) == refusal(place.investigate, **wrong)


def test_a_pilot_that_is_not_there(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    refuses(r"^pilot=atuo: no such run on the tracking server\. Use auto, none, run", planned, pilot="atuo")
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    assert cli.main(["plan", *options, "--pilot=atuo"]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("mlflow-l3d: error: pilot=atuo: no such run")
    assert cli.main(["plan", *options]) == 0
    assert "10 to compute" in capsys.readouterr().out


def test_a_run_without_cells_is_no_pilot(place: Place) -> None:
    run = place.client.create_run("0")
    refuses(f"^pilot={run.info.run_id}: has no child runs", planned, pilot=run.info.run_id)


def project_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    run_id = place.client.create_run("0", run_name="useful-ant-12").info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    return str(run_id)


@pytest.mark.slow
def test_the_run_of_a_plan(done: tuple[Place, Investigation], monkeypatch: pytest.MonkeyPatch) -> None:
    place, _ = done
    run_id = project_run(place, monkeypatch)
    made = planned(metric="f1_macro", budget="50 cells", **BIGGER)
    assert made.run_id == run_id
    run = place.client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name.startswith("plan: data_order · synthetic")
    tags = {"role": "plan", "schema": "1", "factor": "data_order", "design": "crossed"}
    assert {name: run.data.tags[f"l3d.{name}"] for name in tags} == tags
    assert run.data.metrics == pytest.approx(made.metrics())
    assert {"plan_cells", "plan_hours", "expected_half_width/data_order"} <= set(run.data.metrics)
    artifacts = {entry.path for entry in place.client.list_artifacts(run_id)}
    assert artifacts == {"plan.json", "plan.md", "report.html", "summary.svg", *PLAN_TABLES}
    logged = json.loads(run.data.tags["mlflow.loggedArtifacts"])
    assert logged == [{"path": name, "type": "table"} for name in PLAN_TABLES]
    folder = place.cache.parent
    table = json.loads(place.download(run_id, "plan_factors.json", folder).read_text())
    assert table["columns"] == list(made.factors.columns)
    document = json.loads(place.download(run_id, "plan.json", folder).read_text())
    assert document["cells_to_compute"] == made.cells_to_compute == 20 - 6 - 4
    assert document["factors"][0]["total_index"] == pytest.approx(made.factors.loc[0, "total_index"])
    written = place.download(run_id, "plan.md", folder).read_text()
    assert made.summary() in written
    assert made.details() in written
    assert run.data.tags["mlflow.note.content"].startswith(f"**{made.report().headline}**")
    assert len(place.parents()) == 1  # a plan is not an investigation


@pytest.mark.slow
def test_a_pilot_does_not_take_the_run_of_the_plan(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = project_run(place, monkeypatch)
    made = planned(pilot="run")
    [pilot] = place.parents()
    assert pilot.info.run_id == made.pilot_run_id != run_id
    assert place.client.get_run(run_id).info.status == "FINISHED"


def test_a_failed_plan_fails_its_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = project_run(place, monkeypatch)
    refuses(r"^pilot=nothing:", planned, pilot="nothing")
    run = place.client.get_run(run_id)
    assert run.info.status == "FAILED"
    assert run.data.tags["l3d.error"].startswith("pilot=nothing:")


@pytest.mark.slow
def test_joint_factors_have_metric_names_that_mlflow_takes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"factor": "data_order+label_selection", "mitigation_runs": 3}
    planned(pilot="run", **given)
    run_id = project_run(place, monkeypatch)
    known = planned(**given).metrics()
    assert "expected_half_width/label_selection-data_order" in known
    assert place.client.get_run(run_id).data.metrics == pytest.approx(known)
    assert not any("+" in name for name in known)


def test_a_server_that_is_away(place: Place) -> None:
    with Place("http://127.0.0.1:9", place.cache).entered():
        made = planned()
        assert (made.cells, made.cells_to_compute) == (CELLS, CELLS)
        assert "Past runs could not be read" in made.summary()
        for pilot in ("0" * 32, "run"):
            fails("MLFLOW_TRACKING_URI", planned, pilot=pilot)


@pytest.mark.parametrize(
    ("hours", "words"), [(math.nan, "n/a"), (0.01, "36 s"), (0.5, "30 min"), (30, "30.0 h"), (240, "10 days")]
)
def test_duration(hours: float, words: str) -> None:
    assert rough_duration(hours) == words


def test_the_radial_design_is_offered_where_it_takes_fewer_cells_to_compare_factors() -> None:
    small = {**SMALL, **TWO, "design": "crossed"}
    large = {**small, "investigation_runs": 10, "mitigation_runs": 20, "golden_runs": "auto"}
    offer = specify(large).remarks[-1]
    assert "design=radial" in offer
    assert "300 cells instead of 600" in offer
    radial = {**large, "design": "radial", "golden_runs": "auto"}
    for other in ({**large, "factor": "data_order"}, radial, small):
        assert not any("design=radial" in remark for remark in specify(other).remarks)


def test_a_plan_and_a_report_agree_on_what_settles_a_factor() -> None:
    """The report recommends rows for the verdict, and `half_width` alone would call them too few."""
    outlook = Outlook(replace(assumed_variances(0.4, 0.5), rows=3, columns=3))
    request = specify({**SMALL, **TWO, "design": "crossed", "half_width": 0.01, "mitigation_runs": 8})
    known = {
        "data_order": FactorPilot(outlook, 0.2, 0.8, "x", same=True, settled_by=8),
        "label_selection": FactorPilot(outlook, 0.2, 0.8, "x", same=True, settled_by=9),
    }
    report = assembled(request, Pilot(factors=known)).report()
    assert " cells may settle data_order; " in report.headline
    assert [step.text for step in report.steps] == ["Train it:"]
    for pilot in known.values():
        object.__setattr__(pilot, "settled_by", None)
    assert " are too few " in assembled(request, Pilot(factors=known)).report().headline
