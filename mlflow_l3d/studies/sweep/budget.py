"""Budgets: the most that a sweep computes, in cells or in time."""

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
        Wall clock of the training, from the start of the workers.
    """

    cells: int | None = None
    seconds: float | None = None

    def __bool__(self) -> bool:
        """Return whether there is a bound."""
        return self.cells is not None or self.seconds is not None

    def __str__(self) -> str:
        if self.cells is not None:
            return f"{self.cells:,} cells"
        return "none" if self.seconds is None else duration_text(self.seconds)

    @classmethod
    def parse(cls, given: Any) -> Budget:
        """Return what is typed: ``none``, ``5000``, ``5000 cells``, ``2h``, ``90m``, ``1h 30m``.

        Raises
        ------
        ParameterError
            If it is none of these, or nothing could be computed.
        """
        text = str(given).strip().lower()
        if text == "none":
            return cls()
        number = text.removesuffix("cells").strip()
        if number.isdigit() and number.isascii() and int(number) > 0:
            return cls(cells=int(number))
        if _TIME.fullmatch(text):
            seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
            if seconds > 0:
                return cls(seconds=seconds)
        raise ParameterError("budget", given, "must be none, a time as in 2h, 90m or 1h30m, or a number of cells")


def duration_text(seconds: float) -> str:
    """Return a time as people say it."""
    unit, size = next((each for each in (("h", 3600.0), ("min", 60.0)) if seconds >= each[1]), ("s", 1.0))
    return f"{seconds / size:.3g} {unit}"
