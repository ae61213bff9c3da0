"""The command line, built from the entry points of the studies; every parameter is an option of its command."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from itertools import pairwise
from pkgutil import resolve_name
from typing import Any, NoReturn

from mlflow_l3d import __version__, registry
from mlflow_l3d.errors import L3DError, ParameterError, disk_line, unknown_name
from mlflow_l3d.execution.environment import INTERRUPTS
from mlflow_l3d.parameters.shared import DRY_RUN, GROUP_OF
from mlflow_l3d.parameters.values import Flag
from mlflow_l3d.parameters.verbs import Verb, verbs
from mlflow_l3d.paths import with_typed_paths
from mlflow_l3d.privacy import public_text
from mlflow_l3d.studies.shown import STDERR, empty, printed

_ABOUT = """How much of a score is luck, and which kind of luck?

studies:
{studies}

helpers:
{helpers}"""
_MORE = """mlflow-l3d COMMAND --help has examples and the parameters that most people need; --help-all has all of them.
Studies, plan and evaluate are entry points of the MLflow Project, and functions of the package (docs/parameters.md):
mlflow run . --env-manager local -e COMMAND -P NAME=VALUE; the entry point of investigate is main.
mlflow-l3d names lists factors, hyperparameters, tasks, designs and metrics."""


class _UsageError(L3DError):
    """The command line has a mistake."""


class _HelpFormatter(argparse.HelpFormatter):
    """Keeps examples and words with hyphens; wraps each line, the text of a command in its column."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        lines = []
        for line in text.splitlines():
            hanging = indent + " " * (command.end() if (command := re.match(r"  \S+ +", line)) else 0)
            lines.append(textwrap.fill(line, width, subsequent_indent=hanging, break_on_hyphens=False))
        return "\n".join(lines)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise one line about a mistake, as for every other mistake."""
        verb = self.prog.removeprefix("mlflow-l3d").strip()
        raise _UsageError(f"{verb}{': ' if verb else ''}{message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise unknown_name("command", str(value), map(str, action.choices))


def parser(words: Sequence[str] = (), *, everything: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the command line, or of commands among `words`; help shows `everything`, or the usual."""
    width = max(map(len, verbs())) + 4
    studies, helpers = (
        "\n".join(
            f"  {name:<{width}}{verb.description}" for name, verb in verbs().items() if verb.is_study is are_studies
        )
        for are_studies in (True, False)
    )
    root = _Parser(
        prog="mlflow-l3d",
        usage="mlflow-l3d COMMAND [--NAME VALUE ...]",
        description=_ABOUT.format(studies=studies, helpers=helpers),
        epilog=_MORE,
        formatter_class=_HelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"mlflow-l3d {__version__}")
    subparsers = root.add_subparsers(
        dest="verb", metavar="COMMAND", required=True, parser_class=_Parser, prog="mlflow-l3d", help=argparse.SUPPRESS
    )
    for name, verb in verbs().items():
        sub = subparsers.add_parser(
            name,
            usage=" ".join([f"mlflow-l3d {name}", *_words(verb), *(["[--NAME VALUE ...]"] if verb.parameters else [])]),
            description=(f"{verb.question} " if verb.question else "")
            + f"{verb.description[:1].upper()}{verb.description[1:]}{'' if verb.description.endswith('.') else '.'}",
            epilog=_epilog(verb, everything=everything),
            formatter_class=partial(_HelpFormatter, max_help_position=31),
            allow_abbrev=False,
        )
        sub.add_argument("--help-all", action="help", help="show every parameter, by group")
        for argument in verb.words.values():
            sub.add_argument(argument.name, metavar=argument.name.upper(), help=argument.help)
        groups: dict[str, Any] = {}
        group_of = {**GROUP_OF, **{name: group for group, names in verb.groups.items() for name in names}}
        for parameter in verb.parameters.values() if not words or name in words else ():
            group = group_of.get(parameter.name, "of this command")
            if group not in groups:
                groups[group] = sub.add_argument_group(group)
            allowed = f"{parameter.values}; " if parameter.values else ""
            is_shown = everything or not verb.usual or parameter.name in verb.usual.split()
            text = f"{parameter.help} ({allowed}default: {parameter.default or 'empty'})".replace("%", "%%")
            groups[group].add_argument(
                parameter.option,
                dest=parameter.name,
                default=parameter.default,
                metavar="VALUE",
                help=text if is_shown else argparse.SUPPRESS,
                **({"nargs": "?", "const": "true"} if isinstance(parameter.values, Flag) else {}),
            )
        if verb.asks:
            sub.add_argument("--yes", action="store_true", help="do not ask")
    return root


