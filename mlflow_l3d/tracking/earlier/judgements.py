"""Judgements: their table, with numbers of repeats and names of judges, their checks, and assessments of our own."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from mlflow_l3d.errors import L3DError

if TYPE_CHECKING:
    from mlflow.entities import Trace

COLUMNS: Final = ("row", "answer", "repeat", "scorer", "judge", "judgement", "value", "failed", "run_id")
OF_RUN: Final = "mlflow.assessment.sourceRunId"
_WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


@dataclass(frozen=True)
class RunJudgements:
    """The judgements of one run as they were read, before repeats and judgements are numbered.

    Attributes
    ----------
    run_id, experiment_id, name
        The run.
    means
        Scorer -> the mean that MLflow logged.
    answers
        One row per answer of the app: ``answer``, ``row``, ``tagged`` (its number among the repeats, nan if it has
        none), ``time``, ``failed``, and further factors.
    judgements
        One row per judgement: ``answer``, ``scorer``, ``source``, ``digest``, ``value``, ``failed``, in their order.
    notes
        Sentences: what does not count, and why.
    apps
        Digest and logged model of the app that answered; empty if they are not known.
    contents
        Column -> hash of its content, of a table whose rows are known by their place alone.
    expected
        Rows of data; 0 if the run does not say.
    """

    run_id: str
    experiment_id: str
    name: str
    means: Mapping[str, float]
    answers: pd.DataFrame
    judgements: pd.DataFrame
    notes: tuple[str, ...] = ()
    apps: tuple[str, str] = ("", "")
    contents: Mapping[str, str] = field(default_factory=dict)
    expected: int = 0


@dataclass(frozen=True)
class Judged:
    """Evaluation runs as one table.

    Attributes
    ----------
    runs
        The runs as they were read.
    table
        One row per judgement: :data:`COLUMNS`, and further factors of the answers. ``failed`` is ``answer`` if the app
        raised (its judgements never count), ``judge`` if the scorer did.
    notes
        Sentences: what does not count, and why.
    """

    runs: tuple[RunJudgements, ...]
    table: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """Name of the first run, and how many more names there are."""
        more = len({run.name for run in self.runs}) - 1
        return f"{self.runs[0].name[:100]}{f' and {more} more' if more > 0 else ''}"

    @property
    def scorers(self) -> list[str]:
        """The scorers with at least one number that counts, by their names."""
        return sorted(set(self.table.loc[self.table["value"].notna() & self.table["failed"].eq(""), "scorer"]))

    def lost(self, scorer: str) -> tuple[int, int]:
        """Return how many answers failed, are missing or were not judged by a scorer, and of how many.

        A scorer that declines to rate an answer, with a text or None, did judge it.
        """
        runs = [run for run in self.runs if run.judgements["scorer"].eq(scorer).any()]
        answers = {answer for run in runs for answer in run.answers["answer"]}
        whole = len(answers) + sum(max(0, run.expected - len(run.answers)) for run in runs)
        judged = self.of(scorer)
        return whole - judged.loc[judged["failed"].eq(""), "answer"].nunique(), whole

    def of(self, scorer: str) -> pd.DataFrame:
        """Return the judgements of one scorer."""
        return self.table[self.table["scorer"].eq(scorer)]


def number_of(value: Any) -> float:
    """Return a value as means of MLflow count it; true and false as words, too; nan if it is not a number."""
    if isinstance(value, bool | int | float):
        return float(value) if math.isfinite(value) else math.nan
    return _WORDS.get(value.strip().lower(), math.nan) if isinstance(value, str) else math.nan


def row_of(inputs: Any) -> str:
    """Return the name of a row: a hash of its inputs, the same for any order of their names."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def joined(runs: Sequence[RunJudgements]) -> Judged:
    """Return the table of one or several runs: an answer that several runs judged is one answer.

    Parameters
    ----------
    runs
        The runs in the order of the user, each at least with one judgement.
    """
    every = pd.concat([run.answers for run in runs], ignore_index=True).drop_duplicates("answer")
    factors = [name for name in every if name not in ("answer", "row", "tagged", "time", "failed")]
    factors = [name for name in factors if every[name].nunique() > 1]
    every = every.sort_values(["tagged", "time", "answer"], kind="stable")
    counted = every.groupby(["row", *factors], sort=False, dropna=False).cumcount()
    whole = every["tagged"].notna() & ~every.duplicated(["row", *factors, "tagged"], keep=False)
    is_tagged = whole.groupby([every[name] for name in ("row", *factors)], dropna=False).transform("all")
    every["repeat"] = counted.where(~is_tagged, every["tagged"].fillna(0)).astype(int)
    every = every.sort_index()
    judgements = _with_judges(pd.concat([run.judgements.assign(run_id=run.run_id) for run in runs], ignore_index=True))
    failed = every.loc[every["failed"], "answer"]
    judgements["failed"] = judgements["failed"].mask(judgements["answer"].isin(failed), "answer")
    judgements["judgement"] = judgements.groupby(["answer", "scorer", "judge"], sort=False).cumcount()
    table = judgements.merge(every[["answer", "row", "repeat", *factors]], on="answer")
    notes = [f"Run {run.run_id[:8]}: {note}" if len(runs) > 1 else note for run in runs for note in run.notes]
    apart = [run.run_id[:8] for run in runs[1:] if set(runs[0].answers["row"]).isdisjoint(run.answers["row"])]
    notes += [f"Run {run_id} shares no row with the first run: its rows are further rows." for run_id in apart]
    return Judged(tuple(runs), table[[*COLUMNS[:6], *factors, *COLUMNS[6:]]], tuple(notes))


