"""Many claims: how much evidence each needs, so that at most a share `alpha` of all claims is false on average."""

from __future__ import annotations

from collections.abc import Sequence


def evidence_needed(number: int, kept: int, planned: int, alpha: float) -> float:
    """Return the e-value that a claim of a session needs, whose candidates come one after another.

    Parameters
    ----------
    number
        Of the candidate, from 1.
    kept
        How many candidates were kept before it.
    planned
        Candidates that the session is planned for; it may have fewer or more.
    alpha
        Expected share of false claims among all, at most.

    Notes
    -----
    e-LOND (Xu and Ramdas 2024, "Online multiple testing with e-values", AISTATS): 1 / (alpha gamma (kept + 1)), which
    controls the false discovery rate however the e-values depend on each other, as they do if they share the runs of a
    champion. The weights gamma are .9 / planned for the planned candidates; a tenth of that for the next
    stretch of twice as many, and so on. They add up to 1.

    Examples
    --------
    >>> round(evidence_needed(1, 0, 300, 0.05)), round(evidence_needed(300, 5, 300, 0.05))
    (6667, 1111)
    >>> round(evidence_needed(301, 0, 300, 0.05))
    133333
    """
    stretch, end = 0, planned
    while number > end:
        stretch += 1
        end += planned * 2**stretch
    weight: float = 0.9 * 0.1**stretch / (planned * 2**stretch)
    return 1 / (alpha * weight * (kept + 1))


def claims_at_once(evidence: Sequence[float], alpha: float) -> list[bool]:
    """Return which claims of a family hold, whose e-values are known at the same time.

    Notes
    -----
    e-BH (Wang and Ramdas 2022, "False discovery rate control with e-values", Journal of the Royal Statistical Society
    B 84): the k largest are claimed, for the largest k whose k-th largest is number / (alpha k) or more. If there is
    nothing to be found, any claim at all is made with probability alpha at most, however they depend on each other.

    Examples
    --------
    >>> claims_at_once([100.0, 1.0, 30.0], 0.05)
    [True, False, True]
    """
    ranked, claimed = sorted(evidence, reverse=True), 0
    for rank, value in enumerate(ranked, 1):
        if value >= len(ranked) / (alpha * rank):
            claimed = rank
    return [bool(claimed) and value >= ranked[claimed - 1] for value in evidence]
