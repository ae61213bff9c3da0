"""`projects/pecher2024`: every command is planned, runs, shares its cells with others, and stands beside the paper."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from mlflow.projects._project_spec import load_project
from run_helpers import Place, sqlite_place

from mlflow_l3d.studies.sweep.request import specify_sweep

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parents[1] / "projects" / "pecher2024"
CELLS = {
    **{"table1": 5_200, "table2": 1_000, "table3": 25_000, "table5": 157_200, "table6": 6_000},
    **dict.fromkeys(("table7", "table8", "table9"), 7_000),
    **dict.fromkeys(("table10", "table11"), 35_000),
    **dict.fromkeys(("table12", "table13", "table14"), 18_000),
    **{"figure1": 97_000, "figure2": 60_000, "figure3": 12_000, "figure4": 54_000, "figure5": 52_000},
}
"""(K M + M) N cells an investigation at the published N = 10 and M = 20 or 100; three strategies have (3 K M + M) N."""


@pytest.fixture(scope="module")
def project(pecher2024) -> ModuleType:
    return pecher2024("run")


@pytest.fixture(scope="module")
def place(migrated_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Give one store for all commands, since they share their cells."""
    return sqlite_place(migrated_store, tmp_path_factory.mktemp("pecher2024"))


def test_every_command_is_planned_at_full_size(project: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert {*CELLS, "table4"} == {*project.WHATS}
    rows = [line for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith("| `")]
    for name, cells in CELLS.items():
        assert [f"| {cells:,} " in row for row in rows if f"`{name}`" in row.split("|")[1]] == [True]
        assert project.main([name, "--dry-run"]) == 0
        shown = capsys.readouterr().out
        assert f"\n{cells:,} cells" in shown
        assert "very roughly" in shown
        assert "nan" not in shown


def test_counts_are_those_of_sweeps(project: ModuleType, pecher2024) -> None:
    """What is counted by a formula is what a sweep of stand-ins has, and every reduced command is one or several."""
    standin = pecher2024("standin")
    for what in project.WHATS.values():
        for part in project.parts(what, reduced=True):
            found = specify_sweep({**standin.stand_in(part.parameters()), "executor": "inline"}).points
            assert len(found) == part.points()
            assert {len(point.design()) for point in found} == {part.cells({}, ["crossed"])}
            assert all(point.setup.origin.source == "paper" for point in found)


def test_tables_share_cells(project: ModuleType, pecher2024) -> None:
    """Figure 1 has those of Tables 6 and 10, Figure 2 with two shots those of Table 6, whatever its two factors are."""
    standin = pecher2024("standin")

    def keys(name: str) -> list[set[str]]:
        found = project.parts(project.WHATS[name], tasks=["sst2"], reduced=True)
        asked = [{**standin.stand_in(part.parameters()), "executor": "inline"} for part in found]
        return [{cell.key for cell in point.design().cells()} for each in asked for point in specify_sweep(each).points]

    assert keys("figure1") == [*keys("table6"), *keys("table10")]
    two, six, ten = keys("figure2")
    assert two < keys("table6")[0]
    assert not (two & six)
    assert not (six & ten)


def test_flan_t5_has_no_dbpedia_and_radial_is_cheaper(project: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    [part] = project.parts(project.WHATS["figure5"])
    assert part.parameters()["exclude"] == [{"model": "flan-t5-base", "task": "dbpedia"}]
    assert project.main(["table7", "--dry-run", "--design", "radial", "-P", "mitigation_runs=50"]) == 0
    assert "7 points of 250 cells" in capsys.readouterr().out


TINY = [f"-P{name}={number}" for name, number in (("investigation_runs", 2), ("golden_runs", 2), ("test_size", 20))]


@pytest.mark.parametrize("name", ["table2", "table3", "table5", "figure1", "figure2"])
def test_each_kind_of_command_runs_reduced(project, place, tmp_path, name, capsys) -> None:
    rows = ["mitigation_runs=5", "-P", "test_size=40"] if name == "table3" else ["mitigation_runs=2"]
    only = ["--model", "protonet"] if name == "table5" else []
    shown = run(project, place, tmp_path, [name, "--tasks", "sst2", "-P", *rows, *only], capsys)
    assert "Reduced, not the paper's setting" in shown
    what = project.WHATS[name]
    [path] = [path for path in (tmp_path / name).glob("*.csv") if path.stem != "ours"]
    found = pd.read_csv(path)
    if what.kind == "ablation":
        assert len(found) == 4 * 6
        columns = found[["mitigation_runs", "test_size"]].drop_duplicates().to_numpy().tolist()
        assert columns[:3] == [[500, "100%"], [100, "100%"], [10, "100%"]]
        assert columns[3:] == [[100, "~10%"], [10, "~10%"], [10, "~5%"]]
        assert found[["published_importance", "importance"]].notna().all(axis=None)
        return
    assert set(found["model"]) == {project.SYSTEMS[only[1] if only else system].model for system in what.systems}
    assert set(found["task"]) == {"sst2"}
    if what.kind == "strategies":
        assert set(found["strategy"]) == {"golden", "random", "fixed", "interactions"}
        assert found["our_std"].notna().all()
    else:
        assert found[["published", "importance"]].notna().all(axis=None)
        parts = project.parts(what, tasks=["sst2"], reduced=True)
        rows = sum(part.points() * len(part.factors) for part in parts)
        assert len(pd.read_csv(tmp_path / name / "ours.csv")) == rows
        assert (tmp_path / name / f"{name}.png").exists() == name.startswith("figure")


def run(project: ModuleType, place: Place, folder: Path, arguments: list[str], capsys: Any) -> str:
    more = ["--reduced", "--synthetic", "--folder", str(folder)]
    with place.entered():
        status = project.main([*arguments[:1], *TINY, *arguments[1:], *more])
    shown: str = capsys.readouterr().out
    assert status == 0, shown
    return shown


def test_prompts_are_the_published_ones(project, tmp_path, capsys) -> None:
    assert project.main(["table4", "--folder", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "table4" / "prompts.csv")
    assert len(table) == 7 * 4
    assert table["same"].all()
    assert "Grammatically acceptable? No" in capsys.readouterr().out


def test_mlflow_project_has_every_command(project: ModuleType) -> None:
    found = load_project(str(FOLDER))
    names = [*project.WHATS, *project.SMALL]
    for name in names:
        point = found.get_entry_point(name)
        command = point.compute_command({"tasks": "sst2; touch hacked", "reduced": "true"}, None)
        assert f"run.py {name} " in command
        assert "--tasks 'sst2; touch hacked'" in command
    assert len(found._entry_points) == len(names)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["table6", "--tasks", "stt2"], "error: tasks='stt2': must be one of ag_news, cola"),
        (["table6", "--tasks", "dbpedia"], "error: tasks=dbpedia: is no data set of flan-t5-base in the paper"),
        (["table6", "--model", "bert-base"], "error: model='bert-base': must be a model of your own, or one of flan"),
        (["figure1", "--model", "gpt2"], "error: model=gpt2: is one model, and importance by number of classes has"),
        (["table6", "--synthetic"], "error: synthetic=true: goes with --reduced"),
        (["table6", "-P", "mitigation_run=3"], "error: -P='mitigation_run': must be one of"),
        (["table1", "--design", "radial"], "error: design=radial: is not for strategies"),
        (["small", "--reduced"], "error: reduced=true: has no part in small"),
    ],
)
def test_bad_input(project: ModuleType, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.main(arguments) == 2
    assert capsys.readouterr().err.startswith(line)