def _with_judges(judgements: pd.DataFrame) -> pd.DataFrame:
    """Return judgements with their judge: the source, and the definition of the scorer if one source has several.

    The error of a scorer has the scorer itself as its source, not the judge that it asked.
    """
    good, judge = judgements[judgements["failed"].eq("")], judgements["source"]
    for place in (["scorer", "run_id"], ["scorer", "digest"]):
        sources = good.groupby(place)["source"].agg(["nunique", "first"])
        asked = sources.loc[sources["nunique"].eq(1), "first"]
        asked = asked.reindex(pd.MultiIndex.from_frame(judgements[place])).set_axis(judgements.index)
        judge = judge.mask(judgements["failed"].ne("") & asked.notna(), asked)
    judgements = judgements.assign(judge=judge)
    digests = judgements[judgements["digest"].ne("")].groupby(["scorer", "judge"])["digest"].nunique()
    several = pd.MultiIndex.from_frame(judgements[["scorer", "judge"]]).isin(digests[digests > 1].index)
    named = judgements["judge"] + " (definition " + judgements["digest"].str.removeprefix("sha256:").str[:6] + ")"
    return judgements.assign(judge=judgements["judge"].mask(several & judgements["digest"].ne(""), named))


def check_judgements(traces: Iterable[Trace], run_id: str, scorer: str) -> None:
    """Raise an L3DError if a run has no judgement of any answer, or the scorer always failed."""
    every = [each for trace in traces for each in trace.info.assessments if each.feedback and is_of(each, run_id)]
    if not every:
        raise L3DError(f"scorers={scorer}: returned nothing for all answers. Return a value or a Feedback.")
    errors = [each.error for each in every if each.error is not None]
    if len(errors) == len(every):
        message = str(errors[0].error_message)[:300]
        fix = "Return bool(...) of it." if "Got bool" in message else "Correct the scorer."
        raise L3DError(f"scorers={scorer}: failed on all {len(every)} answers ({message}). {fix}")


def is_of(assessment: Any, run_id: str) -> bool:
    """Return whether a run made an assessment of a trace."""
    return bool((assessment.metadata or {}).get(OF_RUN) == run_id)


def write_assessment(trace_id: str, name: str, value: bool | float, run_id: str) -> bool:
    """Write our own assessment in the name of a run, and return True, unless the run has made it already."""
    import mlflow
    from mlflow.entities import AssessmentSource

    trace = mlflow.get_trace(trace_id)
    if trace is None or any(each.name == name and is_of(each, run_id) for each in trace.info.assessments):
        return False
    source = AssessmentSource(source_type="CODE", source_id="mlflow-l3d")
    mlflow.log_feedback(trace_id=trace_id, name=name, value=value, source=source, metadata={OF_RUN: run_id})
    return True
