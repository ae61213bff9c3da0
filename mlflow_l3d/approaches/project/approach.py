"""``approach=project``: a cell is one run of an entry point of an MLflow project, with seeds among its parameters."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from mlflow_l3d.approaches.command.approach import OTHER_KINDS, Command
from mlflow_l3d.approaches.command.files import option_words
from mlflow_l3d.approaches.command.template import HERE, OUTPUT, Template, environment, factors_of, listed, run
from mlflow_l3d.approaches.command.written import PREDICTIONS, Written, read, warn_once
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, Value
from mlflow_l3d.approaches.project import store
from mlflow_l3d.approaches.project.mlproject import ENV_MANAGERS, LOCAL, EntryPoint, Located, entry_point, located
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.paths import cache_folder, file_hash
from mlflow_l3d.privacy import public_text, public_value

SEEDED: Final = ("random.seed", "numpy.random.seed", "torch.manual_seed")
"""Functions that may take the place of a parameter: global generators of a project that takes no seeds."""
_VARIABLE: Final = "L3D_SEEDS"
# A project that seeds numpy with 40, or with nothing, is not changed: its interpreter runs this file of ours first.
_FIRST: Final = f"""
import importlib, json, os, sys

def moved(function, ours):
    def seeded(seed=None, *more, **named):
        whole = seed if isinstance(seed, int) else hash(str(seed)) if seed is not None else 0
        return function((ours + whole) % 2**32, *more, **named)
    return seeded

for name, ours in json.loads(os.environ["{_VARIABLE}"]).items():
    where, _, what = name.rpartition(".")
    module = importlib.import_module(where)
    setattr(module, what, moved(getattr(module, what), ours))
    getattr(module, what)(0)
sys.path.remove(os.path.dirname(__file__))
sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError:
    pass
