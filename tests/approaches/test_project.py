"""MLflow projects: what is declared, what is run, and what they log is what a cell gives."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.project import store as stores
from mlflow_l3d.approaches.project.approach import _OTHER_EXPERIMENT, Project, reseeding_variables
from mlflow_l3d.approaches.project.mlproject import entry_point, located
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.seeds.run import seeds
from mlflow_l3d.testing import one_cell

MLPROJECT = """
name: shop
entry_points:
  main:
    parameters:
      seed: {type: int, default: 0}
      data: path
      words: {type: string, default: "a 'b'; c"}
    command: "python train.py {seed} --data {data} {words}"
  quick:
    command: "python -SE train.py"
"""
REAL = """
import sys
import mlflow
mlflow.set_experiment("theirs")
with mlflow.start_run():
    mlflow.log_param("seed", sys.argv[1])
    mlflow.log_params({"kind": "linear", "api_key": "swordfish"})
    mlflow.set_tag("from", "redis://alice:hunter2@dbhost")
    mlflow.log_metric("rmse", float("nan"), step=0)
    for epoch in range(3):
        mlflow.log_metric("rmse", 0.5 - epoch / 10, step=epoch)
    mlflow.log_metric("broken", float("nan"))
    mlflow.set_tag("colour", "blue")
    mlflow.log_text("what it says", "notes/a.txt")
    mlflow.log_text("x" * 3000, "large.txt")
    mlflow.log_text("example_id,label,prediction\\n0,a,a\\n1,b,a\\n", "predictions.csv")
"""
FAST = """
import os, sqlite3, time
tables = sqlite3.connect(os.environ["MLFLOW_TRACKING_URI"].removeprefix("sqlite:///"))
run, seed = os.environ["MLFLOW_RUN_ID"], SEED
def write(table, *values):
    tables.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
for step in (0, 1):
    write("metrics", "rmse", seed % 97 / (step + 1), 1000 + step, run, step, 0)
write("latest_metrics", "rmse", seed % 97 / 2, 1001, 1, 0, run)
write("params", "task", "theirs", run)
write("tags", "colour", "blue", run)
tables.commit()
folder, = tables.execute("SELECT artifact_uri FROM runs").fetchone()
open(folder.removeprefix("file://") + "/note.txt", "w").write(str(seed))
"""
ENDS = """
tables.execute("UPDATE runs SET status = 'FAILED'")
tables.commit()
"""


@pytest.fixture
def folder(tmp_path):
    """Write a project."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "MLproject").write_text(MLPROJECT)
    (tmp_path / "shop" / "train.py").write_text(FAST.replace("SEED", "0"))
    (tmp_path / "data.csv").write_text("1")
    return tmp_path


def project(folder, **given):
    given = {"uri": "shop", "project_parameters": "seed={a},data=data.csv", "metric": "rmse", **given}
    return Project(here=folder, **given)


def dependencies(approach, **given):
    return approach.dependencies(resolve_hyperparameters(approach, given), "")


