"""Words that a page explains on the spot."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

TERMS: Final = MappingProxyType(
    {
        "std": "Standard deviation: the typical distance of one run from the mean. About two runs in three lie within "
        "one of it.",
        "golden": "A training with a new seed for every factor.",
        "pooled": "The cells of all tables together, in place of trainings with a new seed for every factor. They vary "
        "less.",
        "agree": "Consistency (CON): how often two runs predict the same for a test example that both saw.",
        "right": "Correct consistency (CCON): how often two runs predict the same for a test example, and are right.",
        "share": "The part of the score's variance in which this factor is involved, alone or together with others "
        "(total Sobol index). What two factors do together counts for both, so shares may add up to more than 100 %.",
        "alone": "The share of the factor by itself, without what it does together with others (first Sobol index).",
        "moves": "How far the score typically moves if only this factor changes: a standard deviation, without the "
        "bias of few runs.",
        "verdict": "Interval of the share wholly above 50 %: dominates. Wholly below: minor. Else undecided, as is a "
        "factor whose interval cannot be trusted.",
        "published": "Importance of Pecher et al. 2024: (contributed \N{MINUS SIGN} mitigated) / golden standard "
        "deviation. They call a factor important if it is above 0.",
        "corrected": "√share \N{MINUS SIGN} √(1 \N{MINUS SIGN} share): the published importance without its errors "
        "from few rows and columns. Above 0 exactly if the share is above 50 %.",
        "contributed": "As published: the mean of the standard deviations within rows, in which only this factor "
        "changes.",
        "mitigated": "As published: the standard deviation of the row means, between which all other factors change.",
        "letters": "Factors that share a letter do not differ significantly.",
        "kappa": "Agreement of two runs beyond chance (Fleiss): 1 is always, 0 is chance.",
        "disagreement": "How often runs disagree on an example if only this factor changes, over how often if every "
        "factor does. The two come from different runs, so that chance may lift it above 100 %.",
        "failed": "Cells of the plan that have no score.",
        "luck": "Two runs that differ by chance alone lie further apart than this one time in twenty.",
        "collapsed": "The score is at or below chance and far below the others, or all predictions are the same.",
        "var": "Standard deviation over seeds as published (Zhou et al. 2025 call it VAR): divided by their number.",
        "rank": "The place of a seed among the seeds of one task, averaged over tasks: 1 is the best.",
        "fanova": "Share of the variance of the score over the coarse space that the hyperparameter alone accounts for "
        "(fANOVA). Luck counts as a cause, so a small share is not a finding.",
        "repeated": "Repeated confidence interval: the intervals of all interim analyses hold together at this level, "
        "whichever of them ends the gate.",
    }
)
"""Term -> what it means, in one or two sentences."""
