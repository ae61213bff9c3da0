"""Commands: what is typed, what is run, and what is read of what they write."""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from copy import deepcopy
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.command import files, template
from mlflow_l3d.approaches.command.approach import Command
from mlflow_l3d.approaches.command.said import printed_scores
from mlflow_l3d.approaches.command.template import Output, Template, environment, last_lines, run
from mlflow_l3d.approaches.command.written import read
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.paths import public_words
from mlflow_l3d.testing import one_cell

# A variable before the program is refused with the full command.
VARIABLES, ENV = ("SEED={seed}", "SEED=3", "env SEED=3"), "mlflow-l3d seeds -- env"
TYPED = ("python train.py", "python train.py --seed", "python train.py --seed 42")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "must be a program"),
        *((typed, "names no factor.* mlflow-l3d seeds -- python train.py --seed {seed}$") for typed in TYPED),
        ("python {output}", "names no factor"),
        ("cat {a} | sort", r"without a shell. Put what needs \| into a script"),
        ("python {a} 'train", "cannot be divided into words"),
        ("python {a}}", "has a lone brace.* Double a brace"),
        ("python {a.b}", "hold only the name of a factor"),
        ("python {a!r:d}", "{a!r:d}: braces may hold only the name of a factor. A placeholder is a name alone"),
        ("python {0}", "hold only the name of a factor"),
        ("python {all}", "stands for every factor"),
        ("python {a} --store redis://***@dbhost", r"has \*\*\* where a credential stood"),
        *((f"{typed} python train.py", f": {ENV} SEED={{seed}} python train.py") for typed in VARIABLES),
        (
            "A={data_order} B={model_randomness} ./a",
            ": mlflow-l3d investigate -- env A={data_order} B={model_randomness}",
        ),
    ],
)
def test_what_is_no_command(command, why):
    with pytest.raises(ParameterError, match=f"(?s)^command=.*{why}"):
        Template.of(command)


def test_placeholders_are_factors_and_files_are_found_from_elsewhere(tmp_path):
    (tmp_path / "train.py").write_text("one")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("1")
    template = Template.of("python train.py {b} --data=data --seed={a}-{b} --out {output} {{}} {here}", tmp_path)
    assert template.factors == ("b", "a")
    words = template.arguments({"a": 3, "b": 0}, Path("out"))
    assert words == [sys.executable, "train.py", "0", "--data=data", "--seed=3-0", "--out", "out", "{}", str(tmp_path)]
    assert list(template.named()) == ["train.py"]
    before = template.more_files(["train.py", "data"])
    assert list(before) == ["train.py", "data/a.csv"]
    (tmp_path / "data" / "a.csv").write_text("2")
    after = template.more_files(["train.py", "data"])
    assert [before[name] == after[name] for name in before] == [True, False]
    with pytest.raises(ParameterError, match=r"files=gone: is no file"):
        template.more_files(["gone"])


def test_a_command_is_shown_without_private_folders(monkeypatch):
    typed = "python /home/me/train.py --data=~/x/y.csv --rate 1/2 '/a b' {seed}"
    assert public_words(typed) == "python train.py --data=y.csv --rate 1/2 'a b' {seed}"
    here = "python '/home/me/my work/src/train it.py' --data=/home/me/my work/a.csv --out /home/me/my work2"
    monkeypatch.setattr(Path, "cwd", lambda: Path("/home/me/my work"))
    assert public_words(here) == "python 'src/train it.py' --data=a.csv --out my work2"
    monkeypatch.setattr(Path, "cwd", lambda: Path("/"))
    assert public_words("python /src/train.py --data=http://host/a.csv") == "python train.py --data=http://host/a.csv"


def test_of_a_large_folder_only_a_part_is_searched_for_a_file_that_nobody_reads(monkeypatch, tmp_path):
    output, here = tmp_path / "output", tmp_path / "here"
    here.mkdir()
    (here / "a.json").touch()
    template = Template.of("python train.py {seed}", here)
    assert files.unread_score(output, template, 0) == ". It may be in a.json"
    monkeypatch.setattr(files, "MOST_FILES", 1)
    assert files.unread_score(output, template, 0) == ""


def test_a_progress_bar_of_many_scores_is_one_line(tmp_path):
    # Lightning's bar gives its scores what 62 characters leave: in 80 columns a name and its number are on two lines.
    scores = "train_loss_step: 0.688 val_loss: 1.023 val_acc: 0.483 train_acc: 0.633"
    script = f"import shutil, textwrap; print(textwrap.fill({scores!r}, shutil.get_terminal_size().columns - 62))"
    printed = run([sys.executable, "-c", script], tmp_path, environment([])).stdout
    assert printed_scores(printed)["val_acc"].number == 0.483


