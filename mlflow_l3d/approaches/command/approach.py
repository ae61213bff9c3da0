"""``approach=command``: a cell is one run of a command, with a seed for each of its placeholders."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from mlflow_l3d.approaches.base import Approach
from mlflow_l3d.approaches.command.in_place import FirstRun, logged_metrics, run_in_place, tracking
from mlflow_l3d.approaches.command.said import Printed, chosen_score, printed_scores, scale_of, unscaled
from mlflow_l3d.approaches.command.template import Output, Template, environment, last_lines
from mlflow_l3d.approaches.command.written import METRICS, PREDICTIONS, CommandSession, Written, read
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, Value
from mlflow_l3d.approaches.own_parameters import CommandParameters
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.known import registered, sounds_like_metric
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tasks.answers import order
from mlflow_l3d.tasks.base import Task, TaskKind
from mlflow_l3d.tasks.identity import own_data

HIGHEST_SEED: Final = 2**31
"""Seeds that a command is given lie below: every library takes such."""
NO_CLASSES: Final = "none"
OTHER_KINDS: Final[Mapping[str, TaskKind]] = {
    "numbers": "regression",
    "texts": "generation",
    "tags": "tagging",
    "rankings": "ranking",
}
"""What `classes` says if there are none."""

_log = logging.getLogger(__name__)


class Command(Approach):
    """A command that trains and evaluates; see docs/bring-your-own.md.

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
    version = "2"
    what = "the command"
    otherwise = "print it"
    parameters: tuple[str, ...] = (*CommandParameters.__annotations__, "metric")
    brings_data = True
    self_tested = True
    task_kinds = ("classification", *OTHER_KINDS.values())
    hyperparameters: Mapping[str, Hyperparameter] = {
        "classes": Hyperparameter(
            AUTO,
            "names of all classes, separated by |; numbers, texts, tags or rankings: predicted in place of classes; "
            "none: metrics only; auto: as a run before",
        ),
        "files": Hyperparameter("", "files and folders whose content decides results, beside those the command names"),
        "environment": Hyperparameter("", "environment variables that the command is given beside the usual ones"),
    }

    def __init__(self, command: str | Iterable[str], metric: str = AUTO, here: Path | None = None) -> None:
        self.template = Template.of(command, here)
        self.factors = self.template.factors
        self._ask_for(metric)

    first: FirstRun | None = None  # decides how later runs are read; None while it is under way

    def _ask_for(self, metric: str) -> None:
        self.asked = metric
        self.metric = "f1_macro" if metric == AUTO else metric
        self.metrics = () if self.metric in registered() else (metric,)

    def identity(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return nothing: files are in the key by their content, classes by the task."""
        del hyperparameters
        return {}

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return the words of the command, and the hash of what it names."""
        del model
        names = [Path(word).name if Path(word).is_absolute() else word for word in self.template.words]
        written = self._outputs.read_text("utf-8").splitlines() if self._outputs.is_file() else ()
        files = self.template.files(listed(hyperparameters["files"]))
        files = {name: content for name, content in files.items() if name not in written}
        return {"command": content_key({"words": names}), "files": content_key(files)}

    @property
    def _outputs(self) -> Path:
        """The file with the names of files that the command is given and writes: they decide no result."""
        key = content_key({"words": list(self.template.words), "here": str(self.template.here)})
        return cache_folder() / "commands" / f"outputs-{key}.txt"

    def label(self, hyperparameters: Mapping[str, Value]) -> str:
        """Return the name of the first file of the command, else of its program."""
        del hyperparameters
        return Path(next(iter(self.template.files()), self.template.words[0])).name

    def own_task(self, hyperparameters: Mapping[str, Value], cache: Path) -> Task:
        """Return the task, whose data the command has: its classes are those of a run of it, if none are given.

        Raises
        ------
        L3DError
            If that run fails.
        """
        self._ask_for(self.asked)
        self.first = FirstRun()
        classes_text = str(hyperparameters["classes"])
        kind = OTHER_KINDS.get(classes_text, "classification")
        classes: tuple[str, ...] = ()
        if classes_text == AUTO or (classes_text == NO_CLASSES and self.asked == AUTO):
            first = self._tried(hyperparameters, cache)
            classes = tuple(first.classes) if classes_text == AUTO else ()
            kind = "regression" if first.numbers else kind
        elif classes_text != NO_CLASSES and classes_text not in OTHER_KINDS:
            classes = tuple(part.strip() for part in classes_text.split("|"))
        return own_data(self.label(hyperparameters), classes, kind)

    def _tried(self, hyperparameters: Mapping[str, Value], cache: Path) -> FirstRun:
        """Return what a run with all seeds 0 wrote; cached.

        Raises
        ------
        ParameterError
            If the metric can come neither from predictions nor from the command.
        """
        path = cache / "commands" / f"{content_key(dict(self.dependencies(hyperparameters, '')))}.json"
        kept = FirstRun.read(path)
        self.first = first = kept or self._first_run(hyperparameters)
        if chosen := self.asked == AUTO and bool(first.score) and not (first.numbers or first.classes):
            self.metric, self.metrics = first.score, (first.score,)
        if kept is None:
            first.write(path)
            first.report(self.what, chosen=chosen)
        scored = self.asked in (AUTO, *registered()) and (first.classes or first.numbers)
        if self.metric in first.metrics or scored:
            return first
        allowed = f"is not among what {self.what} wrote ({', '.join(first.metrics) or 'predictions alone'})"
        raise ParameterError("metric", self.asked, allowed, f"Name one of them, or {self.otherwise}.")

    def _first_run(self, hyperparameters: Mapping[str, Value]) -> FirstRun:
        """Run the command with all seeds 0; return what is kept of it."""
        _log.warning("%s is run once to see its classes or scores; classes=a|b|... saves that", self.what.capitalize())
        self.first = None
        written = self.execute(dict.fromkeys(self.factors, 0), hyperparameters)
        classes = written.classes
        if classes is not None and written.labels is not None and written.predictions is not None:
            labels, answers = written.labels.tolist(), written.predictions.tolist()
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
        return replace(self.first or FirstRun(), classes=names, metrics=metrics, numbers=written.has_numbers)

    def execute(self, seeds: Mapping[str, int], hyperparameters: Mapping[str, Value]) -> Written:
        """Run the command once, where it was typed, and return what it wrote.

        Raises
        ------
        L3DError
            If it fails, or what it wrote cannot be used.
        """
        inherited = environment(listed(hyperparameters["environment"]))
        folder = Path(tempfile.mkdtemp(prefix="l3d-command-"))
        small = {name: seeds[name] % HIGHEST_SEED for name in self.factors}
        words = self.template.arguments(small, folder)
        try:
            ready = words[0] == sys.executable and self.template.mentions(b"mlflow")
            store = {} if "MLFLOW_TRACKING_URI" in inherited else tracking(folder, inherited, ready=ready)
            variables = {"L3D_OUTPUT": str(folder), **store, **inherited}
            before = None if self.first is None else self.first.changed
            printed, changed = run_in_place(words, self.template.here, folder, variables, before)
            written = read(folder, OTHER_KINDS.get(str(hyperparameters["classes"]), ""))
            return self._scored(written, printed, logged_metrics(folder), changed)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _scored(self, written: Written, printed: Output, logged: Mapping[str, float], changed: list[str]) -> Written:
        """Return what was written with the scores of all sources, as fractions."""
        others = {name: Printed(value) for name, value in {**logged, **written.metrics}.items()}
        values = {**printed_scores(printed.stdout, self.factors), **others}
        if not any(map(sounds_like_metric, values)):
            values = {**printed_scores(printed.stderr, self.factors), **values}
        predicts = written.predictions is not None
        if not values and not predicts:
            lines = " / ".join(last_lines(printed.stdout.strip() or printed.stderr, 3))
            looked = f"printed no score (name: value), and wrote neither {', '.join(PREDICTIONS)} nor {METRICS}"
            ended = f"it ended with: {lines}" if lines else "it printed nothing"
            raise L3DError(f"{self.what} {looked}; {ended}. Print one, such as accuracy: 0.87")
        if self.first is None:
            scales = {name: scale_of(name, value) for name, value in values.items()}
            self.first = FirstRun(score=chosen_score(values), scales=scales)
            paths = {name: os.path.relpath(path, self.template.here) for name, path in self.template.named().items()}
            if outputs := [name for name, path in paths.items() if path in changed]:
                self._outputs.write_text("\n".join(outputs), encoding="utf-8")
        if self.first.changed is None:
            self.first = replace(self.first, changed=changed[:20])
        score = self.first.score if self.asked == AUTO else self.asked
        metrics = {}
        for name, value in values.items():
            try:
                metrics[name] = unscaled(name, value, self.first.scales.get(name))
            except ValueError as error:
                if name == score and not (predicts and self.metric in registered()):
                    raise L3DError(f"{self.what} wrote {error}") from None
        return replace(written, metrics=metrics)

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> CommandSession:
        """Return a session that runs the command once a cell."""
        del model, device, cache
        return CommandSession(partial(self.execute, hyperparameters=hyperparameters), self.what, self.metric, task)


def listed(value: Value) -> list[str]:
    """Return the parts of a hyperparameter that is a list."""
    return [part.strip() for part in str(value).split(",") if part.strip()]
