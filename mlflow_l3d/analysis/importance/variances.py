"""The variances behind a corrected importance score, in one record for every design."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """What the investigated factor F and all other factors R contribute, in squared score units.

    Nothing is truncated at zero except where said: an estimate of a small variance may fall below zero by chance.

    Attributes
    ----------
    design
        Name of the design.
    method
        ``anova``, ``jansen`` (radial) or ``reml``, say.
    rows, columns
        Complete rows, and columns (2 in the radial design: base and swap). With ``reml`` rows may lack cells.
    main
        s2_F, main effect of the factor; nan where a design cannot tell it from the interaction (nested, radial).
    interaction
        s2_RF + s2_e, its interaction with the others and what nothing explains; nan likewise.
    mitigated
        s2_R, main effect of all other factors together.
    contributed
        tau2 = s2_F + s2_RF + s2_e.
    total
        sigma2 = tau2 + s2_R with s2_R at least 0; the golden runs estimate the same.
    total_index
        S_T = tau2 / sigma2, in [0, 1]; nan where all scores are equal.
    truncated
        Which of ``main``, ``mitigated`` are below zero: their best estimate is 0.
    """

    design: str
    method: str
    rows: int
    columns: int
    main: float
    interaction: float
    mitigated: float
    contributed: float
    total: float
    total_index: float
    truncated: tuple[str, ...] = ()

    @property
    def importance(self) -> float:
        """Corrected importance ``sqrt(S_T) - sqrt(1 - S_T)``; nan where all scores are equal."""
        if math.isnan(self.total_index):
            return math.nan
        return math.sqrt(self.total_index) - math.sqrt(1 - self.total_index)

    def to_frame(self) -> pd.DataFrame:
        """Return one row with the fields, `truncated` as text."""
        import pandas as pd

        return pd.DataFrame([{**asdict(self), "truncated": ", ".join(self.truncated), "importance": self.importance}])


def variance_components(
    design: str,
    method: str,
    *,
    rows: int,
    columns: int,
    contributed: float,
    mitigated: float,
    main: float = math.nan,
    interaction: float = math.nan,
    total: float | None = None,
) -> VarianceComponents:
    """Build the record from untruncated variances; `total` is their sum unless a design has a better estimate."""
    whole = contributed + max(0.0, mitigated) if total is None else total
    share = min(1.0, contributed / whole) if whole > 0 else math.nan
    below = tuple(name for name, value in (("main", main), ("mitigated", mitigated)) if value < 0)
    return VarianceComponents(
        design, method, rows, columns, main, interaction, mitigated, contributed, whole, share, below
    )
