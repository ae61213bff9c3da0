"""What a project declares: the entry points of its MLproject file, and the command that MLflow makes of one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.errors import L3DError, ParameterError, unknown_name

_FILE: Final = "mlproject"
_ENVIRONMENTS: Final = ("python_env", "conda_env")
_INTERPRETERS: Final = {".py": "python", ".sh": "bash"}


@dataclass(frozen=True)
class EntryPoint:
    """An entry point of a project.

    Attributes
    ----------
    project
        Name of the project; empty if it has none.
    command
        A line for a shell, with ``{parameter}``.
    environment
        File that says which environment the project wants; empty if none does.
    defaults
        Parameter -> its default; None if it must be given.
    paths
        Parameters that are files.
    is_script
        Whether it is a file that no MLproject declares, and takes any parameter as an option.
    """

    project: str
    command: str
    environment: str
    defaults: Mapping[str, str | None] = field(default_factory=dict)
    paths: frozenset[str] = frozenset()
    is_script: bool = False

    def check(self, given: Sequence[str]) -> None:
        """Raise if a parameter is given that is not declared, or one without a default is not given.

        MLflow itself hands what is not declared to the command, where nobody may read it: a seed among it would do
        nothing.
        """
        for name in given:
            if name not in self.defaults and not self.is_script:
                raise unknown_name("project_parameters", name, self.defaults, "a parameter of the entry point:")
        if lacking := [name for name, default in self.defaults.items() if default is None and name not in given]:
            fix = f"Add {lacking[0]}=..."
            raise ParameterError("project_parameters", ",".join(given), f"lacks {', '.join(lacking)}", fix)

    def line(self, given: Mapping[str, str]) -> str:
        """Return the line for the shell, as MLflow makes it: every value is quoted.

        Raises
        ------
        L3DError
            If the command names what is not a parameter.
        """
        values = {name: shlex.quote(given.get(name, default or "")) for name, default in self.defaults.items()}
        more = [f"--{name} {shlex.quote(value)}" for name, value in given.items() if name not in self.defaults]
        try:
            return " ".join([self.command.format(**values), *more])
        except (KeyError, IndexError, ValueError) as error:
            problem = f"has a placeholder that is not a parameter ({error})"
            raise L3DError(f"the command of the entry point {problem}") from None


def entry_point(folder: Path, name: str) -> EntryPoint:
    """Return an entry point of the project in a folder: one of its MLproject file, or a script.

    Raises
    ------
    ParameterError
        If it is not there, or MLproject cannot be read.
    """
    document = _document(folder)
    project, declared = str(document.get("name") or ""), document.get("entry_points") or {}
    if document.get("docker_env"):
        raise ParameterError("uri", folder.name, "runs in a container, which approach=project does not start")
    environment = next((str(document[each]) for each in _ENVIRONMENTS if document.get(each)), "")
    if name not in declared:
        interpreter = _INTERPRETERS.get(Path(name).suffix)
        if interpreter is None or not (folder / name).is_file():
            raise unknown_name("entry_point", name, declared, "a .py or .sh file of the project, or one of")
        return EntryPoint(project, f"{interpreter} {shlex.quote(name)}", environment, is_script=True)
    try:
        command = str(declared[name]["command"])
        parameters = {
            str(key): each if isinstance(each, Mapping) else {"type": each}
            for key, each in (declared[name].get("parameters") or {}).items()
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise ParameterError("entry_point", name, f"is not declared as MLflow declares one ({error!r})") from None
    defaults = {key: None if (value := each.get("default")) is None else str(value) for key, each in parameters.items()}
    paths = frozenset(key for key, each in parameters.items() if each.get("type") == "path")
    return EntryPoint(project, command, environment, defaults, paths)


def _document(folder: Path) -> Mapping[str, Any]:
    """Return the content of the MLproject file; nothing if there is none."""
    path = next((path for path in sorted(folder.iterdir()) if path.name.lower() == _FILE), None)
    if path is None:
        return {}
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParameterError("uri", folder.name, f"has a {path.name} that is no YAML ({error})") from None
    if not isinstance(document, Mapping):
        raise ParameterError("uri", folder.name, f"has a {path.name} that is not a mapping")
    return document
