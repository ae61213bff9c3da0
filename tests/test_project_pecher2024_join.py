"""`projects/pecher2024/join.py`: which published sign our runs are about, and what they say of it."""

from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from mlflow_l3d.errors import ParameterError


@pytest.fixture(scope="module")
def join(pecher2024) -> Iterator[ModuleType]:
    module = pecher2024("join")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("importance", "signs"):  # read and reckoned from what was printed, for every table
            patch.setattr(module, name, cache(getattr(module, name)))
        yield module


def swept(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return a table of a sweep with these rows."""
    common = {"metric": "f1_macro", "design": "radial", "run_id": "r", "factor": "data_order", "importance": 0.2}
    scores = {"importance_corrected": 0.25, "importance_corrected_ci_low": 0.1, "importance_corrected_ci_high": 0.4}
    return pd.DataFrame([{**common, **scores, **row} for row in rows])


def found(table: pd.DataFrame, **conditions: object) -> list[dict[str, Any]]:
    """Return the rows that meet the conditions."""
    for name, value in conditions.items():
        table = table[table[name] == value]
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def test_the_interval_judges_the_printed_sign(join: ModuleType) -> None:
    # BERT, data_order: SST2 0.45, CoLA -0.04, SNIPS -0.30; MRPC 0.16.
    other = {"importance": -0.3, "importance_corrected": -0.2}
    ours = swept(
        {"task": "sst2"},
        {"task": "cola"},
        {"task": "snips", **other, "importance_corrected_ci_low": -0.4, "importance_corrected_ci_high": -0.1},
        {"task": "mrpc", **other, "importance_corrected_ci_low": -0.5, "importance_corrected_ci_high": 0.1},
    )
    table = join.joined(ours, approach="finetuning", model="bert-base")
    bert = {row["task"]: row for row in found(table, system="BERT", factor="data_order")}
    assert {task: (row["verdict"], row["same_sign"]) for task, row in bert.items()} == {
        "sst2": ("confirmed", True),
        "cola": ("reversed", False),
        "snips": ("confirmed", True),
        "mrpc": ("undecided", False),
        **dict.fromkeys(("ag_news", "trec", "dbpedia"), (join.MISSING, None)),
    }
    assert bert["cola"]["published"] == -0.04
    assert {row["differs"] for row in bert.values()} == {""}
    assert {row["own_numbers"] for row in bert.values()} == {"decided", "open", "undecided"}
    # BERT's own runs stand for BERT alone.
    assert {row["verdict"] for row in found(table, system="RoBERTa")} == {join.MISSING}
    assert len(table) == 209
    lines = join.summary(table).splitlines()
    counted = "4, of which 2 confirmed, 1 reversed, 1 undecided; ours has the same sign 2 times."
    assert lines[0] == f"Published signs beside ours: {counted}"
    own = "published -0.04, undecided by its own numbers; ours +0.25 (+0.10 to +0.40)"
    assert f"  reversed: BERT, cola, data_order: {own}" in lines
    assert "205 published signs have no run of ours." in lines


def test_a_zero_that_was_printed_has_a_sign(join: ModuleType) -> None:
    below = {"importance_corrected_ci_low": -0.4, "importance_corrected_ci_high": -0.1}
    ours = swept({"task": "trec", "factor": "data_split", **below})
    table = join.joined(ours, approach="icl", model="llama-2-13b-chat")
    [row] = found(table, system="LLaMA-2-13B", task="trec", factor="data_split")
    assert (row["published"], row["verdict"]) == (0.0, "confirmed")


def test_a_small_model_stands_for_those_without_a_run(join: ModuleType) -> None:
    small, flan = {"model": "small"}, {"choice.model": "flan-t5-base"}
    ours = swept({"task": "sst2", **small}, {"task": "sst2", **flan}, {"task": "rte", **small})
    table = join.joined(ours.assign(metric="accuracy"), approach="icl")
    rows = {row["system"]: row for row in found(table, task="sst2", factor="data_order") if row["approach"] == "icl"}
    assert (rows["Flan-T5"]["our_model"], rows["Flan-T5"]["differs"]) == ("flan-t5-base", "accuracy for f1_macro")
    assert {rows[name]["our_model"] for name in ("LLaMA-2-13B", "Mistral-7B", "Zephyr-7B")} == {"small"}
    assert rows["Zephyr-7B"]["differs"] == "small for zephyr-7b-alpha, accuracy for f1_macro"
    [row] = found(table, verdict=join.UNPUBLISHED)
    assert (row["task"], row["system"]) == ("rte", "")
    assert "Not as in the paper: small for zephyr-7b-alpha, accuracy for f1_macro." in join.summary(table)


def test_only_the_published_setting_and_learner_is_joined(join: ModuleType) -> None:
    shots = [{"task": "sst2", "choice.approach": "icl", "choice.shots": shots} for shots in (2, 4)]
    learner = {"task": "sst2", "choice.approach": "meta_learning", "choice.learner": "maml"}
    failed = {"task": "cola", "choice.approach": "icl", "factor": ""}
    table = join.joined(swept(*shots, learner, failed), model="small")
    judged = table[table["verdict"].isin(join.VERDICTS)]
    assert sorted(judged["system"]) == ["Flan-T5", "LLaMA-2-13B", "MAML", "Mistral-7B", "Zephyr-7B"]
    assert len(found(table, verdict=join.UNPUBLISHED)) == 1
    with pytest.raises(ParameterError, match="approach=: must be the approach"):
        join.joined(swept({"task": "sst2"}))
