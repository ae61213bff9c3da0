"""The entry points `cure` and `plan_cure`: what would leave less luck, and whether golden runs with it do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import Any, Unpack

import numpy as np
import pandas as pd

from mlflow_l3d.analysis.cure import MEASURED, Prediction
from mlflow_l3d.analysis.intervals import LEVEL, with_interval
from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters import with_signature
from mlflow_l3d.parameters.cures import text_of
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.report.page import Document
from mlflow_l3d.report.remedies import remedy_words
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.base import entry_point, locked, say
from mlflow_l3d.studies.cure.numbers import CureAnswer, Verified, agreement, verify
from mlflow_l3d.studies.cure.parameters import CureOptions
from mlflow_l3d.studies.cure.remedies import FEWEST, cured_request, fetch_members, kept_members, member_keys, trained
from mlflow_l3d.studies.cure.report import cure_document
from mlflow_l3d.studies.cure.request import CureRequest, specify_cure
from mlflow_l3d.studies.dry_run import StudyPlan, record_plan, study_plan
from mlflow_l3d.studies.files import save_result
from mlflow_l3d.studies.gate.golden import GoldenRequest, GoldenRuns
from mlflow_l3d.studies.shown import OnOneScreen, built_once, shows_progress
from mlflow_l3d.tracking import names
from mlflow_l3d.tracking.auxiliary import auxiliary_run
from mlflow_l3d.tracking.children import finished_cells
from mlflow_l3d.tracking.connection import connect
from mlflow_l3d.tracking.opening import spooled_cells


@dataclass(frozen=True, kw_only=True, repr=False)
class Cure(OnOneScreen):
    """What would leave less luck, and what did.

    Attributes
    ----------
    run_id, parent_run_id
        Its MLflow run, and the run whose luck is looked at.
    answer
        What it found.
    source, settings
        The origin of the parent run, and the given values.
    """

    run_id: str
    parent_run_id: str
    answer: CureAnswer
    source: Source
    settings: Mapping[str, str]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per remedy, best first: what is predicted, and achieved if it was verified; as fractions."""
        answer, rows = self.answer, []
        achieved = {repr(each.prediction.remedy): each for each in answer.verified}
        for each in answer.predictions:
            row: dict[str, Any] = {"remedy": remedy_words(each.remedy, each.also), **asdict(each.remedy)}
            del row["words"]
            for name in ("std", "mean_change", "consistency", "fragile"):
                row |= dict(zip(with_interval(name), getattr(each, name), strict=True))
            row |= {name: getattr(each, name) for name in ("trainings", "seconds", "basis", "reason")}
            if (trained := achieved.get(repr(each.remedy))) is not None and not each.also:
                row |= {"achieved_std": trained.cured.value, "achieved_mean_change": trained.mean_change.value}
                row |= {"less_spread": trained.less_spread, "mean_kept": answer.mean_kept(trained)}
            rows.append(row)
        return pd.DataFrame(rows)

    @built_once
    def report(self) -> Document:
        """Return the result as people read it."""
        return cure_document(self.answer, source=self.source, run_id=self.run_id, settings=self.settings)


