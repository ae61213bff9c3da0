"""What an ablation says: how few runs are enough for the sign of every importance, and what to do next."""

from __future__ import annotations

import numpy as np
import pytest

from mlflow_l3d.analysis.importance.tables import Tables
from mlflow_l3d.designs.crossed import CrossedDesign
from mlflow_l3d.report.source import Source
from mlflow_l3d.report.text import marked
from mlflow_l3d.studies.ablation.numbers import Setting, ablate_tables
from mlflow_l3d.studies.ablation.report import ablation_document, spread

SOURCE = Source(approach="head", given={"task": "reviews.csv"}, run_id="r1")


def ablated(*settings: Setting, effect: float, repeats: int = 20):
    """Return an ablation of 8 x 5 runs; columns move the score by `effect`, rows by 1."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, (8, 1)) + effect * rng.normal(0, 1, (1, 5)) + 0.3 * rng.normal(0, 1, (8, 5))
    whole = Tables({"order": scores}, rng.normal(0, np.hypot(1, effect), 40))
    return ablate_tables(whole, [Setting(), *settings], CrossedDesign.importances, seed=0, repeats=repeats)


def document(frame):
    return ablation_document("ablation of run r1", frame, ["a note"], SOURCE)


@pytest.mark.parametrize(
    ("effect", "repeats", "headline", "enough", "step"),
    [
        (
            9.0,
            10,
            "With 37.5 % of the work, every importance has the same sign.",
            "3 x 5 runs on all examples: every importance keeps its sign in nine of ten choices.",
            "mlflow-l3d investigate reviews.csv --mitigation-runs 3 --investigation-runs 5",
        ),
        (
            9.0,
            9,  # all keep the sign, which does not show nine of ten
            "The random choices are too few to show that fewer runs keep the signs.",
            "Not shown: that takes 10 or more random choices (repeats).",
            "mlflow-l3d ablation --parent-run-id r1 --repeats 10",
        ),
        (
            2.0,
            9,  # too few, but more would not help
            "Fewer runs may give an importance of the other sign.",
            "None of the smaller parts: with each, the sign of an importance is not sure.",
            "mlflow-l3d investigate reviews.csv --mitigation-runs 16 --investigation-runs 5",
        ),
        (
            2.0,
            20,  # parts keep the sign, but the interval of all runs contains 0
            "Fewer runs may give an importance of the other sign.",
            "None of the smaller parts: with each, the sign of an importance is not sure.",
            "mlflow-l3d investigate reviews.csv --mitigation-runs 16 --investigation-runs 5",
        ),
    ],
)
def test_headline_answer_and_step_follow_the_signs(effect, repeats, headline, enough, step):
    frame = ablated(Setting(rows=3), effect=effect, repeats=repeats)
    shown = document(frame)
    assert shown.headline == headline
    assert marked(shown.answers[0].lead) == enough
    assert [each.command for each in shown.steps] == [step]
    means = spread(frame).query("number == 'importance' and factor == 'order'").set_index("setting")
    low, high = means.loc[1, ["low", "high"]]
    assert f"{low:+.2f} to {high:+.2f}" in shown.to_text()
    assert (f"with 3 x 5 runs on all examples its importance is {low:+.2f}" in marked(shown.answers[1].lead)) == (
        effect < 9
    )
    assert marked(shown.answers[2].lead) == "Not tried."


def test_the_step_to_fewer_test_examples_is_another_command():
    frame = ablated(Setting(rows=8), effect=9.0)
    frame.loc[frame["setting"].eq(1), "test_examples"] = 50
    (step,) = document(frame).steps
    assert step.command.endswith("--mitigation-runs 8 --investigation-runs 5 --test-size 50")


def test_the_first_screen_is_short_and_the_rest_is_folded():
    shown = document(ablated(Setting(rows=5), Setting(rows=3), Setting(columns=3), effect=9.0))
    text = shown.to_text()
    assert len(text.splitlines()) <= 25
    assert "a note" in text
    assert document(ablated(effect=1.0)).headline == "Nothing smaller than all runs was tried."


def test_no_sign_is_kept_if_the_importance_of_a_choice_is_undefined():
    frame = ablated(Setting(rows=3), effect=9.0)
    frame.loc[frame["setting"].eq(1) & frame["repeat"].eq(4), "importance"] = np.nan
    shown = document(frame)
    assert shown.headline == "Fewer runs may give an importance of the other sign."
    said = marked(shown.answers[1].lead)
    assert said == "order: with 3 x 5 runs on all examples it has no importance in some choices."
    choices = frame["repeat"].max() + 1
    assert f"in {choices - 1} of {choices}" in shown.to_text()
    frame.loc[frame["setting"].eq(1), "importance"] = np.nan
    assert "it has no importance in any choice" in " ".join(document(frame).to_text().split())
