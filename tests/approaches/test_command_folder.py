"""Commands in the folder of a user: which runs may be there at once, and which files are in the key of a cell."""

import os
import sys

import pytest

import mlflow_l3d
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.command import folder, key_files
from mlflow_l3d.approaches.command.approach import Command
from mlflow_l3d.approaches.command.in_place import run_in_place
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.testing import one_cell


def run_script(here, script, *, alone):
    """Return what comes of a script in a folder, which has another folder to write to."""
    output = here.parent / "output"
    output.mkdir(exist_ok=True)
    variables = {"L3D_OUTPUT": str(output), "PATH": os.environ["PATH"]}
    outside = (here.parent / "shared", here.parent / "shared.txt")
    return run_in_place([sys.executable, "-SE", "-c", script], here, output, variables, outside=outside, alone=alone)


@pytest.mark.parametrize(
    ("does", "changed"),
    [
        ("pass", None),
        ("open(os.environ['L3D_OUTPUT'] + '/model', 'w')", None),
        ("open('mlflow.db-journal', 'w'); os.remove('mlflow.db-journal')", None),
        ("os.mkdir('mlruns')", None),
        ("open('model', 'w')", "model"),
        ("open('train.csv', 'w').write('other')", "train.csv"),
        ("open('.model', 'w')", ".model"),
        ("open('model', 'w'); os.remove('model')", "model"),
        ("os.remove('train.csv')", "train.csv"),
        ("open('deep/model', 'w'); os.remove('deep/model')", "deep/"),
        ("open('deep/linked/model', 'w')", "deep/linked/model"),
        ("open('deep/linked/file', 'a').write('x')", "deep/linked/file"),
        ("open('model', 'w'); sys.exit(1)", "model"),
        ("open('../shared/model', 'w')", "/shared/model"),
        ("open('../shared.txt', 'w')", "/shared.txt"),
        ("open('../other.txt', 'w')", None),  # nothing names it
    ],
)
def test_what_a_run_writes_into_the_folder_is_seen(does, changed, tmp_path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    (tmp_path / "shared").mkdir()
    (here / "deep").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "file").write_text("")
    (elsewhere / "loop").symlink_to(here)
    (here / "deep" / "linked").symlink_to(elsewhere)
    (here / "train.csv").write_text("one")
    (here / "mlflow.db").write_text("")
    assert run_script(here, "pass", alone=False)[0] is None  # nobody knows how the folder was left
    printed, visited = run_script(here, "print('hello')", alone=True)
    assert (printed.stdout, visited.changed) == ("hello\n", [])
    printed, visited = run_script(here, f"import os, sys; {does}", alone=False)
    assert (printed is None) == (changed is not None)
    assert [name.removeprefix(str(tmp_path)) for name in visited.changed[:1]] == ([changed] if changed else [])


def test_a_folder_with_too_many_files_is_for_one_run_unless_there_is_another_place_to_write_to(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "MOST_FILES", 5)
    for number in range(9):
        (tmp_path / f"file{number}").write_text("")
    visited = run_script(tmp_path, "pass", alone=True)[1]
    assert "more than 5 files" in visited.reason("the command", can_be_trusted=False)
    assert visited.reason("the command", can_be_trusted=True) == ""


SHARED = """
import pathlib, sys, time
seed = int(sys.argv[1]) % 1000
model = pathlib.Path(".model")
if seed:
    model.write_text(str(seed))
    time.sleep(0.1)
print("accuracy:", (int(model.read_text()) if seed else 5) / 1000)
if seed:
    model.unlink()
"""


@pytest.mark.slow
def test_runs_that_share_a_file_only_after_the_first_one_are_repeated_alone(tmp_path):
    """Each writes a hidden file, waits, reads it and deletes it."""
    (tmp_path / "train.py").write_text(SHARED)
    approach = Command("python -SE train.py {seed}", here=tmp_path)
    hyperparameters = resolve_hyperparameters(approach, {})
    task = approach.own_task(hyperparameters, tmp_path.parent / "cache")
    assert approach.first.alone == ""
    job = Job(approach, task, hyperparameters, model="", device="cpu", cache=tmp_path)
    cells = {cell.key: cell for cell in (one_cell(approach.factors, configuration=number) for number in range(8))}
    for outcome in ProcessExecutor(job=job, workers=4).run(iter(cells.values())):
        assert outcome.metrics == {"accuracy": cells[outcome.key].seeds["seed"] % 2**31 % 1000 / 1000}


def test_runs_wait_for_one_another_if_another_program_keeps_writing_into_the_folder(tmp_path, monkeypatch, caplog):
    modes = []

    def run_noisily(*arguments, alone, outside):
        modes.append(alone)
        printed, visited = run_in_place(*arguments, outside=outside, alone=True)
        if alone:
            return printed, visited
        visited.changed = ["log"]
        return None, visited

    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "train.py").write_text("print('acc: 0.5')")
    approach = Command("python -SE train.py {seed}", here=tmp_path / "here")
    hyperparameters = resolve_hyperparameters(approach, {})
    task = approach.own_task(hyperparameters, tmp_path / "cache")
    monkeypatch.setattr("mlflow_l3d.approaches.command.approach.run_in_place", run_noisily)
    session = approach.prepare(task, hyperparameters, model="", device="cpu", cache=None)
    outcomes = list(session.run(one_cell(approach.factors, configuration=number) for number in range(5)))
    assert [outcome.metrics["acc"] for outcome in outcomes] == [0.5] * 5
    assert modes == [False, True] * 3 + [True] * 2
    assert "Runs follow one another from now on, since log in its folder keeps changing." in caplog.text