@with_signature(CureOptions)
def cure(parent_run_id: Any = "latest", *, progress: bool | None = None, **options: Unpack[CureOptions]) -> Cure:
    """Predict from the runs of an investigation or seeds study what leaves less luck, and verify it.

    Parameters
    ----------
    parent_run_id
        The parent run, or a result, whose `cure` method calls this.
    progress
        Whether to show progress on stderr; None shows it in a notebook and on a terminal.
    **options
        As on the command line (``mlflow-l3d cure --help-all``): ``verify``, ``budget``, ``runs``.

    Returns
    -------
    Cure
        The result. Its run has a verified remedy as the artifact ``cure.json``, which the parameter `cure` of other
        commands takes.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> investigation = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic", metric="accuracy",
    ...     investigation_runs=7, mitigation_runs=4, golden_runs=8, executor="inline",
    ... )
    >>> cure = mlflow_l3d.cure(investigation.run_id)
    >>> cure.to_frame()["remedy"].head(2).tolist()
    ['vote of 3 runs over data_order', 'mean of class scores of 2 runs over data_order']
    """
    with entry_point() as opened:
        client = connect()
        request = specify_cure(parent_run_id, options, client)
        gathered, texts = request.gathered, request.arguments.texts
        planned, notes = plan_remedies(request)
        done = [*(each.remedy for each in request.tried), *(each.prediction.remedy for each in planned)]
        earlier = [remedy_words(each.prediction.remedy) for each in planned if not each.undone]
        say([*(f"{words}: trained before." for words in earlier), *notes])
        with auxiliary_run(client, opened.take(), role="cure", title=request.title, parameters=texts) as run:
            shown = shows_progress(progress)
            verified = tuple(verify_remedies(request, planned, run.run_id, progress=shown)) if planned else ()
            if any(each.is_line for each in planned):
                request = replace(request)  # it predicts again, from these runs, too
            answer = CureAnswer(
                metric=gathered.metric,
                std=gathered.spread.value,
                golden_std=gathered.golden_std,
                mean=float(gathered.golden.mean()) if len(gathered.golden) else math.nan,
                predictions=request.predictions,
                verified=verified,
                stored=request.stored,
                smallest_effect=request.smallest_effect,
                level=1 - (1 - LEVEL) / max(1, len(verified)),
                collapsed=gathered.collapsed,
                runs=len(gathered.golden),
                is_pooled=request.golden is not None and request.golden.phase == "base",
                reasons=(*request.reasons, *notes),
                tried=tuple(each.remedy for each in request.predictions if each.remedy in done and not each.also),
                upcoming=tuple([each for each in request.ranked() if each.remedy not in done][:2]),
            )
            parent = str(gathered.parent.info.run_id)
            # A reason is why no command can train: the request of an object of this process can.
            source = replace(gathered.source, is_typed=not request.side.reason)
            result = Cure(run_id=run.run_id, parent_run_id=parent, answer=answer, source=source, settings=texts)
            save_result(run.folder, result)
            if answer.best is not None and answer.best.prediction.remedy.kind != "more_data":
                (run.folder / names.CURE).write_text(text_of(answer.best.prediction.remedy), encoding="utf-8")
            tags = {
                names.OF_INVESTIGATION: parent,
                names.INVESTIGATIONS: ",".join([parent, *(each.run_id for each in verified)]),
                names.STATE: "complete",
                names.NOTE: result.report().description(*answer.reasons),
            }
            run.finish(metrics=answer.metrics(), tags=tags)
        return result


@with_signature(CureOptions)
def plan_cure(parent_run_id: Any = "latest", **options: Unpack[CureOptions]) -> StudyPlan:
    """Return what verifying would train; no run starts.

    Parameters
    ----------
    parent_run_id, **options
        Those of :func:`cure`.

    Raises
    ------
    L3DError
        If something must be corrected; its one line says what to change.

    Examples
    --------
    >>> import mlflow_l3d
    >>> investigation = mlflow_l3d.investigate(
    ...     "synthetic", approach="synthetic", metric="accuracy",
    ...     investigation_runs=7, mitigation_runs=4, golden_runs=8, executor="inline",
    ... )
    >>> mlflow_l3d.plan_cure(investigation.run_id, verify=1).parts["to_compute"].tolist()
    [8]
    """
    with entry_point() as opened:
        client = connect()
        request = specify_cure(parent_run_id, options, client)
        planned, notes = plan_remedies(request)
        seconds = request.gathered.seconds / request.each
        rows = [(each.request.side, each.done + each.undone, each.done, each.trainings, seconds) for each in planned]
        plan = replace(study_plan(request.title, rows, request.workers, (*notes, *request.reasons)), unit="training")
        return record_plan(client, opened.run_id, plan, request.title, request.arguments.texts)


@dataclass(frozen=True)
class Planned:
    """A remedy that is to be trained.

    Attributes
    ----------
    prediction
        What is predicted of it.
    request
        Its golden runs.
    done, undone, trainings
        Trainings behind its golden runs that are done, members that are stored or kept among them; those that are not,
        and of these those that are left once the remedies before it are trained.
    is_line
        Whether its golden runs have another number of labels, and a line through them is all that is known.
    """

    prediction: Prediction
    request: GoldenRequest
    done: int
    undone: int
    trainings: int
    is_line: bool = False