def test_only_the_listed_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("A_SECRET", "1")
    monkeypatch.setenv("WANTED", "2")
    script = "import os, json; json.dump(sorted(os.environ), open('seen.json', 'w'))"
    run([sys.executable, "-c", script], tmp_path, environment(["WANTED"]))
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert "WANTED" in seen
    assert "A_SECRET" not in seen
    with pytest.raises(ParameterError, match="environment=MISSING: is not set"):
        environment(["MISSING"])


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("raise ValueError('no such label')", "exit status 1: ValueError: no such label"),
        ("import os; os._exit(3)", "exit status 3: it said nothing"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal SIGKILL"),
    ],
)
def test_a_command_that_fails_says_why(script, why, tmp_path):
    with pytest.raises(L3DError, match=why):
        run([sys.executable, "-c", script], tmp_path, environment([]))


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("nothing-of-that-name", r"nothing-of-that-name cannot be started \([^)]*\)$"),
        ("python ok.py", r"python ok.py cannot be started \(.*\). Remove the quotes around the whole"),
    ],
)
def test_a_program_that_is_not_there(program, why, tmp_path):
    with pytest.raises(L3DError, match=why):
        run([program], tmp_path, {})


PATH = {"PATH": "/usr/bin:/bin"}


def with_company(folder):
    """Return a command that starts processes in its group, in a session of its own, and without a parent, and waits."""
    held, tail = folder / "held", f"tail -f {folder / 'held'}"
    return ["bash", "-c", f"touch {held}; {tail} & setsid {tail} & ({tail} &); touch {folder / 'begun'}; wait"]


def all_gone(folder):
    """Return whether no process that names a file is left, within ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        lines = [read_if_there(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
        if not any(str(folder / "held").encode() in line for line in lines):
            return True
        time.sleep(0.02)
    return False


def read_if_there(path):
    with suppress(OSError):
        return path.read_bytes()
    return b""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds what left its group")
@pytest.mark.parametrize(
    ("send", "how"), [(os.kill, signal.SIGKILL), (os.killpg, signal.SIGKILL), (os.kill, signal.SIGINT)]
)
def test_all_that_a_command_started_ends_with_the_worker(send, how, tmp_path):
    """Be it killed, alone or with all of its group, or interrupted."""
    parent = (
        "from pathlib import Path; from mlflow_l3d.approaches.command.template import run; "
        f"run({with_company(tmp_path)!r}, Path({str(tmp_path)!r}), {PATH})"
    )
    worker = subprocess.Popen([sys.executable, "-c", parent], start_new_session=True, stderr=subprocess.DEVNULL)
    while not (tmp_path / "begun").is_file():
        time.sleep(0.02)
    send(worker.pid, how)
    assert worker.wait() == -how
    assert all_gone(tmp_path)


@pytest.mark.parametrize("forks", [False, True])
def test_a_process_leaves_no_supervisor_to_the_end_of_python(forks, tmp_path):
    """Nor does it wait for a fork of its own, which has the pipes of the supervisor, too."""
    program = f"""
import os, time
from pathlib import Path
from mlflow_l3d.approaches.command.template import run
run(['true'], Path({str(tmp_path)!r}), {PATH})
parent = os.getpid()
if {forks} and os.fork() == 0:
    os.close(1), os.close(2)
    while os.getppid() == parent:
        time.sleep(0.01)
    os._exit(0)
"""
    command = [sys.executable, "-W", "default::ResourceWarning", "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr == ""


def test_a_command_runs_as_ever_without_standard_streams_and_hears_what_workers_ignore(tmp_path):
    program = f"""
