"""Numbers whose default depends on another hyperparameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mlflow_l3d.approaches.base import Hyperparameter, Value

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class AutoNumber(Hyperparameter):
    """A number that is `auto` until the approach's ``complete`` puts the value that goes with the others.

    Attributes
    ----------
    whole
        Whether it is a whole number.
    """

    whole: bool = False

    def parse(self, name: str, value: object) -> Value:
        """Return ``auto``, or the number, checked against the bounds."""
        if str(value).strip().lower() == AUTO:
            return AUTO
        plain = Hyperparameter(1 if self.whole else 1.0, self.help, self.low, self.high)
        return plain.parse(name, value)
