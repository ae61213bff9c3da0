"""Messages as files, and whether a worker of another machine computes what the keys say."""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlflow_l3d.approaches.synthetic import Synthetic
from mlflow_l3d.execution.slurm.seat import Inbox, Outbox, Pulse, looked_for
from mlflow_l3d.execution.worker import refusal
from mlflow_l3d.testing import Trouble, bench_job


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=12), st.randoms())
def test_messages_come_once_and_in_the_order_of_their_sender(tmp_path, script, random):
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    inbox, outboxes = Inbox(folder), {name: Outbox(folder, name) for name in "ab"}
    sent, seen = {"a": 0, "b": 0}, {"a": [], "b": []}
    for name, look in script:
        outboxes[name].put(sent[name])
        sent[name] += 1
        if look:
            # A listing of a network file system may lack a file that is older than one that it has.
            late = random.choice(sorted(folder.iterdir()))
            hidden = late.rename(late.with_name(f".{late.name}"))
            for sender, message in inbox.take():
                seen[sender].append(message)
            hidden.rename(late)
    for _ in script:
        for sender, message in inbox.take():
            seen[sender].append(message)
    assert seen == {name: list(range(count)) for name, count in sent.items()}
    assert not list(folder.iterdir())


def test_looking_for_something_ends(tmp_path):
    beats = []
    pulse = Pulse(lambda: beats.append(1) or (tmp_path / "no folder" / "file").touch(), 0.001)
    assert looked_for(lambda: len(beats) > 2, 10.0)  # an error of the file system does not stop it
    pulse.stop()
    assert not looked_for(lambda: False, 0.02)


class Elsewhere(Trouble):
    """Finds another library on every machine but the first."""

    def dependencies(self, hyperparameters, model):
        return {"library": "2.0"}

    def model_revision(self, model):
        return "0123"


def test_a_worker_that_computes_otherwise_refuses(tmp_path):
    job = bench_job(Elsewhere(), tmp_path)
    numerics = {**Synthetic().numerics("cpu"), "library": "2.0", "deterministic": "false"}
    assert refusal(replace(job, numerics=numerics, model_revision="0123")) == ""
    assert refusal(job) == ""  # nothing is known: a job of a script
    numerics["library"] = "1.0"
    why = refusal(replace(job, numerics=numerics, model_revision="4567"))
    assert "library is 2.0, not 1.0, model is 0123, not 4567; make them equal" in why