import os, signal
from pathlib import Path
from mlflow_l3d.approaches.command import files, template
os.closerange(0, 3)
folder = Path({str(tmp_path)!r})
before = files.stamps(folder)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
template.run(["sh", "-c", "sh -c 'kill -HUP $$; touch deaf' || touch heard"], folder, {PATH})
os._exit(files.changed_name(folder, before) != "heard")
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds what left its group")
def test_what_a_command_leaves_running_ends_with_it(tmp_path):
    words = with_company(tmp_path)
    run([*words[:2], words[2].replace("; wait", "")], tmp_path, PATH)
    assert all_gone(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds what left its group")
def test_a_cell_at_its_time_limit_leaves_no_process(tmp_path):
    approach = Command([*with_company(tmp_path), "{seed}"], here=tmp_path)
    hyperparameters = resolve_hyperparameters(approach, {"classes": "a|b"})
    task = approach.own_task(hyperparameters, tmp_path)
    for seconds in (1, 8, 64):  # on a busy machine a second ends before the command begins
        job = Job(approach, task, hyperparameters, model="", device="cpu", cache=tmp_path, cell_timeout=seconds)
        (outcome,) = ProcessExecutor(job=job, workers=1).run([one_cell(approach.factors)])
        assert f"no outcome within {seconds} s" in outcome.error
        if (tmp_path / "begun").is_file():
            break
    assert (tmp_path / "begun").is_file()
    assert all_gone(tmp_path)


def test_a_supervisor_that_was_ended_is_replaced(tmp_path):
    """And what it ran fails in one line, with nothing left of it."""
    run(["true"], tmp_path, PATH)
    (supervisor,) = template._idle[os.getpid()]
    supervisor.kill()
    supervisor.wait()
    run(["true"], tmp_path, PATH)
    with pytest.raises(L3DError, match="the process that runs the command was ended"):
        run(["bash", "-c", "kill -9 $PPID; sleep 60"], tmp_path, PATH)


def test_the_last_line_that_a_command_said_is_known(tmp_path):
    printed = run(["bash", "-c", "echo so; echo careful >&2"], tmp_path, PATH)
    assert printed == Output("so\n", "careful\n")
    assert last_lines(printed.stderr, 1) == ["careful"]


def test_the_end_of_a_long_output_is_kept(tmp_path):
    script = "import sys; sys.stdout.write('x' * (3 << 20) + 'end'); sys.stderr.write('y' * (2 << 20) + 'end')"
    printed = run([sys.executable, "-c", script], tmp_path, {})
    assert [len(text) for text in printed] == [1 << 20, 1 << 20]
    assert [text[-4:] for text in printed] == ["xend", "yend"]


ROWS = pd.DataFrame({"example_id": [3, 1], "label": ["b", "a"], "prediction": ["a", "a"]})


@pytest.mark.parametrize(
    "more",
    [
        {"history": {"best": {"val_accuracy": 0.9}}},
        {"config": {"checkpoint": {"test_accuracy": 0.5}}},
        {"test": {"domain": {"books": {"f1": 0.6}}}},
        {"history": {"val_accuracy": [0.1]}},
        {"per_class": {"test": {"f1": math.nan}}},
    ],
)
def test_numbers_deep_in_metrics_are_no_scores(more, tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps({"accuracy": 0.8, **more}))
    assert read(tmp_path).metrics == {"accuracy": 0.8}


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_predictions_are_read_alike_from_all_files(kind, tmp_path):
    frame = ROWS.assign(score_a=[0.75, 1], score_b=[0.25, 0])
    path = tmp_path / f"predictions.{kind}"
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "jsonl": partial(frame.to_json, lines=True)}[kind]
    write(path, **({"orient": "records"} if kind == "jsonl" else {"index": False}))
    (tmp_path / "metrics.json").write_text('{"loss": 2, "model": "linear", "test": {"f1": 0.5}}')
    found = read(tmp_path)
    assert found.ids.tolist() == [3, 1]
    assert found.labels == ["b", "a"]
    assert found.classes.names == ("a", "b")
    assert {name: column.tolist() for name, column in found.scores.items()} == {"a": [0.75, 1.0], "b": [0.25, 0.0]}
    assert found.metrics == {"loss": 2.0, "test/f1": 0.5}
    path.unlink()
    renamed = frame.rename(columns={"example_id": "id", "label": "y_true", "prediction": "y_pred"})
    renamed.to_csv(tmp_path / "predictions.csv", index=False)
    others = read(tmp_path)
    for part in ("ids", "labels", "predictions"):
        assert list(getattr(others, part)) == list(getattr(found, part))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"predictions.csv": "example_id,label,prediction\n"}, "has no row"),
        ({"predictions.csv": "example_id,label,prediction\n1,a,a\n1,a,b"}, "example_id 1 is listed twice"),
        ({"predictions.csv": "example_id,label,prediction\n1,a,a\n2,,a"}, "label is missing in row 2"),
        ({"predictions.csv": "example_id,label,prediction\n1,nan,1\n2,1,1"}, "label is missing in row 1"),
        ({"predictions.csv": "example_id,label,prediction,score_a\n1,a,a,x"}, "score_a must hold numbers"),
        ({"predictions.csv": "x", "predictions.jsonl": "x"}, "one of them is enough"),
        ({"metrics.json": "{"}, "is not valid JSON"),
        ({"metrics.json": "[1]"}, "must map names to numbers"),
        ({"metrics.json": '{"loss": NaN}'}, "loss is nan, not a finite number"),
        ({"metrics.json": '{"loss": "1"}'}, "must map names to numbers"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(files, why, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(L3DError, match=why) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ids", [["01", "1"], [str(10**20), "2"]])
def test_ids_that_are_no_numbers_as_they_are_written(ids, tmp_path):
    rows = "\n".join(f"{one},a,a" for one in ids)
    (tmp_path / "predictions.csv").write_text(f"example_id,label,prediction\n{rows}")
    assert read(tmp_path).ids.tolist() == ids


SCRIPT = """
import csv, sys
with open("predictions.csv", "w") as file:
    writer = csv.writer(file)
    writer.writerow(["example_id", "label", "prediction"])
    for i in range(6):
        writer.writerow([i, "ab"[i % 2], "ab"[int(sys.argv[1]) % (i + 2) % 2]])
"""


NUMBERS = """
import sys
rows = [f"{i},{i + 0.5 * (sys.argv[2] == 'decimal')},{i + int(sys.argv[1]) % 3}" for i in range(4)]
open("predictions.csv", "w").write("\\n".join(["example_id,label,prediction", *rows]))
"""


def session_of(command, folder, metric="auto", **given):
    approach = Command(command, metric, here=folder)
    hyperparameters = resolve_hyperparameters(approach, given)
    task = approach.own_task(hyperparameters, folder / "cache")
    return approach, task, approach.prepare(task, hyperparameters, model="", device="cpu", cache=folder)


def trained(folder, script, command="python -SE train.py {seed}", **given):
    """Write a script; return approach and task of its command, and the outcome of a cell."""
    (folder / "train.py").write_text(script)
    approach, task, session = session_of(command, folder, **given)
    (outcome,) = session.run([one_cell(approach.factors)])
    return approach, task, outcome


def test_a_cell_is_a_run_with_its_seeds(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    approach, task, outcome = trained(tmp_path, SCRIPT, "python train.py {seed}")
    assert (task.class_names, task.name, outcome.error) == (("a", "b"), "train.py", None)
    seed = one_cell(approach.factors).seeds["seed"] % 2**31
    assert outcome.predictions.tolist() == [seed % (i + 2) % 2 for i in range(6)]
    assert outcome.labels.tolist() == [0, 1] * 3
    assert list((tmp_path / "temporary").iterdir()) == []
    # The classes are remembered: the script need not run again, until it is another one.
    remembered = session_of("python train.py {seed}", tmp_path)[1]
    assert remembered.fingerprint == task.fingerprint
    before = approach.dependencies(resolve_hyperparameters(approach, {}), "")
    (tmp_path / "train.py").write_text(SCRIPT + "\n")
    assert approach.dependencies(resolve_hyperparameters(approach, {}), "") != before


@pytest.mark.parametrize(
    ("script", "classes", "why"),
    [
        (SCRIPT, "a|c", r"wrote class b, and classes are a\|c: name all with"),
        (SCRIPT, "numbers", "wrote predictions that are no numbers, and its task is a regression"),
        (NUMBERS.replace("sys.argv[2]", "'decimal'"), "a|b", "wrote decimal numbers, and its task has classes"),
        (SCRIPT, "none", "with classes=none it must write metrics only"),
        ("open('metrics.json', 'w').write('{\"a\": 1}')", "a|b", "wrote no predictions, and has classes"),
        ("import sys; print('no disk', file=sys.stderr)", "a|b", "nor metrics.json; it ended with: no disk. Print one"),
    ],
)
def test_a_cell_with_something_else_fails_alone(script, classes, why, tmp_path):
    assert why.replace("\\", "") in trained(tmp_path, script, classes=classes)[2].error


@pytest.mark.parametrize(("labels", "classes"), [("decimal", "auto"), ("whole", "numbers")])
def test_numbers_are_a_regression_where_one_is_decimal_or_who_types_it_says_so(labels, classes, tmp_path):
    approach, task, outcome = trained(tmp_path, NUMBERS, f"python -SE train.py {{seed}} {labels}", classes=classes)
    assert (task.kind, task.class_names, task.metric) == ("regression", (), "pearson")
    shift = one_cell(approach.factors).seeds["seed"] % 2**31 % 3
    assert outcome.error is None
    assert outcome.labels.tolist() == [i + 0.5 * (labels == "decimal") for i in range(4)]
    assert outcome.predictions.tolist() == [i + shift for i in range(4)]
    assert outcome.predictions.dtype == float
    again = session_of(f"python -SE train.py {{seed}} {labels}", tmp_path, classes=classes)[1]  # from the cache
    assert (again.kind, again.fingerprint) == (task.kind, task.fingerprint)


ANSWERS = """
import json, sys
label, prediction = json.loads(sys.argv[2])
rows = [{"example_id": i, "label": label, "prediction": prediction} for i in range(30)]
with open("predictions.jsonl", "w") as file:
    file.write("\\n".join(map(json.dumps, rows)))
"""


@pytest.mark.parametrize(
    ("classes", "kind", "answer", "held"),
    [
        ("texts", "generation", ["3.5 kg", ""], ["3.5 kg", ""]),
        ("texts", "generation", [["NaN", "none"], "nan"], ['["NaN","none"]', "nan"]),
        ("tags", "tagging", [["O", "B-X"], ["O", "O"]], ['["O","B-X"]', '["O","O"]']),
        ("rankings", "ranking", [{"a": 2}, ["b", "a"]], ['{"a":2}', '["b","a"]']),
    ],
)
def test_texts_tags_and_rankings(classes, kind, answer, held, tmp_path):
    command = ["python", "-SE", "train.py", "{seed}", json.dumps(answer).replace("{", "{{").replace("}", "}}")]
    _, task, outcome = trained(tmp_path, ANSWERS, command, classes=classes)
    assert (task.kind, task.class_names, outcome.error) == (kind, (), None)
    assert [outcome.labels[0], outcome.predictions[29]] == held


def test_tags_of_other_tokens_are_an_error(tmp_path):
    command = ["python", "-SE", "train.py", "{seed}", json.dumps([["O", "B-X"], ["O", "B-X", "O"]])]
    error = trained(tmp_path, ANSWERS, command, classes="tags")[2].error
    assert "another number of tags than tokens in every text, 3 for 2 in the first" in error


def test_texts_are_not_taken_for_classes(tmp_path):
    script = SCRIPT.replace("range(6)", "range(60)").replace('"ab"[i % 2]', 'f"text {i}"')
    with pytest.raises(ParameterError, match="wrote 60 different labels of 60 examples, which are no classes"):
        trained(tmp_path, script)


def test_an_id_must_stay_with_its_example(tmp_path):
    other = SCRIPT.replace('"ab"[i % 2]', '"ab"[(i + int(sys.argv[1])) % 2]')
    (tmp_path / "train.py").write_text(other)
    approach, _, session = session_of("python -SE train.py {seed}", tmp_path, classes="a|b")
    cells = [one_cell(approach.factors, configuration=number) for number in range(8)]
    errors = {outcome.error for outcome in session.run(cells)}
    assert any(error and "an id must name the same example in all runs" in error for error in errors)


def test_scores_need_every_class(tmp_path):
    frame = ROWS.assign(score_a=np.array([0.5, 0.5]))
    script = f"open('predictions.csv', 'w').write({frame.to_csv(index=False)!r})"
    assert "none for class b (score_b)" in trained(tmp_path, script, classes="a|b")[2].error


@pytest.mark.parametrize("damage", ["", "{", "null", "[]", '{"classes": 1}', "\udcff"])
def test_a_damaged_record_of_the_classes_is_made_again(damage, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    _, task, _ = session_of("python -SE train.py {seed}", tmp_path)
    (record,) = (tmp_path / "cache" / "commands").iterdir()
    whole = record.read_bytes()
    record.write_bytes(damage.encode("utf-8", "surrogateescape"))
    assert session_of("python -SE train.py {seed}", tmp_path)[1].class_names == task.class_names
    assert record.read_bytes() == whole


def printing(folder, line, cells=3, **given):
    """Return approach, task and outcomes of some seeds of a script that prints a line made from s, its seed."""
    (folder / "train.py").write_text(f"import os, sys, json\ns = int(sys.argv[1]) % 100\n{line}\n")
    # So that it starts sooner, without what is installed
    approach, task, session = session_of("python -SE train.py {seed}", folder, **given)
    chosen = [one_cell(approach.factors, configuration=number) for number in range(cells)]
    seeds = [cell.seeds["seed"] % 2**31 % 100 for cell in chosen]
    return approach, task, seeds, list(session.run(chosen))


@pytest.mark.parametrize(
    ("line", "score", "scale"),
    [
        ("print('epoch 3: loss=0.3'); print('Test accuracy:', s / 1000)", "test_accuracy", 1000),
        ("print(f'accuracy: {s + 2}%')", "accuracy", None),
        ("print(f'accuracy: {s + 2}')", "accuracy", None),
        ("print({'eval_loss': .5, 'eval_f1': s / 1000, 'epoch': 3.0}); print('saved')", "eval_f1", 1000),
        ("print('accuracy: 1'); print(json.dumps({'auc': s / 1000}))", "auc", 1000),
        (
            "print('loss=1', s, end='\\r', file=sys.stderr); print(f'INFO acc: {s / 1000}', file=sys.stderr)",
            "acc",
            1000,
        ),
        ("print('loss: 3'); print(f'INFO:root:test acc: {s / 1000}', file=sys.stderr)", "test_acc", 1000),
        ("print('acc:', s / 1000); print('test acc: 1', file=sys.stderr)", "acc", 1000),
        ("print('accuracy:', s and s + 2)", "accuracy", None),  # 0 of the first run is neither a fraction nor per cent
        ("open('metrics.json', 'w').write(json.dumps({'rmse': s, 'model': 'linear', 'api_key': 4242}))", "rmse", 1),
        ("open('predictions.csv', 'wb').write(b'PK\\x00\\xff'); print('acc:', s / 1000)", "acc", 1000),
        ("json.dump({'rmse': s}, open(os.environ['L3D_OUTPUT'] + '/metrics.json', 'w')); print('rmse: 3')", "rmse", 1),
        ("print('reward', s, sep='=')", "reward", 1),
    ],
)
def test_the_score_is_found_in_what_a_script_prints_or_writes(line, score, scale, tmp_path):
    approach, task, seeds, outcomes = printing(tmp_path, line)
    assert (approach.metric, approach.metrics, task.class_names) == (score, (score,), ())
    assert [outcome.error for outcome in outcomes] == [None] * 3
    expected = [(seed + 2) / 100 if scale is None else seed / scale for seed in seeds]
    assert [outcome.metrics[score] for outcome in outcomes] == pytest.approx(expected)
    assert "api_key" not in outcomes[0].metrics


def test_a_share_that_is_named_may_be_written_in_per_cent_without_classes(tmp_path):
    line = "print('accuracy:', s + 2)"
    _, _, seeds, outcomes = printing(tmp_path, line, metric="accuracy", classes="none")
    assert [outcome.metrics["accuracy"] for outcome in outcomes] == pytest.approx([(seed + 2) / 100 for seed in seeds])


@pytest.mark.parametrize(("printed", "runs"), [("0", 3), ("1", 3), ("0.5", 1), ("s / 2", 2), ("'0%'", 1)])
def test_a_first_run_that_does_not_show_how_scores_are_written_is_followed_by_others(printed, runs, tmp_path):
    line = f"open(os.path.join(os.pardir, 'count'), 'a').write('x'); print('accuracy:', {printed})"
    (tmp_path / "here").mkdir()
    printing(tmp_path / "here", line, cells=0)
    assert len((tmp_path / "count").read_text()) == runs
    printing(tmp_path / "here", line, cells=0)
    assert len((tmp_path / "count").read_text()) == (2 * runs if printed == "0" else runs)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("print('accuracy:', 0.9 if s else 90)", "wrote accuracy 0.9, and in its first run in per cent. Write all"),
        ("print('accuracy:', 90 if s else 0.9)", "wrote accuracy 90, and in its first run as a fraction. Write all"),
        ("print('accuracy:', '0.9%' if s else 0.9)", "wrote accuracy 0.9 %, and in its first run as a fraction"),
        ("print('accuracy:', 90 if s else '90%')", "wrote accuracy 90, and in its first run with a per-cent sign"),
        ("print('accuracy:', 'nan' if s else 0.9)", "wrote accuracy nan, which is not a finite number"),
        ("print('accuracy: 0.9' if not s else 'loss: 1')", "wrote no accuracy, but loss"),
        ("print('accuracy: 0.9' if not s else 'bye')", "printed no score (name: value), and wrote neither"),
        ("print('accuracy: 0.9' if not s else sys.exit('no disk'))", "exit status 1: no disk"),
    ],
)
def test_a_run_that_contradicts_the_first_fails_alone(line, why, tmp_path):
    _, _, _, outcomes = printing(tmp_path, line)
    assert all(why in outcome.error for outcome in outcomes)


@pytest.mark.parametrize(
    ("line", "metric", "why"),
    [
        ("print('accuracy: 1.2')", "auto", "accuracy 1.2, which is neither a fraction nor marked as per cent"),
        ("print('accuracy: nan')", "auto", "accuracy nan, which is not a finite number"),
        ("print('hello'); print('bye')", "auto", "it ended with: hello / bye. Print one, such as accuracy: 0.87"),
        (
            "print('accuracy: 0,81'); print('a'); print('b'); print('c')",
            "auto",
            r"a / b / c. Print one, .* \(decimals with a point\)",
        ),
        ("sys.exit('boom')", "auto", r"1: boom\. That was a first run with seed 0, .* Correct its error, then"),
        (
            "os.environ['PYTEST_CURRENT_TEST']",
            "auto",
            r"KeyError: 'PYTEST_CURRENT_TEST'; it is given by --hyperparameters environment=PYTEST_CURRENT_TEST\.",
        ),
        ("pass", "auto", r"it printed nothing. Print one, .*, or write it to \{output\}/metrics.json\. That was"),
        (
            "os.mkdir('out'); json.dump({'acc': 0.5}, open('out/results.json', 'w'))",
            "auto",
            r"write it to \{output\}/metrics.json. It may be in out/results.json. That was a first",
        ),
        (
            "json.dump({'acc': 0.5}, open(os.environ['L3D_OUTPUT'] + '/all_results.json', 'w'))",
            "auto",
            r"It may be in \{output\}/all_results.json",
        ),
        (
            "print('precision: 16, dim: 2')",
            "auto",
            r"none of the numbers that .* wrote \(dim, precision\).* --metric dim",
        ),
        ("print('accuracy: 0.5')", "reward", r"metric=reward: is not among what the command wrote \(accuracy\)"),
    ],
)
def test_a_first_run_without_a_score_says_what_to_print(line, metric, why, tmp_path):
    with pytest.raises(L3DError, match=why):
        printing(tmp_path, line, metric=metric)


@pytest.mark.usefixtures("kept_store")
def test_what_a_script_logs_to_another_server_is_not_read(tmp_path):
    why = r"What it logs after mlflow\.set_tracking_uri is not read: leave this call out, or print the score\."
    with pytest.raises(L3DError, match=why):
        printing(tmp_path, "def train(): mlflow.set_tracking_uri('sqlite:///theirs.db')")


def test_a_seed_in_place_of_a_setting_is_reported(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    for command, name, options, reported in (
        ("python -m pkg.a train.py {seed}", "pkg.a", "", False),
        ("fit -m fast train.py {seed}", "train.py", "", False),  # another program's -m
        (
            "python train.py --lr=.1 --bf16 --token ab --data ~/a.csv {seed}",
            "train.py",
            "lr=.1 bf16=yes token=*** data=a.csv",
            False,
        ),
        ("python train.py {learning_rate}", "train.py", "", True),
    ):
        asked = Command(command)
        assert (asked.own_task({"classes": "a|b"}, tmp_path).name, asked.options) == (name, options)
        assert ("A random seed stands for learning_rate, which" in caplog.text) == reported


def test_an_error_that_a_script_catches_is_reported(tmp_path):
    line = "import traceback\nprint('acc: .5')\ntry: 1 / (s % 2)\nexcept ZeroDivisionError: traceback.print_exc()"
    approach, _, seeds, outcomes = printing(tmp_path, line)
    caught = sum(seed % 2 == 0 for seed in seeds)
    remarks = approach.remarks(pd.DataFrame([outcome.metrics for outcome in outcomes]))
    assert 0 < caught < 3
    assert [remark.startswith(f"{caught} of 3 runs printed a traceback") for remark in remarks] == [True]


def test_the_score_may_be_named_after_the_first_run(tmp_path, caplog):
    line = "print(f'accuracy: 0.5 loss={s} reward={s}')"
    assert printing(tmp_path, line)[0].metric == "accuracy"
    assert "The score is accuracy; the command also wrote loss: --metric loss." in caplog.text
    printing(tmp_path, "for epoch in range(3): print(f'epoch {epoch} val_acc: 0.{epoch}{s % 9}, loss: 1')")
    assert "The score is val_acc, as it is printed last; the command also wrote loss: --metric loss." in caplog.text
    for name in ("loss", "reward"):
        approach, _, seeds, outcomes = printing(tmp_path, line, metric=name)
        assert approach.metrics == (name,)
        assert [outcome.metrics[name] for outcome in outcomes] == seeds


def test_predictions_in_the_working_folder_are_used_if_they_have_our_columns(tmp_path, caplog):
    (tmp_path / "predictions.csv").write_text("stale")
    write = "open('predictions.csv', 'w').write('example_id,label,prediction\\n1,a,a\\n2,b,a'); print('val_acc: 0.5')"
    approach, task, _, outcomes = printing(tmp_path, write)
    assert (approach.metrics, task.class_names) == ((), ("a", "b"))
    assert [outcome.predictions.tolist() for outcome in outcomes] == [[0, 0]] * 3
    assert outcomes[0].metrics == {"val_acc": 0.5}
    assert "since predictions.csv changed while the command ran" in caplog.text
    approach, task, _, outcomes = printing(tmp_path, write.replace("example_id", "review"))
    assert (approach.metric, task.class_names, outcomes[0].predictions) == ("val_acc", (), None)
    assert "predictions.csv is not used: it has review, label, prediction" in caplog.text


@pytest.mark.parametrize("header", ["id,right,guess", ""])
def test_a_file_whose_columns_are_not_known_leaves_the_printed_score(header, tmp_path, caplog):
    rows, command = header and f"{header}\\n1,a,a\\n2,b,a", "python -SE train.py {seed} {output}"
    write = f"import sys; open(sys.argv[2] + '/predictions.csv', 'w').write('{rows}')"
    approach, task, outcome = trained(tmp_path, f"{write}; print('val_acc: 0.5')", command)
    assert (approach.metric, task.class_names, outcome.metrics) == ("val_acc", (), {"val_acc": 0.5})
    (warning,) = [each.message for each in caplog.records if "is not used" in each.message]
    lacks = "label (or labels, target, targets, y_true, gold, true, truth, ground_truth, y, actual) and prediction (or "
    assert f"it has {header.replace(',', ', ') or 'no column'}, and lacks " in warning
    assert lacks in warning
    assert warning.endswith("Rename its columns.")
    unused = r"printed no score .*, and its predictions.csv is not used: .* Rename its columns"
    with pytest.raises(L3DError, match=unused):
        trained(tmp_path, write, command)


@pytest.mark.parametrize(("name", "why"), [("csv", "is not well-formed"), ("parquet", "cannot be read")])
def test_an_unreadable_file_of_predictions_is_not_used(name, why, tmp_path):
    (tmp_path / f"predictions.{name}").write_text("example_id,label,prediction\n1,a,a,b")
    assert why in read(tmp_path).unused
    write = f"import sys; open(sys.argv[1] + '/predictions.{name}', 'w').write('1,2\\n1,2,3')"
    script = f"{write}; print('accuracy: 0.5', sys.argv[2])"
    error = trained(tmp_path, script, "python -SE train.py {output} {seed}", classes="a|b")[2].error
    assert f"wrote no predictions (predictions.{name} is not used: " in error


def test_a_file_that_the_command_is_given_and_writes_is_not_part_of_the_key(tmp_path):
    script = "import sys; open(sys.argv[2], 'w').write(sys.argv[1]); print('acc: 0.5')"
    (tmp_path / "train.py").write_text(script)
    approach, _, session = session_of("python -SE train.py {seed} model.txt", tmp_path)
    keys = [approach.dependencies(resolve_hyperparameters(approach, {}), "")]
    list(session.run([one_cell(approach.factors)]))
    again = session_of("python -SE train.py {seed} model.txt", tmp_path)[0]
    keys += [each.dependencies(resolve_hyperparameters(each, {}), "") for each in (approach, again)]
    assert keys[0] == keys[1] == keys[2]


def in_threads(job, cells):
    """Run cells at the same time, each in a session of its own."""

    def run_one(cell):
        approach = deepcopy(job.approach)  # it learns from its first run
        session = approach.prepare(job.task, job.hyperparameters, model="", device="cpu", cache=job.cache)
        return list(session.run([cell]))

    with ThreadPoolExecutor(4) as threads:
        return list(chain.from_iterable(threads.map(run_one, cells)))


@pytest.mark.slow
def test_workers_that_share_a_folder_do_not_mix_files(tmp_path):
    """Each run writes its file at once, and ends later: without a lock, the others overwrite it."""
    rows = "'\\n'.join(['example_id,label,prediction', *(f'{i},{i % 2},{(s >> i) % 2}' for i in range(6))])"
    line = f"import time; open('predictions.csv', 'w').write({rows}); time.sleep(0.1)"
    (tmp_path / "train.py").write_text(f"import sys\ns = int(sys.argv[1])\n{line}\n")
    for classes in ("auto", "0|1"):
        approach, task, _ = session_of("python -SE train.py {seed}", tmp_path, classes=classes)
        job = Job(approach, task, resolve_hyperparameters(approach, {"classes": classes}), "", "cpu", tmp_path)
        cells = {cell.key: cell for cell in (one_cell(approach.factors, configuration=number) for number in range(4))}
        # The lock is the same with and without a first run: processes once, and threads, which begin at once.
        run = ProcessExecutor(job=job, workers=2).run if classes == "auto" else partial(in_threads, job)
        for outcome in run(iter(cells.values())):
            seed = cells[outcome.key].seeds["seed"] % 2**31
            assert outcome.error is None
            assert outcome.predictions.tolist() == [(seed >> i) % 2 for i in range(6)]


LOGGING = """
import sys, mlflow
s = int(sys.argv[1]) % 100
mlflow.set_experiment("mine")
with mlflow.start_run():
    mlflow.log_metric("f1", 1)
with mlflow.start_run():
    mlflow.log_metrics({"test_auc": (s + 1) / 1000, "f1": 0.5})
    with mlflow.start_run(nested=True):
        mlflow.log_metric("test_auc", 1)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("kept_store")
def test_scores_that_a_script_logs_by_mlflow(tmp_path, caplog):
    """In its first run, which takes the way of all others; one that imports MLflow takes seconds."""
    (tmp_path / "train.py").write_text(LOGGING)
    approach = Command("python train.py {seed}", here=tmp_path)
    written = approach.execute({"seed": 41}, resolve_hyperparameters(approach, {}))
    assert approach.first.score == "test_auc"  # what is chosen where no metric is named
    assert written.metrics == {"test_auc": 0.042}
    assert "f1 is not used: 2 MLflow runs of one process logged different values" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.parametrize(
    ("nested", "stage", "fails"), [("NULL", "active", True), ("'parent'", "active", False), ("NULL", "deleted", False)]
)
def test_a_script_that_ends_its_own_run_as_failed_has_not_finished(tmp_path, nested, stage, fails):
    script = f"""
import os, sqlite3
tables = sqlite3.connect(os.environ["MLFLOW_TRACKING_URI"].removeprefix("sqlite:///"))
tables.executescript("CREATE TABLE runs (run_uuid, status, start_time, lifecycle_stage); INSERT INTO runs VALUES"
  "('a', 'FAILED', 2, '{stage}'), ('parent', 'FINISHED', 1, 'active'); CREATE TABLE tags (run_uuid, key, value);"
  "INSERT INTO tags SELECT 'a', 'm' || 'lflow.parentRunId', {nested} WHERE {nested} IS NOT NULL")
print("accuracy: 0.5")
"""
    (tmp_path / "train.py").write_text(script)
    approach = Command("python train.py {seed}", here=tmp_path)
    with pytest.raises(L3DError, match="ended its MLflow run as FAILED") if fails else nullcontext():
        assert approach.execute({"seed": 1}, resolve_hyperparameters(approach, {})).metrics == {"accuracy": 0.5}
