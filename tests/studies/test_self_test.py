"""Commands from end to end, and whether seeds do what they say."""

import pytest
from mlflow import MlflowClient

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.investigation.run import investigate
from mlflow_l3d.studies.investigation.specification import specify
from mlflow_l3d.tracking import names

SCRIPT = """
import json, os, sys
a, b, c = map(int, sys.argv[1:])
drawn = int.from_bytes(os.urandom(4), "big") if LEAK else 0
score = (a % 1000 + b % 100 + drawn % 1000) / 1100
json.dump({"rmse": score}, open("metrics.json", "w"))
"""
TYPED = {"approach": "command", "command": "python -SE train.py {a} {b} {c}", "metric": "rmse", "executor": "inline"}
SIZES = {"factor": "a,b", "investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 2}


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write the script in a folder of its own, where the command is typed."""
    monkeypatch.chdir(tmp_path)

    def write(*, leak=False, of_c="0"):
        text = SCRIPT.replace("LEAK", str(leak)).replace("drawn % 1000", f"drawn % 1000 + {of_c}")
        (tmp_path / "train.py").write_text(text)

    return write


def test_a_command_is_investigated_as_any_approach(script):
    script(of_c="c % 7")
    found = investigate(**TYPED, **SIZES)
    assert (found.computed, found.specification.setup.all_factors) == (10, ("a", "b", "c"))
    assert found.analysis.importances["a"].contributed_std > found.analysis.importances["b"].contributed_std
    parent = MlflowClient().get_run(found.run_id)
    assert parent.data.params["command"] == TYPED["command"]
    assert "num_labelled" not in {name.removeprefix("resolved.") for name in parent.data.params if "resolved" in name}
    again = investigate(**TYPED, **SIZES)
    assert (again.computed, again.reused) == (0, 10)
    script(of_c="c % 11")
    assert investigate(**TYPED, **SIZES).computed == 10


def test_a_seed_that_does_nothing_stops_before_the_cells(script):
    script()
    with pytest.raises(L3DError, match=r"^self-test: c: 2 new seeds changed nothing"):
        investigate(**TYPED, **SIZES)
    (parent,) = MlflowClient().search_runs(["0"], f"tags.`{names.ROLE}` = 'investigation'")
    assert (parent.info.status, parent.data.tags.get("l3d.error", "self-test")[:9]) == ("FAILED", "self-test")
    assert investigate(**TYPED, **SIZES, self_test="skip").computed == 10


def test_what_is_drawn_beside_the_seeds_is_found(script):
    script(leak=True, of_c="c % 7")
    found = investigate(**TYPED, **SIZES, self_test="only")
    assert found.exit_status == 1
    assert set(found.effects) == {"a", "b", "c", "replicate"}
    assert "something is drawn that no seed decides" in found.summary()
    assert MlflowClient().search_runs(["0"]) == []
    investigate(**TYPED, **SIZES, deterministic="false")


def test_what_does_not_go_with_a_command(script):
    script()
    for given, why in (
        ({"task": "sst2"}, "task=sst2: has no effect: approach=command has data of its own"),
        ({"num_labelled": 10}, "num_labelled=10: has no effect"),
        ({"factor": "data_order"}, "factor='data_order': must be a factor of command: a, all, b, c, replicate"),
        ({"metric": "f1_macro"}, r"metric=f1_macro: is not among what the command wrote \(rmse\)"),
        ({"approach": "synthetic", "metric": "f1_macro"}, "command=.*has no effect. Use approach=command"),
    ):
        with pytest.raises(ParameterError, match=f"^{why}"):
            specify({**TYPED, **SIZES, **given})
