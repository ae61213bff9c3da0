"""Commands in the folder of a user: which runs may be there at once, and which files are in the key of a cell."""

from threading import Event, Semaphore, Thread

import pytest

import mlflow_l3d
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.command import files
from mlflow_l3d.approaches.command.approach import Command
from mlflow_l3d.approaches.progress import heard_by
from mlflow_l3d.errors import ParameterError

OWN = "import os; open(os.environ['L3D_OUTPUT'] + '/model', 'w')"


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("pass", "the command names no folder of its own"),
        ("open('model', 'w')", "model changed while the command ran"),
        (OWN, ""),
        (f"{OWN}; os.mkdir('mlruns'); open('mlf' 'low.db-journal', 'w')", ""),
        (f"{OWN}; open('model', 'w')", "model changed while the command ran"),
        (f"{OWN}; os.remove('train.csv')", "train.csv changed while the command ran"),
        (f"{OWN}; open('deep/model', 'w'); os.remove('deep/model')", "deep/ changed while the command ran"),
        (f"{OWN}; open('deep/linked/file', 'a').write('x')", "deep/linked/file changed while the command ran"),
        (f"{OWN}; open('predictions.csv', 'w')", "predictions.csv changed while the command ran"),
    ],
)
def test_runs_are_side_by_side_if_the_command_names_a_folder_of_its_own_and_writes_nowhere_else(
    does, why, tmp_path, caplog
):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    (here / "deep").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "file").write_text("")
    (elsewhere / "loop").symlink_to(here)
    (here / "deep" / "linked").symlink_to(elsewhere)
    (here / "train.csv").write_text("one")
    (here / "train.py").write_text(f"print('acc: 0.5'); {does}")
    approach = Command("python -SE train.py {seed}", here=here)
    approach.own_task(resolve_hyperparameters(approach, {}), tmp_path / "cache")
    assert approach.first.alone == why
    expected = f"Runs follow one another, since {why}. Write to {{output}} or $L3D_OUTPUT instead."
    assert (expected in caplog.text) == bool(why)


def test_a_run_that_waits_for_another_in_the_folder_does_not_seem_to_hang(tmp_path):
    signs, is_alone = Semaphore(0), Event()

    def run():
        with heard_by(lambda _: signs.release()), files.alone_in(tmp_path):
            is_alone.set()

    with files.alone_in(tmp_path):
        Thread(target=run).start()
        assert all(signs.acquire(timeout=30) for _ in range(2))
        assert not is_alone.is_set()
    assert is_alone.wait(30)


@pytest.fixture
def here(tmp_path):
    (folder := tmp_path / "here").mkdir()
    return folder


def key_of(command, here, **given):
    """Return approach and key, after the first run of a command."""
    approach = Command(command, here=here)
    hyperparameters = resolve_hyperparameters(approach, given)
    approach.own_task(hyperparameters, here.parent / "cache")
    return approach.dependencies(hyperparameters, "")


def test_files_that_scripts_name_or_import_are_in_the_key(here):
    (here / "conf").mkdir(parents=True)
    (here / "shop").mkdir()
    script = "import helper\nfrom shop.models import notes\nopen('conf.txt')\nmain('conf/main')\na='../all.txt'"
    deciding = {"train.py": script, "helper.py": "NAME = 'words.csv'"}
    deciding |= dict.fromkeys(["../all.txt", "shop/models.py", "conf.txt", "conf/main.yaml", "words.csv"], "")
    others = ["notes.txt", "shop/other.csv", "other.py", "python/site-packages/helper.py", "python/shop.py"]
    others = dict.fromkeys([*others, "node_modules/helper.py"], "")
    for name, text in {**deciding, **others}.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    command = Command("python train.py {seed}", here=here)
    given = resolve_hyperparameters(command, {})
    for name in {**deciding, **others}:
        before = command.dependencies(given, "")
        with (here / name).open("a") as file:
            file.write("\n# changed")
        assert (command.dependencies(given, "") == before) == (name in others), name


def test_a_script_that_is_not_there_is_named_before_the_folder_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "walk", None)
    with pytest.raises(ParameterError, match=r"command=trian\.py: this folder has no such file\. Go to"):
        key_of("python -u trian.py {seed}", tmp_path)


@pytest.mark.parametrize("change", ["content", "size", "variable", "folder", "setting", "argument", "twin"])
def test_whatever_may_decide_a_result_is_in_the_key(change, tmp_path, monkeypatch):
    """Named files, be they large or of one name, a variable, the folder, and what a file of settings names."""
    monkeypatch.setattr(files, "_SMALL", 20)
    monkeypatch.setenv("BASE", "1")
    for version in ("v1", "v2"):
        (tmp_path / version / "data").mkdir(parents=True)
        texts = {"train.py": "'run.yaml', 'huge'", "run.yaml": "words: words.csv", "words.csv": ""}
        for name, text in {**texts, "huge": "x" * 99, "large": "x" * 99}.items():
            (tmp_path / version / name).write_text(text)
    here, data = tmp_path / "v1", tmp_path / "v1" / "data"
    twins = [tmp_path / "v2" / "large", tmp_path / "v1" / "large"]

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
def test_files_that_runs_write_are_not_in_the_key(command, script, there, runs, here, tmp_path, caplog):
    """If a file was there before, a second run shows that it is an output; the next study does not try again."""
    (here / "train.py").write_text(f"{COUNTED}; {script}")
    if there:
        (here / there).write_text("before")
    key = key_of(command, here)
    assert len((tmp_path / "count").read_text()) == runs
    assert "Not part of the key of a cell, since runs write them: model.txt." in caplog.text
    (here / "model.txt").write_text("after another run")
    assert key_of(command, here) == key
    assert len((tmp_path / "count").read_text()) == runs


def test_files_in_a_numbered_folder_of_each_run_are_not_in_the_key(here):
    folder = "folder = f'outputs/{len(open(count).read())}/.hydra'; os.makedirs(folder)"
    (here / "config.yaml").write_text("lr: 1")
    (here / "train.py").write_text(f"{COUNTED}; {folder}; open(folder + '/config.yaml', 'w')")
    key = key_of("python train.py {seed}", here)
    (here / "outputs" / "22").mkdir()
    (here / "outputs" / "1" / ".hydra").rename(here / "outputs" / "22" / ".hydra")
    assert key_of("python train.py {seed}", here) == key
    (here / "config.yaml").write_text("lr: 2")
    assert key_of("python train.py {seed}", here) != key


def test_an_input_stays_in_the_key_next_to_a_numbered_folder_that_runs_write(here):
    (here / "data" / "v1").mkdir(parents=True)
    (here / "data" / "v1" / "train.csv").write_text("one")
    (here / "train.py").write_text(f"{COUNTED}; os.makedirs('data/v2', exist_ok=True); open('data/v2/train.csv', 'w')")
    key = key_of("python train.py {seed}", here)
    (here / "data" / "v2" / "train.csv").write_text("changed")
    assert key_of("python train.py {seed}", here) == key
    (here / "data" / "v1" / "train.csv").write_text("two")
    assert key_of("python train.py {seed}", here) != key


@pytest.mark.parametrize("name", ["train.py", "data.csv"])
def test_a_file_that_somebody_edits_during_the_first_run_stays_in_the_key(name, here):
    """As the script does here, once."""
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
