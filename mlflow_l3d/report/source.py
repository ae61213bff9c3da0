"""The origin of a result, and what a report says of its study: names, links, commands, date, classes and versions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Final

from markupsafe import Markup

from mlflow_l3d.designs import all_designs
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.report.numbers import metric_text, value_text
from mlflow_l3d.version import __version__

_ANOTHER: Final = "hyperparameters=NAME=VALUE"
_PLAIN: Final = re.compile(r"[\w@%+=:./{}-]+|[\w@%+=:,./-]+")
"""Words that a shell takes as they are: braces are letters like others, unless a comma stands between them."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The origin of a result; everything is optional, as runs of other code know little.

    Attributes
    ----------
    task, approach, model
        As the user named them.
    run_id
        The parent.
    address
        What stands before a run id in a link to its page; empty if no browser reaches the server.
    given
        Parameters of the command that are not their defaults.
    classes
        Name of each class; empty if labels are not classes.
    lists
        Hyperparameter, named as a factor -> the options that it lists, separated by bars.
    texts
        Example id -> text; empty unless the user asked for texts, and never recorded in a file of its own.
    date, version
        When the report was written, and the version of this package.
    root_seed
        The number that seeds are derived from.
    factors
        Those that an investigation can redraw; empty if they are not known.
    unused_tests
        By how many test examples `test_size` can grow; None if that is not known.
    is_typed
        Whether a command can name the approach and the task: not if they are objects of Python.
    trains
        Whether runs train: not if they prompt a model.
    are_numbered
        Whether example ids are places in the data, from 0.
    whole
        Parameters of earlier studies with their whole paths, which are never recorded in a file of its own.
    """

    task: str = ""
    approach: str = ""
    model: str = ""
    run_id: str = ""
    address: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    lists: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[object, str] = field(default_factory=dict, metadata={"file": ""})
    date: str = ""
    version: str = __version__
    root_seed: str = ""
    factors: tuple[str, ...] = ()
    unused_tests: int | None = None
    is_typed: bool = True
    trains: bool = True
    are_numbered: bool = False
    whole: tuple[Mapping[str, str], ...] = field(default=(), metadata={"file": ""})

    @property
    def can_repeat(self) -> bool:
        """Whether the study is known, and can be carried out again with other values: typed, or in Python."""
        return bool(self.given or self.approach)

    @property
    def another(self) -> str:
        """The candidate of a gate, as it is typed: what to change."""
        return f"command={_unquoted(self.given.get('command', 'COMMAND'))}" if self.approach == "command" else _ANOTHER

    @property
    def link(self) -> str:
        """The page of the parent; empty if there is none."""
        return f"{self.address}{self.run_id}" if self.address and self.run_id else ""

    @property
    def lines(self) -> list[str]:
        """What names the run of the result and its page; nothing if it was not logged."""
        return [f"MLflow run {self.run_id}; report.html is among its artifacts"] if self.run_id else []

    def about(self, *more: str | Metric) -> str:
        """Return what was studied, for a page's first line: task, approach and model, as far as known, and more."""
        texts = (metric_text(part) if isinstance(part, Metric) else part for part in more)
        return " · ".join(filter(None, dict.fromkeys((self.task, self.approach, self.model, *texts))))

    def place(self, *counts: str) -> Markup:
        """Return what stands at the right of a page's first line: how many runs, the date, a link."""
        link = Markup('<a href="{}">MLflow</a>').format(self.link) if self.link else ""
        return Markup(" · ").join(part for part in (*counts, self.date, link) if part)

    def levels(self, factor: str, count: int) -> list[str]:
        """Return the names of the levels of a factor that chooses from a list; their numbers if they are not known."""
        listed = self.lists.get(factor, "").split("|")
        return listed if len(listed) == count else [str(number) for number in range(count)]

    def command(self, verb: str = "investigate", **changed: str) -> str:
        """Return the command with other values, without what its design refuses; empty if none can name it all."""
        if not (self.is_typed and self.can_repeat):
            return ""
        task = [self.given["task"]] if "task" in self.given else []
        options = {name: value for name, value in self.given.items() if name != "task"} | changed
        layout = all_designs().get(options.get("design", ""))
        if layout is not None and layout.lists and changed.get("factor") == "all":  # it takes factors of lists alone
            layout = None
            for name in ("design", "investigation_runs"):
                options.pop(name, None)
        if layout is not None and not layout.has_columns:
            options.pop("investigation_runs", None)
        if layout is not None and layout.tables_are_golden:
            options.pop("golden_runs", None)
        several = verb == "sweep" and (";" in (typed := options.get("command", "")) or typed.startswith("["))
        script = options.pop("command", "") if options.get("approach") == "command" and not several else ""
        if script:
            del options["approach"]
        words = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        typed = shlex.join(["mlflow-l3d", verb, *task, *words])
        return f"{typed} -- {_unquoted(script)}" if script else typed

    def on_runs(self, verb: str, *runs: str, **options: object) -> str:
        """Return a command about stored runs; if a command cannot name the approach, the same call in Python."""
        if self.can_repeat and not self.is_typed:
            values = ["result"] if "verify" in options else list(map(repr, runs))  # only the result can train more
            values += [f"{name}={value!r}" for name, value in options.items()]
            return f"mlflow_l3d.{verb}({', '.join(values)})"
        words = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value_text(value))]
        return shlex.join(["mlflow-l3d", verb, *runs, *words])


def lists_in(hyperparameters: Mapping[str, object]) -> dict[str, str]:
    """Return the hyperparameters that list several options."""
    return {name: value for name, value in hyperparameters.items() if isinstance(value, str) and "|" in value}


def _unquoted(command: str) -> str:
    """Return a command as a shell takes it; a placeholder needs no quotes."""
    return " ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in shlex.split(command))


_CLASSES_SHOWN: Final = 20


@dataclass(frozen=True)
class About:
    """What a report says of a study in addition to its numbers; see :class:`mlflow_l3d.report.page.Document`."""

    title: str
    source: Source = field(default_factory=Source)
    notes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def heading(run_id: str) -> dict[str, str]:
    """Return what every report begins with: the run, and when the report was written."""
    return {"MLflow run": run_id, "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")}


def class_words(classes: Sequence[str]) -> str:
    """Return the names of the classes; of many the first, and how many more there are."""
    more = len(classes) - _CLASSES_SHOWN
    return ", ".join(classes[:_CLASSES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def version_words() -> str:
    """Return the versions as reports show them."""
    return ", ".join(f"{name} {number}" for name, number in versions().items())


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that may matter, those that are installed."""
    import platform

    others = ("mlflow", "numpy", "pandas", "pyarrow", "torch", "transformers", "tokenizers", "datasets")
    installed = {name: number for name in others if (number := _installed(name)) is not None}
    return {"python": platform.python_version(), "mlflow-l3d": __version__, **installed}


@cache
def _installed(package: str) -> str | None:
    """Return the version of a package, None where it is not installed; read once, since it takes its time."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
