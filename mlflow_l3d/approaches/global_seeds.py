"""The one module that touches a global generator, for models of other people that draw from nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seeded(seed: int, device: str = "cpu") -> Iterator[None]:
    """Seed torch's global generators inside the block, and put them back as they were, also after an error.

    Dropout, and the weight initialisation of `transformers`, take no generator. What is drawn in the block
    depends on `seed` alone, and what is drawn after it is what would have been drawn without the block.

    Parameters
    ----------
    seed
        In ``[0, 2**63)``, from :func:`mlflow_l3d.plan.factors.stream_seed`. Zero is a seed.
    device
        The device that is used beside the CPU; other accelerators are left alone.
    """
    import torch

    where = torch.device(device)
    on_host = where.type == "cpu"
    host_state = torch.get_rng_state()
    module = None if on_host else torch.get_device_module(where)
    # Metal has one device and its functions take no number.
    number = () if where.type == "mps" else (where,)
    device_state = None if module is None else module.get_rng_state(*number)
    try:
        torch.default_generator.manual_seed(seed)
        if where.type == "cuda":
            with torch.cuda.device(where):
                torch.cuda.manual_seed(seed)
        elif module is not None:
            module.manual_seed(seed)
        yield
    finally:
        torch.set_rng_state(host_state)
        if module is not None:
            module.set_rng_state(device_state, *number)
