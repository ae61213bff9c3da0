"""Cures of results in this process, whose approach and task are objects."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from test_cure import COMMON, approach

from mlflow_l3d import investigate
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.cure.request import specify_cure
from mlflow_l3d.tracking.connection import connect

pytestmark = pytest.mark.slow


def test_golden_runs_of_an_object_take_the_executor_that_is_asked_for(
    tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    found, client = investigate("synthetic", approach=approach(), **COMMON), connect()

    def placed(**options: object) -> tuple[str, int | None]:
        side = specify_cure(found, options, client).side
        assert side.request is not None
        return side.request.setup.how.executor, side.request.setup.how.workers

    assert placed() == ("inline", 1)
    assert placed(workers=3) == ("processes", 3)
    with pytest.raises(ParameterError, match=r"which cannot be trained here: .* in Python cure\(result, verify=1\)"):
        specify_cure(found.run_id, {"verify": 1}, client)
    with monkeypatch.context() as patched:
        patched.setattr(
            "mlflow_l3d.studies.gate.sides._is_pilot", Mock(side_effect=ParameterError("run", "x", "has none"))
        )
        with pytest.raises(ParameterError, match=r"^verify=1: run=x: has none\. Use verify=0\.$"):
            placed(verify=1)
    with pytest.raises(ParameterError, match="device=cpu: has no effect on the result of an object"):
        placed(device="cpu")
