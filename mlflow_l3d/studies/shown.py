"""Results of studies where nobody prints them: one screen in a shell, a table in a notebook."""

from __future__ import annotations

from html import escape
from typing import Final

_LINES: Final = 30
_ROWS: Final = 30


class OnOneScreen:
    """A result that shows the beginning of its summary, and in a notebook the table of `to_frame`, if it has one."""

    def summary(self) -> str:
        """Return the text that the command line prints."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the beginning of the summary."""
        lines = self.summary().strip().splitlines()
        more = len(lines) - _LINES
        return "\n".join([*lines[:_LINES], *([f"... {more} more lines: print the summary()"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        to_frame = getattr(self, "to_frame", None)
        if to_frame is None:
            return f"<pre>{escape(repr(self))}</pre>"
        title, _, *lines = self.summary().strip().splitlines()
        head = lines[: lines.index("")] if "" in lines else lines
        table = to_frame().to_html(max_rows=_ROWS, float_format="{:.3g}".format)
        return f"<p><strong>{escape(title)}</strong><br>{escape(' '.join(head))}</p>{table}"