def plan_remedies(request: CureRequest) -> tuple[list[Planned], list[str]]:
    """Return the first remedies, at most so many, that are trained within the budget, and why others are not."""
    planned: list[Planned] = []
    notes: list[str] = []
    if not (most := request.arguments["verify"]) or request.golden is None:
        return planned, notes
    left = request.budget.cells or math.inf
    if request.budget.seconds is not None:
        left = request.budget.seconds * request.workers / request.gathered.seconds * request.each
    chosen = request.chosen()
    has_pair = np.isfinite(request.side.scores(request.gathered.metric.name, request.golden.runs))
    finished = cache(partial(finished_cells, request.client))
    there: set[str] = set()
    begun: set[str] = set()
    if not chosen:
        notes.append("Nothing is verified, since no remedy that can be trained is predicted to help.")
    for prediction in chosen:
        if len(planned) == most:
            break
        words = remedy_words(prediction.remedy)
        try:
            golden = cured_request(request.golden, prediction.remedy)
        except L3DError as error:
            notes.append(f"{words}: not verified ({error})")
            continue
        context, members = member_keys(golden)
        each = prediction.trainings // prediction.remedy.members
        there |= kept_members({*chain(*members.values())} - there)
        there.update(finished(context), finished(golden.context_key), spooled_cells(request.client, golden.key))
        keys_of_pairs = zip(has_pair, members.items(), strict=True)
        lacking = [{*keys} - there if of_pair and key not in there else set() for of_pair, (key, keys) in keys_of_pairs]
        missing = [keys - begun for keys in lacking]
        affordable = next((at for at in range(len(missing), 0, -1) if each * sum(map(len, missing[:at])) <= left), 0)
        if affordable < min(FEWEST, request.golden.runs):
            notes.append(f"{words}: not verified, since the budget does not pay for {FEWEST} golden runs.")
            continue
        undone, trainings = (each * sum(map(len, keys[:affordable])) for keys in (lacking, missing))
        begun.update(*missing[:affordable])
        left -= trainings
        golden = replace(golden, runs=affordable)
        done = int(has_pair[:affordable].sum()) * prediction.trainings - undone
        is_line = trained(request.golden, prediction.remedy) != prediction.remedy
        planned.append(Planned(prediction, golden, done, undone, trainings, is_line))
    return planned, notes


def verify_remedies(
    request: CureRequest, planned: Sequence[Planned], run_id: str, *, progress: bool
) -> Iterator[Verified]:
    """Train the planned remedies one after the other, and yield what came of each that was trained itself."""
    side, metric = request.side, request.gathered.metric
    level = 1 - (1 - LEVEL) / len(planned)
    plain_agreement = cache(lambda runs: agreement(side.predictions(request.client, runs)))
    for each in planned:
        runs = each.request.runs
        if each.prediction.remedy.members > 1:
            fetch_members(request.client, each.request)
        plain = side.scores(metric.name, runs)
        without_pair = np.flatnonzero(~np.isfinite(plain))
        training = GoldenRuns(replace(each.request, gate=run_id), progress=progress, left_out=without_pair)
        waiting = f"Another process trains the {each.request.side}. Waiting for it."  # then its runs are done
        with locked(cache_folder("members") / f"{each.request.key}.lock", waiting), training.opened():
            training.advance(runs)
            of_runs = agreement(training.predictions(runs))
            training.finish(runs)
        made = each.prediction
        if each.is_line:
            continue
        if made.remedy.kind in MEASURED and made.basis != "extrapolated":  # its prediction was made from these runs
            made = Prediction(remedy=made.remedy, basis="unknown", trainings=made.trainings, seconds=made.seconds)
        begun = Verified(prediction=made, run_id=training.recorder.parent.run_id, runs=runs, consistency=of_runs)
        begun = replace(begun, plain_consistency=plain_agreement(runs))
        yield verify(begun, plain, training.scores, level, chance=request.gathered.chance)
