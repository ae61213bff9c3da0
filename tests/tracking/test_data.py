"""The data set of a run, where several processes name the same one at once."""

from typing import Any

import pytest
from mlflow.exceptions import MlflowException

from mlflow_l3d.tracking.pages import Data, log_data

DATA = Data("mine", "0123", "file", {"name": "mine.csv"}, {"examples": 3}, "investigation")


class Client:
    """Notes what is logged, after raising what it is given."""

    def __init__(self, *errors: str) -> None:
        self.errors, self.calls, self.logged = list(errors), 0, []

    def log_inputs(self, run_id: str, inputs: list[Any]) -> None:
        self.calls += 1
        if self.errors:
            raise MlflowException(self.errors.pop(0))
        self.logged.append((run_id, inputs[0].dataset.name))


@pytest.mark.parametrize(
    "words",
    ["(sqlite3.IntegrityError) UNIQUE constraint failed: datasets", "(psycopg2.errors.UniqueViolation) duplicate key"],
)
def test_a_data_set_that_another_process_wrote_meanwhile_is_named_all_the_same(words):
    client = Client(words)
    log_data(client, "run", DATA)
    assert client.logged == [("run", "mine")]


@pytest.mark.parametrize(
    "errors", [["API request failed with exception: connection refused"], ["no such run"], ["IntegrityError"] * 2]
)
def test_another_error_is_not_tried_again_and_the_same_only_once(errors):
    client = Client(*errors)
    with pytest.raises(MlflowException, match=errors[0][:10]):
        log_data(client, "run", DATA)
    assert client.calls == len(errors)
