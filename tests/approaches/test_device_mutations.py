"""The pretended device notices a tensor on the wrong one: each device that is taken out of our sources shows."""

import __future__

import inspect
import textwrap
from functools import cache

import pytest
from device_paths import WAYS, Runner, differences

from mlflow_l3d.approaches import chunks, device_draws, numerics
from mlflow_l3d.approaches.finetuning import lora, session, weights
from mlflow_l3d.approaches.finetuning.full import FullSession
from mlflow_l3d.approaches.finetuning.graphed import GraphedSteps
from mlflow_l3d.approaches.finetuning.head import HeadSession
from mlflow_l3d.approaches.finetuning.loading import DecoderWithHead
from mlflow_l3d.approaches.icl.engine import reading, seq2seq
from mlflow_l3d.approaches.meta_learning.session import MetaSession
from mlflow_l3d.approaches.models.tokens import Tokens
from mlflow_l3d.approaches.stack import Rows, Stack

MUTATIONS = {
    # What is used, the path that uses it, a part of its source, and what stands there instead.
    "steps of Adam": (Stack.descend, "heads", ", device=self._weights.device", ""),
    "places of rows": (Rows.places, "heads", ".to(self._matrix.device)", ""),
    "labels of heads": (HeadSession.epoch, "heads", ".to(stack.w1)", ".float()"),
    "logits of heads": (HeadSession._outputs, "heads", ".cpu()", ""),
    "tokens": (Tokens.batch, "full", ".to(device)", ""),
    "labels": (session.wanted, "lora", ".to(device)", ""),
    "sum of losses": (FullSession.epoch, "lora", ", device=self.device", ""),
    "batches": (GraphedSteps._on_device, "full", ".to(self.device)", ""),
    "logits": (FullSession.logits, "full", ".cpu()", ""),
    "keys of dropout": (lora.Keys.begin, "lora", "torch.tensor(seeds, device=device)", "torch.tensor(seeds)"),
    "rows that go on": (weights.StackedWeights.select, "lora, beside", ".to(self.tensors[0].device)", ""),
    "last token": (DecoderWithHead.forward, "lora, decoder", "device=mask.device", "device='cpu'"),
    "labels of tasks": (MetaSession._epoch, "maml", ", device=stack.w1.device", ""),
    "dropout of tasks": (
        device_draws.dropout_factors,
        "maml",
        "torch.tensor(seeds, device=device)",
        "torch.tensor(seeds)",
    ),
    "packed texts and what is read": (
        reading.on_device,
        "score",
        '.to(device, non_blocking=device.type == "cuda")',
        "",
    ),
    "uniforms": (reading.next_tokens, "generate, drawn", ".to(home.device)", ""),
    "lengths of texts": (seq2seq.Seq2SeqEngine._start, "seq2seq, score", "device=device", "device='cpu'"),
}


QUICK = ("heads",)
"""Ways whose mutants are run in a quick check."""


class NoticedError(BaseException):
    """Ends a run: cells that failed side by side need not be tried again in halves."""


def notice(*given):
    raise NoticedError(*given)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Give a function that runs a path on the device and returns what is wrong; the CPU runs it once."""
    runner = Runner(tmp_path_factory.mktemp("models"))
    expected = cache(lambda name: runner.outcomes(WAYS[name], "cpu")[1])

    def wrong(name):
        try:
            counts, found = differences(runner, WAYS[name], expected(name))
        except (Exception, NoticedError) as error:  # noqa: BLE001 - whatever it is, it is noticed
            return [repr(error)]
        return [*found, *counts.implicit]

    wrong.expected = expected
    return wrong


def mutant(function, old, new):
    """Return the code of a function with another text in one place."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) >= 1, f"{function.__qualname__} has no {old!r}: change this test with it"
    # In a class, so that super() has what it asks for; decorators stay where they are.
    lines = source.replace(old, new, 1).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("def "))
    text = "class _:\n" + textwrap.indent("\n".join(lines[start:]), "    ")
    code = compile(text, inspect.getsourcefile(function), "exec", flags=__future__.annotations.compiler_flag)
    space = {}
    exec(code, function.__globals__, space)
    return vars(space["_"])[function.__name__].__code__


@pytest.mark.parametrize(
    "name", [name if row[1] in QUICK else pytest.param(name, marks=pytest.mark.slow) for name, row in MUTATIONS.items()]
)
def test_a_missing_device_is_noticed(name, run, monkeypatch, caplog):
    monkeypatch.setattr(numerics, "device_class", lambda device: "cpu")
    monkeypatch.setattr(device_draws, "NUMPY", ())
    function, path, old, new = MUTATIONS[name]
    function = inspect.unwrap(getattr(function, "__func__", function))
    run.expected(path)
    monkeypatch.setattr(chunks._log, "warning", notice)
    monkeypatch.setattr(function, "__code__", mutant(function, old, new))
    # Packed rows that fail are given up with a line.
    assert run(path) or caplog.messages
