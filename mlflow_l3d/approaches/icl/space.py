"""What a search of hyperparameters tries for `icl`, where it is asked for: the paper does not search there."""

from __future__ import annotations

from collections.abc import Mapping

from mlflow_l3d.approaches.hyperparameters import SearchChoices, Searched, SearchRange, Value


def search_space(hyperparameters: Mapping[str, Value]) -> dict[str, Searched]:
    """Return what is searched under complete hyperparameters: the shots, the format, and the calibration of scores.

    At most 24 combinations at level 1. A custom format stays, zero-shot stays zero-shot (else factors would come into
    effect), and generated answers have no scores to calibrate.
    """
    space: dict[str, Searched] = {}
    if hyperparameters["shots"] != 0:
        space["shots"] = SearchRange(1, 8, log=True, whole=True, coarse=(1, 2, 5))
    if hyperparameters["prompt_format"] != "custom":
        space["prompt_format"] = SearchChoices(("A", "B", "C", "D"))
    if hyperparameters["decision"] == "score":
        space["calibration"] = SearchChoices(("none", "contextual"))
    return space
