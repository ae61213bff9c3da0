"""The tables and figures of Pecher et al. (2024), one command each, with our numbers next to theirs.

``python projects/pecher2024/run.py table6``; see the README in this folder. Tables and figures share their cells:
what another one trained, or an interrupted command, is taken as it is.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import beside
import figures
import join
import pandas as pd
from cost import hours, reduced_minutes
from definitions import SMALL, SYSTEMS, TASKS, WHATS, What
from kinds import DESIGNS, Done, run, run_small, say
from parts import REDUCED, Part, parts

from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.parameters.sources import PUBLISHED
from mlflow_l3d.studies.investigation.parameters import MAIN
from mlflow_l3d.studies.sweep.parameters import SWEEP


def planned(name: str, what: What, found: Sequence[Part], given: Mapping[str, str], *, reduced: bool) -> str:
    """Return points, cells and hours of a table or figure, as text."""
    designs = DESIGNS.get(what.kind, (given.get("design", PUBLISHED),))
    lines = [f"{name}: {what.shows}", ""]
    if what.kind == "prompts":
        return "\n".join([*lines, "Nothing is trained.", ""])
    total, time = 0, 0.0
    for part in found:
        cells = part.cells(given, designs)
        many = cells * part.points()
        total, time = total + many, time + (reduced_minutes if reduced else hours)(part, cells)
        systems = ", ".join(dict.fromkeys(system.name for system in part.systems))
        over = "".join(f" x {key} {', '.join(map(str, values))}" for key, values in part.over.items())
        lines += [f"  {part.approach}: {systems}", f"    {', '.join(part.tasks)}{over}; {', '.join(part.factors)}"]
        lines += [
            f"    {part.points()} {'point' if part.points() == 1 else 'points'} of {cells:,} cells: {many:,} cells"
        ]
    end = f"{total:,} cells ({' + '.join(designs)})"
    if reduced:
        lines += [f"{end}, about {math.ceil(time)} minutes on two busy cores.", *_differences(found)]
    elif math.isfinite(time):
        where = "core" if all(part.approach == "meta_learning" for part in found) else "A100"
        lines += [f"{end}, very roughly {time:,.0f} hours of one {where}.", _WHAT_IS_DONE]
    else:
        lines += [f"{end}; how long they take with another model is not known.", _WHAT_IS_DONE]
    return "\n".join([*lines, ""])


_WHAT_IS_DONE = "Cells that are done already count here, too; they are not trained again."


def _differences(found: Sequence[Part]) -> list[str]:
    """Return what a reduced run has that the paper has not."""
    lines = ["Reduced, not the paper's setting; its numbers say nothing about the paper's models:"]
    for part in found:
        model, hyperparameters, _ = REDUCED[part.approach]
        numbers = ", ".join(f"{name}={value}" for name, value in part.sizes.items())
        lines.append(f"  {part.approach}: {model}; hyperparameters={hyperparameters}; {numbers}")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*WHATS, *SMALL])
    parser.add_argument("--model", default="", help=f"one of {', '.join(SYSTEMS)}, a hub id, a folder, or package:NAME")
    parser.add_argument("--tasks", default="", help=f"some of {', '.join(TASKS)}, separated by commas")
    parser.add_argument(
        "--design", default="", help="another design: radial is by far the cheapest, see docs/concepts/designs.md"
    )
    flags = {
        "reduced": "small models, few examples, three rows and columns",
        "synthetic": "with --reduced: invented texts and scores, nothing is trained",
        "dry-run": "print points, cells and hours, and start nothing",
    }
    for name, help_text in flags.items():
        # With a value, too: an MLproject has no flags.
        parser.add_argument(f"--{name}", nargs="?", const="true", default="false", choices=_FLAG, help=help_text)
    parser.add_argument("--folder", default="pecher2024", help="where tables and pictures are written")
    parser.add_argument("-P", dest="more", action="append", default=[], metavar="NAME=VALUE", help="passed on to sweep")
    parser.add_argument("--parameters", default="", help="the same, separated by semicolons")
    arguments = parser.parse_args(argv)
    # As Ctrl-C: the run under way is ended as interrupted, and is continued by the same command.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(arguments)
    except L3DError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)  # noqa: T201
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(asked: argparse.Namespace) -> int:
    more = dict(_pair(text) for text in [*asked.more, *filter(str.strip, asked.parameters.split(";"))])
    reduced, synthetic, dry_run = (getattr(asked, name) == "true" for name in ("reduced", "synthetic", "dry_run"))
    if asked.design:
        more["design"] = asked.design
    folder = Path(asked.folder) / asked.what
    if asked.what in SMALL:
        for name in ("model", "tasks", "reduced", "synthetic"):
            if getattr(asked, name) not in ("", "false"):
                raise ParameterError(
                    name, getattr(asked, name), f"has no part in {asked.what}, which is a file of its own"
                )
        return _show(asked.what, run_small(asked.what, more, dry_run=dry_run), folder)
    if synthetic and not reduced:
        raise ParameterError("synthetic", "true", "goes with --reduced", "Add --reduced.")
    what = WHATS[asked.what]
    _check(what, more)
    tasks = [part.strip() for part in asked.tasks.split(",") if part.strip()]
    sweeps = parts(what, model=asked.model, tasks=tasks, reduced=reduced)
    say(planned(asked.what, what, sweeps, more, reduced=reduced))
    if dry_run and what.kind != "prompts":
        return 0
    if synthetic:
        say("Synthetic: texts and scores are invented, nothing is trained.\n")
    done = run(what, sweeps, more, reduced=reduced, synthetic=synthetic)
    return _show(asked.what, done, folder, reduced=reduced)


def _show(name: str, done: Done, folder: Path, *, reduced: bool = False) -> int:
    """Print our numbers next to the published ones, write and draw both; return the exit status."""
    what = WHATS.get(name)
    folder.mkdir(parents=True, exist_ok=True)
    for stem, (frame, columns) in _tables(what, done, reduced=reduced).items():
        frame.to_csv(folder / f"{stem}.csv", index=False)
        say(f"\n{beside.text(frame, columns)}\n\nThe same in {folder / stem}.csv")
    if done.frames:
        ours = pd.concat(done.frames, ignore_index=True)
        ours.to_csv(folder / "ours.csv", index=False)
        drawn = [path for each in _figures(name, ours) for path in figures.draw(each, ours, folder)]
        say(f"All of ours: {folder / 'ours.csv'}" + "".join(f"\nDrawn in {path}" for path in drawn))
    if done.failed:
        say(f"Without {', '.join(done.failed)}, which failed.")
    return 1 if done.failed else 0


def _figures(name: str, ours: pd.DataFrame) -> list[str]:
    """Return the figure of a command, or the figures for which our files have points."""
    if name in WHATS:
        return [name] if name in figures.FIGURES else []
    varied = [column for column in ("choice.shots", "choice.prompt_format") if column in ours]
    kinds = {"figure1": {"icl", "finetuning"}, "figure4": {"meta_learning"}}
    wanted = [figure for figure, approaches in kinds.items() if approaches & set(ours["approach"])]
    return wanted + [{"choice.shots": "figure2", "choice.prompt_format": "figure5"}[column] for column in varied]


def _tables(what: What | None, done: Done, *, reduced: bool) -> dict[str, tuple[pd.DataFrame, Mapping[str, str]]]:
    """Return name -> table, and the columns that are printed."""
    kind, tables = what.kind if what else "sweep", {}
    if kind == "prompts":
        [frame] = done.beside
        tables["prompts"] = frame, {name: name for name in frame}
    elif kind == "strategies" and what and done.beside:
        tables["strategies"] = beside.strategies(done.beside, what), _STRATEGIES
    elif kind == "ablation" and what and done.beside:
        tables["ablation"] = beside.ablation(done.beside, what, reduced=reduced), _ABLATION
    elif done.frames:
        frame = beside.importance(done.frames, what)
        say(join.summary(frame))
        both = ~frame["verdict"].isin([join.MISSING, join.UNPUBLISHED])
        tables["published_and_ours"] = frame[both], _IMPORTANCE
    return tables


_PLACE = {"system": "system", "our_model": "our model", "task": "task", "factor": "factor"}
_IMPORTANCE = {
    **_PLACE,
    "published": "published",
    "importance": "ours",
    "importance_corrected": "corrected",
    "importance_corrected_ci_low": "from",
    "importance_corrected_ci_high": "to",
    "same_sign": "same sign",
    "verdict": "verdict",
}
_STRATEGIES = {
    **_PLACE,
    "strategy": "strategy",
    "published": "published std",
    "our_std": "our std",
    "published_important": "published *",
    "ours_important": "our *",
}
_ABLATION = {
    "mitigation_runs": "runs",
    "our_runs": "our runs",
    "test_size": "tests",
    "test_examples": "our tests",
    "factor": "factor",
    "published_contributed_std": "published c_std",
    "contributed_std": "c_std",
    "published_mitigated_std": "published m_std",
    "mitigated_std": "m_std",
    "published_importance": "published",
    "importance": "ours",
}


def _check(what: What, more: Mapping[str, Any]) -> None:
    names = [name for name in (SWEEP if what.kind in ("sweep", "cells") else MAIN) if name not in _OWN]
    for name in more:
        if name not in names:
            raise unknown_name("-P", name, names)
    if what.kind in DESIGNS and "design" in more:
        raise ParameterError("design", more["design"], f"is not for {what.shows}", "Leave it out.")


_FLAG = ("true", "false")
_OWN = ("approach", "model", "task", "factor", "over", "file")
"""Parameters that the table or figure decides."""


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.strip().partition("=")
    if not equals or not name:
        raise ParameterError("-P", text, "must be NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