def trained(approach, folder, **given):
    """Return task and outcome of a cell."""
    hyperparameters = resolve_hyperparameters(approach, given)
    task = approach.own_task(hyperparameters, folder / "cache")
    session = approach.prepare(task, hyperparameters, model="", device="cpu", cache=folder)
    (outcome,) = session.run([one_cell(approach.factors)])
    return task, outcome


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("main", {"data": "x y.csv", "seed": "3"}),
        ("main", {"data": "d", "words": "$(rm)"}),
        ("quick", {}),
        ("train.py", {"seed": "1", "name": "a b"}),
    ],
)
def test_the_command_is_the_one_that_mlflow_makes(folder, name, given):
    from mlflow.projects._project_spec import load_project

    theirs = load_project(str(folder / "shop")).get_entry_point(name).compute_command(dict(given), None)
    assert entry_point(folder / "shop", name).line(given) == theirs.replace("'train.py'", "train.py")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"uri": "shops"}, "^uri=shops: must be a folder here, or the address"),
        ({"uri": ""}, "^uri=: must be the folder"),
        ({"uri": "shop#inner"}, "^uri=shop#inner: has no folder inner"),
        ({"entry_point": "mains"}, "^entry_point='mains': must be .* main, quick. Did you mean 'main'"),
        ({"project_parameters": "seeds={a},data=x"}, "^project_parameters='seeds': .*Did you mean 'seed'"),
        ({"project_parameters": "seed={a}"}, "^project_parameters=seed: lacks data. Add data=..."),
        ({"project_parameters": "seed=1,data=x"}, "^project_parameters=seed=1,data=x: names no factor"),
        ({"project_parameters": "seed,data=x"}, "has seed, which is not name=value"),
        ({"project_parameters": '{"seed": '}, "is no JSON"),
        ({"project_parameters": "seed={a:d},data=x"}, "has {a:d}: braces may hold only the name of a factor"),
        ({"project_parameters": "seed={a},data=x,numpy.random.seed=x"}, "random.seed=x: must be a factor"),
        ({"uri": "shop", "version": "main"}, "^hyperparameters.version=main: has no effect: shop is a folder"),
        ({"env_manager": "poetry"}, "^hyperparameters.env_manager='poetry': must be one of conda, local"),
    ],
)
def test_what_is_no_project_is_said_before_anything_runs(folder, given, why):
    own = {name: given.pop(name) for name in ("version", "env_manager") if name in given}
    with pytest.raises(ParameterError, match=why):
        dependencies(project(folder, **given), **own)


def test_each_study_is_told_that_a_project_runs_in_another_environment(folder, caplog):
    (folder / "shop" / "MLproject").write_text(f"python_env: python_env.yaml\n{MLPROJECT}")
    for _ in range(2):
        dependencies(project(folder))
    assert caplog.text.count("shop asks for python_env.yaml, and runs in this environment; hyper") == 2


def test_a_version_is_never_checked_out_in_the_folder_of_a_file_address(folder):
    def git(*words):
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *name, *words], cwd=folder / "shop", check=True, capture_output=True).stdout

    git("init")
    for message in ("one", "two"):
        git("add", ".")
        git("commit", "--allow-empty", "-m", message)
    first, before = git("rev-parse", "HEAD~1").decode().strip(), git("log", "--format=%H")
    with pytest.raises(ParameterError, match=f"has no effect: .* git worktree add FOLDER {first}"):
        dependencies(project(folder, uri=f"file://{folder / 'shop'}"), version=first)
    assert git("log", "--format=%H") == before
    assert dependencies(project(folder, uri=f"file://{folder / 'shop'}")) == dependencies(project(folder))


def test_what_is_left_in_the_folder_changes_no_key_and_what_is_trained_does(folder):
    def key(**given):
        return dependencies(project(folder, **given))

    before = key()
    (folder / "shop" / "mlruns").mkdir()
    (folder / "shop" / "mlruns" / "a").write_text("1")
    assert key() == before
    assert key(project_parameters=f'{{"seed": "{{a}}", "data": "{folder / "data.csv"}"}}')["files"] == before["files"]
    for path in (folder / "shop" / "new.py", folder / "data.csv"):
        path.write_text("2")
        assert key() != before
        before = key()


