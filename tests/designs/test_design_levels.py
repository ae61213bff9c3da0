"""The design of a fixed list: which cells it has, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_tables import covered
from run_helpers import sqlite_place

from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.estimators import LEVELS
from mlflow_l3d.analysis.importance.estimators.levels import levels_estimate
from mlflow_l3d.analysis.importance.verdicts import Verdict, verdict_of
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.designs.analyse import advise
from mlflow_l3d.designs.crossed import CrossedDesign
from mlflow_l3d.designs.levels import LevelsDesign
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.investigation.run import investigate
from mlflow_l3d.studies.planning.run import plan

ALL = ("label_selection", "data_split", "wording", "order")
SIZES = (3, 4, 6, 7, "context")
LISTS = {"approach": "icl", "design": "levels", "golden_runs": 4, "mitigation_runs": 4, "test_size": 20}


def test_the_seed_of_a_column_is_its_level_and_everything_else_is_as_in_the_crossed_design() -> None:
    own, drawn = (list(each(("wording", "order"), ALL, *SIZES).cells()) for each in (LevelsDesign, CrossedDesign))
    assert len({cell.key for cell in own}) == len(own) == len(drawn)
    for mine, other in zip(own, drawn, strict=True):
        assert mine.configurations == other.configurations
        changed = {name for name in ALL if mine.seeds[name] != other.seeds[name]}
        assert changed == ({mine.factor} if mine.phase == "investigation" else set())
        if mine.factor:
            assert mine.seeds[mine.factor] == mine.column
        else:
            assert mine.key == other.key


def test_a_level_without_a_score_leaves_no_verdict() -> None:
    """The interval is about the other levels alone, as if the list had no more."""
    rng = np.random.default_rng(0)
    table = np.array([0.0, 0.5, 0.1]) + 0.05 * rng.normal(size=(20, 1))
    whole = importance(table + 0.01 * rng.normal(size=table.shape), rng.normal(size=20), model=LEVELS)
    assert verdict_of(whole).word == "dominates"
    lost = importance(np.column_stack([whole.table, np.full(20, math.nan)]), whole.golden, model=LEVELS)
    assert lost.corrected_interval[0] > 0
    assert verdict_of(lost) == Verdict("undecided", "lost_level")
    assert "leave it out of the list" in advise(LevelsDesign, lost, verdict_of(lost)).text


def test_advice_on_two_levels_names_no_third() -> None:
    record = importance(np.tile([0.5, 0.6], (20, 1)), np.linspace(0, 1, 20), model=LEVELS)
    assert verdict_of(record).doubt == "no_interval"
    assert advise(LevelsDesign, record, verdict_of(record)).columns is None


def test_levels_without_names_are_numbered_as_in_messages_and_tags() -> None:
    assert Source().levels("wording", 3) == ["0", "1", "2"]


def test_joint_factors_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"^factor=wording\+order: joins factors"):
        LevelsDesign(("wording+order",), ALL, *SIZES)


class Wordings:
    """Right in 60, 80 and 90 % of the test examples by the wording, and one more or less by the order."""

    def __call__(self, task: Any, split: Any, seeds: Any, hyperparameters: Any) -> Any:
        right = (12, 16, 18)[seeds["wording"] % 3] + seeds["order"] % 2
        labels = task.labels[split.test]
        return np.where(np.arange(len(labels)) < right, labels, 1 - labels)


class Listed(FunctionApproach):
    """An approach with a list of three wordings."""

    def levels(self, task: Any, hyperparameters: Any) -> dict[str, int]:
        return {"wording": 3}


WORDINGS = Listed(Wordings(), name="wordings", version="1", factors=("wording", "order"))


def test_a_list_of_one_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listed, "levels", lambda *_: {"wording": 1})
    given = {"task": "synthetic", "factor": "wording", "design": "levels", "investigation_runs": 2}
    with pytest.raises(ParameterError, match=r"^factor=wording: chooses from no list of several, and"):
        specify(given, approach=WORDINGS)


def test_plan_refuses_the_design_whose_intervals_it_cannot_compute(tmp_path: Path, migrated_store: Path) -> None:
    given: dict[str, Any] = {"factor": "wording", "investigation_runs": 3, "pilot": "none"}
    with sqlite_place(migrated_store, tmp_path).entered():
        with pytest.raises(ParameterError, match=r"^design=levels: .* --design levels --dry-run counts its runs"):
            plan("synthetic", approach=WORDINGS, design="levels", **given)
        assert plan("synthetic", approach=WORDINGS, design="crossed", **given).cells > 0


@pytest.mark.slow
def test_the_contributed_std_is_that_of_the_levels(tmp_path: Path, migrated_store: Path) -> None:
    with sqlite_place(migrated_store, tmp_path).entered():
        found = investigate(
            approach=WORDINGS, task="synthetic", factor="wording", design="levels", metric="accuracy",
            investigation_runs=3, mitigation_runs=5, golden_runs=30, num_labelled=20, test_size=20, executor="inline",
        )  # fmt: skip
    record = found.analysis.importances["wording"]
    levels = np.array([12, 16, 18]) / 20
    assert record.contributed_std == pytest.approx(levels.std())
    assert record.components.contributed == pytest.approx(levels.var())
    means = record.table.mean(axis=1)
    assert record.components.mitigated == pytest.approx(means.var(ddof=1))
    assert record.importance_corrected_ci_low < record.importance_corrected < record.importance_corrected_ci_high
    assert record.golden_std == pytest.approx(np.sqrt(levels.var() + 0.025**2), rel=0.2)
    assert not found.analysis.prediction_importances
    assert "L3D006" not in {check.code for check in found.analysis.checks}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"factor": "data_order"}, "factor=data_order: chooses from no list of several, and design=levels takes every"),
        (
            {"factor": "prompt_format"},
            "investigation_runs=10: must be 4, the levels of prompt_format, each of which is",
        ),
        (
            {"factor": "prompt_format,choice_order", "investigation_runs": 4},
            "investigation_runs=4: must be 2, the levels of choice_order, each of which is a column. Investigate lists",
        ),
        ({"factor": "prompt_format", "joint": "product"}, "joint=product: is for design=crossed only."),
        ({"factor": "prompt_format", "stop": "interval"}, "stop=interval: needs design="),
        ({"factor": "replicate"}, "factor=replicate: "),
        ({"factor": "test_sample"}, "factor=test_sample: "),
    ],
)
def test_mistakes(changes: dict[str, Any], line: str) -> None:
    given = {**LISTS, "hyperparameters": {"prompt_format": "A|B|C|D", "choice_order": "random"}, **changes}
    with pytest.raises(ParameterError) as caught:
        specify(given)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(("rows", "levels"), [(10, 2), (20, 4), (40, 2)])
@pytest.mark.parametrize("sigma", [0.0, 0.8])
def test_the_interval_covers_where_rows_are_log_normal(rows: int, levels: int, sigma: float) -> None:
    """A jackknife alone covers in 76 to 79 % of log-normal ones."""
    generator, effects = np.random.default_rng([8, rows]), np.linspace(-1, 1, levels)
    effects /= effects.std()
    spread = math.exp(sigma**2 / 2) * math.sqrt(math.expm1(sigma**2)) if sigma else 1.0
    normal = generator.standard_normal((200, rows, 1))
    tables = effects + (np.exp(sigma * normal) if sigma else normal) / spread
    assert covered((levels_estimate(table).interval() for table in tables), 0) >= 0.82
