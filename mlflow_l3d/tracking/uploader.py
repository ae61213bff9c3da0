"""Uploads during the training: threads that outlive an outage of the server and never block who gives them work."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from mlflow_l3d.errors import disk_line, logger
from mlflow_l3d.tracking.connection import error_line, is_outage, outage_line, refusal_of

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0


class _Line:
    """Threads, one queue, and the state of the server: what several uploaders may share.

    Attributes
    ----------
    state
        Held while anything of the line or of its uploaders changes.
    """

    def __init__(self, threads: int) -> None:
        self.queue: queue.SimpleQueue[tuple[Uploader, str, Callable[[], object]] | None] = queue.SimpleQueue()
        self.state = threading.Condition()
        self.outage_since: float | None = None
        self._away, self._pause = 0.0, 0.0
        self._outages, self._told = 0, False
        self._probe = threading.Lock()
        self.threads = [
            threading.Thread(target=self._run, name=f"l3d-upload-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self.threads:
            thread.start()

    def _run(self) -> None:
        while (upload := self.queue.get()) is not None:
            self._until_done(*upload)

    def _until_done(self, uploader: Uploader, name: str, work: Callable[[], object]) -> None:
        while not uploader.stopped:
            probing = self.outage_since is not None
            with self._probe if probing else nullcontext():
                if probing and self.outage_since is not None:
                    with self.state:
                        self.state.wait_for(lambda: uploader.stopped, timeout=self._pause)
                if uploader.stopped or self._attempt(uploader, name, work):
                    return

    def _attempt(self, uploader: Uploader, name: str, work: Callable[[], object]) -> bool:
        """Try once; return whether the piece of work is settled."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever a store raises must not end the thread
            if is_outage(error):
                uploader.why = outage_line(error)
                self._note_outage(uploader.why)
                return False
            line = disk_line(error) or error_line(refusal_of(error) or error)
            with self.state:
                uploader.refused.append((name, line))
                if line not in (earlier for _, earlier in uploader.refused[:-1]):
                    logger.error("%s was refused by the tracking server: %s", name, line)
        else:
            self._note_answer()
        with self.state:
            uploader.pending -= 1
            self.state.notify_all()
        return True

    def _note_outage(self, line: str) -> None:
        with self.state:
            if self.outage_since is None:
                self.outage_since = time.monotonic()
                self._pause, self._told = _FIRST_PAUSE, False
                self._outages += 1
            else:
                self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            # A server that comes and goes would fill the screen: the first outage is told, and then those that last.
            # Seconds of an outage that need not be told, if it is not the first.
            if not self._told and (self._outages == 1 or time.monotonic() - self.outage_since > 5.0):
                self._told = True
                logger.warning("%s Results are kept in the spool.", line)

    def _note_answer(self) -> None:
        with self.state:
            if self.outage_since is not None:
                away = time.monotonic() - self.outage_since
                if self._told:
                    logger.warning("The tracking server is back after %.0f s; uploads continue.", away)
                self._away += away
                self.outage_since = None

    @property
    def away(self) -> float:
        """Seconds of all outages so far."""
        return self._away + (0.0 if self.outage_since is None else time.monotonic() - self.outage_since)


class Uploader:
    """Pieces of work, each with a name for messages, that a few threads do.

    A piece of work must be safe to call again: it is, if an earlier attempt failed half-way.

    While the server is away, one attempt at a time probes it, with pauses that grow from half a second to 15 seconds;
    nothing is dropped. A piece of work that the server refuses for good is kept in `refused`.

    Parameters
    ----------
    threads
        How many calls are under way at once.
    beside
        An uploader whose threads are shared; it must be the last to stop.

    Attributes
    ----------
    pending
        How many pieces of work are not done.
    why
        What the latest outage said.
    refused
        Name and error of those that the server refused.
    stopped
        Whether work that is still queued is left undone.
    """

    def __init__(self, threads: int, *, beside: Uploader | None = None) -> None:
        self._own = beside is None
        self._line: _Line = _Line(threads) if beside is None else beside._line
        self.pending, self.why = 0, ""
        self.stopped = False
        self.refused: list[tuple[str, str]] = []

    def submit(self, name: str, work: Callable[[], object]) -> None:
        """Queue one piece of work; returns at once."""
        with self._line.state:
            self.pending += 1
        self._line.queue.put((self, name, work))

    @property
    def outage_seconds(self) -> float:
        """For how long the server has been away; 0 while it answers."""
        with self._line.state:
            since = self._line.outage_since
            return 0.0 if since is None else time.monotonic() - since

    def wait(self, *, patience: float) -> bool:
        """Wait until no work is left.

        Parameters
        ----------
        patience
            Seconds of outage during this wait, of all outages together, after which it is given up; while the server
            answers it never is.

        Returns
        -------
        bool
            Whether the work is done.
        """
        line = self._line
        with line.state:
            before = line.away
            while self.pending:
                line.state.wait(timeout=0.2)
                if line.outage_since is not None and line.away - before > patience:
                    return False
        return True

    def stop(self) -> None:
        """Stop after what is under way; work still queued is left undone (the spool holds it)."""
        with self._line.state:
            self.stopped = True
            self._line.state.notify_all()
        if self._own:
            for _ in self._line.threads:
                self._line.queue.put(None)
