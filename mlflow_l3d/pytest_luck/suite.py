"""What `pytest --l3d` does: runs marked tests until their verdicts are known, and sums up in words."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
import unittest
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from _pytest.outcomes import Failed

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.pytest_luck.case import Case, Memory, Record
from mlflow_l3d.pytest_luck.requirement import CURRENT, NOTHING, Luck, Requirement, seed_of

_ORDER: Final = ("error", "failed", "undecided", "skipped", "passed")


def line_of(case: Mapping[str, Any]) -> str:
    """Return the estimate of a case, its interval, its requirement and its runs.

    Examples
    --------
    >>> case = {"estimate": 0.95, "low": 0.8, "high": 1.0, "requirement": "rate at least 0.8", "runs": 2}
    >>> line_of(case | {"remembered": 40, "verdict": "passed", "notes": []})
    '0.95 [0.8, 1], required: rate at least 0.8; 2 runs, 40 remembered'
    """
    parts = [f"{case['runs']} run{'' if case['runs'] == 1 else 's'}"]
    if case["remembered"] and case["verdict"] != "failed":
        parts[0] += f", {case['remembered']} remembered"
    if case["estimate"] is not None:
        limits = "" if case["low"] is None else f" [{case['low']:.4g}, {case['high']:.4g}]"
        parts.insert(0, f"{case['estimate']:.4g}{limits}, required: {case['requirement']}")
    claims = {"failed": ["fails"], "undecided": ["fails", "passes"]}.get(case["verdict"], [])
    texts = (f"evidence that it {name} {case[name]:.3g}, {case[f'{name}_needed']:.4g} needed" for name in claims)
    return "; ".join([*parts, *(texts if case["estimate"] is not None else ()), *case["notes"]])


def sum_up(cases: Sequence[Mapping[str, Any]], alpha: float, *, is_whole: bool = True) -> dict[str, Any]:
    """Return verdicts, runs and seconds of the suite, with all cases; `is_whole` unless it was interrupted."""
    verdicts = Counter(str(case["verdict"]) for case in cases)
    runs, seconds = (sum(case[name] for case in cases) for name in ("runs", "seconds"))
    counts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(verdicts.items())) or "no case"
    missing = sum(case.get("misses", False) for case in cases)
    one = f"{missing} failed since each run misses the requirement; by chance, another" if missing else "by chance, a"
    limit = f"{one} verdict is failed in at most {100 * alpha:.2g} % of suites"
    text = f"{'' if is_whole else 'interrupted; '}{counts}; {runs} runs, {seconds:.1f} s; {limit}"
    counted = {"version": 1, "alpha": alpha, "verdicts": verdicts, "runs": runs, "seconds": seconds}
    return {**counted, "text": text, "cases": sorted(cases, key=lambda case: str(case["case"]))}


def markdown_of(summary: Mapping[str, Any]) -> str:
    """Return the suite as the comment of a pull request: first the cases that did not pass."""
    from mlflow_l3d.report.page import escaped

    ordered = sorted(summary["cases"], key=lambda case: _ORDER.index(case["verdict"]))
    lines = [f"- {case['verdict']}: {case['case']}: {line_of(case)}" for case in ordered]
    return escaped("\n".join([f"**{summary['text']}**", "", *lines])) + "\n"


_SKIPS: Final = (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


class RequirementNotMet(Failed, AssertionError):
    """The error of a case that fails."""

    __module__ = "builtins"  # as pytest's own: a summary line begins with the name alone


class Suite:
    """The plugin of a session with ``--l3d``; with pytest-xdist each worker has one, and the controller sums up."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.begun, self.cases, self.done = config, 0.0, 0, 0
        self.told, self.trouble, self.is_whole = list[dict[str, Any]](), "", True
        self.workers = getattr(config, "workerinput", {}).get("workercount", 0)
        self.alpha, self.checks, self.root = (config.getoption(f"l3d_{name}") for name in ("alpha", "checks", "seed"))
        _check("--l3d-alpha", self.alpha, 0 < self.alpha < 1, "must be above 0 and below 1")
        _check("--l3d-checks", self.checks, 1 <= self.checks < math.inf, "must be 1 or more")
        _check("--l3d-seed", self.root, self.root >= 0, "must be 0 or more")
        self.seconds = _seconds(config.getoption("l3d_budget") or "inf")
        self.memory = Memory(_folder(config) / f"seed-{self.root}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Take over what the MLflow experiment remembers, before workers start."""
        if self.config.getoption("l3d_mlflow") and not self.workers:
            from mlflow_l3d.pytest_luck.experiment import read_memory

            try:
                read_memory(self.memory.folder.parent)
            except L3DError as error:
                raise pytest.UsageError(str(error)) from error

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the cases."""
        self.cases = sum(item.get_closest_marker("luck") is not None for item in session.items)
        self.begun = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Let a test whose marker is wrong end with an error; a worker that ended could not say why."""
        if marker := item.get_closest_marker("luck"):
            runs, rate = _limits(marker)
            is_known = not marker.args and {*marker.kwargs} <= {"runs", "rate"}
            _check("luck", marker, is_known, "takes runs= and rate= only")
            _check("runs", runs, isinstance(runs, int) and runs >= 1, "must be a whole number, 1 or more")
            _check("rate", rate, isinstance(rate, float) and 0 < rate <= 0.99, "must be above 0, and 0.99 at most")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> object:
        """Run a marked test until its verdict is known, and report it as one test."""
        marker = item.get_closest_marker("luck")
        if marker is None or self.config.getoption("setuponly", False):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        record = self.memory.read(item.nodeid)
        label = self.config.getoption("l3d_record")
        case = Case(record, *_limits(marker), self.alpha, self.checks, label)
        for report in self._reports(item, nextitem, case):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self.done += 1
        return True

    def _reports(self, item: pytest.Item, nextitem: pytest.Item | None, case: Case) -> list[pytest.TestReport]:
        """Return the reports of setup, call and teardown that stand for all runs."""
        # The error rate is split among the cases: however many fail with reason, none fails more easily.
        needed = self.cases / self.alpha
        begin, failure, verdict, first = time.monotonic(), "", None, None
        session_seed = self.config.getoption("randomly_seed", None)  # None without pytest-randomly
        # The rest of the time is shared by the remaining cases.
        rest = self.begun + self.seconds - begin
        deadline = begin + rest / max(self.cases / max(self.workers, 1) - self.done, 1.0)
        while verdict is None:
            index = case.next_index() or 0
            item.stash[CURRENT] = luck = Luck(seed_of(self.root, index), is_plain=False)
            if session_seed is not None:
                self.config.option.randomly_seed = luck.seed  # all runs of a test would be seeded alike otherwise
            item._report_sections.clear()
            if hasattr(item, "_request") and (first or not item._request):
                item._initrequest()  # type: ignore[attr-defined]
                if getattr(item, "instance", None) is not None:  # each run has an instance of the class of its own
                    del item._instance  # type: ignore[attr-defined]
                    item._obj = None  # type: ignore[attr-defined]
            report, error = _phase(item, "setup")
            reports = [report]
            first = first or report
            if report.passed:
                report, error = _phase(item, "call")
                reports.append(report)
                # Whatever a run without score raises is a failure of it, but for a wrong use of the fixture.
                if error is None or (luck.value is None and not isinstance(error, (*_SKIPS, L3DError))):
                    if error is not None:
                        failure = f"\n\nThe last failed run, with seed {luck.seed}:\n{report.longreprtext or error}"
                    verdict = _add(case, index, luck, report, error is None, needed, failure) or case.verdict(needed)
                    error = None
            if isinstance(error, _SKIPS) and case.values:  # the first run says whether the case is skipped
                case.lost.add(index)
                verdict, error = case.verdict(needed), None
            if verdict is None and error is None and time.monotonic() > deadline and not case.is_missing:
                verdict = "undecided"
            if error is not None:
                verdict = "skipped" if report.skipped else "error"
                report.sections.append(("luck", f"seed {luck.seed}"))
            teardown, _ = _phase(item, "teardown", nextitem=item.parent if verdict is None else nextitem)
            if teardown.failed:
                verdict = "error"
        summary = case.summary(verdict, needed) | {"seconds": round(time.monotonic() - begin, 3)}
        if verdict in ("passed", "failed", "undecided"):
            assert first is not None
            reports = [first, self._judge(item, verdict, line_of(summary), failure)]
            reports[1].duration = summary["seconds"]
            kind = {"is_rate": case.requirement.is_rate, "against": case.requirement.label}
            keep = verdict != "failed" and not case.is_recording
            self.memory.add(item.nodeid, case.values, label=case.recorded, keep=keep, **kind)
        reports[-1].l3d_case = summary  # type: ignore[attr-defined]
        if session_seed is not None:
            self.config.option.randomly_seed = session_seed
        # Here, since hooks of other plugins read the fixtures when the verdict is reported.
        item._request, item.funcargs = False, None  # type: ignore[attr-defined]
        teardown.user_properties += [(f"l3d_{name}", summary[name]) for name in ("verdict", "runs", "estimate")]
        return [*reports, teardown]

    def _judge(self, item: pytest.Item, verdict: str, text: str, failure: str) -> pytest.TestReport:
        """Return the report of the verdict, which xfail and the like treat as that of any test."""
        undecided = verdict == "undecided"

        def end() -> None:
            if verdict == "failed" or (undecided and self.config.getoption("l3d_undecided") == "fail"):
                raise RequirementNotMet(text + failure, pytrace=False)
            if undecided:
                pytest.skip(text)

        call = pytest.CallInfo.from_call(end, "call")
        report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
        if undecided and report.skipped and not hasattr(report, "wasxfail"):
            report.longrepr = (str(item.path), (item.location[1] or 0) + 1, f"Skipped: {text}")
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the summary of each case, also from other processes."""
        told = getattr(report, "l3d_case", None)
        if str(report.when) == "???":  # what pytest-xdist reports of a worker that crashed
            case = Case(Record(report.nodeid), 1, 1.0, self.alpha, self.checks)
            told = case.summary("error", math.nan) | {"seconds": 0.0, "notes": ["its worker crashed"]}
        if told:
            self.told.append(told | {"outcome": report.outcome})

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the files, and what the MLflow experiment is to remember."""
        self.is_whole = exitstatus not in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        if self.workers or self.config.option.collectonly:
            return
        summary = sum_up(self.told, self.alpha, is_whole=self.is_whole)
        texts = {"json": json.dumps(summary, indent=1, allow_nan=False) + "\n", "markdown": markdown_of(summary)}
        for name, text in texts.items():
            if path := self.config.getoption(f"l3d_{name}"):
                Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(text, encoding="utf-8")
        if self.config.getoption("l3d_mlflow") and self.is_whole:
            from mlflow_l3d.pytest_luck.experiment import write_suite

            try:
                write_suite(summary, self.memory.folder.parent)
            except L3DError as error:
                self.trouble = str(error)
                session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write one line per case."""
        if self.told:
            summary = sum_up(self.told, self.alpha, is_whole=self.is_whole)
            terminalreporter.section("luck")
            for told in summary["cases"]:
                terminalreporter.line(f"{told['verdict']:<9} {told['case']}: {line_of(told)}")
            terminalreporter.line(summary["text"])
        if self.trouble:
            terminalreporter.line(self.trouble, red=True)


def _add(
    case: Case, index: int, luck: Luck, report: pytest.TestReport, passed: bool, needed: float, failure: str
) -> str | None:
    """Add a run; return ``error``, with the reason in its report, if it is of no use."""
    try:
        if luck.value is not None and luck.requirement is None:
            raise ValueError(NOTHING)
        value = float(passed) if luck.value is None else luck.value
        case.add(index, value, luck.requirement or Requirement(case.rate, is_rate=True))
        case.check_runs(needed)
    except ValueError as problem:
        report.outcome = "failed"
        report.longrepr = f"{problem} (seed {luck.seed}){failure}"
        return "error"
    return None


def _phase(
    item: pytest.Item, when: Literal["setup", "call", "teardown"], **arguments: Any
) -> tuple[pytest.TestReport, BaseException | None]:
    """Run one part of a test as pytest does; return its report, and the exception if there was one."""
    hook = getattr(item.ihook, f"pytest_runtest_{when}")
    leaving = (pytest.exit.Exception, KeyboardInterrupt)
    call = pytest.CallInfo.from_call(lambda: hook(item=item, **arguments), when=when, reraise=leaving)
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return report, call.excinfo.value if call.excinfo else None


def _limits(marker: pytest.Mark) -> tuple[int, float]:
    """Return the most runs and the required rate."""
    return marker.kwargs.get("runs", 100), marker.kwargs.get("rate", 0.8)


def _check(name: str, value: object, is_allowed: bool, allowed: str) -> None:
    if not is_allowed:
        raise pytest.UsageError(str(ParameterError(name, value, allowed)))


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    _check("--l3d-budget", text, bool(match) or text == "inf", "must be a time such as 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2] or "s"] if match else math.inf


def _folder(config: pytest.Config) -> Path:
    """Return the folder that remembers runs: pytest's cache, or this package's own without it."""
    if cache := getattr(config, "cache", None):
        return Path(cache.mkdir("l3d"))
    return cache_folder() / "pytest" / hashlib.sha256(str(config.rootpath).encode()).hexdigest()[:16]
