"""The registry of metrics: ours, a stranger's, broken ones; and what each part of the package asks the object."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mlflow_l3d import registry
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics import classification, known, regression, sequences
from mlflow_l3d.metrics.base import OF_CLASSES, OF_NUMBERS, Metric
from mlflow_l3d.metrics.forms import form_of

LABELS, PREDICTIONS = np.array([0, 0, 1, 2]), np.array([0, 1, 1, -1])


def error_rate(labels: np.ndarray, predictions: np.ndarray) -> float:
    return float((labels != predictions).mean())


ERROR_RATE = Metric(
    "strangers_error", error_rate, greater_is_better=False, range=(0.0, 1.0), chance=lambda classes: 0.0
)


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What entry points of other packages name; an error is raised when it is loaded."""
    found: dict[str, object] = {"strangers_error": ERROR_RATE}
    names, others = registry.names, registry.load

    def load(parameter: str, name: str) -> object:
        if parameter != "metric":
            return others(parameter, name)
        if isinstance(found[name], Exception):
            raise found[name]
        return found[name]

    monkeypatch.setattr(known.registry, "names", lambda what: sorted(found) if what == "metric" else names(what))
    monkeypatch.setattr(known.registry, "load", load)
    known.registered.cache_clear()
    known._warn.cache_clear()
    yield found
    known.registered.cache_clear()


OURS = [metric for each in (classification, regression, sequences) for metric in each.METRICS]
LABELS_OF = {
    "classification": np.random.default_rng(0).integers(0, 3, 40),
    "regression": np.random.default_rng(0).normal(size=40),
    "generation": ["the red house by the sea", '["two red cars drive", "2 of them are"]', "a blue horse on a long road"]
    * 5,
    "tagging": [["B-PER", "I-PER", "O"], ["O"], ["O", "B-LOC"]] * 5,
    "ranking": [["a", "b"], {"b": 2, "c": 0.5, "d": 0}, ["c"]] * 5,
}


@pytest.mark.parametrize("metric", OURS, ids=lambda metric: metric.name)
def test_ours_lie_in_their_range_and_perfect_predictions_at_its_better_end(metric: Metric) -> None:
    kind = metric.kinds[0]
    perfect = labels = form_of(kind).labels(LABELS_OF[kind])
    if kind == "generation":
        perfect = [json.loads(each)[0] if each.startswith("[") else each for each in labels]
    if kind == "ranking":
        perfect = [[*json.loads(each)][:2] for each in labels]
    shuffled = np.random.default_rng(0).permutation(len(labels))
    for predictions in (perfect, [perfect[at] for at in shuffled], [perfect[0]] * len(labels)):
        found = known.scores_of(labels, predictions, kind, only=[metric.name])
        assert metric.range[0] <= found[metric.name] <= metric.range[1]
    best = known.score(metric, labels, form_of(kind).predictions(perfect))
    assert best == pytest.approx(metric.range[metric.greater_is_better], abs=1e-12)
    assert known.named(metric.name) is metric


def test_each_kind_has_its_metrics_in_one_order() -> None:
    of_classes = ["accuracy", "precision_macro", "recall_macro", "f1_macro", "matthews_corrcoef"]
    for kind in OF_CLASSES:
        assert [metric.name for metric in known.of_kind(kind)][:5] == of_classes
    assert [metric.name for metric in known.of_kind(*OF_NUMBERS)][:5] == ["pearson", "spearman", "mse", "mae", "rmse"]
    assert list(known.scores_of(LABELS, PREDICTIONS))[:5] == of_classes
    assert list(known.scores_of(LABELS, PREDICTIONS, only=["f1_macro"])) == ["f1_macro"]
    assert known.of_kind("no kind") == ()


def test_what_only_an_approach_knows_is_better_when_it_is_greater() -> None:
    metric = known.named("synthetic_score")
    assert (metric.sign, metric.percent, metric.chance_level(2)) == (1.0, True, None)
    assert math.isnan(known.score(metric, LABELS, PREDICTIONS))


IN_PERCENT = (
    "test_acc success_rate judge_score hits@10 pass@1 bbox_mAP50 unparsed_share time_series_accuracy cost_sensitive_f1"
)
IN_PERCENT += " error_detection_f1 loss_aware_auc error-free_rate"
ERRORS = "validation_loss Top-Error perplexity dev_wer validation_0-logloss nll duration_seconds latency error_rate"
ERRORS += " brier fpr eer ece ppl kl_divergence hallucination_rate neg_log_likelihood false_negative_rate aic regret"
ERRORS += " crps misclassification my_score:lower test_err cross_entropy crossentropy nrmse kl bits_per_byte violations"
READ = {
    "reward elo_rating pass map_size feature_map score my_score neg_mean_squared_error": (1.0, False),
    IN_PERCENT: (1.0, True),
    ERRORS: (-1.0, False),
}


@pytest.mark.parametrize(("name", "read"), [(name, read) for names, read in READ.items() for name in names.split()])
def test_what_only_an_approach_knows_is_read_by_the_words_of_its_name(name: str, read: tuple[float, bool]) -> None:
    """An error is better if it is smaller, and a share is in percent; anything else is in its own unit."""
    metric = known.named(name)
    assert (metric.sign, metric.percent) == read


def test_chance_is_known_where_the_classes_are() -> None:
    accuracy, correlation = known.named("accuracy"), known.named("matthews_corrcoef")
    assert [accuracy.chance_level(classes) for classes in (4, 0, None)] == [0.25, None, None]
    assert correlation.chance_level(4) is None
    assert replace(accuracy, greater_is_better=False).chance_level(4) is None  # low errors are no collapse


