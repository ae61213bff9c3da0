"""Why nothing could be read from answers: what runs record beside ``unparsed_share``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas as pd

REASONS: Final = {
    "thought": "end inside a thought (raise hyperparameter thought_tokens)",
    "cut": "are cut off at the token limit (raise hyperparameter max_new_tokens)",
    "empty": "are empty",
    "other": "hold other text, or several answers",
}
"""What such answers do; ``unparsed_<reason>_share`` is their share of all answers, 0 where it is not recorded."""


def unparsed_reasons(cells: pd.DataFrame) -> str:
    """Return the shares of answers from which nothing could be read, by reason, the largest first.

    Parameters
    ----------
    cells
        One row a run, with the columns that it recorded.
    """
    names = {reason: f"unparsed_{reason}_share" for reason in REASONS}
    shares = {reason: cells[name].fillna(0.0).mean() for reason, name in names.items() if name in cells}
    ordered = sorted((reason for reason in shares if shares[reason] > 0), key=lambda reason: -shares[reason])
    return ", ".join(f"{shares[reason]:.1%} {REASONS[reason]}" for reason in ordered)
