"""What a session says of its preparation to whoever listens: loads at once, for the command line listens too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")
_EVERY: Final = 0.5
"""Seconds between two messages."""
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Callable[[str], None]) -> Iterator[None]:
    """Let `listener` have what :func:`tell` is given in the block, in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(state: str) -> None:
    """Say what is being done, in a few words; the empty text says that it is over."""
    if (listener := _listener.get()) is not None:
        listener(state)


def report_progress(what: str, parts: Iterable[T], size: Callable[[T], int], total: int) -> Iterator[T]:
    """Yield the parts of some work, and tell how many per cent of it are done.

    Parameters
    ----------
    what
        As in ``encoding 32,693 texts``.
    parts
        What is yielded; a part is done when the next one is asked for.
    size
        Returns the size of a part.
    total
        The size of all parts.
    """
    done, last = 0, 0.0
    for part in parts:
        if (now := time.monotonic()) - last >= _EVERY:
            last = now
            tell(f"{what}: {100 * done // total} %")
        yield part
        done += size(part)
    tell("")
