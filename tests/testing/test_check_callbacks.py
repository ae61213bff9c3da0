from dataclasses import replace

import numpy as np
import pytest

from mlflow_l3d.approaches.base import Session
from mlflow_l3d.approaches.synthetic import Synthetic, SyntheticSession
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import check_approach

TASK = replace(generate(90, 3), settings=SplitSettings(num_labelled=15, test_size=12))
EPOCHS = 3


class Reporting(Synthetic):
    """Says after every epoch what `scores` returns, and does what it is asked to."""

    def __init__(self, change=None):
        self.change = change

    def prepare(self, task, hyperparameters, *, model, device, cache):
        return ReportingSession(SyntheticSession(task, dict(hyperparameters)), self.change)


class ReportingSession(Session):
    reports_epochs = True

    def __init__(self, inner, change):
        self.inner, self.change = inner, change
        self.on_epoch_end = (lambda *_: False) if change == "never none" else None

    def run(self, cells):
        cells = list(cells)
        for cell, outcome in zip(cells, self.inner.run(cells), strict=True):
            if self.on_epoch_end is not None:
                outcome = self.epochs(cell, outcome)
            yield outcome

    def epochs(self, cell, outcome):
        for epoch in range(EPOCHS):
            key = "another" if self.change == "key" else cell.key
            number = epoch + 1 if self.change == "from one" else epoch
            name = "f1" if self.change == "name" else "validation_f1_macro"
            end = self.on_epoch_end(key, number, {name: np.nan if self.change == "nan" else 0.5})
            if end and self.change != "deaf":
                break
        if self.change == "shy":
            return replace(outcome, predictions=(outcome.predictions + 1) % 3)
        return outcome

    def close(self):
        assert self.on_epoch_end is None or self.change == "never none"


def test_an_approach_that_reports_epochs_keeps_the_contract(tmp_path):
    check_approach(Reporting(), TASK, cache=tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("never none", "must be None until someone sets it"),
        ("key", "called with the key 'another'"),
        ("from one", "called with epoch 1, and epoch 0 comes next"),
        ("name", "scores named validation_..., it is given \\['f1'\\]"),
        ("nan", "must be given finite numbers"),
        ("deaf", "on_epoch_end ends the training, which continues to epoch 2"),
        ("shy", "gives other predictions.* if on_epoch_end is set"),
    ],
)
def test_what_a_reporting_session_does_wrong_is_named(change, said, tmp_path):
    with pytest.raises(AssertionError, match=said):
        check_approach(Reporting(change), TASK, cache=tmp_path)
