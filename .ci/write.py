"""Write what is made from the studies and their parameters: MLproject, docs/parameters.md and names of the package.

``python .ci/write.py`` writes the files; ``python .ci/write.py --check`` changes nothing and fails where one differs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from mlflow_l3d import genai  # noqa: E402
from mlflow_l3d.parameters import Parameter, Parameters  # noqa: E402
from mlflow_l3d.parameters.values import Choice, Number, Whole  # noqa: E402
from mlflow_l3d.parameters.verbs import (  # noqa: E402
    Verb,
    public_names,
    verbs,
)
from mlflow_l3d.registry import GROUPS  # noqa: E402
from mlflow_l3d.studies.investigation.parameters import MAIN  # noqa: E402

PROJECT = """\
# Written by .ci/write.py from the parameters of the studies.
name: mlflow-l3d

conda_env: conda.yaml

# Every value is checked by the program itself: MLflow knows no enumerations and drops unused parameters silently.
entry_points:
"""
DEFAULT_PROJECT = """\
# Written by .ci/write.py from the parameters of the studies.
name: default-investigation

conda_env: ../../conda.yaml

# The default investigation, with every parameter written out: copy this folder and change the defaults. The command
# runs at the root of the repository, so that the package is found without an installation and relative paths mean the
# same as in the project there.
entry_points:
"""
REQUIRED = "(required)"
PAGE = """\
# Parameters

Which parameters does a command have, and what may they be? `mlflow-l3d sweep --test-size 100` is also
`mlflow run . --env-manager local -e sweep -P test_size=100` (studies, `plan` and `evaluate`; without `-e` for
`investigate`), and in Python `mlflow_l3d.sweep(test_size=100)`. Python takes numbers, lists, mappings, True and
False as they are; `None` is `none` if that is allowed, otherwise the default. Parameters of an approach, such as the
learning rate, are values of the one parameter `hyperparameters` ([hyperparameters and
luck](concepts/hyperparameters.md)).
"""


def entry_point(verb: Verb, run: str = "python -m mlflow_l3d") -> str:
    """Return one entry point of an MLproject."""
    lines = [f"  {verb.entry_point}:", "    parameters:"]
    lines += [f"      {name.rstrip('_')}: {{{declaration(each)}}}" for name, each in verb.parameters.items()]
    lines += ["    command: >-", f"      {run} {verb.name}"]
    lines += [f"      {each.option} {{{name.rstrip('_')}}}" for name, each in verb.parameters.items()]
    return "\n".join(lines) + "\n"


def declaration(parameter: Parameter) -> str:
    """Return type and default; MLflow leaves numbers and texts as they are typed."""
    values = parameter.values
    is_number = isinstance(values, Number) and not (isinstance(values, Whole) and values.words)
    kind, default = ("float", parameter.default) if is_number else ("string", json.dumps(parameter.default))
    return f"type: {kind}, default: {default}"


def section(verb: Verb) -> str:
    """Return what the page says about one verb."""
    ways = [f"`mlflow-l3d {' '.join([verb.name, *(word.upper() for word in verb.words)])}`"] * bool(verb.words)
    ways += [f"`mlflow_l3d.{verb.function}()`"] * (verb.function != verb.name)
    text = f"\n## {verb.name}\n\n{verb.description[:1].upper()}{verb.description[1:]}.\n"
    text += f"\n{' · '.join(ways)}\n" if ways else ""
    known = like(verb)
    shared = [name for name, parameter in verb.parameters.items() if parameter == known.parameters.get(name)]
    own = {name: parameter for name, parameter in verb.parameters.items() if name not in shared}
    if not shared or known is verb:
        parameters = {**verb.words, **verb.parameters}
        return text + (table(parameters) if parameters else "")
    missing = [f"`{name}`" for name in known.parameters if name not in verb.parameters]
    names = ", ".join(f"`{name}`" for name in shared)
    if len(missing) < len(shared):
        names = f"all parameters{' but ' * bool(missing)}{', '.join(missing)}"
    return f"{text}\nAs for [{known.name}](#{known.name}): {names}.\n" + (table(own) if own else "")


def like(verb: Verb) -> Verb:
    """Return the verb, of those that come before it on the page, whose parameters differ least from its own."""
    before = [each for each in verbs().values() if each.order < verb.order]
    return max(before, key=lambda each: len(verb.parameters.items() & each.parameters.items()), default=verb)


def table(parameters: Parameters) -> str:
    """Return one row a parameter."""
    rows = ["", "| Parameter | Default | Allowed | Meaning |", "|---|---|---|---|"]
    for parameter in parameters.values():
        is_required = parameter.help.startswith(REQUIRED) or not (parameter.default or parameter.name in MAIN)
        default = f"`{parameter.default}`" * bool(parameter.default)
        cells = [
            f"`{parameter.name}`",
            REQUIRED if is_required else default,
            allowed(parameter),
            parameter.help.removeprefix(f"{REQUIRED} "),
        ]
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(rows) + "\n"


def allowed(parameter: Parameter) -> str:
    """Return what a parameter may be; which entry points there are, depends on what is installed."""
    values = parameter.values
    if isinstance(values, Choice) and values.parameter:
        words = "".join(f"{word} or " for word in values.words)
        return f"{words}a name of `{GROUPS[values.parameter]}`"
    text = str(values or "").replace("a whole number", "integer").replace("a number", "number")
    text = re.sub(r"of at least (\S+)", r"≥ \1", re.sub(r"from (\d+) to (\d+)", r"\1-\2", text))
    return re.sub(r"(above|from) 0 (?:and|to) below 1", lambda end: f"in {'(['[end[1] == 'from']}0, 1)", text)


def names(text: str) -> str:
    """Return `mlflow_l3d/__init__.py` with the names of the verbs' functions, for type checkers."""
    public = {name: module for names in public_names().values() for name, module in names.items()}
    lines = [f"    from {module} import {name} as {name}\n" for module, name in sorted((public[n], n) for n in public)]
    return re.sub(r"(?<=if TYPE_CHECKING:\n)(    from .*\n)+", "".join(lines), text, count=1)


