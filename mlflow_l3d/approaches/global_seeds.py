"""The one module that touches a global generator, for models of other people that draw from nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np

from mlflow_l3d.errors import L3DError


@contextmanager
def seeded(seed: int, device: str = "cpu", *, forbidden: str = "") -> Iterator[None]:
    """Seed torch's global generators inside the block, and put them back as they were, also after an error.

    Dropout, and the weight initialisation of `transformers`, take no generator. The draws in the block
    depend on `seed` alone, and later draws are as if the block had not run.

    Parameters
    ----------
    seed
        In ``[0, 2**63)``, from :func:`mlflow_l3d.cells.factors.stream_seed`. Zero is a seed.
    device
        The device that is used next to the CPU; other accelerators are left alone.
    forbidden
        Raise an :class:`~mlflow_l3d.errors.L3DError` that says this, if something was drawn in the block.
    """
    import torch

    where = torch.device(device)
    module = None if where.type == "cpu" else torch.get_device_module(where)
    # Metal has one device and its functions take no number.
    number = () if where.type == "mps" else (where,)

    def states() -> list[torch.Tensor]:
        return [torch.get_rng_state(), *([] if module is None else [module.get_rng_state(*number)])]

    before = states()
    try:
        torch.default_generator.manual_seed(seed)
        if where.type == "cuda":
            with torch.cuda.device(where):
                torch.cuda.manual_seed(seed)
        elif module is not None:
            module.manual_seed(seed)
        first = states() if forbidden else []
        yield
        if forbidden and not all(map(torch.equal, first, states())):
            raise L3DError(forbidden)
    finally:
        torch.set_rng_state(before[0])
        if module is not None:
            module.set_rng_state(before[1], *number)


@contextmanager
def globally_seeded(seed: int, *, with_torch: bool) -> Iterator[None]:
    """Seed the global generators of Python, numpy and, if asked, torch inside the block, as :func:`seeded` does."""
    python, array = random.getstate(), np.random.get_state()  # noqa: NPY002
    device = "cpu"
    if with_torch:
        import torch

        device = "cuda" if torch.cuda.is_available() else device
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        with seeded(seed, device) if with_torch else nullcontext():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(array)  # noqa: NPY002
