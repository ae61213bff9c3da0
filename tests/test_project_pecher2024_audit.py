"""`projects/pecher2024`: what printed standard deviations allow to say, and the figures."""

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d.errors import ParameterError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def found(pecher2024) -> pd.DataFrame:
    return pecher2024("audit").signs()


def printed(precision: ModuleType, scores: np.ndarray) -> Any:
    """Return what would be printed of tables of scores (tables, rows, columns) in percentage points."""
    within, means = scores.std(axis=2), scores.mean(axis=2)
    numbers = within.mean(axis=1), means.std(axis=1), scores.reshape(len(scores), -1).std(axis=1)
    c, m, f = (np.round(each, digits) for each, digits in zip(numbers, (3, 3, 2), strict=True))
    return precision.Printed(c, m, f, np.full(len(scores), float(scores.shape[1])), scores.shape[2])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_tables_without_a_difference_are_rarely_decided(pecher2024, share: float) -> None:
    precision, rng = pecher2024("precision"), np.random.default_rng(3)
    count, rows, columns = 800, 20, 10
    factor = math.sqrt(1 - share) * rng.normal(size=(count, 1, columns))
    scores = rng.normal(size=(count, rows, 1)) + factor
    scores = 2 * (scores + math.sqrt(share) * rng.normal(size=(count, rows, columns)))
    numbers = printed(precision, scores)
    low, high = precision.intervals(numbers, (share,))
    # Four standard errors of a share of 5 %.
    assert 0.919 <= np.mean((low <= 0) & (high >= 0)) <= 0.985
    decided = precision.two_sided(numbers, "worst") <= 0.05
    assert np.mean(decided) <= 0.081
    low, high = precision.intervals(numbers)
    assert np.array_equal(decided, (low > 0) | (high < 0))
    # Truth about the estimates: unbiased for variances of normal scores.
    assert np.median(precision.estimate(numbers, share)) == pytest.approx(0, abs=0.06)


def test_a_difference_is_found_and_uneven_rows_widen(pecher2024) -> None:
    precision = pecher2024("precision")
    c, m = np.array([2.0, 2.0, 0.5]), np.array([0.5, 0.5, 2.0])
    f = np.sqrt(c**2 * np.array([1.02, 2.0, 1.02]) + m**2)
    numbers = precision.Printed(c, m, f, np.full(3, 100.0))
    above, below = precision.tests(numbers, "worst")
    assert above[0] < 1e-6 < above[1] < 0.05 < below[0]
    assert below[2] < 1e-3
    assert (precision.two_sided(numbers, "best") <= precision.two_sided(numbers, "worst")).all()
    low, high = precision.intervals(numbers)
    assert low[1] < low[0] < precision.estimate(numbers)[0] < high[0]


def test_rounding_counts_for_small_numbers(pecher2024) -> None:
    precision = pecher2024("precision")
    rows = np.array([20.0])
    exact, coarse = (
        precision.Printed(np.array([0.02]), np.array([0.01]), np.array([0.02]), rows, rounded=rounded)
        for rounded in ((0.0, 0.0, 0.0), precision.ROUNDED)
    )
    assert precision.two_sided(coarse, "worst")[0] > precision.two_sided(exact, "worst")[0]
    assert exact.impossible.tolist() == [True]
    assert coarse.impossible.tolist() == [False]


def test_holm(pecher2024) -> None:
    assert pecher2024("precision").holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])


def test_published_signs(pecher2024, found: pd.DataFrame) -> None:
    audit = pecher2024("audit")
    assert len(found) == 209
    assert set(found["verdict"]) == set(audit.VERDICTS)
    # An adjustment for 209 signs claims no more than none, and the worst case no more than the best.
    order = {name: at for at, name in enumerate(audit.VERDICTS)}
    assert (found["verdict"].map(order) <= found["verdict_holm"].map(order)).all()
    assert (found.loc[found["p_worst"] <= 0.05, "p_best"] <= 0.05).all()
    decided = found[found["verdict"] == "decided"]
    assert (np.sign(decided["estimate"]) == decided["sign"]).all()
    # Whole smaller than its parts: one row here, one in Table 3.
    broken = found.loc[found["impossible"], ["system", "task", "factor", "verdict"]].to_numpy().tolist()
    assert broken == [["Prototypical Networks", "sst2", "model_initialisation", "undecided"]]
    ablation = audit.signs(pecher2024("published").ablation())
    broken = ablation.loc[ablation["impossible"], ["mitigation_runs", "factor"]].to_numpy().tolist()
    assert broken == [[500, "sample_choice"]]


def test_tables_of_the_page_are_rows_that_the_command_prints(pecher2024, capsys) -> None:
    assert pecher2024("audit").main() == 0
    printed = set(capsys.readouterr().out.splitlines())
    page = (ROOT / "docs" / "evidence" / "audit.md").read_text(encoding="utf-8").split("## Does the method hold?")[0]
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) > 10
    assert [row for row in rows if row not in printed] == []


