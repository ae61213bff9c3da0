"""`view --comment --badge`: the numbers of a real gate, seeds study, investigation and comparison."""

from __future__ import annotations

import logging
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_github import Job
from run_helpers import Place, sqlite_place

import mlflow_l3d
from mlflow_l3d.analysis.comparison.power import power
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.studies.evaluation.view import view

pytestmark = pytest.mark.slow
Studied = tuple[Place, dict[str, Any], str]

NAMED: dict[str, Any] = {"approach": "synthetic", "executor": "inline"}
SIZES = {"investigation_runs": 2, "mitigation_runs": 2, "golden_runs": 6}


@pytest.fixture(scope="module")
def studied(migrated_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Studied:
    """Give a place with one study of each kind, what they returned, and what the gate wrote to stderr."""
    place = sqlite_place(migrated_store, tmp_path_factory.mktemp("comment") / "place")
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    with place.entered(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlflow_l3d.studies.gate.run.power", partial(power, draws=200))
        one = mlflow_l3d.investigate(**NAMED, **SIZES)
        logging.getLogger("mlflow_l3d").addHandler(handler)
        candidate = {"hyperparameters": {"a_data_order": 9}}
        gate = mlflow_l3d.gate(
            baseline=one.run_id, candidate=candidate, most_runs=6, smallest_effect=5, executor="inline"
        )
        logging.getLogger("mlflow_l3d").removeHandler(handler)
        results = {
            "investigation": one,
            "gate": gate,
            "compare": mlflow_l3d.compare(one.run_id, gate.source.candidate_run),
            "seeds": mlflow_l3d.seeds(**NAMED, seeds=list(range(10))),
        }
    return place, results, "\n".join(lines)


def written(studied: Studied, kind: str, folder: Path) -> tuple[str, str, str]:
    """Return comment, title of the badge, and what the command prints."""
    place, results, _ = studied
    with place.entered():
        found = view(results[kind].run_id, comment=folder / "a.md", badge=folder / "a.svg", bundle=folder / "pages")
    assert (folder / "pages" / f"{results[kind].run_id}.html").exists()
    title = re.search("<title>(.*?)</title>", (folder / "a.svg").read_text(encoding="utf-8"))
    assert title
    return (folder / "a.md").read_text(encoding="utf-8"), title[1], found.summary()


def test_a_gate_has_before_after_interval_verdict_cost_and_a_picture(studied: Studied, tmp_path: Path) -> None:
    comment, badge, printed = written(studied, "gate", tmp_path)
    gate = studied[1]["gate"]
    answer, look = gate.answer, gate.answer.looks[-1]
    assert printed == f"{gate.decision}: {tmp_path / 'a.md'}, {tmp_path / 'a.svg'}"
    assert comment.startswith(
        f"### {gate.report().headline}\n\n| {answer.metric} in % | before | after | difference (9"
    )
    before, after = (f"{100 * mean:.1f}" for mean in answer.means)
    is_equivalent = gate.decision == "equivalent"
    ends = (look.equivalence_low, look.equivalence_high) if is_equivalent else (look.low, look.high)
    low, high = (f"{100 * end:+.1f}" for end in ends)
    difference, runs = f"{100 * look.difference:+.1f}", f"{2 * look.runs} runs"
    row = f"| {before} | {after} | {difference} ({low} to {high}) | {gate.decision} | {runs}, {gate.computed} of them"
    assert row in comment
    assert comment.count("●") == len(answer.looks)
    assert re.search(rf"\nMLflow run {gate.run_id}, [0-9.]+ s\n$", comment)
    assert badge == f"{answer.metric}: {gate.decision}, {difference} points, {runs}"


def test_seeds_have_a_badge(studied: Studied, tmp_path: Path) -> None:
    comment, badge, printed = written(studied, "seeds", tmp_path)
    spread = studied[1]["seeds"].study.own
    text = f"{100 * spread.mean:.1f} ± {100 * spread.std:.1f}"
    assert badge == f"accuracy: {text}, 10 seeds"
    assert f"| {text} (standard deviation) | {100 * spread.lowest:.1f} " in comment
    assert printed.startswith("no verdict: ")


def test_an_investigation_has_the_spread_of_its_golden_runs(studied: Studied, tmp_path: Path) -> None:
    comment, badge, _ = written(studied, "investigation", tmp_path)
    analysis = studied[1]["investigation"].analysis
    golden = analysis.importances["data_order"].golden
    deviation = math.sqrt(sum((score - golden.mean()) ** 2 for score in golden) / (len(golden) - 1))
    assert badge == f"{analysis.metric}: {100 * golden.mean():.1f} ± {100 * deviation:.1f}, 6 runs"
    assert "| data_order | " in comment


def test_a_comparison_has_every_pair(studied: Studied, tmp_path: Path) -> None:
    comment, badge, printed = written(studied, "compare", tmp_path)
    (pair,) = studied[1]["compare"].comparison.differences
    second, first = (f"{100 * mean:.2f}" for mean in reversed(pair.means))
    assert f"{pair.first} against {pair.second} | {second} | {first} | " in comment
    assert printed.startswith(f"{pair.verdict}: ")
    assert f": {pair.verdict}, " in badge


def test_the_script_finds_the_run_in_what_a_study_says(studied: Studied, tmp_path: Path) -> None:
    _, results, said = studied
    job = Job(tmp_path, {})
    job.program("mlflow-l3d", 'echo "$2" > seen; echo "### x" > "$4"; echo "worse: $4"')
    (tmp_path / "said").write_text(said, encoding="utf-8")
    done = job.script("measure", "--", "bash", "-c", "cat said >&2")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen").read_text() == f"{results['gate'].run_id}\n"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"comment": "a.md"}, "parent_run_id=all: must be one study"),
        ({"badge": "a.svg", "cite": True}, "badge=a.svg: has no effect with cite"),
        ({"comment": "no/a.md", "parent_run_id": "seeds"}, "comment=no/a.md: cannot be written: No such file"),
    ],
)
def test_mistakes_are_one_line(
    studied: Studied, options: dict[str, Any], line: str, tmp_path: Path, monkeypatch: Any
) -> None:
    place, results, _ = studied
    monkeypatch.chdir(tmp_path)
    if options.get("parent_run_id"):
        options = {**options, "parent_run_id": results["seeds"].run_id}
    with place.entered(), pytest.raises(ParameterError, match=re.escape(line)):
        view(**options)
