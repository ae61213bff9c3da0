"""``approach=command``: a cell is one run of a command, with a seed for each of its placeholders."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlflow_l3d.approaches.base import Approach, CellwiseSession
from mlflow_l3d.approaches.command.template import Template, environment, run
from mlflow_l3d.approaches.command.written import METRICS, Written, read
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, Value
from mlflow_l3d.approaches.own_parameters import CommandParameters
from mlflow_l3d.cells.cell import Cell, Outcome, content_key
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.metrics.classification import UNPARSED
from mlflow_l3d.metrics.known import registered
from mlflow_l3d.tasks.answers import Classes, order
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
        As typed, or a list of words: ``python train.py --seed {model_initialisation} --out {output}``. Each placeholder
        but ``{output}`` and ``{here}`` is a factor.
    metric
        The metric that is investigated; if it is none of ours, the command writes it to ``metrics.json``.
    here
        Folder that the files of the command are relative to; by default the current one.

    Raises
    ------
    ParameterError
        If the command is not well-formed.
    """

    name = "command"
    version = "1"
    what = "the command"
    otherwise = f"write it to {METRICS}"
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
        files = self.template.files(listed(hyperparameters["files"]))
        return {"command": content_key({"words": names}), "files": content_key(files)}

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
        classes_text = str(hyperparameters["classes"])
        kind = OTHER_KINDS.get(classes_text, "classification")
        classes: tuple[str, ...] = ()
        if classes_text == AUTO:
            classes, numbers = self._tried(hyperparameters, cache)
            kind = "regression" if numbers else kind
        elif classes_text != NO_CLASSES and classes_text not in OTHER_KINDS:
            classes = tuple(part.strip() for part in classes_text.split("|"))
        return own_data(self.label(hyperparameters), classes, kind)

    def _tried(self, hyperparameters: Mapping[str, Value], cache: Path) -> tuple[tuple[str, ...], bool]:
        """Return the classes of a run with all seeds 0, and whether it predicts numbers; cached.

        Raises
        ------
        ParameterError
            If the metric can come neither from predictions nor from the command.
        """
        path = cache / "commands" / f"{content_key(dict(self.dependencies(hyperparameters, '')))}.json"
        kept: tuple[tuple[str, ...], tuple[str, ...], bool] | None = None
        with suppress(OSError, ValueError, LookupError, TypeError):  # a damaged file is made again
            document = json.loads(path.read_text(encoding="utf-8"))
            kept = tuple(map(str, document["classes"])), tuple(map(str, document["metrics"])), bool(document["numbers"])
        classes, metrics, numbers = kept or self._first_run(hyperparameters)
        if kept is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_text(
                json.dumps({"classes": classes, "metrics": metrics, "numbers": numbers}), encoding="utf-8"
            )
            partial.replace(path)
        scored = (classes and self.metric in registered()) or (numbers and self.asked in (AUTO, *registered()))
        if self.metric in metrics or scored:
            return classes, numbers
        allowed = f"is not among what {self.what} wrote ({', '.join(metrics) or 'predictions alone'})"
        raise ParameterError("metric", self.metric, allowed, f"Name one of them, or {self.otherwise}.")

    def _first_run(self, hyperparameters: Mapping[str, Value]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """Run the command with all seeds 0; return its classes, its metrics, and whether it predicts numbers."""
        _log.warning("%s is run once to see which classes it has; classes=a|b|... saves that", self.what.capitalize())
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
        return names, tuple(sorted(written.metrics)), written.has_numbers

    def execute(self, seeds: Mapping[str, int], hyperparameters: Mapping[str, Value]) -> Written:
        """Run the command once, in a fresh folder, and return what it wrote.

        Raises
        ------
        L3DError
            If it fails, or what it wrote cannot be used.
        """
        variables = environment(listed(hyperparameters["environment"]))
        folder = Path(tempfile.mkdtemp(prefix="l3d-command-"))
        small = {name: seeds[name] % HIGHEST_SEED for name in self.factors}
        try:
            last_line = run(self.template.arguments(small, folder), folder, variables)
            return read(folder, OTHER_KINDS.get(str(hyperparameters["classes"]), ""), last_line)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> CommandSession:
        """Return a session that runs the command once a cell."""
        del model, device, cache
        return CommandSession(self, task, hyperparameters)


def listed(value: Value) -> list[str]:
    """Return the parts of a hyperparameter that is a list."""
    return [part.strip() for part in str(value).split(",") if part.strip()]
