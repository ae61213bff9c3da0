"""Who was called how often: in a module of its own, as what a function of the same module refers to is in its key."""

from __future__ import annotations

import threading
from collections import Counter

CALLS: Counter[str] = Counter()
"""Name -> how often it was called."""
_ASKED: Counter[str] = Counter()
_LOCK = threading.Lock()


def count(name: str, *, asked: str = "") -> int:
    """Note a call; return how often this was asked before."""
    with _LOCK:
        CALLS[name] += 1
        _ASKED[asked] += 1
        return _ASKED[asked] - 1


def forget() -> None:
    """Forget all calls."""
    CALLS.clear()
    _ASKED.clear()
