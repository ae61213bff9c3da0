"""The tables of Zhou et al. 2025: their layout, what their columns are, and the correlations with training size."""

import os
from pathlib import Path

import pandas as pd
import pytest

from mlflow_l3d.studies.seeds.numbers.over_tasks import size_correlations, table_7

FOLDER = os.environ.get("L3D_TEST_REFERENCE")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="L3D_TEST_REFERENCE names no folder of published tables")

FINAL = ("arr10", "RoBERTa-large")


@pytest.fixture(scope="module")
def published():
    folder = Path(FOLDER or "")
    sizes = pd.read_csv(folder / "zhou2025_settings.csv").rename(columns={"train": "training_size"})
    rows = pd.read_csv(folder / "zhou2025_macro_micro.csv")
    keys = ["version", "model", "task"]
    return rows.merge(sizes[[*keys, "training_size"]], on=keys, validate="one_to_one")


def of(published, version, model):
    return published[(published["version"] == version) & (published["model"] == model)]


def test_published_rows_fill_the_tables(published):
    rows = of(published, *FINAL)
    first = table_7(rows)["RoBERTa-large", "SuperGLUE"]
    assert first.index.tolist() == ["BoolQ", "CB", "RTES", "MultiRC", "WiC", "COPA"]
    assert first.loc["RTES", [("score", "mean"), ("score", "std"), ("CON", "mean"), ("CCON", "mean")]].tolist() == [
        *(72.89, 16.67, 70.05, 64.58)
    ]
    seventh = table_7(rows)["RoBERTa-large", "GLUE"]
    printed = [89.62, 1.39, 87.83, 1.15, 88.59, 1.02, 90.34, 0.89, 92.89, 1.18, 86.79, 0.91]
    assert seventh.loc["MRPC"].tolist() == printed


@pytest.mark.parametrize("model", ["RoBERTa-large", "Llama3.2-3B"])
def test_recall_is_the_macro_average(published, model):
    """WiC has as many examples of one class as of the other: there macro recall is accuracy, in mean and in spread."""
    wic = of(published, "arr10", model).set_index("task").loc["WiC"]
    assert (wic["recall"], wic["recall_std"]) == (wic["metric_mean"], wic["var"])
    other = of(published, "arr10", model).set_index("task").loc["MRPC"]
    assert other["recall"] != other["metric_mean"], "nor is it the weighted average, which is always accuracy"


def feasible(mean, std, *, size, seeds, ddof):
    """Tell whether some whole numbers of right answers out of `size` have this printed mean and std (per cent)."""
    total = round(mean * size * seeds / 100)
    if abs(total / size / seeds * 100 - mean) > 0.0051:
        return False
    low, high = ((seeds - ddof) * ((std + off) * size / 100) ** 2 for off in (-0.005, 0.005))
    # A sum of squares of whole numbers is as odd as their sum.
    squares = range(int(low + total**2 / seeds) - 1, int(high + total**2 / seeds) + 2)
    return any(low <= one - total**2 / seeds <= high and one % 2 == total % 2 for one in squares)


def test_published_spreads_mix_two_definitions(published):
    """COPA (100 examples) and CB (56) are so small that the printed decimals tell which one: not always ddof=0."""
    copa = of(published, "arr10", "Llama3.2-3B").set_index("task").loc["COPA"]
    assert feasible(copa["metric_mean"], copa["var"], size=100, seeds=10, ddof=0)
    assert not feasible(copa["metric_mean"], copa["var"], size=100, seeds=10, ddof=1)
    cb = of(published, *FINAL).set_index("task").loc["CB"]
    assert feasible(cb["metric_mean"], cb["var"], size=56, seeds=10, ddof=1)
    assert not feasible(cb["metric_mean"], cb["var"], size=56, seeds=10, ddof=0)


def correlations(rows, scale="log"):
    """Return the correlations with the size on one scale, by measure."""
    found = size_correlations(rows)
    return found[found["scale"] == scale].set_index("measure")


PRINTED = {"var": -0.3918, "con": 0.4257, "ccon": 0.4259}


def test_the_final_versions_correlations_are_of_the_size_itself_without_cola(published):
    """All three to the last printed digit, though the text says all tasks and the figure's axis is logarithmic."""
    rows = of(published, *FINAL)
    rows = rows[rows["task"] != "CoLA"]
    found = correlations(rows, "size")
    assert found["pearson"].round(4).to_dict() == PRINTED
    assert (found["tasks"] == 11).all()


def test_what_the_printed_tables_say_about_training_size(published):
    found = correlations(of(published, *FINAL))
    assert found["pearson"].round(3).to_dict() == {"var": -0.434, "con": 0.476, "ccon": 0.416}
    assert ((found["pearson_ci_low"] < 0) & (found["pearson_ci_high"] > 0)).all(), "12 tasks do not settle it"
    assert found["spearman"].round(3).to_dict() == {"var": -0.648, "con": 0.595, "ccon": 0.399}
    assert found.loc["var", "spearman_ci_high"] < 0, "by ranks, VAR does fall with size"
    llama = correlations(of(published, "arr10", "Llama3.2-3B"))
    assert llama["pearson"].round(3).to_dict() == {"var": -0.773, "con": 0.499, "ccon": 0.543}
    assert llama.loc["var", "pearson_ci_high"] < -0.3


def test_the_first_versions_correlations_are_met_in_part(published):
    """Printed -0.25, 0.41, 0.43: only the first is that of the size, over all 13 tasks."""
    rows = of(published, "arxiv5", "RoBERTa-large")
    found = correlations(rows, "size")
    assert found["pearson"].round(2).to_dict() == {"var": -0.25, "con": 0.31, "ccon": 0.44}
    logs = correlations(rows)
    assert logs["pearson"].round(2).to_dict() == {"var": -0.31, "con": 0.45, "ccon": 0.47}