@pytest.mark.slow
@pytest.mark.usefixtures("kept_store")
def test_what_a_project_logs_is_the_outcome(folder, monkeypatch):
    (folder / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "temporary"))
    (folder / "shop" / "train.py").write_text(REAL)
    approach = project(folder, project_parameters={"seed": "{a}", "data": "data.csv"})
    task, outcome = trained(approach, folder, classes="a|b", artifacts=0.001, experiment="theirs")
    assert (task.name, outcome.error) == ("shop", None)
    assert (outcome.predictions.tolist(), outcome.labels.tolist(), outcome.metrics) == ([0, 0], [0, 1], {"rmse": 0.3})
    logged = outcome.logged
    seed = str(one_cell(approach.factors).seeds["a"] % 2**31)
    assert logged.params == {"seed": seed, "data": "data.csv", "kind": "linear", "api_key": "***"}
    assert logged.tags == {"colour": "blue", "from": "redis://***@dbhost", "artifacts_left_out": "large.txt"}
    assert logged.artifacts == {"notes/a.txt": b"what it says"}
    assert [(name, value, step) for name, value, _, step in logged.metrics] == [
        ("rmse", 0.5, 0),
        ("rmse", 0.4, 1),
        ("rmse", 0.3, 2),
    ]
    assert list((folder / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("raise SystemExit('no such file')", "ended with exit status 1: no such file"),
        (f"raise SystemExit('because {_OTHER_EXPERIMENT}. Make')", "name it, hyperparameters.experiment=NAME"),
        ("", "the project logged no metric where MLflow leads it, and no predictions.csv"),
        (FAST.replace("SEED", "0").replace("rmse", "loss"), "the project wrote no rmse, but loss"),
        (FAST.replace("SEED", "0") + ENDS, "the project ended its MLflow run as FAILED, though its exit status was 0"),
    ],
)
@pytest.mark.usefixtures("kept_store")
def test_a_project_that_gives_nothing_is_one_line(folder, script, why):
    (folder / "shop" / "train.py").write_text(script)
    approach = project(folder, entry_point="quick", project_parameters={"random.seed": "{a}"})
    assert why in trained(approach, folder, classes="none")[1].error


@pytest.mark.usefixtures("kept_store")
def test_a_project_that_predicts_numbers_is_a_regression(folder):
    rows = "example_id,label,prediction\\n0,0.5,0.4\\n1,1.5,1.6\\n"
    ends = f'open(folder.removeprefix("file://") + "/predictions.csv", "w").write("{rows}")'
    (folder / "shop" / "train.py").write_text(FAST.replace("SEED", "0") + ends)
    approach = project(folder, entry_point="quick", project_parameters={"random.seed": "{a}"}, metric="auto")
    assert approach.own_task(resolve_hyperparameters(approach, {}), folder).kind == "regression"


@pytest.mark.slow
@pytest.mark.usefixtures("kept_store")
def test_a_child_holds_what_its_project_logged(folder, tracking_uri, monkeypatch):
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    # Nothing of the project takes a seed: its global generator does.
    script = FAST.replace("SEED", "random.randrange(2**31)").replace(
        "import os", "import random; random.seed(40); import os"
    )
    (folder / "shop" / "train.py").write_text(script)
    (folder / "shop" / "MLproject").write_text(MLPROJECT.replace("python -SE", "python"))
    typed = {"uri": "shop", "entry_point": "quick", "project_parameters": "random.seed={seed}", "metric": "rmse"}
    found = seeds(approach="project", **typed, seeds="42,43", hyperparameters="classes=none", executor="inline")
    client = MlflowClient()
    children = client.search_runs(["0"], f"tags.`mlflow.parentRunId` = '{found.run_id}'")
    assert len({child.data.metrics["rmse"] for child in children}) == 2
    assert {child.data.params["random.seed"] for child in children} == {"42", "43"}
    for child in children:
        history = client.get_metric_history(child.info.run_id, "rmse")
        assert [(metric.timestamp, metric.step) for metric in history] == [(1000, 0), (1001, 1)]
        assert history[0].value == 2 * history[1].value == 2 * child.data.metrics["rmse"]
        assert child.data.tags["colour"] == "blue"
        assert (child.data.params["task"], child.data.params["logged.task"]) == ("shop", "theirs")
        path = client.download_artifacts(child.info.run_id, "note.txt", str(folder))
        assert int(Path(path).read_text()) % 97 == history[0].value


def test_seeds_of_global_generators_are_moved_and_still_differ(tmp_path, monkeypatch):
    script = "import random; random.seed(40); a = random.random(); random.seed(41); print(a, random.random())"

    def drawn(ours, name):
        given = {**os.environ, **reseeding_variables({"random.seed": ours}, tmp_path / name)}
        return subprocess.run(
            [sys.executable, "-c", script], env=given, capture_output=True, text=True, check=True
        ).stdout

    one, again, other = drawn(0, "0"), drawn(0, "1"), drawn(1, "2")
    assert one == again
    assert one.split()[1] == other.split()[0]
    assert one.split()[0] != other.split()[1]


