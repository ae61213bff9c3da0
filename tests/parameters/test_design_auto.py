"""What `design=auto` stands for: of the number of factors, and of what only tables have."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refusal
from specification_helpers import fake
from test_published import paper

from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.investigation.request import InvestigationRequest, specify
from mlflow_l3d.studies.sweep.request import specify_sweep

BASE = {"approach": "synthetic", "task": "synthetic"}
TWO = {"factor": "data_order,data_split"}
JOINT = "data_order+data_split"


def auto(**parameters: Any) -> InvestigationRequest:
    return specify({**BASE, **parameters})


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"factor": JOINT},
        {"factor": JOINT, "joint": "product", "investigation_runs": 9},
        {"mitigation": "data_split:0+1", "mitigation_runs": 2},
        {"stop": "interval"},
        {"golden_runs": "pooled"},
        {"mitigation_runs": 29},
    ],
)
def test_one_factor_is_crossed_as_published(more: dict[str, Any]) -> None:
    request = auto(**more)
    assert request.plan.design.name == "crossed"
    assert request.plan.why == "design=crossed: one factor, as published."
    assert request.offer == ()
    assert "design" not in request.source("run").given


@pytest.mark.parametrize(
    "more",
    [
        {"factor": "all"},
        TWO,
        {"factor": f"{JOINT},model_initialisation"},
        {"factor": "all,replicate"},
        {**TWO, "stop": "interval", "half_width": 0.2},
        {**TWO, "mitigation_runs": 29},
        {**TWO, "investigation_runs": 10, "golden_runs": "auto", "missing": "anova"},
    ],
)
def test_several_factors_are_radial(more: dict[str, Any]) -> None:
    request = auto(**more)
    assert request.plan.design.name == "radial"
    assert request.plan.mitigation_runs == more.get("mitigation_runs", 320 if "stop" in more else 100)
    assert request.remarks[-1] == request.plan.why
    assert request.plan.why.startswith("design=radial: several factors need fewer trainings")
    assert request.source("run").given["design"] == "radial"  # so that a command of its report continues it
    assert (request.given["design"], request.resolved()["design"]) == ("auto", "radial")
    assert request.tags()["l3d.design"] == "radial"


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"investigation_runs": 12}, "investigation_runs=12"),
        ({"golden_runs": 50}, "golden_runs=50"),
        ({"golden_runs": "pooled", "investigation_runs": 4}, "investigation_runs=4 and golden_runs=pooled"),
        ({"mitigation": "sample_choice:0+1", "mitigation_runs": 2}, "mitigation=sample_choice:0+1"),
        ({"stop": "epsilon"}, "stop=epsilon"),
        ({"missing": "reml"}, "missing=reml"),
        ({"factor": f"{JOINT},sample_choice", "joint": "product", "investigation_runs": 4}, "joint=product"),
        ({"factor": "all,test_sample"}, "factor=all,test_sample"),
    ],
)
def test_several_factors_are_crossed_if_something_of_tables_is_asked_for(more: dict[str, Any], what: str) -> None:
    plan = auto(**{**TWO, **more}).plan
    assert plan.design.name == "crossed"
    assert what in plan.why
    assert plan.why.endswith(". Without, several factors take the cheaper design=radial.")


def test_a_design_that_is_named_stays() -> None:
    for design in ("crossed", "nested", "radial", "random", "fixed"):
        plan = auto(**TWO, design=design).plan
        assert (plan.design.name, plan.why) == (design, "")
    assert "chooses from no list" in refusal(auto, **TWO, design="levels")
    with pytest.raises(ParameterError, match="golden_runs=5: must be auto in the radial design"):
        auto(**TWO, design="radial", golden_runs=5)
    assert refusal(auto, design="autmatic").startswith("design='autmatic': must be one of auto, crossed")


def test_the_paper_keeps_its_design() -> None:
    plan = paper(model="tiny", factor="all").plan
    assert (plan.design.name, plan.mitigation_runs, plan.why) == ("crossed", 7, "design=crossed, as in the paper.")
    assert paper(model="tiny", factor="all", design="radial", investigation_runs=10).plan.design.name == "radial"


def test_the_cells_are_those_of_the_design_by_name() -> None:
    for more in (TWO, {"factor": "data_order"}, {**TWO, "golden_runs": 5, "mitigation_runs": 2}):
        request = auto(**more)
        named = auto(**more, design=request.plan.design.name)
        assert request.key == named.key
        assert len(request.design()) == len(named.design())


def test_a_factor_without_an_effect_leaves_one() -> None:
    assert fake(factor="all").plan.design.name == "crossed"  # three columns, which only tables have
    request = fake(factor="all", investigation_runs=10)
    assert (request.plan.design.name, len(request.factors)) == ("radial", 3)


def test_the_points_of_a_sweep_have_one_design() -> None:
    common = {**BASE, **TWO}
    points = specify_sweep({**common, "num_labelled": [50, 100]}).points
    assert {point.plan.design.name for point in points} == {"radial"}
    points = specify_sweep({**common, "investigation_runs": [10, 4]}).points
    assert {point.plan.design.name for point in points} == {"crossed"}
    assert [dict(point.choices) for point in points] == [{"investigation_runs": 10}, {"investigation_runs": 4}]
    points = specify_sweep({**BASE, "factor": "data_order;all"}).points
    assert [point.plan.design.name for point in points] == ["crossed", "radial"]
    points = specify_sweep({**common, "design": "crossed,radial"}).points
    assert [point.choices["design"] for point in points] == ["crossed", "radial"]
