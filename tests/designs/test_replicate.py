"""The factor `replicate`: the same cell again."""

from dataclasses import replace

import numpy as np
import pytest

from mlflow_l3d.analysis.consistency.results import Consistency
from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.checks.evidence import Evidence, PlanFacts
from mlflow_l3d.analysis.importance.checks.runs import repeated_cells
from mlflow_l3d.approaches.base import defect
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.cells.factors import REPLICATE
from mlflow_l3d.designs import design_named
from mlflow_l3d.designs.analyse import _repeated_agreement
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.investigation.run import investigate


def laid_out(name, factors, all_factors):
    return list(design_named(name)(factors, all_factors, 3, 2, 0 if name == "radial" else 4, 7, "context").cells())


@pytest.mark.parametrize("name", ["crossed", "nested", "radial"])
def test_replicates_are_new_cells_beside_the_same_old_ones(name):
    without = laid_out(name, ("order",), ("order", "split"))
    with_it = laid_out(name, ("order", REPLICATE), ("order", "split", REPLICATE))
    again = [cell for cell in with_it if cell.factor == REPLICATE]
    assert {cell.key for cell in with_it if cell.factor != REPLICATE} == {cell.key for cell in without}
    assert len({cell.key for cell in with_it}) == len(with_it)
    for row in {cell.row for cell in again}:
        repeated = [cell for cell in again if cell.row == row]
        if name == "radial":
            repeated += [cell for cell in with_it if cell.row == row and cell.phase == "base"]
        drawn = {tuple((of, seed) for of, seed in cell.seeds.items() if of != REPLICATE) for cell in repeated}
        assert len(drawn) == 1
        assert len(repeated) >= 2


def test_it_joins_all_factors_on_request_and_no_other():
    sizes = {"approach": "synthetic", "investigation_runs": 3, "mitigation_runs": 2}
    every = specify({**sizes, "factor": "all"})
    assert specify({**sizes, "factor": f"all,{REPLICATE}"}).factors == (*every.factors, REPLICATE)
    assert specify({**sizes, "factor": REPLICATE}).mitigated_factors == every.factors
    for text, why in ((f"data_order+{REPLICATE}", "joins factors of the approach only"), ("all,data_order", "must be")):
        with pytest.raises(ParameterError, match=why):
            specify({**sizes, "factor": text})
    with pytest.raises(ParameterError, match="design=random has no place for"):
        specify({**sizes, "factor": REPLICATE, "design": "random"})


def test_an_approach_has_no_factor_of_that_name():
    assert "replicate" in defect(FunctionApproach(print, name="mine", version="1", factors=(REPLICATE,)))


def found(table, agreement=None, **how):
    record = importance(np.array(table), np.array([0.1, 0.5, 0.3]), factor=REPLICATE)
    known = {"importances": {REPLICATE: record}, "golden": record.golden, "plan": PlanFacts(**how)}
    evidence = Evidence(**known, repeated_agreement=agreement)
    return [(check.severity, f"{check.message} {check.title}") for check in repeated_cells(evidence)]


def test_what_must_repeat_and_does_not_is_a_warning():
    # A tenth of the answers names no class, each time.
    some = Consistency(REPLICATE, 0.9, 0.8, 2, 1, 10, unparsed_share=0.1)
    alike = _repeated_agreement({REPLICATE: some})
    assert _repeated_agreement({REPLICATE: replace(some, pairs_of_predictions=0)}) is None
    equal, other = [[0.5, 0.5], [0.7, 0.7]], [[0.5, 0.5], [0.7, np.nextafter(0.7, 1)]]
    ((severity, message),) = found(equal, alike, deterministic=True)
    assert (severity, "score and predictions" in message) == ("info", True)
    ((severity, message),) = found(other, deterministic=True)
    assert (severity, message.startswith("1 cell of 2 has another score")) == ("warning", True)
    ((severity, message),) = found(equal, 0.98, deterministic=True)
    assert (severity, "2 % of predictions differ" in message) == ("warning", True)
    assert message.endswith("Cells do not repeat: the numbers of other factors include this variation")
    assert found(other, deterministic=False) == []
    assert found([[0.5, np.nan], [np.nan, 0.7]], deterministic=True) == []


class Leaking:
    """Guesses with a generator of the process, as a library may."""

    def __init__(self):
        self.generator = np.random.default_rng(0)

    def __call__(self, task, split, seeds, hyperparameters):
        assert REPLICATE not in seeds
        return self.generator.integers(2, size=len(split.test))


@pytest.mark.slow
@pytest.mark.parametrize("deterministic", ["true", "false"])
def test_what_no_factor_draws_is_found(deterministic, tracking_uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    approach = FunctionApproach(Leaking(), name="leaking", version="1", factors=("data_order",))
    result = investigate(
        approach=approach, task="synthetic", factor=REPLICATE, investigation_runs=3, mitigation_runs=3, golden_runs=4,
        num_labelled=20, test_size=20, executor="inline", deterministic=deterministic,
        self_test="skip",
    )  # fmt: skip
    codes = {check.code: check.severity for check in result.analysis.checks}
    assert codes.get("L3D014") == ("warning" if deterministic == "true" else None)
    assert result.analysis.importances[REPLICATE].contributed_std > 0


def test_a_choice_without_an_effect_is_refused():
    with pytest.raises(ParameterError, match="deterministic=false: has no effect: finetuning runs on the cpu"):
        specify({"deterministic": "false", "device": "cpu"})
    plain = specify({"approach": "synthetic"})
    assert "deterministic" not in plain.setup.numerics
    free = specify({"approach": "synthetic", "deterministic": "false"})
    assert free.setup.numerics["deterministic"] == "false"
    assert free.context_key != plain.context_key
