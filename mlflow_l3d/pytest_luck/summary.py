"""The words of a suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
    other = f"{missing} failed since each run misses the requirement; any other" if missing else "any"
    limit = f"{other} verdict is failed by chance in {100 * alpha:.2g} % of suites at most"
    text = f"{counts}; {runs} runs, {seconds:.1f} s; {limit}"
    text = text if is_whole else f"interrupted; {text}"
    ordered = sorted(cases, key=lambda case: str(case["case"]))
    return {"version": 1, "alpha": alpha, "verdicts": verdicts, "runs": runs, "seconds": seconds, "text": text} | {
        "cases": ordered
    }


def markdown_of(summary: Mapping[str, Any]) -> str:
    """Return the suite as the comment of a pull request: first the cases that did not pass."""
    from mlflow_l3d.report.comment import escaped

    ordered = sorted(summary["cases"], key=lambda case: _ORDER.index(case["verdict"]))
    lines = [f"- {case['verdict']}: {case['case']}: {line_of(case)}" for case in ordered]
    return escaped("\n".join([f"**{summary['text']}**", "", *lines])) + "\n"
