"""Scores in what programs print: lines of real tools, and whatever else a line may hold."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.approaches.command.said import normalised, printed_scores
from mlflow_l3d.approaches.command.scores import Printed, chosen_score, scale_of, unscaled


def read(text, **more):
    """Return name -> text of the scores of a text."""
    return {name: f"{number:g}{'%' * sign}" for name, (number, sign) in printed_scores(text, **more).items()}


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ("Test accuracy: 0.87", {"test_accuracy": "0.87"}),
        ("epoch 3: loss=0.34 val_acc=0.91", {"loss": "0.34", "val_acc": "0.91"}),
        ("INFO accuracy: 87.1%", {"accuracy": "87.1%"}),
        ("INFO:root:accuracy: 87.1 %", {"accuracy": "87.1%"}),
        ("2026-11-26 10:50:09,123 - __main__ - INFO - accuracy: 0.9", {"accuracy": "0.9"}),
        ("[10:50:09] val/f1 = 0.5", {"val/f1": "0.5"}),
        ("2026-11-26 10:50:09,123 INFO test f1: 0.5\n10:50:09,123 auc: 0.5", {"test_f1": "0.5", "auc": "0.5"}),
        ("accuracy: 0.5\naccuracy: 0.75", {"accuracy": "0.75"}),
        ("\x1b[32mAccuracy\x1b[0m: \x1b[1m0.9\x1b[0m.", {"accuracy": "0.9"}),
        ("loss: 1e-3, auc: .5; mcc=-0.25", {"loss": "0.001", "auc": "0.5", "mcc": "-0.25"}),
        ("1/3 ===> - loss: 0.7 - acc: 0.1\b\b\b\b\b3/3 - loss: 0.5 - acc: 0.8\n", {"loss": "0.5", "acc": "0.8"}),
        ("Epoch 3:  45%|## | 45/100 [00:10<00:12, 4.4it/s, loss=0.34, acc=0.9]", {"loss": "0.34", "acc": "0.9"}),
        ("1/2 acc: 0.1\r2/2 acc: 0.2\rdone", {"acc": "0.2"}),
        (
            "Test set: Average loss: 0.0345, Accuracy: 9887/10000 (99%)",
            {"test_average_loss": "0.0345", "test_accuracy": "0.9887"},
        ),
        (
            "Accuracy of the network on the 10000 test images: 87 %",
            {"accuracy_of_the_network_on_the_10000_test_images": "87%"},
        ),
        ("Top 1 accuracy: 76.1%  Top 5 accuracy: 93%", {"top_1_accuracy": "76.1%", "top_5_accuracy": "93%"}),
        ("recall@5: 0.5, F1 (macro): 0.25", {"recall_at_5": "0.5", "f1_macro": "0.25"}),
        ("│     test_acc      │    0.8700000047683716     │", {"test_acc": "0.87"}),
        ("acc: np.float64(0.5) loss: tensor(0.25, device='cuda:0')", {"acc": "0.5", "loss": "0.25"}),
        (
            "{'eval_loss': 0.5, 'eval_accuracy': '0.8', 'eval_runtime': 1.2, 'epoch': 3.0}",
            {"eval_loss": "0.5", "eval_accuracy": "0.8"},
        ),
        ("{'train_loss': 0.5}\n{'eval_acc': np.float64(0.75)}", {"train_loss": "0.5", "eval_acc": "0.75"}),
        ('acc: 0.1\n{"auc": 0.5, "test": {"f1": 0.25, "n": 7}, "ok": true}\nbye', {"auc": "0.5", "test/f1": "0.25"}),
        ('{"auc": 0.5}\nacc: 0.1', {"auc": "0.5", "acc": "0.1"}),
        ('{\n  "accuracy": 0.5,\n  "loss": 2\n}', {"accuracy": "0.5", "loss": "2"}),
        ("Accuracy (%): 0.66, F1 [%]: 0.5", {"accuracy": "0.66%", "f1": "0.5%"}),
        ("accuracy: nan loss: -inf", {"accuracy": "nan", "loss": "-inf"}),
        (
            "Train: loss=0.1, acc=0.9 | test acc=0.8 x=1",
            {"train_loss": "0.1", "train_acc": "0.9", "test_acc": "0.8", "train_x": "1"},
        ),
        ("An accuracy of 0.87 after 20 steps. Exact match is 45%.", {"an_accuracy": "0.87", "exact_match": "45%"}),
        ("accuracy: [0.9] R^2: 0.5 f1: [0.5, 0.6]", {"accuracy": "0.9", "r2": "0.5"}),
        ('{"accuracy": [0.9], "f1": [0.5, 0.6]}', {"accuracy": "0.9"}),
        (
            "{'test': {'f1': np.float64(0.7),\n          'loss': 0.5},\n 'train': {'acc': 0.99,\n  'f1': 0.98}}",
            {"test/f1": "0.7", "test/loss": "0.5", "train/acc": "0.99", "train/f1": "0.98"},
        ),
        # Credentials, in their own line or next to a score.
        (
            "password: 778899\napi key: 4242, f1: 0.5\nhttp://bob:12345@host\nacc=0.5 access_token=4",
            {"f1": "0.5", "acc": "0.5"},
        ),
        ('{"password": 778899, "acc": 0.5}', {"acc": "0.5"}),
        # No scores: numbers that go on, other things, and what only describes the run.
        (
            "acc: 0,87 acc: 1.2.3 time: 3.2s at 10:50:09 acc: 12/5 x.py:3: Warning acc: [1, 2] mae: 1 234.5 mae: 1,234",
            {},
        ),
        ("seed: 3, lr=1e-3, Epoch: 3/10, step=7, time: 3.5, eval_samples_per_second: 12, random_state=3", {}),
        ("acc: " + "9" * 400 + "e999 acc", {"acc": "inf"}),
    ],
)
def test_scores_of_a_text(text, scores):
    assert read(text) == scores


def test_blank_lines_count_as_one():
    assert read("== Test ==" + "\n \t" * 9 + "\nacc: 0.5" + "\n" * 9 + "f1: 0.5") == {"test_acc": "0.5", "f1": "0.5"}


def test_names_of_placeholders_are_no_scores_and_there_are_at_most_fifty():
    assert read("data_order=3 Data order: 4 acc=0.5", without=["data_order"]) == {"acc": "0.5"}
    assert list(read(" ".join(f"x{i}={i}" for i in range(60)))) == [f"x{i}" for i in range(10, 60)]


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    for name, value in printed_scores(text).items():
        assert name == normalised(name) != ""
        assert isinstance(value.number, float)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(
    NUMBERS, st.sampled_from(["accuracy: {}", "val acc = {}", "INFO x={} ok", "| f1: {} |", "\x1b[1mauc: {}\x1b[0m"])
)
def test_a_number_is_read_as_it_is_written(number, line):
    (value,) = printed_scores(f"noise\n{line.format(number)}\nmore noise").values()
    assert value == Printed(number)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["acc", "f1", "loss", "val/auc", "a b"]), NUMBERS, min_size=1))
def test_a_mapping_is_read_alike_as_json_and_as_python(mapping):
    expected = {normalised(name): Printed(value) for name, value in mapping.items()}
    assert printed_scores(json.dumps(mapping)) == printed_scores(str(mapping)) == expected


@pytest.mark.parametrize(
    ("names", "score"),
    [
        (["accuracy", "f1_macro"], "f1_macro"),
        (["loss", "accuracy", "auc"], "accuracy"),
        (["accuracy", "loss", "val_accuracy", "val_loss"], "val_accuracy"),
        (["val_accuracy", "accuracy"], "val_accuracy"),
        (["train_accuracy", "test_acc", "test_loss"], "test_acc"),
        (["test_loss", "train_accuracy"], "test_loss"),
        (["loss", "train_accuracy"], "train_accuracy"),
        (["train_loss", "eval_loss", "train_loss_total"], "eval_loss"),
        (["dropout", "reward"], "reward"),
        (["dropout"], ""),
        (["test_f1", "test_f1_weighted", "val_f1", "f1"], "test_f1"),
        (["f1", "f1_std", "best_f1_epoch", "f1_baseline"], "f1"),
        (["recall_score", "accuracy_score", "f1_score"], "accuracy_score"),
        (["f1", "precision", "recall"], "f1"),
        (["ner_f1", "ner_precision", "ner_recall"], "ner_f1"),
        (["f1", "recall", "auc"], "auc"),
        (["auc", "recall"], "recall"),
        (["f1_weighted", "precision_macro", "roc_auc"], "roc_auc"),
        ([], ""),
    ],
)
def test_the_score_among_names(names, score):
    assert chosen_score(dict.fromkeys(names, Printed(0.5))) == score


REPORT = """Accuracy: 0.9667
              precision    recall  f1-score   support
           0       1.00      1.00      1.00        10

    accuracy                           0.97        30
   macro avg       0.97      0.97      0.97        30
