import pytest
import torch

from mlflow_l3d.approaches.global_seeds import seeded


def drawn(seed):
    with seeded(seed):
        return torch.nn.functional.dropout(torch.ones(1000), 0.5), torch.rand(3)


def test_draws_depend_on_the_seed_alone():
    first = drawn(0)
    torch.rand(17)
    assert all(map(torch.equal, first, drawn(0)))
    assert not torch.equal(first[1], drawn(1)[1])
    drawn(2**53 - 1)


def test_what_is_drawn_afterwards_is_untouched():
    state = torch.get_rng_state()
    expected = torch.rand(5)
    torch.set_rng_state(state)

    @seeded(3)
    def inside():
        torch.rand(100)
        raise KeyError

    with pytest.raises(KeyError):
        inside()
    assert torch.equal(torch.rand(5), expected)


def test_blocks_nest():
    with seeded(1):
        torch.rand(2)
        with seeded(2):
            torch.rand(9)
        inner = torch.rand(2)
    with seeded(1):
        assert torch.equal(torch.rand(4)[2:], inner)
