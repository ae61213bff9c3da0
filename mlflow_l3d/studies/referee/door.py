"""The class `Referee`, for loops in Python, and the entry point `referee`, for those of golden runs in a shell."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from mlflow_l3d.analysis.comparison.predictions import check_effect
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.parameters import Arguments, read_arguments, with_signature
from mlflow_l3d.parameters.checks import check_unused
from mlflow_l3d.parameters.shared import PLACE
from mlflow_l3d.report.numbers import unit_of
from mlflow_l3d.studies.base import ProjectRun, entry_point
from mlflow_l3d.studies.referee.conduct import Conduct
from mlflow_l3d.studies.referee.golden import GoldenSource
from mlflow_l3d.studies.referee.numbers import Judgement, Rules
from mlflow_l3d.studies.referee.parameters import OF_ACTION, REFEREE, RULES, RefereeOptions, RefereeRules
from mlflow_l3d.studies.referee.record import RefereeSession, SessionRecorder, lock_of, sessions
from mlflow_l3d.studies.referee.source import FunctionSource
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.pages import link_of
from mlflow_l3d.tracking.parent import attach


class Referee:
    """A referee of candidates that come one after another, each of which is kept or rejected.

    What holds, if scores of runs are about normal: of the kept candidates at most a share `alpha` is on average not
    better than the champion that it replaced, however many candidates there are, whatever the earlier verdicts made you
    try next, and whenever you look or stop. `confirmed` gains are from fresh runs, which did not decide that the
    champion was kept. Later candidates are compared with them, and a lucky champion stays: in simulations the last gain
    is up to 10 % too large.

    What is assumed: runs of different seeds are independent, and nobody saw the candidates' runs of these seeds before.
    A candidate that is proposed because they were lucky needs another root seed. How much runs of candidates vary is
    learned from those before it; the first few that vary far more than the baseline may be kept falsely more often.

    What does not hold: that a rejected candidate is not better (it may be, by little); that the claimed gain of a kept
    one is right (it is too large on average: quote the confirmed one); that gains carry over to other test examples.

    The same arguments in the same experiment continue the same session: after a kill, nothing is counted twice.

    Parameters
    ----------
    score
        Called with a candidate and a seed, from which it draws all randomness; trains, evaluates, returns the score.
    baseline
        The candidate that is there: anything of JSON types, such as a mapping of hyperparameters.
    metric
        Name of the score, as ``name``, or ``name:lower`` if less of it is better.
    root_seed
        The number that all seeds are derived from.
    version
        Change it with the function.
    **rules
        `smallest_effect`, `alpha`, `power`, `candidates`, `baseline_runs`, `confirm`, `most_runs`: as on the command
        line, see :data:`mlflow_l3d.studies.referee.parameters.REFEREE`.

    Examples
    --------
    >>> import random, mlflow_l3d
    >>> def score(candidate, seed):
    ...     return candidate["quality"] + random.Random(seed).gauss(0, 1)
    >>> referee = mlflow_l3d.Referee(score, baseline={"quality": 0}, smallest_effect=2, candidates=5, baseline_runs=8)
    >>> [referee.judge({"quality": quality}).verdict for quality in (-1, 3, 2)]
    ['reject', 'keep', 'reject']
    >>> round(referee.status().course.path[-1].confirmed, 1)
    3.0
    """

    def __init__(
        self,
        score: Callable[[Any, int], float],
        baseline: object = None,
        *,
        metric: str = "score",
        root_seed: int = 0,
        version: str = "1",
        **rules: Unpack[RefereeRules],
    ) -> None:
        source = FunctionSource(score, baseline, metric=metric, root_seed=root_seed, version=version)
        typed = read_arguments(rules, RULES)
        asked = _rules(typed, source.metric)
        key = content_key({"identity": source.identity})
        with entry_point() as project_run, lock_of(key):
            client = connect()
            planned = typed["baseline_runs"]
            for run in reversed(sessions(client, {names.REFEREE_KEY: key})):
                recorder = SessionRecorder(client, run)
                found = recorder.rules if not math.isnan(asked.effect) else replace(recorder.rules, effect=math.nan)
                is_equal = repr(found) == repr(asked) and recorder.planned == planned
                if is_equal and run.info.status == "FINISHED":  # else its start was killed
                    self.conduct = Conduct.resume(source, recorder)
                    return
            self.conduct = Conduct.start(source, asked, baseline_runs=planned, project_run=project_run.take())
            self.conduct.publish()

    @classmethod
    def start(cls, **options: Unpack[RefereeOptions]) -> Referee:
        """Return a new session whose scores are golden runs.

        Parameters
        ----------
        **options
            As of ``mlflow-l3d referee start``.
        """
        with entry_point() as project_run:
            return cls._start(read_arguments({**options, "action": "start"}, REFEREE), project_run)

    @classmethod
    def _start(cls, typed: Arguments, project_run: ProjectRun) -> Referee:
        how: dict[str, Any] = {name: typed.texts[name] for name in PLACE}
        how |= {name: typed[name] for name in ("shared_seeds", "fresh_half")}
        source = GoldenSource(connect(), typed.texts["baseline"], typed.texts["metric"], **how)
        planned, rules = typed["baseline_runs"], _rules(typed, source.metric)
        scores = source.baseline.scores(source.metric.name, planned)
        check_effect(rules.effect, source.metric, scores[np.isfinite(scores)], source.examples)
        with source.training():
            conduct = Conduct.start(source, rules, baseline_runs=planned, project_run=project_run.take())
        conduct.publish()
        return cls._of(conduct)

    @classmethod
    def resume(cls, run_id: str = "latest", **machine: str) -> Referee:
        """Return a session of golden runs that was begun.

        Parameters
        ----------
        run_id
            Its run; ``latest`` is the latest one of the experiment whose start did not fail.
        **machine
            ``device``, ``executor``, ``workers`` and others of the machine that trains.
        """
        with entry_point():
            client = connect()
            if run_id == "latest":
                # That of a start that failed has no baseline.
                begun_here = [run for run in sessions(client, {}) if run.info.status not in ("FAILED", "KILLED")]
                if not begun_here:
                    fix = "Use referee start."
                    raise ParameterError("referee", "latest", "there is no session in this experiment", fix)
                run_id = str(begun_here[-1].info.run_id)
            recorder = SessionRecorder.find(client, run_id)
            if "function" in (begun := recorder.identity):
                fix = "Use mlflow_l3d.Referee in Python, with the same function."
                raise ParameterError("referee", "", "must be a session of golden runs, and is one of a function", fix)
            how: dict[str, Any] = {**machine, "fresh_half": "fresh_half" in begun}
            source = GoldenSource(client, begun["baseline"], begun["metric"], shared_seeds=begun["shares_seeds"], **how)
            return cls._of(Conduct.resume(source, recorder))

    @classmethod
    def _of(cls, conduct: Conduct) -> Referee:
        referee = cls.__new__(cls)
        referee.conduct = conduct
        return referee

    @property
    def run_id(self) -> str:
        """MLflow run of the session."""
        return self.conduct.run_id

    def judge(self, candidate: object, *, most_runs: int | None = None) -> Judgement:
        """Run a candidate until it is kept or rejected, and update the report.

        Parameters
        ----------
        candidate
            What `score` is called with. Of golden runs, what `candidate` is on the command line: changes are relative
            to the champion.
        most_runs
            Most runs of it now; None for as many as a verdict takes. The same call later continues.
        """
        if most_runs is not None:
            most_runs = REFEREE["most_runs"].read(most_runs)
        with self.conduct.source.training():
            judgement = self.conduct.judge(candidate, most_runs=most_runs)
        self.conduct.publish()
        return judgement

    def status(self) -> RefereeSession:
        """Return the session as it is now, without waiting for a judgement of another thread or process."""
        return self.conduct.status()


@with_signature(RefereeOptions)
def referee(**parameters: Unpack[RefereeOptions]) -> RefereeSession:
    """Start a session of golden runs, judge a candidate in it, or return its status.

    Parameters
    ----------
    **parameters
        As on the command line (``mlflow-l3d referee --help-all``). :class:`mlflow_l3d.Referee`
        does the same for loops in Python, also with a function.

    Returns
    -------
    RefereeSession
        The session; of ``judge`` with the judgement and its `exit_status`: 0 (keep), 1 (reject) or 2 (undecided).

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> baseline = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic",
    ...     investigation_runs=3, mitigation_runs=3, golden_runs=10, executor="inline",
    ... )
    >>> session = mlflow_l3d.referee(action="start", baseline=baseline.run_id, baseline_runs=10, executor="inline")
    >>> change = {"hyperparameters": {"a_data_order": 0.5}}
    >>> judged = mlflow_l3d.referee(action="judge", candidate=change, executor="inline")
    >>> judged.judgement.verdict, judged.exit_status
    ('reject', 1)
    """
    with entry_point() as project_run:
        typed = read_arguments(parameters, REFEREE)
        action, texts = typed["action"], typed.texts
        check_unused(typed, REFEREE, f"referee {action}", ("action", *OF_ACTION[action]))
        if action == "start":
            return Referee._start(typed, project_run).status()
        if action == "judge" and texts["candidate"] == "none":
            raise ParameterError("candidate", "none", "must be what to change of the champion, a run id, or scores")
        begun = Referee.resume(texts["referee"], **{name: texts[name] for name in PLACE})
        most = None if typed["most_runs"] == "auto" else typed["most_runs"]
        judgement = begun.judge(parameters["candidate"], most_runs=most) if action == "judge" else None
        session = replace(begun.status(), judgement=judgement)
        if project_run.run_id:
            recorder = begun.conduct.recorder
            note = f"Session: {link_of(recorder.experiment_id, session.run_id)}\n\n```text\n{session.summary()}\n```"
            attach(recorder.client, project_run.run_id, f"referee {action}", {names.NOTE: note[:5000]})
        return session


def _rules(typed: Arguments, metric: Metric) -> Rules:
    """Return the rules that were given; the smallest effect is in the unit that people read."""
    effect, most = typed["smallest_effect"], typed["most_runs"]
    effect = math.nan if effect == "auto" else effect / unit_of(metric).scale
    same = {name: typed[name] for name in ("alpha", "power", "candidates", "confirm")}
    return Rules(effect, most_runs=40 if most == "auto" else most, sign=metric.sign, **same)
