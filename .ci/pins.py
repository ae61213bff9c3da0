"""Write constraints.txt and conda.yaml from the packages that are installed in this environment.

Run it in a fresh environment that holds ``pip install -e ".[dev]"``; CONTRIBUTING.md has the commands. Both files get
the same versions, so an environment that MLflow builds from conda.yaml and one that pip builds are the same one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "mlflow-l3d"
PYTHON = "3.11.7"
ACCELERATORS = re.compile(r"^(nvidia-|cuda-|triton$|intel-)")
"""What torch itself pins for one kind of device; a pin here would break the other kinds."""

HEADER = "# Tested versions of everything the tests need. Written by .ci/pins.py; for `pip install -c constraints.txt`."
CONDA = """\
# The environment of the MLflow Projects here: what the jobs need, without this project itself, which runs
# from the folder. Written by .ci/pins.py with the versions of constraints.txt.
name: mlflow-l3d
channels:
  - conda-forge
dependencies:
  - python={python}
  - pip
  - pip:
"""


def declared(*extras: str) -> list[Requirement]:
    """Return the requirements of this project with some of its extras; extras that name extras are followed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [Requirement(line) for line in project["dependencies"]]
    todo = list(extras)
    while todo:
        for line in project["optional-dependencies"][todo.pop()]:
            requirement = Requirement(line)
            if canonicalize_name(requirement.name) == PROJECT:
                todo += requirement.extras
            else:
                found.append(requirement)
    return found


def closure(requirements: Iterable[Requirement]) -> dict[str, str]:
    """Return name -> public version of all packages that `requirements` need here, themselves included, sorted."""
    pins: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    todo = [(requirement.name, extra) for requirement in requirements for extra in ("", *requirement.extras)]
    while todo:
        name, extra = todo.pop()
        if (canonicalize_name(name), extra) in seen:
            continue
        seen.add((canonicalize_name(name), extra))
        found = distribution(name)
        pins[canonicalize_name(name)] = Version(found.version).public
        for line in found.requires or ():
            needed = Requirement(line)
            wanted = needed.marker is None or needed.marker.evaluate({"extra": extra})
            if wanted and not ACCELERATORS.match(canonicalize_name(needed.name)):
                todo += [(needed.name, more) for more in ("", *needed.extras)]
    return dict(sorted(pins.items()))


def main() -> None:
    """Write both files."""
    everything = closure(declared("dev"))
    lines = [f"{name}=={version}" for name, version in everything.items()]
    (ROOT / "constraints.txt").write_text("\n".join([HEADER, *lines, ""]), encoding="utf-8")
    needed = [f"      - {name}=={version}" for name, version in closure(declared("demo", "icl", "lora")).items()]
    (ROOT / "conda.yaml").write_text(CONDA.format(python=PYTHON) + "\n".join([*needed, ""]), encoding="utf-8")
    print(f"constraints.txt: {len(lines)} packages; conda.yaml: {len(needed)} of them.")


if __name__ == "__main__":
    main()