"""
KERAS = """\r1/10 ━━━━ 0s 50ms/step - accuracy: 0.5 - loss: 0.7\r10/10 ━━━━ 1s 20ms/step - accuracy: 0.99 - loss: 0.03
4/4 ━━━━ 0s 2ms/step - accuracy: 0.81 - loss: 0.5
Test loss: 0.5
Test accuracy: 0.8125
"""
TRAINER = """{'loss': 0.5, 'grad_norm': 3.2, 'learning_rate': 2e-05, 'epoch': 1.0}
{'eval_loss': 0.4, 'eval_accuracy': 0.87, 'eval_runtime': 1.2, 'eval_samples_per_second': 300.1, 'epoch': 3.0}
{'train_runtime': 12.1, 'train_samples_per_second': 200.2, 'train_loss': 0.4, 'epoch': 3.0}
"""
LOGGING = """2026-11-26 10:50:09,123 - __main__ - INFO - epoch 3 train loss 0.3 train acc 0.99
2026-11-26 10:50:10,123 - __main__ - INFO - test acc 0.87
2026-11-26 10:50:11,123 - __main__ - INFO - saved to out/model.pt after 3.2s
"""
FOLDS = "Fold 1: accuracy=0.8\nFold 2: accuracy=0.9\nMean accuracy: 0.85 +/- 0.05\nMajority class accuracy: 0.5"


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("accuracy: 0.99 - loss: 0.03\nTest acc: 0.87", "test_acc=0.87"),
        ("Test: acc=0.87\nTrain: acc=0.99", "test_acc=0.87"),
        ("Epoch 3/3 loss=0.4 acc=0.91 val_acc=0.85", "val_acc=0.85"),
        ('test f1: 0.8\n{"f1_train": 0.99, "epochs": 3}', "test_f1=0.8"),
        ("Best val accuracy: 0.87\nBest accuracy epoch: 17", "best_val_accuracy=0.87"),
        ("Top 1 accuracy: 76.1%  Top 5 accuracy: 93%", "top_1_accuracy=76.1"),
        ('{"0": {"f1-score": 0.7}, "accuracy": 0.8, "macro avg": {"f1-score": 0.75, "support": 30}}', "accuracy=0.8"),
        (REPORT, "accuracy=0.9667"),
        (KERAS, "test_accuracy=0.8125"),
        (TRAINER, "eval_accuracy=0.87"),
        (LOGGING, "test_acc=0.87"),
        (FOLDS, "mean_accuracy=0.85"),
        # The training score must not be taken.
        ('{\n  "test": {\n    "accuracy": 0.8\n  },\n  "train": {\n    "accuracy": 0.99\n  }\n}', "test/accuracy=0.8"),
        ("accuracy: 0.80 (test), 0.99 (train)", "test_accuracy=0.8"),
        ("accuracy: 0.99 (train), 0.80 (test)", "test_accuracy=0.8"),
        ("accuracy test: 0.90, train: 0.99", "accuracy_test=0.9"),
        ("accuracy train: 0.99, test: 0.90", "test_accuracy=0.9"),
        ("Accuracy: test=0.90 train=0.99", "test_accuracy=0.9"),
        ("== Test ==\naccuracy: 0.8\n\n== Train ==\naccuracy: 0.99", "test_accuracy=0.8"),
        ("Test results\n\naccuracy: 0.8\nTraining results:\naccuracy: 0.99", "test_accuracy=0.8"),
        ("test:\n  accuracy: 0.8\ntrain:\n  accuracy: 0.99\nf1: 0.5", "test_accuracy=0.8"),
        ("# Training\nacc: 0.99\n\nacc: 0.8", "acc=0.8"),
        ("Evaluating on test...\nacc: 0.8\nEvaluating on train...\nacc: 0.99", "test_acc=0.8"),
        ("INFO - Evaluation on the test set:\nacc: 0.8\non training data\nacc: 0.99", "test_acc=0.8"),
        ("Training on the train set\nacc: 0.8", "acc=0.8"),
        ('test accuracy: 0.80\n{"best_score": 0.95}', "test_accuracy=0.8"),
        ('accuracy: 0.99\nINFO: test results: {"accuracy": 0.8}', "test/accuracy=0.8"),
        ('train_acc: 0.99\nResults: {"acc": 0.8}', "acc=0.8"),
        ("te_acc: 0.8 tr_acc: 0.99", "te_acc=0.8"),
        ("tst acc: 0.8\ntrn acc: 0.99", "tst_acc=0.8"),
        ("out-of-sample acc: 0.8\nin-sample acc: 0.99", "out-of-sample_acc=0.8"),
        # The score of all, of the best epoch, and of our own model.
        ("Fold 1 acc=0.8\nFold 2 acc=0.9\nCV mean=0.85", "cv_mean_acc=0.85"),
        ("Fold 1: acc=0.8\nFold 2: acc=0.9\nMean: 0.85", "mean_acc=0.85"),
        ("Test: [9/10] Time 0.1 (0.2) Acc@1 60.00 (70.10) Acc@5 90.00 (91.00)", "test_acc_at_1=70.1"),
        ("epoch 1 val_acc: 0.9\nepoch 2 val_acc: 0.85\nBest val_acc: 0.9", "best_val_acc=0.9"),
        ("test acc: 0.8\nteacher test acc: 0.9\nhuman test acc: 0.95\nbefore test acc: 0.1", "test_acc=0.8"),
        ("Ours: accuracy = 0.8\nBaseline (majority): accuracy = 0.5", "accuracy=0.8"),
        ("Dummy: test acc 0.5, f1 0.4; Ours: test acc 0.8", "test_acc=0.8"),
        ("Ours: test acc=0.8\nBaseline: test acc=0.5", "test_acc=0.8"),
        ("Logistic regression: acc = 0.7\nNaive Bayes: acc = 0.8", "acc=0.8"),
        ("tree acc: 0.7\nMajority voting: acc = 0.9", "acc=0.9"),
        ("tree_acc: 0.7\nnaive_bayes_acc: 0.8", "naive_bayes_acc=0.8"),
        ("Baseline: acc = 0.5\nVal/Test: acc = 0.8", "test_val_acc=0.8"),
        ("Test: [9/9] Loss: 0.71 (0.88)  Acc@1: 81.25 (79.10)  Acc@5: 95.31 (94.44)", "test_acc_at_1=79.1"),
        ("test accuracy: 5-fold cross validation accuracy: 0.47 (+/- 0.01)", "5-fold_cross_validation_accuracy=0.47"),
        ("accuracy (val / test): 0.80 / 0.81", None),
        ("Results on test: acc=0.81 (best epoch 7, dev acc=0.83)", "test_acc=0.81"),
        ("id acc 91.2 || group avg acc 88.1 || worst group acc 71.0", "group_avg_acc=88.1"),
        ("Test Accuracy: 0.86\nTest MRR: 0.7\nTest Brier Score: 0.13", "test_accuracy=0.86"),
        ("micro-F1: 0.66\nmacro-F1: 0.64\nsubset accuracy: 0.65", "macro-f1=0.64"),
        ("Accuracy: 86.63%\n\n    accuracy     0.87     12033", "accuracy=86.63"),
        ("Seed 3 accuracy: 0.81", "accuracy=0.81"),
        (" * Acc@1 78.250 (21.750) Acc@5 94.010 (5.990)", "acc_at_1=78.25"),
        ("pass@1: 0.32\npass@10: 0.5\nloss: 2", "pass_at_1=0.32"),
        ("mAP@0.5: 0.6, mAP: 0.45, loss: 2", "map=0.45"),
        ("[99]\tvalidation_0-logloss:0.01\tvalidation_1-logloss:0.21\nAccuracy: 97.37%", "accuracy=97.37"),
        ("accuracy: 0.81 -> 0.86", None),
        ("Test accuracy (seed 3): 0.81 after 20 epochs", "test_accuracy=0.81"),
        ("Report (test set):\n accuracy  0.76  15\n\nReport (dev set):\n accuracy  0.79  15", "test_accuracy=0.76"),
        ("hidden dim: 128", None),
        ("precision: 16", None),
        ("accuracy: 1500", None),
        ("early stopping patience: 5", None),
    ],
)
def test_the_score_that_a_reader_of_the_output_would_take(text, score):
    scores = printed_scores(text)
    name = chosen_score(scores)
    assert (f"{name}={scores[name].number:g}" if name else None) == score


@given(st.floats(0, 1), st.booleans())
def test_per_cent_and_fractions_give_the_same_number(share, has_sign):
    first, later = Printed(87.5, has_sign), Printed(100 * share, has_sign)
    scale = scale_of("accuracy", first)
    assert scale_of("accuracy", Printed(0)) == scale_of("accuracy", Printed(1)) == ""
    if not has_sign and 0 < later.number <= 1:
        with pytest.raises(ValueError, match="and in its first run in per cent"):
            unscaled("accuracy", later, scale)
    else:
        assert math.isclose(unscaled("accuracy", later, scale), share, abs_tol=1e-9)
    assert unscaled("accuracy", Printed(share), "1") == share
    assert unscaled("loss", Printed(later.number), None) == later.number


@pytest.mark.parametrize("number", [1.2, 120.0, math.nan, math.inf])
@pytest.mark.parametrize("scale", ["1", None, ""])
def test_what_is_neither_a_fraction_nor_per_cent_is_an_error(number, scale):
    with pytest.raises(ValueError, match="accuracy"):
        unscaled("accuracy", Printed(number), scale)
