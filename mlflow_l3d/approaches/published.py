"""How the authors of a paper investigated with an approach: what `paper` means beside hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedStudy:
    """The setting of Pecher et al. (2024, section 4 and appendix D) for one approach.

    Attributes
    ----------
    models
        Short names of the models, one or more.
    mitigation_runs, investigation_runs
        M and N; L is their product.
    examples
        Labelled examples, and evaluated ones.
    metric
        What was investigated.
    rate
        Hyperparameter whose published value suits these models only; empty if there is none.
    """

    models: tuple[str, ...]
    mitigation_runs: int = 100
    investigation_runs: int = 10
    examples: int = 1000
    metric: str = "f1_macro"
    rate: str = ""
