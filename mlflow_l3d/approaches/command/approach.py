"""``approach=command``: a cell is one run of a command, with a seed for each of its placeholders."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.command import files
from mlflow_l3d.approaches.command.said import is_public, printed_scores
from mlflow_l3d.approaches.command.scores import FirstRun, Printed, chosen_score, has_result, scale_of, unscaled
from mlflow_l3d.approaches.command.template import SETTING, EndedError, Output, Template, environment, listed, run
from mlflow_l3d.approaches.command.written import CommandSession, Written, read, warn_once, without_score
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, Value
from mlflow_l3d.approaches.project.store import logged_metrics, tracking
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.known import is_share, registered, sounds_like_metric, split_direction
from mlflow_l3d.tasks.answers import order
from mlflow_l3d.tasks.base import Task, TaskKind
from mlflow_l3d.tasks.identity import own_data

_HIGHEST_SEED: Final = 2**31
"""Seeds that a command is given lie below: every library takes such."""
OTHER_KINDS: Final[Mapping[str, TaskKind]] = {
    "numbers": "regression",
    "texts": "generation",
    "tags": "tagging",
    "rankings": "ranking",
}
"""What `classes` says if there are none, but for ``none``."""
_MOST_FIRST_RUNS: Final = 3

_log = logging.getLogger(__name__)


class Command(Approach):
    """A command that trains and evaluates; see docs/tutorials/script.md.

    Parameters
    ----------
    command
        As typed, or a list of words: ``python train.py --seed {model_initialisation}``. Each placeholder but
        ``{output}`` and ``{here}`` is a factor.
    metric
        The score that is investigated; by default that of the predictions, else it is chosen in the first run.
    here
        Folder that the command runs in; by default the current one.

    Raises
    ------
    ParameterError
        If the command is not well-formed.
    """

    name = "command"
    version = "4"
    what = "the command"
    otherwise = "print it"
    choice = "--metric {}"
    own_folder = "{output} or $L3D_OUTPUT"
    not_in_key = "Files that neither the command nor its scripts name are not compared: add hyperparameters.files=NAME."
    parameters: tuple[str, ...] = ("command", "metric")
    brings_data = True
    task_kinds = ("classification", *OTHER_KINDS.values())
    hyperparameters: Mapping[str, Hyperparameter] = {
        "classes": Hyperparameter(
            AUTO,
            "names of all classes, separated by |; numbers, texts, tags or rankings: predicted in place of classes; "
            "none: metrics only; auto: as a run before",
        ),
        "files": Hyperparameter("", "more files and folders whose content decides results"),
        "environment": Hyperparameter("", "more environment variables that the command gets"),
    }

    def __init__(self, command: str | Iterable[str], metric: str = AUTO, here: Path | None = None) -> None:
        self.template = Template.of(command, here)
        self.factors, self.here, self.code_folder = self.template.factors, self.template.here, self.template.here
        self.options = files.option_words(self.template.words, behind=self.label({}))
        self._ask_for(metric)

    first: FirstRun | None = None  # decides how later runs are read; None while it is under way
    _has_sure_outputs = _needs_folder = True

    def _ask_for(self, metric: str) -> None:
        self.asked, _ = split_direction(metric)
        self.metric = "f1_macro" if metric == AUTO else self.asked
        self.metrics = () if self.metric in registered() else (self.metric,)

    def identity(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return nothing: files are in the key by their content, classes by the task."""
        return {}

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return hashes of the command with its folder and environment, and of what it names but does not write."""
        variables = {name: os.environ.get(name) for name in listed(hyperparameters["environment"])}
        typed = {"words": self.template.words, "here": str(self.here.resolve()), "environment": variables}
        deciding, _ = files.deciding_files(self.template)
        more = self.template.more_files(listed(hyperparameters["files"]))
        return {"command": content_key(typed), "files": files.key_of_files({**deciding, **more})}

    def label(self, hyperparameters: Mapping[str, Value]) -> str:
        """Return the name of the module or of the first file of the command, else of its program."""
        words = self.template.words
        is_module = words[1:2] == ("-m",) and Path(words[0]).name.startswith(("python", "pypy", "torchrun"))
        return words[2] if is_module else Path(next(iter(self.template.named()), words[0])).name

    def own_task(self, hyperparameters: Mapping[str, Value], cache: Path) -> Task:
        """Return the task, whose data the command has: its classes come from a run of it, if none are given.

        Raises
        ------
        L3DError
            If that run fails.
        """
        self._ask_for(self.asked)
        self.first = FirstRun()
        classes_text = str(hyperparameters["classes"])
        kind = OTHER_KINDS.get(classes_text, "classification")
        classes: Iterable[str] = ()
        if classes_text == AUTO or (classes_text == "none" and (self.asked == AUTO or is_share(self.asked))):
            first = self._tried(hyperparameters, cache)
            classes = first.classes if classes_text == AUTO else ()
            kind = "regression" if first.numbers else kind
        elif classes_text not in ("none", *OTHER_KINDS):
            classes = map(str.strip, classes_text.split("|"))
        if self.not_in_key and (outputs := files.deciding_files(self.template)[1]):
            _log.warning(
                "Not part of the key of a cell, since runs write them: %s. A run that reads what an earlier run wrote "
                "has another result: write to {output}, or delete it when a run begins.",
                ", ".join(outputs),
            )
        if settings := ", ".join(filter(SETTING.fullmatch, self.factors)):
            warn_once(f"A random seed stands for {settings}, which sounds like a setting: give it a value")
        return own_data(self.label(hyperparameters), tuple(classes), kind)

    def _tried(self, hyperparameters: Mapping[str, Value], cache: Path) -> FirstRun:
        """Return what a run with all seeds 0 wrote; cached.

        Raises
        ------
        ParameterError
            If the metric can come neither from predictions nor from the command.
        """

        def path() -> Path:  # another one after a run that shows which files are outputs
            key = {"version": self.version, **self.dependencies(hyperparameters, "")}
            return cache / "commands" / f"{content_key(key)}.json"

        kept = FirstRun.read(path())
        self.first = first = kept or self._first_run(hyperparameters)
        if chosen := self.asked == AUTO and bool(first.score) and not first.has_predictions:
            self.metric, self.metrics = first.score, (first.score,)
        if kept is None:
            if first.shows_scale(self._score):
                first.write(path())
            others = [name for name in first.metrics if name != first.score and sounds_like_metric(name)]
            more = f"; {self.what} also wrote {', '.join(others[:5])}: {self.choice.format(*others)}" if others else ""
            if chosen:
                last = ", as it is printed last" if first.is_last else ""
                _log.warning("The score is %s%s%s.", first.score, last, more)
            if first.alone:
                _log.warning("Runs follow one another, since %s. Write to %s instead.", first.alone, self.own_folder)
        if self.metric in first.metrics or (first.has_predictions and self.asked in (AUTO, *registered())):
            return first
        wrote = f"{self.what} wrote ({', '.join(first.metrics[:10]) or 'predictions alone'})"
        allowed = f"{'sounds like none of the numbers that' if self.asked == AUTO else 'is not among what'} {wrote}"
        example = first.score or next(iter(first.metrics), "")
        fix = f"Name one, such as {self.choice.format(example)}" if example else "Name another"
        raise ParameterError("metric", self.asked, allowed, f"{fix}, or {self.otherwise}.")

    def _first_run(self, hyperparameters: Mapping[str, Value]) -> FirstRun:
        """Run the command with all seeds 0; return what is kept of it.

        It runs again, with other seeds, if that leaves open how the score is written, or which files are outputs.
        """
        _log.warning("%s runs once to find its scores or classes (classes=a|b skips this)", self.what.capitalize())
        for seed in range(_MOST_FIRST_RUNS):
            self.first = None
            try:
                written = self.execute(dict.fromkeys(self.factors, seed), hyperparameters)
            except EndedError as error:
                why = f"That was a first run with seed {seed}, to see what {self.what} writes. Correct its error, then"
                raise EndedError(f"{str(error).rstrip('.')}. {why} give the same command again.") from error
            first = self._described(written)
            if self._has_sure_outputs and first.shows_scale(self._score):
                return first
        is_one = abs(written.metrics.get(self._score, 0)) == 1
        return replace(first, scales={**first.scales, self._score: "1"}) if is_one else first

    @property
    def _score(self) -> str:
        """The metric that is asked for, else the one that the first run chose."""
        return self.asked if self.asked != AUTO or self.first is None else self.first.score

    def _described(self, written: Written) -> FirstRun:
        """Return what is kept of a run."""
        classes = written.classes
        if classes is not None:
            labels, answers = written.labels, written.predictions
            if written.kind == "texts":
                different = f"{self.what} wrote {len({*labels})} different labels of {len(labels)} examples"
                fix = "Use texts, tags, rankings, or name them."
                raise ParameterError("hyperparameters.classes", AUTO, f"{different}, which are no classes", fix)
            if problem := classes.mismatch(answers):
                raise ParameterError("hyperparameters.classes", AUTO, problem, "Spell them alike, or name all classes.")
            for remark in classes.remarks(labels, Counter(answers)):
                _log.warning("%s", remark)
        names = () if classes is None else tuple(sorted(classes.names, key=order))
        metrics = tuple(sorted(written.metrics))
        return replace(self.first or FirstRun(), classes=names, metrics=metrics, numbers=written.kind == "regression")

    def execute(self, seeds: Mapping[str, int], hyperparameters: Mapping[str, Value]) -> Written:
        """Run the command once, where it was typed, and return what it wrote.

        Raises
        ------
        L3DError
            If it fails, or what it wrote cannot be used.
        """
        why_alone = None if self.first is None else self.first.alone
        if why_alone == "":
            return self._run(seeds, hyperparameters, alone=False)
        with files.alone_in(self.here):
            if why_alone:
                return self._run(seeds, hyperparameters, alone=True)
            before, named = files.stamps(self.here), files.named_files(self.template) if self.not_in_key else {}
            written = self._run(seeds, hyperparameters, alone=True)
            self._has_sure_outputs = not self.not_in_key or files.note_outputs(self.template, named)
            self.first = replace(self.first or FirstRun(), alone=self._why_alone(before))
        return written

    def small_seeds(self, seeds: Mapping[str, int]) -> dict[str, int]:
        """Return the seeds that the command is given."""
        return {name: seeds[name] % _HIGHEST_SEED for name in self.factors}

    def _why_alone(self, before: files.Stamps) -> str:
        """Return why later runs follow one another, after the first run; empty if they may be side by side."""
        if changed := files.changed_name(self.here, before):
            return f"{changed} changed while {self.what} ran"
        is_apart = not self._needs_folder or self.template.has_output
        return "" if is_apart else f"{self.what} names no folder of its own"

    def _run(self, seeds: Mapping[str, int], hyperparameters: Mapping[str, Value], *, alone: bool) -> Written:
        """Run the command; if it is `alone`, predictions and metrics that it writes into its folder count, too."""
        inherited = environment(listed(hyperparameters["environment"]))
        with tempfile.TemporaryDirectory(prefix="l3d-command-", ignore_cleanup_errors=True) as place:
            folder = Path(place)
            words = self.template.arguments(self.small_seeds(seeds), folder)
            ready = words[0] == sys.executable and self.template.mentions(b"mlflow")
            store = {} if "MLFLOW_TRACKING_URI" in inherited else tracking(folder, inherited, ready=ready)
            unread = partial(files.unread_score, folder, self.template, time.time_ns())
            env = {"L3D_OUTPUT": place, "PYTHONDONTWRITEBYTECODE": "1", **store, **inherited}
            printed = files.run_in_place(words, self.here, folder, env) if alone else run(words, self.here, env)
            written = read(folder, OTHER_KINDS.get(str(hyperparameters["classes"]), ""))
            return self._scored(written, printed, logged_metrics(folder), unread)

    def _scored(
        self, written: Written, printed: Output, logged: Mapping[str, float], unread: Callable[[], str] = str
    ) -> Written:
        """Return what was written with the scores of all sources, as fractions."""
        numbers = {**logged, **written.metrics}.items()
        others = {name: each for name, value in numbers if is_public(name, each := Printed(value))}
        values = {**printed_scores(printed.stdout, self.factors), **others}
        if not has_result(values) or self.asked not in (AUTO, *values):
            values = {**printed_scores(printed.stderr, self.factors), **values}
        if not values and not len(written.ids):
            raise EndedError(f"{self.what} {without_score(printed, written.unused)}{unread()}")
        if self.first is None:
            warn_once(written.unused)
            scales = {name: scale_of(name, value) for name, value in values.items()}
            score = chosen_score(values) or (next(iter(values)) if len(values) == 1 else "")
            lines = (line for line in printed.stdout.splitlines() if score in printed_scores(line, self.factors))
            is_last = score not in others and len([*islice(lines, 2)]) == 2
            self.first = FirstRun(score=score, scales=scales, is_last=is_last)
        metrics = {"traceback": 1.0} if "Traceback (most recent call last)" in printed.stderr else {}
        for name, value in values.items():
            try:
                metrics[name] = unscaled(name, value, self.first.scales.get(name))
            except ValueError as error:
                if name == self._score and (not len(written.ids) or self.metric not in registered()):
                    raise L3DError(f"{self.what} wrote {error}") from None
        return replace(written, metrics=metrics)

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> CommandSession:
        """Return a session that runs the command once a cell."""
        return CommandSession(partial(self.execute, hyperparameters=hyperparameters), self.what, self.metric, task)
