"""What torch says of GPUs, on a machine that has none; nothing computes there."""

from contextlib import nullcontext

import torch

if torch.cuda.is_available():
    torch.cuda.init()  # looks at all GPUs that are there, and must not look for pretended ones


def pretend_cards(monkeypatch, *names, bfloat16=True):
    """Let torch find GPUs of these names; without bfloat16 they emulate it, as old ones do."""
    cuda = {
        "is_available": lambda: bool(names),
        "device_count": lambda: len(names),
        "get_device_name": lambda device=None: names[
            device if isinstance(device, int) else torch.device(device).index or 0
        ],
        "device": lambda device: nullcontext(),
        "is_bf16_supported": lambda including_emulation=True: including_emulation or bfloat16,
    }
    for name, value in cuda.items():
        monkeypatch.setattr(torch.cuda, name, value)