def _words(verb: Verb) -> list[str]:
    """Return the positional arguments of a command, for its usage line."""
    first = verb.first.removeprefix("parent_").removesuffix("_id").upper()
    return [*map(str.upper, verb.words)] or ([f"[{first}]"] if first else [])


def _epilog(verb: Verb, *, everything: bool) -> str:
    """Return the text below the options: examples, and the way to the other parameters."""
    lines = ["examples:", *(f"  mlflow-l3d {example}" for example in verb.examples)]
    if verb.usual and not everything:
        more = len(verb.parameters) - len(verb.usual.split())
        lines.append(f"{more} more parameters: mlflow-l3d {verb.name} --help-all")
    return "\n".join([*lines, "names of factors, hyperparameters, tasks, metrics: mlflow-l3d names"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, 1 (failed), 2 (wrong option), 130 (Ctrl-C), or a status that the command has."""
    if not (words := sys.argv[1:] if argv is None else argv):
        parser().print_help(sys.stderr)
        return 2
    failed: int | None = None
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    usual = signal.SIG_DFL, signal.default_int_handler
    taken = [number for number in INTERRUPTS if number == signal.SIGTERM or signal.getsignal(number) in usual]
    previous = {number: signal.signal(number, _terminate) for number in taken}
    hook = sys.unraisablehook
    sys.unraisablehook = partial(_repeat_interrupt, sys.unraisablehook)
    try:
        failed = next((verbs()[word].failed for word in words if word in verbs()), None)
        options = _parse(words)
        result = _run(options.pop("verb"), options)
        whole = getattr(getattr(result, "source", None), "whole", ())
        is_printed = _print_result(with_typed_paths(printed(result), *whole, options))
        return int(getattr(result, "exit_status", 0)) or (0 if is_printed else failed or 1)
    except L3DError as error:
        print(f"mlflow-l3d: error: {error}", file=STDERR)
        return failed or (2 if isinstance(error, ParameterError | _UsageError) else 1)
    except KeyboardInterrupt:
        print("mlflow-l3d: interrupted; the same command continues where it stopped.", file=STDERR)
        return 130
    except Exception as error:  # noqa: BLE001 - an unforeseen error still ends in one line, after its traceback
        if not (line := disk_line(error)):
            print(public_text(traceback.format_exc()), end="", file=STDERR)
        line = f"error: {line}" if line else f"unexpected error: {type(error).__name__}: {error}"
        print(f"mlflow-l3d: {public_text(line)}", file=STDERR)
        return failed or 1
    finally:
        print(end="", file=STDERR)  # drops what logging left in a full stream: an error again when the process ends
        sys.unraisablehook = hook
        for number, handler in previous.items():
            signal.signal(number, handler)


def _parse(words: Sequence[str]) -> dict[str, str]:
    """Return the options of the command line; an error also ends the run that `mlflow run` opened."""
    try:
        end = words.index("--") if "--" in words else None
        words, command = [*words[:end]], None if end is None else [*words[end + 1 :]]
        dry = DRY_RUN["dry_run"].option  # a task may follow it
        for at, (word, following) in enumerate(pairwise([*words, ""])):
            if word == dry and following.lower() not in ("true", "false"):
                words[at] = f"{dry}=true"
        options, rest = parser(words, everything="--help-all" in words).parse_known_args(words)
        verb = verbs()[options.verb]
        if rest and (first := verb.first) and not rest[0].startswith("-"):
            parameter, named = verb.parameters[first], getattr(options, first)
            if named != parameter.default:
                also = f"is named twice, also as {parameter.option} {named}"
                raise ParameterError(first, rest[0], also, "Leave one out.")
            setattr(options, first, rest.pop(0))
        if rest:
            raise _unknown_option(rest, options)
        if command is not None:
            _set_command(options, shlex.join(command))
    except L3DError as error:
        if project_run := os.environ.get("MLFLOW_RUN_ID"):
            from mlflow_l3d.studies.base import fail_project_run

            fail_project_run(project_run, error)
        raise
    # argparse drops the value of `--name=--`.
    return {name: "--" if value == [] else value for name, value in vars(options).items()}


def _set_command(options: argparse.Namespace, command: str) -> None:
    """Set the options for the command behind ``--``, which the approach `command` trains."""
    parameters = verbs()[options.verb].parameters
    if "command" not in parameters:
        raise _UsageError(f"{options.verb}: takes no command behind --")
    for name, value in (("command", command), ("approach", "command")):
        if (typed := getattr(options, name)) not in (parameters[name].default, value):
            raise ParameterError(name, typed, "cannot be combined with a command behind --", "Leave one of them out.")
        setattr(options, name, value)


def _unknown_option(rest: Sequence[str], options: argparse.Namespace) -> ParameterError:
    """Return the error for an unknown option, which often is one of a command without --, or a hyperparameter."""
    verb = verbs()[options.verb]
    option, _, value = (word := rest[0]).partition("=")
    name = option.removeprefix("--").replace("-", "_")
    typed = str(getattr(options, verb.first, ""))
    if not word.startswith("-") or (typed.endswith(".py") and "command" in verb.parameters):
        fix = f"One command takes one {verb.first.replace('_', ' ')}: repeat it with {word}." if verb.first else ""
        if "command" in verb.parameters and (shutil.which(typed) or {*f"{typed}.{word}".split(".")} & {"py", "sh"}):
            python = "python " if typed.endswith(".py") else ""
            command = python + shlex.join([typed, *rest]) if python or "{" in "".join(rest) else "COMMAND"
            fix = f"Write a command behind --: mlflow-l3d {verb.name} -- {command}"
        return ParameterError("option", repr(word), "belongs to no parameter", fix)
    if {"approach", "hyperparameters"} <= set(verb.parameters):
        approach = verb.parameters["approach"].read(options.approach)
        hyperparameters = getattr(registry.load("approach", approach), "hyperparameters", None)
        if isinstance(hyperparameters, Mapping) and name in hyperparameters:
            allowed = f"is a hyperparameter of approach={approach}"
            return ParameterError("option", repr(option), allowed, f"Use --hyperparameters {name}={value or '...'}")
    if name in {*verbs()["investigate"].parameters} - {*verb.parameters}:
        return ParameterError("option", repr(option), f"is of investigate, not of {options.verb}", "Leave it out.")
    return unknown_name("option", option, [parameter.option for parameter in verb.parameters.values()])


def _run(verb: str, options: dict[str, str]) -> Any:
    """Call the function of a command; return its result, whose `summary()` is printed."""
    row = verbs()[verb]
    target = row.target
    for name, (value, other) in row.instead.items():
        if options.get(name, "").lower() == value:
            del options[name]
            target = other
    if row.plans and DRY_RUN["dry_run"].read(options.pop("dry_run")):
        target = row.plans
    function = resolve_name(target)
    more = {"progress": True} if "progress" in signature(function).parameters else {}
    return function(**({"ask": not options.pop("yes")} if row.asks else {}), **options, **more)


def _print_result(text: str) -> bool:
    """Print a result; return False if this fails. A closed pipe, as by `head`, is not a failure."""
    try:
        print(text, flush=True)  # noqa: T201
    except OSError as error:
        empty(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            print(f"mlflow-l3d: error: the result cannot be printed ({error.strerror or error}).", file=STDERR)
            return False
    return True


def _terminate(_number: int, _frame: object) -> NoReturn:
    """Treat each of :data:`INTERRUPTS` as Ctrl-C, once.

    After Ctrl-C `mlflow run` also sends SIGTERM; only a second Ctrl-C may interrupt the end of the parent run.
    """
    for number in INTERRUPTS:
        if signal.getsignal(number) is _terminate:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN)
    raise KeyboardInterrupt


def _repeat_interrupt(hook: Callable[[Any], Any], unraisable: Any) -> None:
    """Interrupt again if Python dropped a KeyboardInterrupt: in a destructor, or in a callback of a weak reference."""

    def again() -> None:
        if signal.getsignal(signal.SIGTERM) is _terminate:  # the command has not ended
            os.kill(os.getpid(), signal.SIGTERM)

    if unraisable.exc_type is KeyboardInterrupt:
        signal.signal(signal.SIGTERM, _terminate)
        threading.Timer(0.1, again).start()
    else:
        hook(unraisable)