def key_of(command, here, **given):
    """Return approach and key, after the first run of a command."""
    approach = Command(command, here=here)
    hyperparameters = resolve_hyperparameters(approach, given)
    approach.own_task(hyperparameters, here.parent / "cache")
    return approach.dependencies(hyperparameters, "")


def test_files_that_scripts_name_or_import_are_in_the_key(tmp_path):
    here = tmp_path / "here"
    (here / "conf").mkdir(parents=True)
    (here / "shop").mkdir()
    deciding = {
        "train.py": "import helper\nfrom shop.models import notes\nopen('conf.txt')\nmain('conf/main')\na='../all.txt'",
        "../all.txt": "",
        "helper.py": "NAME = 'words.csv'",
        "shop/models.py": "",
        "conf.txt": "",
        "conf/main.yaml": "",
        "words.csv": "",
    }
    others = {"notes.txt": "", "shop/other.csv": "", "other.py": ""}
    for name, text in {**deciding, **others}.items():
        (here / name).write_text(text)
    command = Command("python train.py {seed}", here=here)
    given = resolve_hyperparameters(command, {})
    for name in {**deciding, **others}:
        before = command.dependencies(given, "")
        with (here / name).open("a") as file:
            file.write("\n# changed")
        assert (command.dependencies(given, "") == before) == (name in others), name


@pytest.mark.parametrize("change", ["content", "size", "variable", "folder", "setting", "argument", "twin"])
def test_whatever_may_decide_a_result_is_in_the_key(change, tmp_path, monkeypatch):
    """Named files, be they large or of one name, a variable, the folder, and what a file of settings names."""
    monkeypatch.setattr(key_files, "_SMALL", 20)
    monkeypatch.setenv("BASE", "1")
    for version in ("v1", "v2"):
        for name, text in {
            "train.py": "'run.yaml', 'huge'",
            "huge": "x" * 99,
            "run.yaml": "words: words.csv",
            "words.csv": "",
        }.items():
            (tmp_path / version / "data").mkdir(parents=True, exist_ok=True)
            (tmp_path / version / name).write_text(text)
        (tmp_path / version / "large").write_text("x" * 99)
    here, data, twins = (
        tmp_path / "v1",
        tmp_path / "v1" / "data",
        [tmp_path / "v2" / "large", tmp_path / "v1" / "large"],
    )

    def key():
        command = Command(["python", "train.py", "{seed}", str(data), *map(str, twins)], here=here)
        return command.dependencies(resolve_hyperparameters(command, {"environment": "BASE"}), "")

    before = key()
    assert key() == before
    if change == "variable":
        monkeypatch.setenv("BASE", "2")
    elif change == "folder":
        here = tmp_path / "v2"
    elif change == "argument":
        data = tmp_path / "v2" / "data"
    else:
        changed = {"content": "v1/train.py", "size": "v1/huge", "setting": "v1/words.csv", "twin": "v2/large"}
        with (tmp_path / changed[change]).open("a") as file:
            file.write("# changed")
    assert key() != before


COUNTED = "import os, sys; count = os.path.join(os.pardir, 'count'); open(count, 'a').write('x'); print('acc: 0.5')"


@pytest.mark.parametrize(
    ("command", "script", "there", "runs"),
    [
        ("python train.py {seed} model.txt", "open(sys.argv[2], 'w').write(open(count).read())", "", 1),
        ("python train.py {seed} model.txt", "open(sys.argv[2], 'w').write(open(count).read())", "model.txt", 2),
        ("python train.py {seed}", "open('model.txt', 'w').write(open(count).read())", "model.txt", 2),
        ("python train.py {seed}", "open('model.txt', 'w').write('same')", "", 1),
    ],
)
def test_files_that_runs_write_are_not_in_the_key(command, script, there, runs, tmp_path, caplog):
    """If a file was there before, a second run shows that it is an output; the next study does not try again."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "train.py").write_text(f"{COUNTED}; {script}")
    if there:
        (here / there).write_text("before")
    key = key_of(command, here)
    assert len((tmp_path / "count").read_text()) == runs
    assert "Not part of the key of a cell, since runs write them: model.txt." in caplog.text
    (here / "model.txt").write_text("after another run")
    assert key_of(command, here) == key
    assert len((tmp_path / "count").read_text()) == runs


@pytest.mark.parametrize("name", ["train.py", "data.csv"])
def test_a_file_that_somebody_edits_during_the_first_run_stays_in_the_key(name, tmp_path):
    """As the script does here, once."""
    here = tmp_path / "here"
    here.mkdir()
    edit = f"first = len(open(count).read()) == 1; open({name!r}, 'a').write('#' if first else '')"
    (here / "train.py").write_text(f"{COUNTED}; {edit}")
    (here / "data.csv").write_text("1")
    key = key_of("python train.py {seed} data.csv", here)
    (here / name).write_text(f"{(here / name).read_text()}#")
    assert key_of("python train.py {seed} data.csv", here) != key


@pytest.mark.slow
def test_a_study_that_uses_earlier_cells_says_what_is_not_compared(tracking_uri, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    (tmp_path / "train.py").write_text("import sys; print('acc:', int(sys.argv[1]) % 100 / 128)")
    given = {"approach": "command", "command": "python -SE train.py {seed}", "executor": "inline", "self_test": "skip"}
    assert (mlflow_l3d.seeds(**given, seeds=[1, 2]).reused, "earlier runs. Files" in caplog.text) == (0, False)
    assert mlflow_l3d.seeds(**given, seeds=[1, 2, 3]).reused == 2
    assert "2 of 3 seeds come from earlier runs. Files that neither the command nor its scripts name" in caplog.text
