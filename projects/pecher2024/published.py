"""The numbers that Pecher et al. (2024) printed, with our names of tasks, models and factors, and as fractions.

``published/README.md`` says what is missing and where the paper disagrees with itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pandas as pd

FOLDER: Final = Path(__file__).resolve().parent / "published"
TASKS: Final = {
    "SST2": "sst2",
    "CoLA": "cola",
    "MRPC": "mrpc",
    "AG News": "ag_news",
    "TREC": "trec",
    "SNIPS": "snips",
    "DB-Pedia": "dbpedia",
}
"""The paper's data sets and our tasks, in the order of its figures: by number of classes."""
CLASSES: Final = {"sst2": 2, "cola": 2, "mrpc": 2, "ag_news": 4, "trec": 6, "snips": 7, "dbpedia": 14}
SYSTEMS: Final = {
    "Flan-T5": ("icl", "flan-t5-base", ""),
    "LLaMA-2-13B": ("icl", "llama-2-13b-chat", ""),
    "Mistral-7B": ("icl", "mistral-7b-instruct-v0.1", ""),
    "Zephyr-7B": ("icl", "zephyr-7b-alpha", ""),
    "BERT": ("finetuning", "bert-base", ""),
    "RoBERTa": ("finetuning", "roberta-base", ""),
    "Prototypical Networks": ("meta_learning", "bert-base", "protonet"),
    "MAML": ("meta_learning", "bert-base", "maml"),
    "Reptile": ("meta_learning", "bert-base", "reptile"),
}
"""What the paper calls a model: our approach, model and, in meta-learning, learner. In the order of its tables."""
FACTORS: Final = ("label_selection", "data_split", "data_order", "sample_choice", "model_initialisation")
"""Factors of the paper; they have the same names here."""
GOLDEN: Final = "golden_model"
PLACE: Final = ["approach", "system", "model", "learner", "task"]
"""Columns that say what was trained on what; ``system`` is the paper's name."""
NUMBERS: Final = [
    "score_mean",
    "score_std",
    "contributed_std",
    "mitigated_std",
    "golden_mean",
    "golden_std",
    "importance",
]
"""Columns of numbers, with the names of the table of a sweep if that has them."""


def importance() -> pd.DataFrame:
    """Return Tables 6 to 14, one row for each of the 209 factors.

    Returns
    -------
    pandas.DataFrame
        ``table``, the columns of :data:`PLACE`, ``factor`` and :data:`NUMBERS`: F1 macro as fractions, nan where the
        number is missing, importance without a unit.
    """
    frame = _with_names(_read("importance")).rename(columns=_SCORES)
    frame[_SPREADS] /= 100
    return _with_golden(frame, PLACE)[["table", *PLACE, "factor", *NUMBERS]]


def ablation() -> pd.DataFrame:
    """Return Table 3, Flan-T5 on SST2: :data:`NUMBERS` of four factors for six pairs of runs and test sizes.

    ``test_size`` is as printed (``~10%`` are 1,000 examples), ``share_of_baseline`` too.
    """
    frame = _with_names(_read("ablation").assign(model="Flan-T5", dataset="SST2")).rename(columns=_SCORES)
    frame[_SPREADS] /= 100
    setting = ["mitigation_runs", "test_size", "share_of_baseline"]
    return _with_golden(frame, setting)[[*PLACE, *setting, "factor", *NUMBERS]]


def strategies() -> pd.DataFrame:
    """Return Table 5, and 1 in it: ``std`` (fraction) of each factor and ``strategy``, and whether it is ``important``.

    The golden model has the rows with the factor ``golden_model``. If a number is missing, ``std`` is nan, and
    ``important`` may be, too.
    """
    frame = _with_names(_read("strategies"))
    frame["std"] /= 100
    important = frame["starred"].map({1.0: True, 0.0: False})
    return frame.assign(important=important)[[*PLACE, "factor", "strategy", "std", "important"]]


def prompt_formats() -> pd.DataFrame:
    """Return Table 4: ``task``, ``format``, ``verbaliser`` (words in the order of labels), ``template``, ``source``."""
    frame = _read("prompt_formats")
    words = frame["verbaliser"].str.split(";").map(tuple)
    return frame.assign(task=frame["dataset"].map(TASKS), verbaliser=words)[
        ["task", "format", "verbaliser", "template", "source"]
    ]


_SCORES: Final = {"f1_macro_mean": "score_mean", "f1_macro_std": "score_std"}
_SPREADS: Final = ["score_mean", "score_std", "contributed_std", "mitigated_std"]


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{name}.csv")


def _with_names(frame: pd.DataFrame) -> pd.DataFrame:
    systems = frame["model"].map(SYSTEMS)
    return frame.assign(
        approach=systems.str[0],
        system=frame["model"],
        model=systems.str[1],
        learner=systems.str[2],
        task=frame["dataset"].map(TASKS),
    )


def _with_golden(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the rows of factors, with the golden model's two numbers of the same `keys` in further columns."""
    golden = frame[frame["factor"] == GOLDEN].rename(columns={"score_mean": "golden_mean", "score_std": "golden_std"})
    return frame[frame["factor"] != GOLDEN].merge(golden[[*keys, "golden_mean", "golden_std"]], on=keys, how="left")
