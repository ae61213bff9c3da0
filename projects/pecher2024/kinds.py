"""What is done for a table or figure: a sweep, strategies side by side, an ablation, or prompts that are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import published
from definitions import ABLATED, ALL, FORMATS, REDUCED_ABLATED, SMALL, SMALL_FOLDER, What
from parts import Part
from standin import stand_in

from mlflow_l3d.approaches.icl.formats import format_for
from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.sources import PUBLISHED
from mlflow_l3d.tasks.sources.benchmark_set import BENCHMARKS

if TYPE_CHECKING:
    from mlflow_l3d.studies.sweep.run import Sweep

DESIGNS: Final = {"strategies": ("random", "fixed", PUBLISHED), "ablation": (PUBLISHED,)}
"""Kind -> designs of its investigations, if the user has no choice."""
_SHOWN: Final = "data_order"
"""Factor whose cells Table 2 shows."""
_POINTS: Final = 100


@dataclass
class Done:
    """The results of a command.

    Attributes
    ----------
    frames
        Long tables of sweeps, with the columns ``approach``, ``model`` and ``learner``.
    beside
        Our numbers of other kinds, next to the published ones.
    failed
        What failed.
    """

    frames: list[pd.DataFrame] = field(default_factory=list)
    beside: list[pd.DataFrame] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def say(text: str) -> None:
    """Print at once: what comes next may take days."""
    print(text, flush=True)  # noqa: T201


def run(what: What, parts: Sequence[Part], given: Mapping[str, Any], *, reduced: bool, synthetic: bool) -> Done:
    """Do what a table or figure needs; what fails leaves the others."""
    done = Done()
    if what.kind == "prompts":
        done.beside.append(prompts(parts))
        return done
    more = {**given, **({"executor": "inline", "metric": "f1_macro"} if synthetic else {})}
    for part in parts:
        if what.kind in ("sweep", "cells"):
            asked = {**part.parameters(), **more}
            swept = _sweep(done, stand_in(asked) if synthetic else asked)
            if what.kind == "cells" and swept is not None:
                _cells(swept)
            continue
        for system, task in part.pairs():
            asked = {**part.separate(system, task), **more}
            place = dict(zip(published.PLACE, (part.approach, "", system.model, system.learner, task), strict=True))
            try:
                numbers = {"strategies": _strategies, "ablation": _ablation}[what.kind](_one(asked, synthetic), reduced)
                done.beside.append(numbers.assign(**{key: value for key, value in place.items() if key != "system"}))
            except L3DError as error:
                # The others are worth having; the same command tries this one again.
                say(f"error: {system.name}, {task}: {error}")
                done.failed.append(f"{system.name}, {task}")
    return done


def run_small(name: str, given: Mapping[str, Any], *, dry_run: bool) -> Done:
    """Run the sweeps of some files of the folder ``small``."""
    done = Done()
    for file in SMALL[name]:
        say(f"mlflow-l3d sweep --file projects/pecher2024/small/{file}.yaml")
        _sweep(done, {"file": str(SMALL_FOLDER / f"{file}.yaml"), "dry_run": dry_run, **given})
    return done


def prompts(parts: Sequence[Part]) -> pd.DataFrame:
    """Print every format with one example, and return class words next to the printed ones (Table 4)."""
    printed = published.prompt_formats().set_index(["task", "format"])
    rows = []
    for task in parts[0].tasks:
        names = BENCHMARKS[task].class_names
        for letter in FORMATS:
            prompt = format_for(task, letter, names)
            texts = tuple(f"<text {number}>" for number in range(1, prompt.columns + 1))
            say(f"--- {task} {letter}\n{prompt.render([(texts, 0)], texts)}\n")
            theirs = printed.loc[(task, letter), "verbaliser"]
            same = {word.casefold() for word in prompt.verbaliser} == {word.casefold() for word in theirs}
            rows.append((task, letter, "; ".join(prompt.verbaliser), "; ".join(theirs), same))
    return pd.DataFrame(rows, columns=["task", "format", "words", "published", "same"])


def _one(asked: Mapping[str, Any], synthetic: bool) -> dict[str, Any]:
    """Return the parameters of one investigation, with as many test examples as it says."""
    parameters = stand_in({**asked, "task": [asked["task"]]}) if synthetic else dict(asked)
    if synthetic:
        [parameters["task"]] = parameters["task"]
    if parameters.get("test_size") == ALL:
        parameters["test_size"] = _all_tests(parameters["task"])
    return parameters


def _all_tests(task: str) -> int:
    """Return how many test examples there are, evenly over the classes."""
    from mlflow_l3d.tasks.resolve import load_task
    from mlflow_l3d.tasks.splits import quotas

    task_data = load_task(task)
    counts = np.bincount(task_data.strata)
    return int(quotas(counts, task_data.settings).test_part.min()) * len(counts)


def _sweep(done: Done, asked: Mapping[str, Any]) -> Sweep | None:
    from mlflow_l3d import plan_sweep, sweep

    parameters = dict(asked)
    try:
        if parameters.pop("dry_run", False):
            say(plan_sweep(**parameters).summary())
            return None
        result = sweep(progress=True, **parameters)
    except L3DError as error:
        which = asked.get("approach") or asked.get("file")
        name = str(getattr(which, "name", which))
        say(f"error: {name}: {error}")
        done.failed.append(name)
        return None
    say(result.summary())
    done.failed += [point.name for point in result.points if point.error]
    systems = pd.DataFrame(
        [
            (point.setup.approach.name, point.setup.model, str(point.setup.hyperparameters.get("learner", "")))
            for point in result.request.points
        ],
        columns=["approach", "model", "learner"],
    )
    done.frames.append(result.to_frame(full=True).merge(systems, left_on="point", right_index=True))
    return result


def _cells(swept: Sweep) -> None:
    """Print the scores of all cells of one factor in the layout of Table 2."""
    for point in swept.points:
        if point.analysis is None or _SHOWN not in point.analysis.importances:
            continue
        record = point.analysis.importances[_SHOWN]
        table = pd.DataFrame(_POINTS * record.table)
        table.index, table.columns = (
            [f"{a}{i}" for i in range(1, n + 1)] for a, n in zip("mn", table.shape, strict=True)
        )
        table["p_mean"], table["p_std"] = table.mean(axis=1), table.iloc[:, : record.table.shape[1]].std(axis=1, ddof=0)
        say(f"\nTable 2, filled in: {_SHOWN}, {point.task} (percentage points)\n{table.round(2).to_string()}")
        say(f"m_std {_POINTS * record.mitigated_std:.3f} = std of p_mean; c_std {_POINTS * record.contributed_std:.3f}")


def _strategies(asked: Mapping[str, Any], reduced: bool) -> pd.DataFrame:  # noqa: ARG001
    from mlflow_l3d import strategies

    compared = strategies(progress=True, **asked)
    say(compared.summary())
    return compared.to_frame().rename(columns={"std": "our_std", "important": "ours_important"})


def _ablation(asked: Mapping[str, Any], reduced: bool) -> pd.DataFrame:
    from mlflow_l3d import ablation, investigate

    done = investigate(progress=True, design=PUBLISHED, **asked)
    numbers = REDUCED_ABLATED if reduced else ABLATED
    frames = []
    # The fewest rows go with all test sizes; the paper has its largest test size with 100 rows, too.
    for setting in (numbers, {name: values[:1] for name, values in numbers.items()}):
        # The metric of in-context learning in the paper cannot be had from fewer predictions.
        ablated = ablation(done.run_id, metric="f1_macro", columns="all", **{k: list(v) for k, v in setting.items()})
        say(ablated.summary())
        frames.append(ablated.to_frame())
    place = ["mitigation_runs", "test_examples", "factor"]
    numbers_of = pd.concat(frames).drop_duplicates([*place, "number"])
    return numbers_of.pivot(index=place, columns="number", values="mean").reset_index()
