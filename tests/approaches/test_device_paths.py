"""Every way of using a device, on a pretended one: the numbers of the CPU, and what a GPU would wait for.

The pretended device notices a tensor on the wrong one: each device that is taken out of our sources shows.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from importlib.metadata import version

import numpy as np
import pytest
import torch
from device_paths import ALL_WAYS, WAYS, Runner, differences
from device_ways import TASKS
from fake_device import DEVICE, MODULE, NAME, WrongDeviceError, watched
from finetuning_helpers import cell, train_heads

from mlflow_l3d.approaches import chunks, device_draws, numerics
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.finetuning import Finetuning, lora, session, weights
from mlflow_l3d.approaches.finetuning import head as heads
from mlflow_l3d.approaches.finetuning.full import FullSession
from mlflow_l3d.approaches.finetuning.graphed import GraphedSteps
from mlflow_l3d.approaches.finetuning.head import Head, HeadSession
from mlflow_l3d.approaches.finetuning.loading import DecoderWithHead
from mlflow_l3d.approaches.finetuning.recipe import Recipe
from mlflow_l3d.approaches.finetuning.training import Progress
from mlflow_l3d.approaches.icl.engine import reading, seq2seq
from mlflow_l3d.approaches.meta_learning.session import MetaSession
from mlflow_l3d.approaches.models import resolve
from mlflow_l3d.approaches.models.features import pooled
from mlflow_l3d.approaches.models.pretrained import load_encoder
from mlflow_l3d.approaches.models.tokens import Tokens, tokenise
from mlflow_l3d.approaches.stack import Rows, Stack, initial_head
from mlflow_l3d.tasks.settings import Split

COUNTED_WITH = {"torch": "2.13", "transformers": "5.23"}
COUNTS = {
    # Launches, waits, copies to the device: of one training step, where there are any, and of all cells.
    "heads": ((17, 0, 0), (199, 5, 12)),
    "full": ((123, 1, 0), (1500, 103, 57)),
    "full, parts": ((372, 2, 0), (1025, 10, 47)),
    "full, decoder": ((270, 1, 0), (1109, 10, 27)),
    "full, regression": ((122, 1, 0), (625, 9, 47)),
    "full, soup": ((123, 1, 0), (1132, 99, 135)),
    "full, choices": ((123, 1, 0), (628, 9, 47)),
    "lora": ((154, 1, 1), (676, 8, 13)),
    "lora, beside": ((165, 1, 1), (2880, 30, 46)),
    "lora, decoder": ((285, 1, 1), (1168, 9, 12)),
    "protonet": ((35, 0, 0), (325, 4, 11)),
    "maml": ((63, 0, 0), (499, 4, 11)),
    "fomaml": ((56, 0, 0), (431, 4, 9)),
    "reptile": ((43, 0, 0), (353, 4, 9)),
    "reptile, Adam": ((257, 0, 0), (1791, 4, 11)),
    "score": (None, (994, 5, 35)),
    "score, similarity": (None, (994, 5, 35)),
    "generate": (None, (1314, 8, 36)),
    "generate, drawn": (None, (1502, 8, 40)),
    "seq2seq, score": (None, (534, 5, 15)),
    "seq2seq, generate": (None, (627, 9, 10)),
}
"""Change a row knowingly: fewer is better, and more of the second or third number is time that a GPU does nothing."""


QUICK = "heads"


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return Runner(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def known_device(monkeypatch):
    """Let the device pass as one of this machine; features are those of the CPU, dropout of both that of a device."""
    monkeypatch.setattr(numerics, "device_class", lambda device: "cpu")
    monkeypatch.setattr(device_draws, "NUMPY", ())


@pytest.mark.parametrize("name", [way if way == QUICK else pytest.param(way, marks=pytest.mark.slow) for way in WAYS])
def test_a_way_gives_the_numbers_of_the_cpu_and_waits_as_often_as_before(runner, name, caplog):
    counts, wrong = differences(runner, name)
    assert wrong == caplog.messages == []
    assert dict(counts.implicit) == {}
    if all(version(package).startswith(f"{number}.") for package, number in COUNTED_WITH.items()):
        step = counts.step if counts.marks else None
        assert (step, counts.totals) == COUNTS[name], f"waits {counts.waits}; copies {counts.copies}"


@pytest.mark.slow
def test_dropout_of_a_device_follows_from_the_cell_alone(runner):
    scores = []
    for seed in (0, 1):
        MODULE.manual_seed(seed)
        (outcome,) = runner.outcomes(ALL_WAYS["full, parts"], NAME)[1]
        scores.append(outcome.scores)
    (undropped,) = runner.outcomes(WAYS["full, parts"], NAME)[1]
    assert np.array_equal(*scores)
    assert not np.allclose(scores[0], undropped.scores, atol=1e-5)


def test_features_of_an_encoder_are_those_of_the_cpu(runner):
    found = resolve(runner.model("encoder"))
    encoder, tokenizer = load_encoder(found)
    tokens, some = tokenise(tokenizer, TASKS["classes"]().texts, 48), np.arange(12)
    expected = pooled(encoder, tokens, some, "mean", "cpu")
    with watched() as counts:
        encoder.to(DEVICE)
        own = pooled(encoder, tokens, some, "mean", NAME).cpu()
    assert torch.allclose(own, expected, atol=1e-6)
    assert dict(counts.implicit) == {}


def test_heads_with_parts_of_unequal_size_have_their_own_logits(monkeypatch):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(40, 6)).astype(np.float32), np.arange(40) % 2
    chosen = Recipe(**Finetuning().complete(resolve_hyperparameters(Finetuning(), {"epochs": 2, "hidden_units": 5})))

    def trained(device):
        orders = [np.random.default_rng(number).permutation(40) for number in range(3)]
        splits = [Split(*np.split(order, [8, 12 + number])) for number, order in enumerate(orders)]
        own = [
            Head(cell(number), splits[number], Progress(chosen), initial_head(number, 6, 5, 2)) for number in range(3)
        ]
        with watched():
            return train_heads(own, features, labels, chosen, device)

    expected = trained("cpu")
    assert [len(own) for own in expected] == [28, 27, 26]
    for size in (1, 2**28):
        monkeypatch.setattr(heads, "EVALUATED", size)
        for own, wanted in zip(trained(NAME), expected, strict=True):
            assert torch.allclose(own, wanted, atol=1e-6)


def test_the_device_refuses_and_counts_what_a_gpu_does():
    with watched() as counts:
        there, here = torch.arange(3.0, device=NAME), torch.arange(3.0)
        for wrong in (lambda: there + here, lambda: here.add_(there), lambda: torch.stack([there, here])):
            with pytest.raises(WrongDeviceError, match="same device"):
                wrong()
        with pytest.raises(WrongDeviceError, match="generator"):
            torch.rand(3, device=NAME, generator=torch.Generator())
        with pytest.raises(RuntimeError, match="numpy"):
            there.numpy()
        assert counts.waits.total() == counts.implicit.total() == 0
        assert float(there.sum()) == 3.0
        assert there[there > 0].tolist() == [1.0, 2.0]
        assert counts.waits.total() == 3
        assert there[torch.tensor([2, 0])].cpu().tolist() == [2.0, 0.0]
        assert (there * torch.tensor(2.0)).cpu().tolist() == [0.0, 2.0, 4.0]
        assert counts.implicit.total() == 2


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


class NoticedError(BaseException):
    """Ends a run: cells that failed side by side need not be tried again in halves."""


def notice(*given):
    raise NoticedError(*given)


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
    "name", [name if row[1] == QUICK else pytest.param(name, marks=pytest.mark.slow) for name, row in MUTATIONS.items()]
)
def test_a_missing_device_is_noticed(name, runner, monkeypatch, caplog):
    function, path, old, new = MUTATIONS[name]
    function = inspect.unwrap(getattr(function, "__func__", function))
    runner.expected(path)
    monkeypatch.setattr(chunks._log, "warning", notice)
    monkeypatch.setattr(function, "__code__", mutant(function, old, new))
    try:
        counts, wrong = differences(runner, path)
    except (Exception, NoticedError):  # noqa: BLE001 - whatever it is, it is noticed
        return
    # Packed rows that fail are given up with a line.
    assert wrong or counts.implicit or caplog.messages
