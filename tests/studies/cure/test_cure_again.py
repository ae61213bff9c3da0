"""The same cure again: what was tried counts and comes first, and what could not be predicted says why in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cure_cases import answer_of, known, page_of
from pages import Page
from run_helpers import Place

from mlflow_l3d import FunctionApproach, investigate
from mlflow_l3d.analysis.cure import Prediction, Range, Remedy
from mlflow_l3d.analysis.importance.checks.evidence import Answers
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.cells.factors import stream
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.remedies import remedy_words
from mlflow_l3d.studies.cure import run
from mlflow_l3d.studies.cure.gather import Gathered
from mlflow_l3d.studies.cure.request import CureRequest
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import Split

GOLDEN = 12
VOTE, BETTER, BEST = "vote of 3 runs over model_randomness", "a better coin", "the best coin"
SIZES: dict[str, Any] = {"investigation_runs": 7, "mitigation_runs": 5, "golden_runs": GOLDEN, "test_size": 100}
trained: list[float] = []


def coin(task: Task, split: Split, seeds: dict[str, int], hyperparameters: Any) -> npt.NDArray[np.int64]:
    """Return predictions of which each is right with a probability that is a hyperparameter; the best often fails."""
    right = hyperparameters["right"]
    trained.append(right)
    if right > 0.92 and seeds["model_randomness"] % 3 == 0:
        message = "no luck"
        raise RuntimeError(message)
    labels = task.labels[split.test]
    hits = stream(seeds["model_randomness"], "coin").random(len(labels)) < right
    return np.asarray(np.where(hits, labels, 1 - labels))


class Coin(FunctionApproach):
    """Its golden runs draw test examples of their own, because they redraw label_selection."""

    def __init__(self) -> None:
        right = {"right": Hyperparameter(0.7, "how often a prediction is right")}
        factors = ["label_selection", "model_randomness"]
        super().__init__(coin, name="coin", version="1", factors=factors, hyperparameters=right)

    def remedies(self, task: Task, hyperparameters: Any) -> list[Remedy]:
        del task, hyperparameters
        changes = {BETTER: 0.9, BEST: 0.95}
        return [Remedy("training", changes={"right": right}, words=words) for words, right in changes.items()]


@pytest.mark.slow
def test_a_repeated_cure_trains_nothing_and_says_what_was_tried_and_what_is_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(run, "say", said.extend)
    common: dict[str, Any] = {"metric": "accuracy", "executor": "inline", "self_test": "skip", "design": "nested"}
    result = investigate("synthetic", approach=Coin(), factor="model_randomness", **SIZES, **common)

    def cure(**options: Any) -> Any:
        trained.clear()
        said.clear()
        return result.cure(executor="inline", most_members=3, **options)

    first = cure(verify=2).answer
    assert len(trained) == 2 * GOLDEN + GOLDEN
    assert not said
    again = cure(verify=2).answer
    assert trained == []
    assert sorted(said) == [f"{BETTER}: trained before.", f"{VOTE}: trained before."]
    for answer in (first, again):
        assert sorted(remedy_words(each.prediction.remedy) for each in answer.verified) == [BETTER, VOTE]
        assert sorted(map(remedy_words, answer.tried)) == [BETTER, VOTE]
        assert [each.remedy.words for each in answer.upcoming] == [BEST, "2,000 labelled examples in place of 1,000"]

    # What golden runs with other test examples cannot show has its reason below the table, and in the row.
    shown = cure()
    page = Page(shown.report().to_html()).text
    why = "ensembles of such runs are unknown. Runs that differ in 3 factors"
    for text in (" ".join(shown.report().to_text().split()), page):
        assert f"A better coin: {why} share too few test examples" in text
    assert f"exact ({why}" in page
    assert (shown.answer.tried, shown.answer.upcoming[0].remedy.words) == (first.tried, BEST)

    three = cure(verify=3).answer
    assert trained == [0.95] * GOLDEN
    best = next(each for each in three.verified if each.prediction.remedy.words == BEST)
    assert 0 < best.failed < GOLDEN
    (known,) = (each for each in cure().answer.predictions if each.remedy.words == BEST)
    assert (known.basis, known.ratio.value) == ("exact", best.ratio.value)
    assert known.reason.startswith(f"{best.failed} of {GOLDEN} golden runs have no score; ensembles of such runs")


@pytest.mark.parametrize(
    ("tried", "bases", "text", "verify"),
    [
        ((), ("exact", "unknown"), "Verify a vote of 5 runs differing in a and longer:", 2),
        ((), ("exact", "exact"), "Verify a vote of 5 runs differing in a:", 1),
        ((), ("unknown", "unknown"), "Verify a vote of 5 runs differing in a and longer:", 2),
        (("shorter",), ("exact", "unknown"), "Tried: shorter. Verify a vote of 5 runs differing in a:", 2),
        (("shorter",), (), "Tried: shorter:", 1),
    ],
)
def test_the_step_names_what_was_tried_and_what_is_next(
    tried: tuple[str, ...], bases: tuple[Any, ...], text: str, verify: int
) -> None:
    remedies = Remedy("vote", ("a",), 5), Remedy("training", changes={"epochs": 2}, words="longer")
    better = {"mean_change": Range(0.1, 0.05, 0.15)}
    upcoming = tuple(
        known(remedy, Range(0.02, 0.01, 0.03), **better) if basis == "exact" else Prediction(remedy=remedy, basis=basis)
        for remedy, basis in zip(remedies, bases, strict=False)
    )
    before = tuple(Remedy("training", changes={"epochs": 1}, words=words) for words in tried)
    (step,) = page_of(answer_of(predictions=upcoming, stored=40, tried=before, upcoming=upcoming)).steps
    assert (step.text, step.command) == (text, f"mlflow-l3d cure p --verify {verify}")


@pytest.mark.parametrize(("collapsed", "kinds"), [(0, ["mean", "training"]), (3, ["training", "mean"])])
def test_the_best_prediction_and_what_nothing_is_known_of_are_tried_first(collapsed: int, kinds: list[str]) -> None:
    """Remedies that need labels come last: the other training keeps its turn, though they are predicted before it."""
    over = ("data_order",)
    several = (Remedy("mean", over=over, members=3), 0.04), (Remedy("vote", over=over, members=7), 0.03)
    predictions = [known(remedy, Range(std, std - 0.01, std + 0.01), before=0.08) for remedy, std in several]
    others = [Remedy("more_data", changes={"num_labelled": 120}), Remedy("training", changes={"epochs": 30}, words="x")]
    predictions += [Prediction(remedy=each, basis="unknown") for each in others]
    gathered = SimpleNamespace(spread=Range(0.08), metric=named("accuracy"), collapsed=collapsed)
    request: Any = SimpleNamespace(gathered=gathered, predictions=tuple(predictions), tried=())
    ranked = [each.remedy.kind for each in CureRequest.ranked(request)]
    assert ranked[:2] == kinds
    assert ranked[-1] == "more_data"


@pytest.mark.parametrize(
    ("low", "constant", "helps"),
    [(4, 8, True), (4, 0, False), (20, 40, False), (0, 0, False)],  # of 20 golden runs, and of 40 in all
)
def test_restarts_come_first_if_some_runs_name_one_class_and_others_learn(
    low: int, constant: int, *, helps: bool
) -> None:
    """Restarts need a validation score of always the same class: runs that guess have a higher one."""
    counts = np.full((2, 2), 50.0)
    members = SimpleNamespace(answers=lambda _: Answers(40, constant, *counts))
    scores = np.r_[np.full(low, 0.5), np.linspace(0.9, 0.92, 20 - low)]
    gathered: Any = SimpleNamespace(metric=named("accuracy"), classes=2, golden=scores, members=members)
    gathered.chance = Gathered.chance.fget(gathered)  # type: ignore[attr-defined]
    gathered.collapsed = Gathered.collapsed.fget(gathered)  # type: ignore[attr-defined]
    longer, restarts = (Remedy("training", changes={name: 9}) for name in ("epochs", "restarts"))
    assert Gathered.in_order(gathered, [longer, restarts])[0] is (restarts if helps else longer)