"""


def reseeding_variables(seeds: Mapping[str, int], folder: Path) -> dict[str, str]:
    """Write the file that a Python interpreter runs first to a folder, and return the variables that lead it there.

    Parameters
    ----------
    seeds
        Function, one of :data:`SEEDED` -> what is added to each seed that it is given. It is called once before.
    folder
        Created here.
    """
    if not seeds:
        return {}
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_FIRST, encoding="utf-8")
    return {"PYTHONPATH": str(folder), _VARIABLE: json.dumps(dict(seeds)), "PYTHONHASHSEED": "0"}


_MEGABYTE: Final = 10**6
_OTHER_EXPERIMENT: Final = "active experiment ID does not match environment run ID"

_log = logging.getLogger(__name__)


class Project(Command):
    """An MLflow project that trains and evaluates; see docs/tutorials/script.md.

    Parameters
    ----------
    uri
        Its folder, or the address of a git repository, with ``#folder`` if it is not at the root.
    entry_point
        One of its entry points, or a script.
    project_parameters
        Parameter -> value, or ``name=value`` pairs: ``seed={data_split},epochs=3``. Each placeholder but ``{output}``
        and ``{here}`` is a factor. In the place of a parameter may stand a function that seeds a global generator
        (:data:`mlflow_l3d.approaches.project.approach.SEEDED`), for a project that takes no seed.
    metric
        The metric that is investigated; if it is none of ours, the project logs it.
    here
        Folder that files are relative to; by default the current one.

    Raises
    ------
    ParameterError
        If the parameters are not well-formed.
    """

    name = "project"
    version = "1"
    what = "the project"
    otherwise = "log it"
    not_in_key = ""
    parameters = ("uri", "entry_point", "project_parameters", "metric")
    hyperparameters: Mapping[str, Hyperparameter] = {
        **Command.hyperparameters,
        "files": Hyperparameter("", "files and folders outside the project whose content decides results"),
        "version": Hyperparameter("", "commit or branch, where the project is a git repository"),
        "env_manager": Hyperparameter(
            LOCAL, "environment of the project: local is this one; virtualenv, uv or conda: MLflow makes it, once"
        ),
        "experiment": Hyperparameter("", "name of the experiment that the project sets in its code, where it does"),
        "artifacts": Hyperparameter(10.0, "megabytes of what a run logs as artifacts that are kept", low=0.0),
    }

    def __init__(
        self,
        uri: str,
        entry_point: str = "main",
        project_parameters: str | Mapping[str, object] = "",
        metric: str = AUTO,
        here: Path | None = None,
    ) -> None:
        self.uri = str(uri)
        self.entry_point = entry_point
        self.here = here or Path.cwd()
        self.code_folder = self.here / Path(self.uri.removeprefix("file://").partition("#")[0]).expanduser()
        self.given = _pairs(project_parameters)
        typed = ",".join(f"{name}={value}" for name, value in self.given.items())
        self.factors = factors_of(self.given.values(), "project_parameters", typed)
        self.options = option_words(f"--{name}={value}" for name, value in self.given.items())
        places = dict.fromkeys((*self.factors, OUTPUT, HERE), 0)
        for name in SEEDED:
            if not self.given.get(name, "0").format_map(places).isdecimal():
                allowed = "must be a factor in braces, as {data_split}"
                raise ParameterError(f"project_parameters.{name}", self.given[name], allowed)
        self.template = Template(tuple(self.given.values()), self.here, self.factors)
        self._ask_for(metric)
        self._found: dict[tuple[str, str], tuple[Located, EntryPoint]] = {}

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return the entry point and its parameters, and the hash of the files.

        Raises
        ------
        ParameterError
            If the project, its entry point or a parameter of it is not there.
        """
        place, _ = self._project(hyperparameters)
        named = {word: file_hash(path) for word, path in self.template.named().items()}
        named |= self.template.more_files(listed(hyperparameters["files"]))
        files = {"project": place.files, "named": [(Path(name).name, content) for name, content in named.items()]}
        settings: dict[str, object] = {"entry_point": self.entry_point, "parameters": _public(self.given)}
        if names := listed(hyperparameters["environment"]):
            settings["environment"] = {name: os.environ.get(name) for name in names}
        return {
            "project": content_key({**settings, "env_manager": hyperparameters["env_manager"]}),
            "files": content_key(files),
        }

    def label(self, hyperparameters: Mapping[str, Value]) -> str:
        """Return the name of the project, else of its folder."""
        place, point = self._project(hyperparameters)
        return point.project or (place.folder.name if "://" not in self.uri else Path(self.uri).stem)

    def _project(self, hyperparameters: Mapping[str, Value]) -> tuple[Located, EntryPoint]:
        """Return the project and its entry point; what MLflow fetched stays as it is while this object is there."""
        version = str(hyperparameters["version"])
        env_manager = str(hyperparameters["env_manager"])
        if env_manager not in ENV_MANAGERS:
            raise unknown_name("hyperparameters.env_manager", env_manager, ENV_MANAGERS)
        if (version, env_manager) not in self._found:
            place = located(self.uri, version, env_manager, self.here, cache_folder())
            point = entry_point(place.folder, self.entry_point)
            point.check([name for name in self.given if name not in SEEDED])
            if point.environment and env_manager == LOCAL:
                makes = "hyperparameters.env_manager=virtualenv, uv or conda makes its own"
                _log.warning(
                    "%s asks for %s, and runs in this environment; %s", public_text(self.uri), point.environment, makes
                )
            self._found[version, env_manager] = place, point
        return self._found[version, env_manager]

    def execute(self, seeds: Mapping[str, int], hyperparameters: Mapping[str, Value]) -> Written:
        """Run the entry point once, on a copy of the project, and return what it logged.

        Raises
        ------
        L3DError
            If it fails, or what it logged cannot be used.
        """
        place, point = self._project(hyperparameters)
        inherited = {**environment(listed(hyperparameters["environment"])), **place.environment}
        empty = store.template(cache_folder() / "projects" / f"store-{place.mlflow}.db", inherited)
        with tempfile.TemporaryDirectory(prefix="l3d-project-", ignore_cleanup_errors=True) as place_of_run:
            folder = Path(place_of_run)
            copy, output = folder / "project", folder / "artifacts"
            copy.mkdir()
            output.mkdir()
            linked = place.copy(copy)
            tracking = store.fresh(empty, folder, output, str(hyperparameters["experiment"]))
            values = self._values(seeds, output, point)
            reseeded = reseeding_variables(
                {name: int(values[name]) for name in SEEDED if name in values}, folder / "seeds"
            )
            line = point.line({name: value for name, value in values.items() if name not in SEEDED})
            try:  # MLflow, too, gives the line to bash
                run(["bash", "-c", line], copy, {**inherited, **tracking, **reseeded})
            except L3DError as error:
                if _OTHER_EXPERIMENT not in str(error):
                    raise
                advice = "the project sets an experiment in its code: name it, hyperparameters.experiment=NAME"
                raise L3DError(advice) from None
            place.check(linked)
            logged, metrics = store.logged(folder, tracking["MLFLOW_RUN_ID"])
            written = read(output, OTHER_KINDS.get(str(hyperparameters["classes"]), ""), metrics)
            if not len(written.ids) and not metrics:
                nothing = f"the project logged no metric where MLflow leads it, and no {' or '.join(PREDICTIONS)}"
                raise L3DError(written.unused or nothing)
            warn_once(written.unused)
            artifacts, left_out = store.artifacts(output, float(hyperparameters["artifacts"]) * _MEGABYTE, PREDICTIONS)
        tags = {**logged.tags, store.LEFT_OUT: ", ".join(left_out)} if left_out else logged.tags
        params = {**{name: public_value(name, value) for name, value in _public(values).items()}, **logged.params}
        return replace(written, logged=replace(logged, params=params, tags=tags, artifacts=artifacts))

    def _values(self, seeds: Mapping[str, int], output: Path, point: EntryPoint) -> dict[str, str]:
        """Return the parameters of one run; files that are named from here have whole paths."""
        places = {**self.small_seeds(seeds), OUTPUT: output, HERE: self.here}
        values = {name: value.format_map(places) for name, value in self.given.items()}
        for name in point.paths & {*values}:
            if (path := (self.here / values[name]).resolve()).exists():
                values[name] = str(path)
        return values


def _public(values: Mapping[str, str]) -> dict[str, str]:
    """Return values that may be shown to others: of a whole path, the name."""
    return {name: Path(value).name if Path(value).is_absolute() else value for name, value in values.items()}


def _pairs(given: str | Mapping[str, object]) -> dict[str, str]:
    """Return the typed text: JSON, or name=value pairs separated by commas."""
    if isinstance(given, Mapping):
        return {str(name): str(value) for name, value in given.items()}
    if given.lstrip().startswith("{"):
        try:
            return _pairs(json.loads(given))
        except (json.JSONDecodeError, AttributeError) as error:
            raise ParameterError("project_parameters", given, f"is no JSON ({error})") from None
    pairs = [part.partition("=") for part in given.split(",") if part.strip()]
    if wrong := next((name for name, equals, _ in pairs if not equals), ""):
        fix = 'A value that has a comma needs JSON: {"name": "a,b"}.'
        raise ParameterError("project_parameters", given, f"has {wrong.strip()}, which is not name=value", fix)
    return {name.strip(): value.strip() for name, _, value in pairs}