def test_a_strangers_metric_is_one_of_them(strangers: dict[str, object]) -> None:
    from mlflow_l3d.approaches.base import validation_scores
    from mlflow_l3d.studies.investigation.request import specify

    assert known.scores_of(LABELS, PREDICTIONS)["strangers_error"] == 0.5
    assert "strangers_error" not in known.scores_of([1.0, 2.0], [1.0, 3.0], "regression")
    assert validation_scores(LABELS, np.array([0, 1, 1, 1]), 3)["validation_strangers_error"] == 0.5
    assert specify({"approach": "synthetic", "metric": "strangers_error"}).metric.name == "strangers_error"
    with pytest.raises(ParameterError, match=r"^metric='errors': must be one of accuracy, auto, .*f1_macro, "):
        specify({"approach": "synthetic", "metric": "errors"})


def test_one_that_approaches_opt_in_to_is_theirs_alone() -> None:
    from mlflow_l3d.approaches.base import validation_scores
    from mlflow_l3d.studies.investigation.request import specify

    name = "f1_macro_published"
    assert name not in known.scores_of(LABELS, PREDICTIONS)
    assert name in known.scores_of(LABELS, PREDICTIONS, own=["perplexity", name])
    assert f"validation_{name}" not in validation_scores(LABELS, LABELS, 3)
    assert known.named(name).chance_level(2) == pytest.approx(1 / 3)
    with pytest.raises(ParameterError, match=rf"^metric='{name}': must be one of accuracy, auto, .*f1_macro"):
        specify({"approach": "synthetic", "metric": name})


def test_a_secondary_metric_is_recorded_and_not_what_an_investigation_is_about(strangers: dict[str, object]) -> None:
    from mlflow_l3d.studies.investigation.request import specify

    strangers["strangers_error"] = Metric("strangers_error", error_rate, secondary=True)
    assert known.scores_of(LABELS, PREDICTIONS)["strangers_error"] == 0.5
    with pytest.raises(ParameterError, match=r"^metric='strangers_error': must be one of accuracy, auto, .*f1_macro"):
        specify({"approach": "synthetic", "metric": "strangers_error"})


@pytest.mark.parametrize(
    ("name", "found", "warning"),
    [
        ("broken", L3DError("metric=broken: the entry point cannot be loaded."), "metric=broken: the entry point"),
        ("plain", error_rate, "metric=plain: is not a Metric"),
        ("other", ERROR_RATE, "metric=other: is not a Metric with a function of this name"),
        ("accuracy", Metric("accuracy", error_rate), "metric=accuracy: "),
        ("empty", Metric("empty"), "metric=empty: "),
    ],
)
def test_one_that_cannot_be_used_costs_itself_only(strangers, caplog, name, found, warning) -> None:
    strangers[name] = found
    assert set(known.registered()) - {"strangers_error"} == {metric.name for metric in OURS}
    assert caplog.text.count(warning) == 1
    assert known.scores_of(LABELS, LABELS)["accuracy"] == 1.0


def test_a_function_that_fails_or_has_no_value_leaves_its_metric_out(strangers, caplog) -> None:
    def fails(labels: np.ndarray, predictions: np.ndarray) -> float:
        raise ZeroDivisionError("no such class")

    strangers |= {"fails": Metric("fails", fails), "undefined": Metric("undefined", lambda *_: math.nan)}
    for _ in range(2):
        assert not {"fails", "undefined"} & set(known.scores_of(LABELS, PREDICTIONS))
    message = "metric=fails: has no value for some predictions (ZeroDivisionError: no such class)."
    assert caplog.text.count(message) == 1


def test_where_lower_is_better_a_search_goes_down() -> None:
    pytest.importorskip("optuna")
    from mlflow_l3d.studies.search.optimiser import new_study
    from mlflow_l3d.studies.search.trials import FinishedTrial, best_trial

    assert new_study("none", greater_is_better=ERROR_RATE.greater_is_better).direction.name == "MINIMIZE"
    scores = enumerate((0.4, 0.1, 0.1, 0.3))
    trials = [FinishedTrial(number, {}, state="complete", score=score) for number, score in scores]
    best, highest = best_trial(trials, ERROR_RATE.sign), best_trial(trials)
    assert (best.number, highest.number) == (1, 0)


def test_where_lower_is_better_the_lowest_epoch_is_the_best() -> None:
    from mlflow_l3d.approaches.finetuning.training import Progress

    stopping = {"early_stopping_metric": "f1_macro", "early_stopping_patience": 0}
    recipe = SimpleNamespace(selection="best", average_last=0, **stopping)
    progress = Progress(recipe, metric=ERROR_RATE)  # type: ignore[arg-type]
    assert [progress.add(score, 1.0, 1.0) for score in (0.4, 0.2, 0.3)] == [True, True, False]
    assert progress.metrics["validation_strangers_error"] == 0.2


@pytest.mark.parametrize("name", ["accuracy", "bleu", "f1_macro", "mse", "ndcg_at_10"])
def test_a_metric_goes_to_another_process_as_the_same_object(name: str) -> None:
    assert pickle.loads(pickle.dumps(known.named(name))) is known.named(name)
    assert copy.deepcopy(known.named(name)) is known.named(name)
    other = Metric(name, error_rate)
    assert pickle.loads(pickle.dumps(other)) == other
    assert other is not known.named(name)
