"""Every next command can be typed: the parser takes it, it can be specified, and it is not the one just run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sweep_cases import drawn_point

from mlflow_l3d import cli
from mlflow_l3d.analysis.importance import importance
from mlflow_l3d.analysis.importance.estimators import CROSSED, LEVELS, NESTED
from mlflow_l3d.analysis.results import Analysis
from mlflow_l3d.metrics.classification import F1_MACRO
from mlflow_l3d.parameters.verbs import verbs
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.investigation.report.runs import scores_table
from mlflow_l3d.studies.investigation.report.verdicts import Shown
from mlflow_l3d.studies.investigation.report.words import answers, steps
from mlflow_l3d.studies.investigation.request import specify
from mlflow_l3d.studies.sweep.numbers import analyse_sweep
from mlflow_l3d.studies.sweep.report.shown import ShownSweep
from mlflow_l3d.studies.sweep.report.words import steps as sweep_steps
from mlflow_l3d.studies.sweep.request import specify_sweep

SYNTHETIC = {"task": "synthetic", "approach": "synthetic", "factor": "data_order"}
LISTED = {
    "task": "synthetic", "approach": "icl", "factor": "prompt_format", "hyperparameters": "prompt_format=A|B|C|D",
}  # fmt: skip
DESIGNS = {"crossed": (CROSSED, SYNTHETIC), "nested": (NESTED, SYNTHETIC), "levels": (LEVELS, LISTED)}
SHARES = {"data_order": (0.3, 0.3, 0.4)}


def parsed(command: str) -> dict[str, Any]:
    """Return what was typed, in the place of defaults."""
    words = shlex.split(command)
    assert words[0] == "mlflow-l3d"
    options = cli._parse(words[1:])
    known = verbs()[options["verb"]].parameters
    return {name: value for name, value in options.items() if name == "verb" or value != known[name].default}


@pytest.mark.parametrize("share", [0.1, 0.45, 0.7])
@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (4, 4), (5, 2), (8, 4), (20, 4), (60, 4)])
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("lost", [0, 1])
def test_next_steps_of_an_investigation(design: str, rows: int, columns: int, share: float, lost: int) -> None:
    columns = 4 if design == "levels" else columns
    model, given = DESIGNS[design]
    generator = np.random.default_rng(rows)
    table = np.sqrt(1 - share) * generator.normal(size=(rows, 1)) + np.sqrt(share / 2) * generator.normal(size=columns)
    table = 0.7 + 0.05 * (table + np.sqrt(share / 2) * generator.normal(size=(rows, columns)))
    table[:lost] = np.nan
    golden = 0.7 + 0.05 * generator.normal(size=20)
    factor = given["factor"]
    analysis = Analysis(F1_MACRO, {factor: importance(table, golden, factor=factor, model=model)}, design=design)
    sizes = {"mitigation_runs": rows, "investigation_runs": columns, "golden_runs": 20}
    given = {**given, "design": design, **{name: str(size) for name, size in sizes.items()}}
    source = Source(approach=given["approach"], run_id="0" * 32, given=given)
    just_run = parsed(source.command())
    specify({name: value for name, value in just_run.items() if name != "verb"})
    commands = [step.command for step in steps(Shown(replace(analysis, cells_failed=0)), source) if step.command]
    assert commands
    for command in commands:
        typed = parsed(command)
        assert typed != just_run
        if typed.pop("verb") == "investigate":
            specify(typed)


def test_levels_of_a_list_have_names_and_means() -> None:
    table = np.array([[0.5, 0.9, 0.7, 0.6], [0.6, 1.0, 0.8, 0.7], [0.1, np.nan, 0.3, 0.9]])
    record = importance(table, [0.5, 0.7, 0.9], factor="prompt_format", model=LEVELS)
    shown = Shown(Analysis(F1_MACRO, {"prompt_format": record}, design="levels"))
    source = specify({**LISTED, "hyperparameters": {"prompt_format": "A|B|C|D"}}).source("")  # not a text
    said = "Mean by prompt_format over 2 rows: B **95.0**, C **75.0**, D **65.0** and A **55.0**."
    assert answers(shown, source)[1].lead.endswith(said)
    assert ">D</th>" in scores_table(shown, record, source).__html__()
    assert "4 **95.0**" not in answers(shown)[1].lead
    assert "1 **95.0**, 2 **75.0**" in answers(shown)[1].lead


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (4, 4), (5, 2), (8, 4), (20, 6)])
def test_next_steps_of_a_sweep(rows: int, columns: int) -> None:
    points = [
        drawn_point({"num_labelled": size}, SHARES, rows=rows, columns=columns, seed=size, run_id="0" * 32)
        for size in (50, 100)
    ]
    sizes = {"mitigation_runs": str(rows), "investigation_runs": str(columns), "golden_runs": "20"}
    given = {**SYNTHETIC, "num_labelled": "50,100", "design": "crossed", **sizes}
    source = Source(approach="synthetic", given=given)
    just_run = parsed(source.command("sweep"))
    found = sweep_steps(ShownSweep(analyse_sweep(points)), source)
    assert found
    for typed in (parsed(step.command) for step in found):
        assert typed != just_run
        if typed.pop("verb") == "sweep":
            specify_sweep(typed)
