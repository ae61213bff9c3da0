"""The random-seeds study of one task: macro effects (scores) and micro effects (single predictions) of the seed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.consistency.examples import ExampleVotes
from mlflow_l3d.analysis.consistency.runs import Interval, PairSpread, SeedAgreement
from mlflow_l3d.analysis.importance.shape import many_or_apart
from mlflow_l3d.analysis.intervals import LEVEL, known, with_interval
from mlflow_l3d.analysis.judged.repeated import pass_k
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import as_metric, named, of_kind
from mlflow_l3d.studies.seeds.numbers.compared import AnswerChanges, Kind, answer_changes, check_seeds, compare_seeds
from mlflow_l3d.studies.seeds.numbers.spread import MetricSpread, metric_spread


@dataclass(frozen=True, slots=True)
class SeedsStudy:
    """What S seeds say about one task and model (Zhou et al. 2025). Fractions (0..1), errors in their own unit.

    Attributes
    ----------
    task, model, benchmark
        Names; empty if not given.
    kind
        ``classification``, ``regression`` or ``multiple_choice``.
    metric
        The task's own metric.
    training_size
        Training examples, if known.
    seeds
        In the order given.
    scores
        One row per seed (the index), one column per metric; nan if a run has no score.
    spreads
        Metric -> mean, VAR, standard deviation and intervals.
    pairs
        Measure -> agreement over pairs of seeds: ``consistency`` and ``correct_consistency`` of classes,
        ``consistency_pearson`` and ``consistency_ccc`` of numbers. Empty without predictions.
    compared
        Seeds whose predictions were compared, in their order.
    examples
        Robust and fragile examples, if each prediction is right or wrong; else None.
    together, intervals
        What all seeds say together, by name, and the 95 % interval of some of it: see
        :func:`~mlflow_l3d.analysis.consistency.runs.class_agreement` and, for numbers,
        :func:`~mlflow_l3d.analysis.consistency.runs.number_agreement`. Empty without predictions.
    constant_seeds
        Seeds that give every example the same prediction.
    chance
        Score of guessing under the task's own metric; None if it has none, or the classes are not known.
    collapsed_seeds
        Seeds with one prediction for every example, or a score at or below `chance` if these are half of all or more,
        or `chance` lies far below the others; their predictions are answers.
    unanswered_seeds
        Seeds of which half of the predictions or more name no class of the task: what they score says nothing of their
        training.
    recorded
        One row per run (the index: its number) and one column per setting, of runs that were distinguished by whatever
        was recorded of them, a trial, say; None for seeds.
    changes
        Rows whose answer changes, if all runs sent the same requests; None for seeds.
    unshared
        Examples that some seeds predicted and others did not: they are not compared.
    """

    task: str
    model: str
    benchmark: str
    kind: Kind
    metric: Metric
    training_size: int | None
    seeds: tuple[int, ...]
    scores: pd.DataFrame
    spreads: dict[str, MetricSpread]
    chance: float | None
    collapsed_seeds: tuple[int, ...]
    pairs: dict[str, PairSpread] = field(default_factory=dict)
    compared: tuple[int, ...] = ()
    examples: ExampleVotes | None = None
    together: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    constant_seeds: tuple[int, ...] = ()
    unanswered_seeds: tuple[int, ...] = ()
    recorded: pd.DataFrame | None = None
    changes: AnswerChanges | None = None
    unshared: int = 0

    @property
    def unit(self) -> str:
        """What people call one of the runs."""
        return "repeat" if self.changes is not None else "seed" if self.recorded is None else "run"

    @property
    def own(self) -> MetricSpread:
        """The spread of the task's own metric."""
        return self.spreads[self.metric.name]

    @property
    def missing_seeds(self) -> tuple[int, ...]:
        """Seeds whose run has no score of the task's own metric."""
        return tuple(self.scores.index[self.scores[self.metric.name].isna()].tolist())

    @property
    def passes(self) -> pd.DataFrame | None:
        """pass^k and pass@k over test examples, one row per k, if nothing but a trial, epoch or repeat differs."""
        if self.examples is None or self.recorded is None:
            return None
        varying = {str(name) for name in self.recorded if self.recorded[name].nunique(dropna=False) > 1}
        if not varying or varying - {"trial", "epoch", "repeat"}:
            return None
        runs = self.examples.frame["runs"].to_numpy()
        right = np.rint(self.examples.frame["share_right"].to_numpy() * runs).astype(np.int64)
        return pd.DataFrame([pass_k(right, runs, k) for k in range(1, runs.min() + 1)])

    @property
    def judged(self) -> int:
        """Of how many seeds it is known whether they collapsed."""
        scored = len(self.seeds) - len(self.missing_seeds) if self.chance is not None else len(self.compared)
        return scored - len(self.unanswered_seeds)

    def metrics(self) -> dict[str, float]:
        """Return the single numbers by name, for the parent run; those that are nan are left out.

        ``score_mean`` and ``score_std`` (VAR) are of the task's own metric; ``seed_mean/<metric>``, ``seed_var/...``,
        ``seed_std/...`` and their intervals of each. Agreement has plain names, ``_spread`` being over pairs.
        """
        metrics = {"score_mean": self.own.mean, "score_std": self.own.var}
        numbers = (*with_interval("mean"), "var", *with_interval("std"))
        for name, one in self.spreads.items():
            metrics |= {f"seed_{number}/{name}": getattr(one, number) for number in numbers}
        metrics |= SeedAgreement(dict(self.pairs), dict(self.together), dict(self.intervals)).metrics()
        for row in () if (passes := self.passes) is None else passes.to_dict("records"):
            metrics |= {f"pass_hat_{row['k']}": row["all_pass"], f"pass_at_{row['k']}": row["any_pass"]}
        metrics |= {} if self.changes is None else self.changes.metrics()
        if self.compared:
            metrics["constant_share"] = len(self.constant_seeds) / len(self.compared)
        if self.judged:
            metrics["collapsed_share"] = len(self.collapsed_seeds) / self.judged
        return known(metrics)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per seed: scores, mean agreement with the others, whether it collapsed or is constant."""
        frame = self.scores.reset_index()
        if self.judged:
            frame["collapsed"] = frame["seed"].isin(self.collapsed_seeds)
        if self.recorded is not None:
            frame = frame.join(self.recorded.add_prefix("setting."), on="seed")
        if not self.pairs:
            return frame
        for name, pair in self.pairs.items():
            frame[name] = frame["seed"].map(dict(zip(self.compared, pair.per_run.tolist(), strict=True)))
        return frame.assign(constant=frame["seed"].isin(self.constant_seeds))


def seeds_study(
    scores: pd.DataFrame,
    predictions: pd.DataFrame | None = None,
    *,
    metric: Metric | str | None = None,
    kind: Kind = "classification",
    task: str = "",
    model: str = "",
    benchmark: str = "",
    training_size: int | None = None,
    others: Sequence[str] = (),
    classes: int | None = None,
    recorded: pd.DataFrame | None = None,
    repeats: bool = False,
    level: float = LEVEL,
) -> SeedsStudy:
    """Return the spread of scores and the agreement of predictions over the seeds of one task and model.

    Parameters
    ----------
    scores
        One row per seed: ``seed`` and metrics; nan or no column if a score is missing. Missing scores of metrics of
        `kind` are computed from the predictions.
    predictions
        One row per prediction: ``seed``, ``example_id``, ``label``, ``prediction`` (class numbers, -1 for none; numbers
        for regression; texts, compared as the metric says, for all else). Examples that all seeds predicted are
        compared; a seed without predictions is not. Macro averages of predictions are over the classes of a seed's own
        labels and predictions, as in scikit-learn. No score is computed from rows that are true in a column
        ``reference``, but agreement is.
    metric
        The task's own metric, or its name; by default that of the kind.
    kind
        What the predictions are.
    task, model, benchmark, training_size
        For the tables over tasks.
    others
        Further metrics of `scores` that are reported, in addition to those of `kind`.
    classes
        How many classes the task has; None counts those that occur among the labels.
    recorded
        Recorded settings of the runs, rows as in `scores`, if no seed distinguishes them; ``seed`` is then the number
        of the run.
    repeats
        Whether all runs sent the same requests, numbered by ``seed``.
    level
        Of the intervals of scores; those of agreement are at 95 %.

    Raises
    ------
    ParameterError
        If there are fewer than two seeds, a seed occurs twice, a seed has predictions only, or the metric is not there.

    Examples
    --------
    >>> import pandas as pd
    >>> import mlflow_l3d
    >>> scores = pd.DataFrame({"seed": [42, 52, 62], "accuracy": [0.8, 0.9, 0.7]})
    >>> study = mlflow_l3d.seeds_study(scores)
    >>> round(study.own.mean, 2), round(study.own.var, 2), round(study.own.std, 2)
    (0.8, 0.08, 0.1)
    """
    if kind not in get_args(Kind):
        raise unknown_name("kind", str(kind), get_args(Kind))
    if "seed" not in scores:
        raise ParameterError("column", "seed", f"must be in the scores, which have {', '.join(map(str, scores))}")
    seeds = check_seeds(scores["seed"].tolist())
    usual = [each.name for each in of_kind(kind)]
    headline = as_metric(metric or usual[0])
    names = [name for name in dict.fromkeys((headline.name, *usual, *others)) if name in scores]
    table = scores.set_index("seed")[names].astype(np.float64)
    agreement: dict[str, Any] = {}
    if predictions is not None and len(predictions):
        compared = compare_seeds(predictions, seeds, kind, classes, headline)
        tested = predictions
        if "reference" in predictions and predictions["reference"].dtype == bool:
            tested = predictions[~predictions["reference"]]
        scored = compared.form.has_classes and compared.are_texts and headline.name in table
        computed = pd.DataFrame.from_dict({} if scored else compared.scores(tested), orient="index")
        names = [name for name in dict.fromkeys((*names, *usual)) if name in table or name in computed]
        table = table.reindex(columns=names).astype(np.float64).combine_first(computed)[names]
        table = table.reindex(index=pd.Index(seeds, name="seed"))
        agreement = compared.found()
        classes = compared.classes if agreement else classes
        agreement["changes"] = answer_changes(compared.frame, kind, headline) if repeats and agreement else None
        agreement["unshared"] = predictions["example_id"].nunique() - len(compared.ids)
    if headline.name not in table:
        raise unknown_name("metric", headline.name, [str(name) for name in table], "one that the runs have:")
    chance, votes = headline.chance_level(classes), agreement.get("examples")
    low: set[int] = {*agreement.get("constant_seeds", ())}
    if chance is not None and (votes is None or votes.are_enough):
        low |= _low(table[headline.name], chance, low)
    return SeedsStudy(
        task=task,
        model=model,
        benchmark=benchmark,
        kind=kind,
        metric=headline,
        training_size=training_size,
        seeds=seeds,
        scores=table,
        spreads={str(name): metric_spread(table[name].to_numpy(), named(str(name)), level=level) for name in table},
        chance=chance,
        collapsed_seeds=tuple(seed for seed in seeds if seed in low - {*agreement.get("unanswered_seeds", ())}),
        recorded=None if recorded is None else recorded.set_index(pd.Index(seeds)),
        **agreement,
    )


def _low(scores: pd.Series, chance: float, constant: Collection[int]) -> set[int]:
    """Return the seeds whose scores say that they collapsed, by the rule of investigations."""
    known_scores = scores.dropna()
    low = known_scores <= chance + 1e-12
    down = (low | known_scores.index.isin(constant)).to_numpy()
    return {*known_scores.index[low]} if many_or_apart(known_scores.to_numpy(), down, chance) else set()
