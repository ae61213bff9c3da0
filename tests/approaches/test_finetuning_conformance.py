import pytest
from finetuning_helpers import handmade_task
from finetuning_models import regression_task, tiny_bert

from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.testing.approaches import check_approach

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("make", [handmade_task, regression_task])
@pytest.mark.parametrize(
    "given",
    [{}, {"dropout": 0}, {"trainable": "full", "epochs": 1, "max_length": 16, "learning_rate": 1e-3}],
    ids=["head", "head without dropout", "full"],
)
def test_keeps_the_contract_of_an_approach(given, make, tmp_path):
    task = make(100, num_labelled=12, test_size=20)
    chosen = {"hyperparameters": given, "configurations": 1, "tolerance": 1e-5}
    if given.get("trainable") == "full":
        chosen["model"] = tiny_bert(tmp_path / "model")
    check_approach(Finetuning(), task, cache=tmp_path, **chosen)
