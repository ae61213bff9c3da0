"""The command line: every parameter is an option, mistakes are one line on stderr, and the exit status is true."""

import errno
import functools
import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import mlflow_l3d
from mlflow_l3d import __version__, cli
from mlflow_l3d.errors import L3DError
from mlflow_l3d.parameters.shared import DRY_RUN
from mlflow_l3d.parameters.verbs import public_names, verbs

TINY = ["--approach", "synthetic", "--executor", "inline"]
TINY += ["--investigation-runs", "2", "--mitigation-runs", "2", "--golden-runs", "2"]
MAIN = "investigate --approach synthetic"
VERBS = "ablation, compare, cure, delete, evaluate, gate, investigate, names, new, plan, referee, replicate, search, "
VERBS += "seeds, strategies, sweep, view"
BEHIND = r".* Write a command behind --: mlflow-l3d seeds --"
CONSOLE_SCRIPT = Path(sys.executable).with_name("mlflow-l3d")

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, *arguments: str) -> tuple[int, str]:
    """Run a command that must fail; return the exit status and its one line."""
    status = cli.main(arguments)
    shown = capsys.readouterr()
    assert shown.out == ""
    line = shown.err.rpartition("\r")[2]  # behind what was under way
    assert line.startswith("mlflow-l3d: error: ")
    assert shown.err.count("\n") == 1
    return status, line.removeprefix("mlflow-l3d: error: ").strip()


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_help_lists_every_parameter_with_its_default(verb: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([verb, "--help-all"])
    assert caught.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    parameters = verbs()[verb].parameters.values()
    for parameter in parameters:
        allowed = f"{parameter.values}; " if parameter.values else ""
        value = "[VALUE]" if parameter.default in ("true", "false") else "VALUE"
        assert (
            f"{parameter.option} {value} {parameter.help} ({allowed}default: {parameter.default or 'empty'})" in shown
        )
    assert set(re.findall(r"(--[a-z-]+) \[?VALUE", shown)) == {parameter.option for parameter in parameters}


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_help_fits_on_a_screen_with_what_most_people_need(verb, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main([verb, "--help"])
    shown, row = capsys.readouterr().out, verbs()[verb]
    assert max(map(len, shown.splitlines())) <= 80
    assert len(shown.splitlines()) <= 54, "name the parameters that most people need as `usual` of the Verb"
    assert {*re.findall(r"^  (--[a-z-]+) \[?VALUE", shown, re.MULTILINE)} == {
        row.parameters[name].option for name in row.usual.split() or row.parameters
    }
    assert len(row.usual.split()) <= 8
    assert all(f"\n  mlflow-l3d {example}\n" in shown for example in row.examples)
    assert shown.count("--help-all\n") == bool(row.usual)


def test_behind_two_dashes_stands_the_command() -> None:
    given = cli._parse(["seeds", "--seeds", "3", "--", "python", "train.py", "--seed", "{seed}", "--", "a b"])
    assert (given["approach"], given["seeds"]) == ("command", "3")
    assert shlex.split(given["command"]) == ["python", "train.py", "--seed", "{seed}", "--", "a b"]


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_defaults_and_values_reach_the_function_and_its_summary_is_printed(verb, monkeypatch, capsys) -> None:
    row = verbs()[verb]
    function = getattr(import_module(row.module), row.function)
    call = functools.wraps(function)(Mock(return_value=SimpleNamespace(summary=lambda: "what was found")))
    monkeypatch.setattr(import_module(row.module), row.function, call)
    words = [f"the {name}" for name in row.words]
    parameters = {name: each for name, each in row.parameters.items() if name not in DRY_RUN}
    given = {name: f"a {name}; $(ls) '\"\n{{x}}" for name in parameters}
    arguments = [text for name, value in given.items() for text in (row.parameters[name].option, value)]
    assert cli.main([verb, *words]) == cli.main([verb, *words, *arguments]) == 0
    assert capsys.readouterr().out == "what was found\n" * 2
    shown = {"progress"} & {*inspect.signature(function).parameters}
    always = {**dict(zip(row.words, words, strict=True)), **dict.fromkeys([*shown, *["ask"] * row.asks], True)}
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert [each.kwargs for each in call.call_args_list] == [{**defaults, **always}, {**given, **always}]


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_function_of_a_verb_takes_its_parameters_with_the_same_defaults(verb: str) -> None:
    row = verbs()[verb]
    found = inspect.signature(getattr(mlflow_l3d, row.function)).parameters
    every = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in found.values())
    assert every or {*row.words, *row.parameters} - {*row.instead, *DRY_RUN} <= set(found)
    for name in set(found) & set(row.parameters):
        read, default = row.parameters[name].read, found[name].default
        assert default in {None, inspect.Parameter.empty} or read(default) == read(row.parameters[name].default), name


def test_help_breaks_no_option_at_its_hyphen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert "--help-all has" in " ".join(cli.parser().format_help().split())


def test_help_and_version_of_the_whole(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in (["--help"], ["--version"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    studies, helpers = re.sub(r"\n {10,}", " ", shown[shown.index("studies:") :]).split("helpers:")
    for name, verb in verbs().items():
        assert re.search(rf"^  {name} +{verb.description}$", studies if verb.is_study else helpers, re.MULTILINE)
    assert shown.endswith(f"mlflow-l3d {__version__}\n")


def test_names_of_the_package_are_those_of_the_verbs() -> None:
    public = {name: module for names in public_names().values() for name, module in names.items()}
    assert set(mlflow_l3d.__all__) == {*public, "__version__"} == set(dir(mlflow_l3d))
    for name, module in public.items():
        assert getattr(mlflow_l3d, name) is getattr(import_module(module), name)
    with pytest.raises(AttributeError, match="has no attribute 'investigat'"):
        getattr(mlflow_l3d, "investigat")  # noqa: B009 - a type checker knows that it is not there


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("investigate --facotr data_order", r"option='--facotr': must be one of .*\. Did you mean '--factor'\?"),
        ("investigate --facotr=data_order", r"option='--facotr': must be one of .*\. Did you mean '--factor'\?"),
        ("investigate --fact data_order", r"option='--fact': must be one of .*\. Did you mean '--factor'\?"),
        ("investigate --mitigation_runs 5", r"option='--mitigation_runs': .*\. Did you mean '--mitigation-runs'\?"),
        ("investigate a.csv b.csv", r"option='b.csv': belongs to no parameter\. .*"),
        ("seeds a.csv --task b", r"task=a\.csv: is named twice, also as --task b\. Leave one out\."),
        ("seeds --seeds 2 missing.csv", r"task=missing\.csv: there is no such file .*"),
        ("seeds --approach synthetic --entry-point x", r"entry_point=x: has no effect\. Use approach=project\."),
        ("investigate --approach icl --shots 10", r"option='--shots': is .* Use --hyperparameters shots=...$"),
        ("search --learning-rate=1e-4", r"option='--learning-rate': is .*=finetuning. .* learning_rate=1e-4$"),
        ("evaluate --surce x", r"option='--surce': must be one of .* Did you mean '--source'\?"),
        ("evaluate --from lm_eval .", r"from='lm_eval': must be one of .* Did you mean 'lm-eval'\?"),
        ("investigat", r"command='investigat': must be one of ablation, .*\. Did you mean 'investigate'\?"),
        ("--factor data_order", rf"command='data_order': must be one of {VERBS}\."),
        ("investigate nowhere/ok.cvs --approach synthetic", r"task='nowhere/ok\.cvs': .*, or hf:NAME\."),
        ("seeds train.py more", r"option='more': .* behind --: mlflow-l3d seeds -- python train.py more"),
        ("investigate --factor", r"investigate: argument --factor: expected one argument \(see .*"),
        ("investigate --approach syntetic", r"approach='syntetic': must be one of .*\. Did you mean 'synthetic'\?"),
        (f"{MAIN} --factor data_ordr", r"factor='data_ordr': .* Did you mean 'data_order'\?"),
        (f"{MAIN} --mitigation-runs 1", "mitigation_runs=1: must be auto or a whole number from 2 to .*"),
        (f"{MAIN} --root-seed -1", "root_seed=-1: must be a whole number of at least 0."),
        (f"{MAIN} --hyperparameters nois=1", r"hyperparameters='nois': .*Did you mean 'noise'\?"),
        (f"{MAIN} --task nowhere.csv", "task=nowhere.csv: .*"),
        (f"{MAIN} --task {300 * 'x'}", r"task=x+\.\.\.: is not a task, .* \(File name too long\)\."),
        (f"investigate --approach icl --model {300 * 'x'}", r"model=x+\.\.\.: .* \(File name too long\)\."),
        ("sweep --approach synthetic --file=--", r"file=--: the file cannot be read .*"),
        (f"sweep --approach synthetic --over {9999 * '['}", r"over=\[+.* is not valid JSON .*"),
        ("seeds some.csv other.csv", r".* One command takes one task: repeat it with other\.csv\."),
        ("seeds some.csv other.json", r".* One command takes one task: repeat it with other\.json\."),
        ("seeds mrpc rte", r".* One command takes one task: repeat it with rte\."),
        ("cure 1f 2f", r".* One command takes one parent run id: repeat it with 2f\."),
        ("compare 1f", r"option='1f': belongs to no parameter\."),
        ("seeds some.csv train.py", f"{BEHIND} COMMAND"),
        ("seeds ok.py --seed {seed}", f"{BEHIND} python ok.py --seed '{{seed}}'"),
        ("seeds sh ok.sh {seed}", f"{BEHIND} sh ok.sh '{{seed}}'"),
        ("seeds sh run", f"{BEHIND} COMMAND"),
        ("evaluate ok.py --bad", r"option='--bad': (?!.*repeat).*"),
        ("investigate --", r"command=: must be a program and its arguments\."),
        ("seeds --command 'a {seed}' -- b", "command='?a {seed}'?: cannot be combined with a command behind .*"),
        ("investigate --approach icl -- b", "approach=icl: cannot be combined with a command behind --.*"),
        ("names -- a", "names: takes no command behind --"),
    ],
)
def test_mistake(arguments: str, line: str, capsys: Capture) -> None:
    status, shown = refused(capsys, *shlex.split(arguments))
    assert status == 2
    assert re.fullmatch(line, shown)


def test_no_words_get_the_help(capsys: Capture) -> None:
    assert cli.main([]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert "How much of a score is luck" in shown.err


def test_a_file_with_another_name_is_proposed(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews.csv").touch()
    status, shown = refused(capsys, "investigate", "reviews.cvs", "--approach", "synthetic")
    assert status == 2
    assert shown.endswith("or hf:NAME. Did you mean 'reviews.csv'?")
    assert shown.count("reviews.csv") == 1  # other files are nobody's business


def test_error_that_is_no_parameters(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(cli, "_run", Mock(side_effect=L3DError("the disk is full")))
    assert refused(capsys, "investigate") == (1, "the disk is full")


@pytest.mark.parametrize(("error", "status"), [(OSError(28, "No space left on device"), 1), (BrokenPipeError(), 0)])
def test_a_result_that_cannot_be_printed(error, status, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stdout", Mock(write=Mock(side_effect=error), fileno=Mock(side_effect=OSError)))
    assert cli.main(["names"]) == status
    said = "mlflow-l3d: error: the result cannot be printed (No space left on device).\n"
    assert capsys.readouterr().err == (said if status else "")
    monkeypatch.setattr("sys.stderr", Mock(write=Mock(side_effect=error), fileno=Mock(side_effect=OSError)))
    assert cli.main(["nomes"]) == 2


def test_unforeseen_error_has_a_traceback_and_a_last_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(cli, "_run", Mock(side_effect=ZeroDivisionError("by nothing")))
    assert cli.main(["investigate"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Traceback")
    assert shown.err.endswith("mlflow-l3d: unexpected error: ZeroDivisionError: by nothing\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "full"), "The disk is full. Make room, then give the same command again."),
        (OSError(errno.ENOSPC, "full", "/a/b"), "The disk of /a/b is full. Make room"),
        (RuntimeError("(sqlite3.OperationalError) database or disk is full"), "The disk of the tracking database is"),
        (RuntimeError("(sqlite3.OperationalError) unable to open database file"), "The tracking database cannot be"),
        (PermissionError(errno.EACCES, "no", "/a"), "/a may not be written or read. Change its permissions, or name"),
        (RuntimeError("(sqlite3.OperationalError) attempt to write a readonly database"), "The database is read-only."),
    ],
)
def test_a_disk_that_cannot_be_written_is_one_line(error, line, monkeypatch, capsys) -> None:
    of_the_store = RuntimeError("the store failed")
    of_the_store.__cause__ = error
    monkeypatch.setattr(cli, "_run", Mock(side_effect=of_the_store))
    assert cli.main(["investigate"]) == 1
    assert capsys.readouterr().err.startswith(f"mlflow-l3d: error: {line}")


class Dying:
    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("way", [signal.raise_signal, Dying], ids=["at once", "in a destructor: repeated"])
def test_interruption(number: signal.Signals, way: Callable[..., object], monkeypatch, capsys: Capture) -> None:
    def run(*_: object) -> None:
        way(number)
        assert not threading.Event().wait(60), "nobody interrupted"

    before = signal.getsignal(number), sys.unraisablehook
    monkeypatch.setattr(cli, "_run", run)
    assert cli.main(["investigate"]) == 130
    assert capsys.readouterr().err == "mlflow-l3d: interrupted; the same command continues where it stopped.\n"
    assert (signal.getsignal(number), sys.unraisablehook) == before


@pytest.mark.slow
def test_the_three_verbs_in_turn(tracking_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    assert cli.main(["investigate", *TINY]) == 0
    shown = capsys.readouterr().out
    assert "6 runs computed, 0 taken from earlier runs" in shown
    (run_id,) = re.findall(r"MLflow run ([0-9a-f]{32})", shown)
    client = mlflow.MlflowClient(tracking_uri)
    before = client.get_run(run_id).data.metrics
    assert cli.main(["evaluate"]) == 0
    assert f"Evaluation of run {run_id}" in capsys.readouterr().out
    assert client.get_run(run_id).data.metrics == pytest.approx(before, nan_ok=True)
    status, line = refused(capsys, "evaluate", "--metric", "f1_makro")
    assert (status, line[-23:]) == (2, "Did you mean 'f1_macro'?"[-23:])
    child = client.search_runs(["0"], "tags.`l3d.phase` = 'golden'")[0].info.run_id
    status, line = refused(capsys, "delete", "--parent-run-id", child)
    assert (status, "nothing was deleted" in line) == (1, True)
    status, line = refused(capsys, "delete", "--parent-run-id", run_id)
    assert (status, line.partition("; ")[2]) == (2, "nobody can be asked here. Add --yes.")
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "")
    assert cli.main(["delete", "--parent-run-id", run_id]) == 0
    assert capsys.readouterr().out == "nothing was deleted\n"
    assert len(client.search_runs(["0"])) == 7
    assert asked[0].startswith("Delete 7 runs: ")
    assert cli.main(["delete", "--yes", "--parent-run-id", run_id]) == 0
    assert capsys.readouterr().out.startswith("7 runs deleted. Until `mlflow gc` they can be restored: ")
    assert client.search_runs(["0"]) == []
    assert refused(capsys, "evaluate")[0] == refused(capsys, "delete", "--parent-run-id", "0" * 32)[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), ([*TINY, "--design", "x"], 2)])
def test_module_and_console_script_are_the_same(arguments: list[str], status: int, tmp_path: Path) -> None:
    options = {"cwd": tmp_path, "env": {**os.environ, "COLUMNS": "100"}, "capture_output": True, "text": True}
    doors = [sys.executable, "-m", "mlflow_l3d"], [str(CONSOLE_SCRIPT)]
    done = [subprocess.run([*door, "investigate", *arguments], **options) for door in doors]
    assert [each.returncode for each in done] == [status, status]
    assert done[0].stdout == done[1].stdout
    assert done[0].stderr == done[1].stderr
    assert (done[0].stdout == "") is (status != 0)
    assert done[0].stderr.count("\n") == (status != 0)
    assert list(tmp_path.iterdir()) == []  # a mistake leaves no data base behind


def test_help_and_the_start_of_pytest_load_nothing_heavy() -> None:
    code = (
        "import sys, mlflow_l3d.pytest_luck; from mlflow_l3d.cli import main\n"
        "try: main(['investigate', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = 'mlflow torch pandas numpy scipy transformers datasets matplotlib sklearn filelock'.split()\n"
        "print([*{*heavy, 'mlflow_l3d.pytest_luck.suite'} & {*sys.modules}], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_a_flag_may_stand_without_its_value() -> None:
    assert cli._parse(["investigate", "reviews.csv", "--show-texts"])["show_texts"] == "true"
    assert cli._parse(["gate", "--dry-run", "--baseline", "abc"])["dry_run"] == "true"
    assert cli._parse(["gate", "--dry-run", "false"])["dry_run"] == "false"
    assert cli._parse(["gate", "--dry-run", "True"])["dry_run"] == "True"  # as `mlflow run -P dry_run=True` has it
    before_a_task = cli._parse(["seeds", "--dry-run", "reviews.csv"])
    assert (before_a_task["dry_run"], before_a_task["task"]) == ("true", "reviews.csv")


@pytest.mark.parametrize("verb", [name for name, verb in verbs().items() if verb.plans])
def test_a_dry_run_calls_what_plans_with_the_same_parameters(verb: str, monkeypatch) -> None:
    row, call = verbs()[verb], Mock(return_value=SimpleNamespace(summary=lambda: ""))
    module, _, function = row.plans.partition(":")
    monkeypatch.setattr(import_module(module), function, call)
    monkeypatch.setattr(import_module(row.module), row.function, None)
    assert cli.main([verb, "--dry-run"]) == cli.main([verb, "--dry-run", "true", "--executor", "inline"]) == 0
    defaults = {name: each.default for name, each in row.parameters.items() if name not in DRY_RUN}
    assert [each.kwargs for each in call.call_args_list] == [defaults, {**defaults, "executor": "inline"}]
    assert getattr(mlflow_l3d, function)
