import pytest
from finetuning_helpers import handmade_task

from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.testing.approaches import check_approach

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "given",
    [{}, {"dropout": 0}, {"trainable": "full", "epochs": 1, "max_length": 16}],
    ids=["head", "head without dropout", "full"],
)
def test_keeps_the_contract_of_an_approach(given, tmp_path):
    task = handmade_task(100, num_labelled=12, test_size=20)
    check_approach(Finetuning(), task, hyperparameters=given, cache=tmp_path, configurations=1, tolerance=1e-5)
