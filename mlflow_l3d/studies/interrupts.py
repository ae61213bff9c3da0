"""Ctrl-C and SIGTERM at moments when an exception out of nowhere would do harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Let a first Ctrl-C or SIGTERM wait for the end of the block; a second Ctrl-C does not.

    An exception in the middle of a database transaction leaves it open, and the database locked for whoever has to
    write that the run was interrupted. Does nothing outside the main thread, where no signal arrives.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []

    def note(number: int, _frame: Any) -> None:
        if noted and number == signal.SIGINT:
            raise KeyboardInterrupt
        noted.append(number)

    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if callable(signal.getsignal(number))]
    previous = {number: signal.signal(number, note) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if noted:
        handler = previous[signal.Signals(noted[0])]
        if callable(handler):
            handler(noted[0], None)
