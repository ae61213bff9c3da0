"""What people see of a study: its progress on stderr, and its result in a shell or a notebook."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import wraps
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar, cast

from mlflow_l3d.approaches.progress import heard_by

if TYPE_CHECKING:
    from tqdm import tqdm

    from mlflow_l3d.report.page import Document


_TICK: Final = 1.0
"""Seconds between two looks at a line on which nothing else happens."""


class _Stderr:
    """Standard error if there is one: a text that cannot be written is lost, and nothing fails for it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    def write(self, text: str) -> None:
        if sys.stderr is None:  # 2>&-
            return
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            empty(sys.stderr)


STDERR: Final = _Stderr()


def empty(stream: IO[str]) -> None:
    """Drop what a full or closed stream holds back, which would be an error again; a disk may have room later."""
    with suppress(OSError), Path(os.devnull).open("w") as nowhere:
        place = os.dup(stream.fileno())
        os.dup2(nowhere.fileno(), stream.fileno())
        stream.flush()
        os.dup2(place, stream.fileno())
        os.close(place)


def shows_progress(wanted: bool | None) -> bool:
    """Return whether progress is shown: as it is wanted, or if somebody looks, in a notebook or on a terminal."""
    return _looked_at() if wanted is None or sys.stderr is None else wanted


@contextmanager
def progress_bar(
    what: str, unit: str, *, total: int, shown: bool, done: int = 0, state: str = ""
) -> Iterator[tqdm[Any]]:
    """Show a progress bar on stderr in the block; with a `state` at its end, its clock continues by itself.

    What sessions report meanwhile replaces `state`: the progress of encoding texts.
    """
    bar = _bar(
        total=total,
        initial=done,
        unit=unit,
        disable=not shown,
        desc=what,
        smoothing=0.1,
        mininterval=0.5 if _looked_at() else 10.0,
        postfix=state or None,
    )
    if shown and state and _looked_at():
        threading.Thread(target=_tick, args=(bar, lambda: bool(bar.postfix) and not bar.disable), daemon=True).start()
    last = 0.0

    def hear(said: str) -> None:
        nonlocal last
        bar.set_postfix_str(said or ("" if bar.n > bar.initial else state), refresh=False)
        if (now := time.monotonic()) - last >= bar.mininterval:
            last = now
            bar.refresh()

    with bar, heard_by(hear if shown else lambda _: None):
        yield bar


def restart_clock(bar: tqdm[Any]) -> None:
    """Let the rate of a bar that has not moved yet be that from here on: loading and encoding are over."""
    if not bar.disable and bar.n == bar.initial:
        bar.set_postfix_str("", refresh=False)
        bar.unpause()
        bar.start_t = bar.last_print_t


@contextmanager
def under_way(what: str, *, shown: bool, left: Callable[[], int] | None = None) -> Iterator[None]:
    """Show what is done in the block and how long it takes, and how much is `left` if that can be said."""
    if not shown:
        yield
        return
    text = (lambda: f"{left():,} left") if left is not None else str
    with _bar(desc=what, bar_format="{desc}: {elapsed} {postfix}", leave=False) as bar:
        if _looked_at():
            threading.Thread(target=_tick, args=(bar, lambda: not bar.disable, text), daemon=True).start()
        yield


def _tick(bar: tqdm[Any], going: Callable[[], bool], text: Callable[[], str] | None = None) -> None:
    pause = threading.Event()
    while not pause.wait(_TICK) and going():
        if text is not None:
            bar.set_postfix_str(text(), refresh=False)
        bar.refresh()


def _looked_at() -> bool:
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def in_notebook() -> bool:
    """Return whether this is a kernel of Jupyter; IPython is not imported for it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _bar(**shape: Any) -> Any:
    """Return the bar of notebooks, which prints to their stdout, if it can be shown, else that of terminals."""
    if in_notebook() and find_spec("ipywidgets"):
        from tqdm.notebook import tqdm as widget

        return widget(**shape)
    from tqdm import tqdm

    return tqdm(file=cast("Any", STDERR), **shape)


_LINES: Final = 30
_HEIGHT: Final = 560
T = TypeVar("T", bound="OnOneScreen")


def built_once(build: Callable[[T], Document]) -> Callable[[T], Document]:
    """Let a result keep the report that its method builds; it is neither compared, shown nor written with the rest."""

    @wraps(build)
    def report(self: T) -> Document:
        kept = vars(self)
        if "_report" not in kept:
            kept["_report"] = build(self)
        return cast("Document", kept["_report"])

    return report


class OnOneScreen:
    """A result that shows the beginning of its summary, and in a notebook the first screen of its report."""

    def report(self) -> Document | None:
        """Return the result as people read it; None if it is a text alone."""
        return None

    def summary(self) -> str:
        """Return the text that the command line prints."""
        document = self.report()
        assert document is not None
        return document.to_text()

    def __repr__(self) -> str:
        """Return the beginning of the summary."""
        lines = self.summary().strip().splitlines()
        more = len(lines) - _LINES
        return "\n".join([*lines[:_LINES], *([f"... {more} more lines: print the summary()"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        document = self.report()
        return f"<pre>{escape(repr(self))}</pre>" if document is None else framed(document.to_html(folded=False))


def printed(result: Any) -> str:
    """Return the summary of a result in lines that fit a terminal; a pipe or a file gets those that MLflow keeps."""
    from mlflow_l3d.report.text import WIDTH, columns

    context = copy_context()
    if sys.stdout.isatty():
        context.run(columns.set, max(60, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)))
    return str(context.run(result.summary))


def framed(page: str) -> str:
    """Return a page as a notebook shows it, apart from the styles and scripts of the notebook."""
    style = f"width:100%;height:{_HEIGHT}px;border:0"
    grows = "this.style.height=this.contentDocument.body.scrollHeight+'px'"
    return f'<iframe srcdoc="{escape(page)}" style="{style}" onload="{grows}" title="Report"></iframe>'
