"""Copies of linear layers in bfloat16: the numbers of autocast, with fewer casts."""

import copy
from contextlib import nullcontext

import pytest
import torch

from mlflow_l3d.approaches.finetuning.weights import RoundedLayers


class Network(torch.nn.Module):
    """A tied layer, one that is used twice, one without a gradient, and norms in float32."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = torch.nn.Embedding(11, 8), torch.nn.LayerNorm(8)
        self.twice, self.out, self.tied = (torch.nn.Linear(8, 8), torch.nn.Linear(8, 3), torch.nn.Linear(8, 11))
        self.unused = torch.nn.Linear(8, 2)
        self.tied.weight = self.embed.weight

    def forward(self, x):
        hidden = self.twice(self.norm(self.twice(self.embed(x))))
        return torch.cat([self.out(hidden), self.tied(hidden)], -1).float()


def gradients(network, rounded, *, fails=False):
    for seed in range(2):  # added up, as of the parts of a batch
        x = torch.randint(11, (4, 5), generator=torch.Generator().manual_seed(seed))
        with rounded(), torch.autocast("cpu", dtype=torch.bfloat16):
            network(x).square().mean().backward()
            if fails:
                raise MemoryError
    return {name: weight.grad for name, weight in network.named_parameters()}


def test_gradients_are_bit_for_bit_those_of_autocast():
    torch.manual_seed(0)
    network = Network()
    expected, own = gradients(copy.deepcopy(network), nullcontext), dict(network.named_parameters())
    rounded = RoundedLayers(network)
    with pytest.raises(MemoryError):
        gradients(network, rounded.placed, fails=True)
    assert all(weight is own[name] for name, weight in network.named_parameters())
    network.zero_grad()  # what was left of the training that failed must not count
    found = gradients(network, rounded.placed)
    assert found["unused.weight"] is expected["unused.weight"] is None
    for name in own.keys() - {"unused.weight", "unused.bias"}:
        assert found[name].dtype is torch.float32
        assert torch.equal(found[name], expected[name]), name
