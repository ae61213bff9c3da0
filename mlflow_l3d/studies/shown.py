"""Results of studies where nobody prints them: one screen in a shell, the first screen of the report in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mlflow_l3d.report.page import Document

_LINES: Final = 30
_HEIGHT: Final = 560


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
        if document is None:
            return f"<pre>{escape(repr(self))}</pre>"
        page = escape(document.to_html(folded=False))
        return f'<iframe srcdoc="{page}" style="width:100%;height:{_HEIGHT}px;border:0" title="Report"></iframe>'