def api() -> str:
    """Return the page that lists what is public."""
    page = "# What is public\n\nWhich names may you import and rely on? Those of `import mlflow_l3d`, listed here.\n"
    page += "All others may change in any version.\n"
    others = "".join(
        (ROOT / "docs" / "api" / each).read_text(encoding="utf-8") for each in ("extending.md", "analysis.md")
    )
    elsewhere = set(re.findall(r"::: (\S+)", others))  # mkdocs wants one place for each name
    for heading, public in public_names().items():
        page += f"\n## {heading}\n"
        for name, module in public.items():
            is_elsewhere = not {module, f"{module}.{name}"}.isdisjoint(elsewhere)
            page += f"\n[`{name}`][{module}.{name}]\n" if is_elsewhere else f"\n::: {module}.{name}\n"
    functions = [getattr(genai, name) for name in genai.__all__]
    targets = "".join(f"\n::: {each.__module__}.{each.__name__}\n" for each in functions)
    return f"{page}\n## Evaluations of GenAI apps: `mlflow_l3d.genai`\n{targets}"


def files() -> dict[Path, str]:
    """Return file -> what it should hold."""
    init, ours = ROOT / "mlflow_l3d" / "__init__.py", [verb for verb in verbs().values() if verb.is_ours]
    return {
        ROOT / "MLproject": PROJECT + "".join(entry_point(verb) for verb in ours if verb.entry_point),
        ROOT / "projects" / "default" / "MLproject": DEFAULT_PROJECT
        + entry_point(verbs()["investigate"], "cd ../.. && python -m mlflow_l3d"),
        ROOT / "docs" / "parameters.md": PAGE + "".join(section(verb) for verb in ours),
        ROOT / "docs" / "api" / "public.md": api(),
        init: names(init.read_text(encoding="utf-8")),
    }


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` name those that differ."""
    differ = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in differ:
        print(path.relative_to(ROOT), "differs: run python .ci/write.py" if "--check" in arguments else "written")
        if "--check" not in arguments:
            path.write_text(files()[path], encoding="utf-8")
    return int("--check" in arguments and bool(differ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