def test_a_store_without_mlflow_says_so(tmp_path):
    with pytest.raises(L3DError, match="the project's environment cannot make a tracking store"):
        stores.template(tmp_path / "none.db", {"PATH": str(tmp_path)})


def test_a_store_is_made_once_by_the_mlflow_of_the_environment(tmp_path):
    theirs = """
class MlflowClient:
    def __init__(self, uri):
        self.store = open(uri.removeprefix("sqlite:///"), "w")

    def create_experiment(self, name):
        return name + " 7"

    def create_run(self, experiment):
        self.store.write("one run of " + experiment)
"""
    (tmp_path / "mlflow.py").write_text(theirs)
    kept = tmp_path / "projects" / "store.db"
    for environment in ({"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}, {}):
        assert stores.template(kept, environment) == kept
    assert kept.read_text() == "one run of project 7"
    assert [*kept.parent.iterdir()] == [kept]


def test_what_mlflow_fetched_is_kept_with_its_environment(folder, tmp_path, monkeypatch):
    """MLflow runs the script of ours in the folder that it fetched, in the environment that it made."""

    def mlflow_run(words, _, told):
        given = words[words.index("run") :]
        assert given[1:3] + given[4:] == ["https://host/shop.git", "-e", *["--env-manager", "uv", "--version", "v1"]]
        subprocess.run(
            [sys.executable, "-S", given[3]], cwd=folder / "shop", env={**told, "VIRTUAL_ENV": "/e"}, check=True
        )

    monkeypatch.setattr("mlflow_l3d.approaches.project.mlproject.run", mlflow_run)
    copy, first = shutil.copytree, []

    def copy_after_another(source, target):
        if not first:
            first.append(target)
            first.append(located("https://host/shop.git", "v1", "uv", folder, tmp_path / "cache"))
        return copy(source, target)

    monkeypatch.setattr(shutil, "copytree", copy_after_another)
    place = located("https://host/shop.git", "v1", "uv", folder, tmp_path / "cache")
    assert place == first[1]
    assert [*place.folder.parent.iterdir()] == [place.folder]
    assert sorted(path.name for path in place.folder.iterdir()) == ["MLproject", "train.py"] == list(place.files)
    assert (place.environment["VIRTUAL_ENV"], "HOME" in place.environment) == ("/e", False)
    assert located("https://host/shop.git", "v1", "uv", folder, tmp_path / "cache") == place


def test_what_mlflow_cannot_fetch_is_one_line(tmp_path, monkeypatch):
    def fails(*_):
        raise L3DError("the command ended with exit status 1: fatal: no such host")

    monkeypatch.setattr("mlflow_l3d.approaches.project.mlproject.run", fails)
    with pytest.raises(ParameterError, match=r"^uri=https://h/a.git: MLflow cannot fetch it.*: fatal: no such host.$"):
        located("https://h/a.git", "", "local", tmp_path, tmp_path)


def test_large_files_of_a_project_are_linked(folder):
    (folder / "shop" / "data").mkdir()
    (folder / "shop" / "data" / "large").write_bytes(bytes(1 << 21))
    place = located("shop", "", "local", folder, folder)
    linked = place.copy(folder / "copy")
    found = {path.name: path.is_symlink() for path in (folder / "copy").rglob("*") if path.is_file()}
    assert found == {"MLproject": False, "train.py": False, "large": True}
    place.check(linked)
    with (folder / "copy" / "data" / "large").open("ab") as file:
        file.write(b"more")
    with pytest.raises(L3DError, match="writes to data/large, in your folder"):
        place.check(linked)


def test_a_fresh_store_leaves_the_kept_one_as_it_is(migrated_store, tmp_path):
    kept = tmp_path / "kept.db"
    shutil.copyfile(migrated_store, kept)
    with closing(sqlite3.connect(kept)) as tables, tables:
        tables.execute("INSERT INTO runs (run_uuid, experiment_id, artifact_uri) VALUES ('r', 0, 'x')")
    before = kept.read_bytes()
    given = stores.fresh(kept, tmp_path, tmp_path / "artifacts")
    assert (given["MLFLOW_RUN_ID"], given["MLFLOW_EXPERIMENT_ID"]) == ("r", "0")
    assert kept.read_bytes() == before