def test_sentences_hold_where_numbers_do(pecher2024, found: pd.DataFrame) -> None:
    sentences = pecher2024("sentences")
    rows = pd.DataFrame({"factor": ["a"] * 4 + ["b"] * 4, "importance": 0.3, "p_worst": [0.001, 0.002, 0.9, 0.003] * 2})
    rows["estimate"] = [0.4, 0.5, 0.05, 0.5, -0.4, -0.4, 0.1, -0.4]
    rows["low"], rows["high"], rows["sign"] = rows["estimate"] - 0.1, rows["estimate"] + 0.1, np.sign(rows["estimate"])

    def verdict(claim: str, factor: str, other: str = "") -> object:
        more = {"factor": other} if other else {}
        return sentences.judged(sentences.Sentence("", "", claim, {"factor": factor}, more), rows)["verdict"]

    assert verdict("mean above", "a") == verdict("mean below", "b") == verdict("higher", "a", "b") == "holds"
    assert verdict("mean above", "b") == verdict("higher", "b", "a") == "does not hold"
    assert verdict("most above", "a") == verdict("some below", "b") == "holds"
    assert verdict("all above", "a") == verdict("some below", "a") == "not decided"
    assert verdict("all above", "b") == "does not hold"
    rows["low"] = rows["estimate"] - 0.5
    assert verdict("mean above", "a") == "holds, if tables are independent"
    for each in sentences.SENTENCES:
        assert len(sentences._chosen(found, each.where)) > 0
        assert len(sentences._chosen(found, each.other)) > 0


def swept() -> pd.DataFrame:
    """Return the table of a sweep: in-context learning, three tasks, two formats, two numbers of shots."""
    rows = [
        {"task": task, "factor": factor, "choice.shots": shots, "choice.prompt_format": name, "importance": 0.1 * shots}
        for task in ("trec", "sst2", "own")
        for factor in ("sample_choice", "data_order", "model_randomness")
        for shots in (2.0, 8.0)
        for name in ("A", "B")
    ]
    scores = {"importance_corrected": 0.3, "importance_corrected_ci_low": -0.1, "importance_corrected_ci_high": 0.6}
    return pd.DataFrame(rows).assign(metric="f1_macro", design="radial", run_id="r", **scores)


def test_data_of_figures(pecher2024, found: pd.DataFrame) -> None:
    figures = pecher2024("figures")
    data = figures.figure_data("figure1", swept(), approach="icl", model="small")
    theirs, ours = (data[data["source"] == source] for source in ("published", "ours"))
    assert len(theirs) == 108 + 56
    assert theirs["name"].unique().tolist() == ["Flan-T5", "LLaMA-2-13B", "Mistral-7B", "Zephyr-7B", "BERT", "RoBERTa"]
    key = {"name": "BERT", "task": "dbpedia", "factor": "data_order"}
    [row] = data.merge(pd.DataFrame([key])).to_dict("records")
    [printed_row] = found.rename(columns={"system": "name"}).merge(pd.DataFrame([key])).to_dict("records")
    assert row["published_definition"] == -0.55
    assert (row["classes"], row["certain"]) == (14, True)
    drawn = row["value"], row["low"], row["high"]
    assert drawn == (printed_row["estimate"], printed_row["low"], printed_row["high"])
    # Two examples a class and format A alone, tasks by classes and the paper's factors in its order.
    places = [["small", task, factor] for task in ("sst2", "trec", "own") for factor in ("data_order", "sample_choice")]
    assert ours[["name", "task", "factor"]].to_numpy().tolist() == places
    assert not ours["certain"].any()
    assert ours["published_definition"].tolist() == pytest.approx([0.2] * 6)

    shots = figures.figure_data("figure2", swept(), approach="icl")
    assert set(shots["source"]) == {"ours"}
    assert sorted(set(zip(shots["shots"], shots["prompt_format"], strict=True))) == [(2, "A"), (8, "A")]
    formats = figures.figure_data("figure3", swept(), approach="icl", model="zephyr-7b-alpha")
    assert sorted(set(zip(formats["shots"], formats["prompt_format"], strict=True))) == [(2, "A"), (2, "B")]
    assert set(formats["name"]) == {"Zephyr-7B"}
    assert len(figures.figure_data("figure4")) == 45
    learners = ("protonet", "reptile", "maml")
    mixed = pd.concat([swept().assign(**{"choice.learner": learner}) for learner in learners], ignore_index=True)
    own = figures.figure_data("figure4", mixed, approach="meta_learning", model="small")
    ours = own.loc[own["source"] == "ours", "name"]
    assert list(ours.drop_duplicates()) == ["protonet, small", "maml, small", "reptile, small"]  # as the paper has them
    with pytest.raises(ParameterError, match="must be one of figure1"):
        figures.figure_data("figure7")


@pytest.mark.slow
def test_figures_are_drawn(pecher2024, tmp_path: Path) -> None:
    figures = pecher2024("figures")
    assert figures.draw("figure2", None, tmp_path) == []
    [path] = figures.draw("figure2", swept(), tmp_path / "new", approach="icl")
    assert (path.name, path.is_file()) == ("figure2.png", True)

    data = figures.figure_data("figure4")
    panels = [axes for axes in figures.drawn("figure4", data).axes if axes.get_visible()]
    titles = [f"{name}: published" for name in ("Prototypical Networks", "MAML", "Reptile")]
    assert [axes.get_title(loc="left") for axes in panels] == titles
    for axes, (_, rows) in zip(panels, data.groupby("name", sort=False), strict=True):
        bars = [bar for bar in axes.patches if bar.get_width() > 0]
        assert [bar.get_height() for bar in bars] == pytest.approx(rows["value"].tolist())
        assert [bar.get_hatch() is None for bar in bars] == rows["certain"].tolist()
