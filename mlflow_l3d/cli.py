"""The command line: one verb for each entry point, every parameter of the entry point as an option."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from mlflow_l3d import __version__
from mlflow_l3d.errors import L3DError, ParameterError, unknown_name
from mlflow_l3d.parameters.table import ABLATION, DELETE, EVALUATE, MAIN, PLAN, SEARCH, SEEDS, STRATEGIES, Parameter

_VERBS: Mapping[str, tuple[str, Mapping[str, Parameter]]] = {
    "investigate": ("run an investigation and score it", MAIN),
    "search": ("find hyperparameters on two levels, before an investigation", SEARCH),
    "seeds": ("train one task with several seeds: scores and single predictions", SEEDS),
    "evaluate": ("score an existing parent run", EVALUATE),
    "plan": ("say how many cells an investigation has, what they cost, and how many it needs", PLAN),
    "strategies": ("compare the published method with its baselines on one task", STRATEGIES),
    "ablation": ("say what fewer runs and test examples would have found, without new runs", ABLATION),
    "delete": ("delete a parent run with its children", DELETE),
}


class _UsageError(L3DError):
    """The command line cannot be read."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, as for every other mistake."""
        raise _UsageError(f"{self.prog}: {message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise unknown_name(str(action.dest), str(value), map(str, action.choices))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    root = _Parser(prog="mlflow-l3d", description="How much of a score is luck, and which kind of luck?")
    root.add_argument("--version", action="version", version=f"mlflow-l3d {__version__}")
    verbs = root.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for verb, (description, parameters) in _VERBS.items():
        sub = verbs.add_parser(verb, help=description, description=description, allow_abbrev=False)
        for name, parameter in parameters.items():
            sub.add_argument(
                f"--{name.replace('_', '-')}",
                dest=name,
                default=parameter.default,
                metavar="VALUE",
                help=f"{parameter.help} (default: {parameter.default})".replace("%", "%%"),
            )
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 0, 1 (failed), 2 (a wrong option or parameter) or 130 (Ctrl-C)."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    previous = {signal.SIGTERM: signal.signal(signal.SIGTERM, _terminate)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        previous[signal.SIGINT] = signal.signal(signal.SIGINT, _terminate)
    try:
        options = vars(_parse_or_fail(argv))
        return _run(options.pop("verb"), options)
    except (ParameterError, _UsageError) as error:
        print(f"mlflow-l3d: error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except L3DError as error:
        print(f"mlflow-l3d: error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        print("mlflow-l3d: interrupted; the same command continues where it stopped.", file=sys.stderr)  # noqa: T201
        return 130
    except Exception as error:  # noqa: BLE001 - an unforeseen error still ends in one line, after its traceback
        traceback.print_exc()
        print(f"mlflow-l3d: unexpected error: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _parse_or_fail(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse; where `mlflow run` made a run for us, an unknown option fails that run, too."""
    try:
        return _parse(argv)
    except L3DError as error:
        project_run = os.environ.get("MLFLOW_RUN_ID")
        if project_run:
            from mlflow_l3d.studies.run_guard import fail_project_run

            fail_project_run(project_run, str(error))
        raise


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse, with a did-you-mean for a misspelt option."""
    options, rest = parser().parse_known_args(argv)
    if rest:
        known = [f"--{name.replace('_', '-')}" for name in _VERBS[options.verb][1]]
        raise unknown_name("option", rest[0].partition("=")[0], known)
    return options


def _run(verb: str, options: dict[str, Any]) -> int:
    if verb == "investigate":
        from mlflow_l3d.studies.investigation.run import investigate

        result = investigate(progress=True, **options)
        print(result.summary())  # noqa: T201
        return 0
    if verb == "search":
        from mlflow_l3d.studies.search.entry import search

        print(search(progress=True, **options).summary())  # noqa: T201
        return 0
    if verb == "seeds":
        from mlflow_l3d.studies.seeds.run import seeds

        print(seeds(progress=True, **options).summary())  # noqa: T201
        return 0
    if verb == "evaluate":
        return _evaluate(options)
    if verb == "plan":
        from mlflow_l3d.studies.planning import plan

        print(plan(progress=True, **options).summary())  # noqa: T201
        return 0
    if verb == "strategies":
        from mlflow_l3d.studies.strategies.run import compare_strategies

        print(compare_strategies(progress=True, **options).summary())  # noqa: T201
        return 0
    if verb == "ablation":
        from mlflow_l3d.studies.ablation.run import ablate

        print(ablate(**options).summary())  # noqa: T201
        return 0
    from mlflow_l3d.studies.investigation.evaluate import delete

    print(f"{delete(options['parent_run_id'])} runs deleted")  # noqa: T201
    return 0


def _evaluate(options: dict[str, Any]) -> int:
    from mlflow_l3d.report.investigation.terminal import summary
    from mlflow_l3d.studies.investigation.evaluate import evaluate
    from mlflow_l3d.studies.run_guard import fail_project_run
    from mlflow_l3d.tracking.connection import error_line, scrub_environment

    project_run = scrub_environment()
    from mlflow_l3d.studies.seeds.evaluate import check_options, evaluate_seeds, is_seeds_study

    try:
        if is_seeds_study(options["parent_run_id"]):
            check_options(options)
            print(evaluate_seeds(options["parent_run_id"], metric=options["metric"], project_run=project_run).summary())  # noqa: T201
            return 0
        result = evaluate(**options)
    except Exception as error:
        if project_run is not None:
            fail_project_run(project_run, error_line(error))
        raise
    print(summary(result.analysis, title=f"evaluation of run {result.run_id}"))  # noqa: T201
    return 0


def _terminate(_number: int, _frame: object) -> NoReturn:
    """Treat SIGTERM (schedulers, `mlflow run` after Ctrl-C) as Ctrl-C, once.

    After Ctrl-C `mlflow run` sends SIGTERM, too, and that must not cut short how the parent is ended; a second Ctrl-C
    may.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) is _terminate:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    raise KeyboardInterrupt
