"""Designs, joint factors, mitigation strategies and stopping rules, from the parameters to the cells."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refusal
from specification_helpers import small

from mlflow_l3d.cells.factors import MITIGATION_BASE
from mlflow_l3d.designs.baselines import FixedDesign, RandomDesign
from mlflow_l3d.designs.crossed import CrossedDesign
from mlflow_l3d.designs.nested import NestedDesign
from mlflow_l3d.designs.radial import RadialDesign

KINDS = {kind.name: kind for kind in (CrossedDesign, NestedDesign, RadialDesign, RandomDesign, FixedDesign)}


@pytest.mark.parametrize("design", KINDS)
def test_every_design_is_built(design: str) -> None:
    request = small(design=design, investigation_runs=10)
    assert type(request.design()) is KINDS[design]
    assert request.document()["design"]["name"] == design


@pytest.mark.parametrize(
    ("given", "rows"),
    [({}, 20), ({"design": "radial", "investigation_runs": 10}, 100), ({"design": "nested", "stop": "interval"}, 320)],
    ids=["crossed", "radial", "with a stopping rule"],
)
def test_rows_that_auto_stands_for(given: dict[str, Any], rows: int) -> None:
    assert small(**given, mitigation_runs="auto", golden_runs="auto").plan.mitigation_runs == rows


def test_radial_needs_no_golden_runs_and_no_columns() -> None:
    radial = {"design": "radial", "factor": "all", "mitigation_runs": 7, "golden_runs": "auto"}
    request = small(**radial, investigation_runs=10)  # the default, which says nothing
    assert len(request.design()) == 7 * (len(request.setup.all_factors) + 1)
    assert request.plan.golden_runs == 0
    assert refusal(small, **radial, investigation_runs=9) == (
        "investigation_runs=9: is a number of columns, and the radial design has none. "
        "Leave it out; mitigation_runs is the number of base runs."
    )


def test_joint_factors_take_the_order_of_the_approach() -> None:
    names = small().setup.all_factors
    request = small(factor=f"{names[2]}+{names[0]}, {names[1]}")
    assert request.factors == (f"{names[0]}+{names[2]}", names[1])
    assert request.mitigated_factors == names[3:]
    cell = next(request.design().cells())
    assert cell.configurations[names[0]] == cell.configurations[names[2]] == 0
    assert cell.configurations[names[1]] == MITIGATION_BASE


def test_product_of_joint_factors() -> None:
    names = small().setup.all_factors
    request = small(factor=f"{names[0]}+{names[1]}", joint="product", investigation_runs=4)
    columns = [cell for cell in request.design().cells() if cell.row == 0]
    pairs = {(cell.configurations[names[0]], cell.configurations[names[1]]) for cell in columns}
    assert pairs == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ({"factor": "{0}+{0}"}, "factor={0}+{0}: joint factors must be different"),
        ({"factor": "{0}+{1},{1}+{0}"}, "factor={0}+{1},{1}+{0}: must name each factor once"),
        ({"factor": "{all}"}, "factor={all}: joins every factor that has an effect"),
        ({"joint": "product"}, "joint=product: has no effect without joint factors"),
        ({"factor": "{0}+{1}", "joint": "product", "design": "nested"}, "joint=product: is for design=crossed only"),
        ({"mitigation": "{0}"}, "mitigation={0}: must be none, or factor:0"),
        ({"mitigation": "{0}:"}, "mitigation={0}:: must be none, or factor:0"),
        ({"mitigation": "{0}:1-3"}, "mitigation={0}:1-3: must be none, or factor:0"),
        ({"mitigation": "={0}:1"}, "mitigation=={0}:1: must be none, or factor:0"),
        ({"mitigation": "{0}:1,{0}:2"}, "mitigation={0}:1,{0}:2: must name {0} once"),
        (
            {"mitigation": "{0}:1", "design": "radial", "investigation_runs": 10},
            "mitigation={0}:1: is not for design=r",
        ),
        ({"stop": "interval", "design": "fixed"}, "stop=interval: needs design=crossed or nested or radial"),
        ({"stop": "epsilon", "design": "radial", "golden_runs": "auto"}, "stop=epsilon: needs design=crossed or"),
        ({"golden_runs": 5, "design": "radial"}, "golden_runs=5: must be auto in the radial design"),
        ({"stop": "interval", "mitigation_runs": 20}, "mitigation_runs=20: stop=interval looks after 20, 40, 80, ..."),
        ({"half_width": 0}, "half_width=0: must be a number above 0 and below 1"),
        ({"epsilon": "inf"}, "epsilon=inf: must be a number above 0"),
        ({"golden_runs": "pooled", "design": "random"}, "golden_runs=pooled: is not for design=random"),
    ],
)
def test_what_does_not_fit(parameters: dict[str, Any], line: str) -> None:
    names = small().setup.all_factors
    known = {"all": "+".join(names)}
    filled = {key: str(value).format(*names, **known) for key, value in parameters.items()}
    assert refusal(small, **filled).startswith(line.format(*names, **known))


def test_mitigation_strategy_holds_in_rows_and_not_in_golden_runs() -> None:
    names = small().setup.all_factors
    request = small(factor=names[0], mitigation=f"curated={names[1]}:4+7", mitigation_runs=5)
    cells = list(request.design().cells())
    rows = {cell.row: cell.configurations[names[1]] - MITIGATION_BASE for cell in cells if cell.phase != "golden"}
    assert rows == {0: 4, 1: 7, 2: 4, 3: 7, 4: 4}
    golden = {cell.configurations[names[1]] for cell in cells if cell.phase == "golden"}
    assert len(golden) == request.plan.golden_runs
    written = request.document()["design"]["mitigation"]
    assert written == [{"name": "curated", "factor": names[1], "configurations": [4, 7]}]


def test_every_part_of_the_layout_makes_another_investigation() -> None:
    names = small().setup.all_factors
    variants: list[dict[str, Any]] = [
        {},
        {"design": "nested"},
        {"design": "random"},
        {"golden_runs": "pooled"},
        {"mitigation": f"{names[1]}:0"},
        {"mitigation": f"{names[1]}:1"},
        {"stop": "epsilon"},
        {"stop": "epsilon", "epsilon": 0.5},
        {"factor": f"{names[0]}+{names[1]}"},
    ]
    made = [small(**variant) for variant in variants]
    assert len({one.key for one in made}) == len(variants)
    assert len({one.context_key for one in made}) == 1  # so that all of them share what cells they have in common
    # What is done with missing cells changes no cell: the same investigation goes on.
    assert small(missing="reml").key == small().key


def test_cut_keeps_the_first_rows_and_their_golden_runs() -> None:
    whole = small(mitigation_runs=6, golden_runs=8, investigation_runs=3)
    cut = whole.truncate(4)
    keys = {cell.key for cell in whole.design().cells() if whole.design().step_of(cell) < 4}
    assert {cell.key for cell in cut.design().cells()} == keys
    assert cut.changed(cut.run_numbers()) == {"mitigation_runs": "4", "golden_runs": "6"}
