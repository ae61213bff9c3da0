"""Budgets: the most that is computed, in cells, in time, or in requests to an endpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from mlflow_l3d.errors import ParameterError

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}
_TIME: Final = re.compile(r"(?:\d+(?:\.\d+)?[hms]\s*)+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([hms])")


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that is computed; None for no bound.

    Attributes
    ----------
    cells
        Cells that are trained, those found done not counted.
    seconds
        Of a sweep, wall clock of the training, from the start of the workers; of a plan, time of one worker.
    requests
        Questions to a model, one for each test example of a cell.
    """

    cells: int | None = None
    seconds: float | None = None
    requests: int | None = None

    def __bool__(self) -> bool:
        """Return whether there is a bound."""
        return self != Budget()

    def __str__(self) -> str:
        if self.cells is not None:
            return f"{self.cells:,} cells"
        if self.requests is not None:
            return f"{self.requests:,} requests"
        return "none" if self.seconds is None else duration_text(self.seconds)

    @classmethod
    def parse(cls, given: Any, *, requests: bool = False) -> Budget:
        """Return the typed text: ``none``, ``5000``, ``5000 cells``, ``2h``, ``90m``, ``1h 30m``; ``900 requests``.

        Parameters
        ----------
        given
            As typed.
        requests
            Whether these may be counted.

        Raises
        ------
        ParameterError
            If it is none of these, or nothing could be computed.
        """
        text = str(given).strip().lower()
        if text == "none":
            return cls()
        unit = "requests" if requests and text.endswith("requests") else "cells"
        number = text.removesuffix(unit).strip()
        if number.isdigit() and number.isascii() and 0 < len(number) < 16 and int(number) > 0:
            return cls(**{unit: int(number)})
        if _TIME.fullmatch(text):
            seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
            if seconds > 0:
                return cls(seconds=seconds)
        counted = "cells or requests" if requests else "cells"
        raise ParameterError("budget", given, f"must be none, a time as in 2h, 90m or 1h30m, or a number of {counted}")


def duration_text(seconds: float) -> str:
    """Return a time as people say it."""
    unit, size = next((each for each in (("h", 3600.0), ("min", 60.0)) if seconds >= each[1]), ("s", 1.0))
    return f"{seconds / size:.3g} {unit}"
