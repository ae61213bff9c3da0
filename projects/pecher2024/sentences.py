"""What the paper says about its importance scores: means, counts of signs, and whether its numbers support it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from precision import holm
from published import CLASSES

Claim = Literal["mean above", "mean below", "higher", "all above", "all below", "most above", "some below"]
MULTI: Final = [task for task, classes in CLASSES.items() if classes > 2]
BINARY: Final = [task for task, classes in CLASSES.items() if classes == 2]
HOLDS: Final = "holds"
FAILS: Final = "does not hold"
APART: Final = ", if tables are independent"
OPEN: Final = "not decided"


@dataclass(frozen=True)
class Sentence:
    """One statement of the paper about numbers that are printed.

    Attributes
    ----------
    section
        Its section in the paper.
    text
        What it says, in our words.
    claim
        ``mean above``/``mean below``: the mean of scores is above or below 0. ``higher``: it is higher than that of
        `other`. The rest count signs.
    where
        Column -> its value, or values, in the rows it is about.
    other
        The same of the rows that they are set against.
    quoted
        The number that the paper gives, where it gives one that is a mean.
    """

    section: str
    text: str
    claim: Claim
    where: dict[str, Any]
    other: dict[str, Any] = field(default_factory=dict)
    quoted: float | None = None


def _icl(**where: Any) -> dict[str, Any]:
    return {"approach": "icl", **where}


def _tuned(**where: Any) -> dict[str, Any]:
    return {"approach": "finetuning", **where}


def _meta(**where: Any) -> dict[str, Any]:
    return {"approach": "meta_learning", **where}


_RISING: Final = ["Flan-T5", "LLaMA-2-13B", "Mistral-7B"]
_ORDER: Final = {"factor": "data_order"}
_CHOICE: Final = {"factor": "sample_choice"}
_START: Final = {"factor": "model_initialisation"}
SENTENCES: Final = (
    Sentence("4.1", "ICL is not consistently sensitive to data_order", "some below", _icl(**_ORDER)),
    Sentence("4.2", "ICL: sample_choice is important on average", "mean above", _icl(**_CHOICE), quoted=0.25),
    Sentence("4.2", "ICL: sample_choice is important nearly everywhere", "most above", _icl(**_CHOICE)),
    Sentence(
        "4.2", "ICL: sample_choice above data_split", "higher", _icl(**_CHOICE), _icl(factor="data_split")
    ),
    Sentence(
        "4.2", "ICL: sample_choice above label_selection", "higher", _icl(**_CHOICE), _icl(factor="label_selection")
    ),
    Sentence("4.2", "ICL: sample_choice above data_order", "higher", _icl(**_CHOICE), _icl(**_ORDER)),
    Sentence(
        "4.2", "but not for Flan-T5, multi-class", "mean below", {"system": "Flan-T5", "task": MULTI, **_CHOICE},
        quoted=-0.39,
    ),
    Sentence("4.2", "nor for Zephyr on MRPC", "all below", {"system": "Zephyr-7B", "task": "mrpc", **_CHOICE}),
    Sentence("4.2", "ICL, binary: data_order is not", "mean below", _icl(task=BINARY, **_ORDER), quoted=-0.28),
    Sentence(
        "4.2", "ICL without Zephyr, multi-class: it is", "mean above", {"system": _RISING, "task": MULTI, **_ORDER},
        quoted=0.16,
    ),
    Sentence("4.2", "ICL: label_selection mostly important", "most above", _icl(factor="label_selection")),
    Sentence("4.2", "ICL: data_split mostly important", "most above", _icl(factor="data_split")),
    Sentence(
        "4.2", "fine-tuning: label_selection important", "mean above", _tuned(factor="label_selection"), quoted=0.34
    ),
    Sentence("4.2", "fine-tuning: data_split important", "mean above", _tuned(factor="data_split"), quoted=0.52),
    Sentence("4.2", "both on all data sets", "all above", _tuned(factor=["label_selection", "data_split"])),
    Sentence(
        "4.2", "both above the other two", "higher", _tuned(factor=["label_selection", "data_split"]),
        _tuned(factor=["data_order", "model_initialisation"]),
    ),
    Sentence(
        "4.2", "fine-tuning, binary: data_order important", "mean above", _tuned(task=BINARY, **_ORDER), quoted=0.25
    ),
    Sentence(
        "4.2", "fine-tuning, binary: initialisation important", "mean above", _tuned(task=BINARY, **_START), quoted=0.19
    ),
    Sentence(
        "4.2", "fine-tuning, multi-class: data_order not", "mean below", _tuned(task=MULTI, **_ORDER), quoted=-0.14
    ),
    Sentence(
        "4.2", "BERT, multi-class: initialisation not", "mean below", {"system": "BERT", "task": MULTI, **_START},
        quoted=-0.30,
    ),
    Sentence("4.3", "ICL on SST2: data_order not important", "all below", _icl(task="sst2", **_ORDER)),
    Sentence(
        "4.3", "data_order rises with classes, without Zephyr", "higher", {"system": _RISING, "task": MULTI, **_ORDER},
        {"system": _RISING, "task": BINARY, **_ORDER},
    ),
    Sentence("4.3", "Mistral: sample_choice important everywhere", "all above", {"system": "Mistral-7B", **_CHOICE}),
    *(
        Sentence(
            "4.3", f"{system}: sample_choice falls from SST2 to {last}", "higher",
            {"system": system, "task": "sst2", **_CHOICE}, {"system": system, "task": last, **_CHOICE},
        )
        for system, last in (("Flan-T5", "snips"), ("Zephyr-7B", "dbpedia"))
    ),
    *(
        Sentence(
            "4.3", f"{system}: {factor} falls from SST2 to dbpedia", "higher",
            {"system": system, "task": "sst2", "factor": factor},
            {"system": system, "task": "dbpedia", "factor": factor},
        )
        for system, factor in (("BERT", "data_order"), ("BERT", "model_initialisation"), ("RoBERTa", "data_order"))
    ),
    Sentence("F.1", "meta-learning: data_order important", "mean above", _meta(**_ORDER)),
    Sentence(
        "F.1", "and most of all", "higher", _meta(**_ORDER), _meta(factor=["label_selection", "data_split"])
    ),
    Sentence(
        "F.1", "label_selection, data_split important everywhere", "all above",
        _meta(factor=["label_selection", "data_split"]),
    ),
    Sentence("F.1", "sample_choice not everywhere", "some below", _meta(**_CHOICE)),
    Sentence("F.1", "initialisation not everywhere", "some below", _meta(**_START)),
)  # fmt: skip
"""Sections 4.1 to 4.3 and F.1 as far as numbers are printed; those on shots and formats (4.3, 4.4, F.2) are not."""


def judged(sentence: Sentence, signs: pd.DataFrame) -> dict[str, object]:
    """Return what a sentence says, the numbers and whether they support it.

    Means are means of corrected importances. Their intervals are combined in two ways: as if tables were independent
    (Zou and Donner 2008), and however they depend on each other, which adds half-widths up. All tables have the same
    seeds by default, so that the first may claim too much. Counts are of signs that are decided in the worst case, with
    p-values adjusted for the rows of the sentence (Holm).

    Parameters
    ----------
    sentence
        One of :data:`SENTENCES`.
    signs
        Rows of :func:`audit.signs`.
    """
    rows = _chosen(signs, sentence.where)
    row = {"section": sentence.section, "sentence": sentence.text, "rows": len(rows), "quoted": sentence.quoted}
    if sentence.claim in ("mean above", "mean below", "higher"):
        mean, (apart, all_) = _mean(rows)
        printed = rows["importance"].mean()
        if sentence.other:
            others = _chosen(signs, sentence.other)
            other, (apart2, all2) = _mean(others)
            mean, printed = mean - other, printed - others["importance"].mean()
            apart, all_ = np.hypot(apart, apart2[::-1]), all_ + all2[::-1]
        ends = [(mean - width[0], mean + width[1]) for width in (apart, all_)]
        verdict = OPEN
        for (low, high), condition in zip(ends, (APART, ""), strict=True):
            if low > 0 or high < 0:
                verdict = (HOLDS if (high < 0) == (sentence.claim == "mean below") else FAILS) + condition
        return {**row, "printed": printed, "mean": mean, "low": ends[0][0], "high": ends[0][1], "verdict": verdict}
    sure = holm(rows["p_worst"].to_numpy()) <= 0.05
    above, below = int((sure & (rows["estimate"] > 0)).sum()), int((sure & (rows["estimate"] < 0)).sum())
    wanted, contrary = (below, above) if sentence.claim.endswith("below") else (above, below)
    need = {"all": len(rows), "most": len(rows) // 2 + 1, "some": 1}[sentence.claim.split()[0]]
    verdict = HOLDS if wanted >= need else FAILS if len(rows) - contrary < need else OPEN
    return {**row, "above": int((rows["sign"] > 0).sum()), "sure above": above, "sure below": below, "verdict": verdict}


def _chosen(signs: pd.DataFrame, where: dict[str, Any]) -> pd.DataFrame:
    for name, value in where.items():
        signs = signs[signs[name].isin(value if isinstance(value, list) else [value])]
    return signs


def _mean(rows: pd.DataFrame) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    """Return the mean score, and how much it may be too high and too low: rows independent, and however they depend."""
    widths = np.array([rows["estimate"] - rows["low"], rows["high"] - rows["estimate"]])
    return float(rows["estimate"].mean()), (np.sqrt((widths**2).sum(axis=1)) / len(rows), widths.mean(axis=1))
