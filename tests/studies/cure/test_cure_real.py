"""A real classifier on real data: what is predicted of a vote is what it achieves."""

from __future__ import annotations

import pytest
from run_helpers import Place

from mlflow_l3d import investigate

pytestmark = pytest.mark.slow


def test_a_vote_of_heads_achieves_what_was_predicted(place: Place) -> None:
    sizes = {"investigation_runs": 9, "mitigation_runs": 8, "golden_runs": 20}
    sizes |= {"num_labelled": 40, "test_size": 200}
    with place.entered():
        found = investigate("rotten_tomatoes", factor="model_initialisation", executor="inline", **sizes)
        answer = found.cure(verify=3, budget="300 cells", executor="inline").answer
    votes = [each for each in answer.verified if each.prediction.remedy.kind in ("vote", "mean")]
    assert votes
    for each in votes:
        predicted = each.prediction.mean_change
        assert each.mean_change.low <= predicted.high
        assert predicted.low <= each.mean_change.high
        assert each.cured.low <= each.prediction.std.high
        assert each.prediction.std.low <= each.cured.high
        assert each.runs == 20
