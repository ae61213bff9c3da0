"""Global generators of a project that takes no seeds: what it seeds them with is moved by ours.

A project that seeds numpy with 40, or with nothing, is not changed: its interpreter runs a file of ours first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SEEDED: Final = ("random.seed", "numpy.random.seed", "torch.manual_seed")
"""Functions that may stand in the place of a parameter."""
_VARIABLE: Final = "L3D_SEEDS"
_FIRST: Final = f"""
import importlib, json, os, sys

def moved(function, ours):
    def seeded(seed=None, *more, **named):
        whole = seed if isinstance(seed, int) else hash(str(seed)) if seed is not None else 0
        return function((ours + whole) % 2**32, *more, **named)
    return seeded

for name, ours in json.loads(os.environ["{_VARIABLE}"]).items():
    where, _, what = name.rpartition(".")
    module = importlib.import_module(where)
    setattr(module, what, moved(getattr(module, what), ours))
    getattr(module, what)(0)
sys.path.remove(os.path.dirname(__file__))
sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError:
    pass
"""


def variables(seeds: Mapping[str, int], folder: Path) -> dict[str, str]:
    """Write the file that a Python interpreter runs first to a folder, and return the variables that lead it there.

    Parameters
    ----------
    seeds
        Function, one of :data:`SEEDED` -> what is added to each seed that it is given. It is called once before.
    folder
        Created here.
    """
    if not seeds:
        return {}
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_FIRST, encoding="utf-8")
    return {"PYTHONPATH": str(folder), _VARIABLE: json.dumps(dict(seeds)), "PYTHONHASHSEED": "0"}
