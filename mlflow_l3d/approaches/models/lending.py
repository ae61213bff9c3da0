"""What the sessions of one process lend each other: loaded models and encoded texts, each there once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

_LENT: Final[WeakValueDictionary[Hashable, Any]] = WeakValueDictionary()


def lent(key: Hashable, make: Callable[[], T]) -> T:
    """Return the object of this key that another session holds, or else a new one.

    It lives as long as a session holds it, and no longer. Sessions of other threads have their own: a session may write
    to what it holds while it runs a cell, so long as the next cell, of whichever session, does not depend on it.

    Parameters
    ----------
    key
        Everything that `make` depends on.
    make
        Makes the object; it can be weakly referenced.
    """
    thread_key = (threading.get_ident(), key)
    thing: T | None = _LENT.get(thread_key)
    if thing is None:
        thing = _LENT[thread_key] = make()
    return thing
