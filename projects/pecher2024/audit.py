"""The audit of the published importance by its own precision: ``python projects/pecher2024/audit.py``, without any run.

For each of the 209 signs of Tables 6 to 14 and the 24 of Table 3: do the standard deviations that are printed beside
it decide it? The method is in ``precision.py``, what the paper makes of its signs in ``sentences.py``, and what came of
it in docs/evidence/audit.md.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd
from precision import Printed, closure, corrected, estimate, holm, intervals, two_sided
from published import FACTORS, TASKS, ablation, importance, strategies
from scipy.stats import binom
from sentences import SENTENCES, judged

from mlflow_l3d.report.html import minus

LEVEL: Final = 0.05
FEW: Final = ("LLaMA-2-13B", "Mistral-7B", "Zephyr-7B")
"""Systems with 20 mitigation and 200 golden runs, by the public code; the others have 100 and 1,000.

The paper says the same of Flan-T5. But its column SST2 equals the column of Table 3 with 100 mitigation runs, digit
for digit.
"""
VERDICTS: Final = ("decided", "open", "undecided")
"""*decided*: whatever share and tails of rows. *undecided*: even in the best case. *open*: between them."""


def signs(frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the published rows with what their own numbers say of each sign.

    Parameters
    ----------
    frame
        Rows of ``published.importance()``, or ``published.ablation()``; the former by default.

    Returns
    -------
    pandas.DataFrame
        The rows, and: ``sign`` (of contributed less mitigated, also if importance is printed as 0), ``rows`` (M),
        ``estimate`` (what the printed score tends to with many runs, on the scale of the corrected importance),
        ``low``, ``high`` (its 95 % interval in the worst case), ``corrected`` (the package's, share .5),
        ``p_worst``, ``p_best`` and the same adjusted for all rows (Holm), ``p_worst_holm``, ``p_best_holm``;
        ``unevenness``; ``verdict`` and ``verdict_holm``
        (:data:`VERDICTS`); ``impossible`` (the whole is smaller than its parts; undecided then); ``p_closure`` (nan
        without a golden standard deviation).
    """
    rows = importance() if frame is None else frame
    rows = rows.assign(sign=np.sign(rows["contributed_std"] - rows["mitigated_std"]))
    few = rows["system"].isin(FEW)
    rows["rows"] = rows["mitigation_runs"] if "mitigation_runs" in rows else np.where(few, 20, 100)
    printed = printed_of(rows)
    rows["estimate"], rows["corrected"] = estimate(printed), corrected(printed)
    rows["unevenness"] = printed.unevenness
    rows["impossible"] = printed.impossible
    # Numbers that contradict each other allow any score.
    for name, ends, any_ in zip(("low", "high"), intervals(printed), (-1.0, 1.0), strict=True):
        rows[name] = np.where(rows["impossible"], any_, ends)
    for case in ("worst", "best"):
        p = np.where(rows["impossible"], 1.0, two_sided(printed, case))
        rows[f"p_{case}"], rows[f"p_{case}_holm"] = p, holm(p)
    for ending in ("", "_holm"):
        worst, best = rows[f"p_worst{ending}"] <= LEVEL, rows[f"p_best{ending}"] <= LEVEL
        rows[f"verdict{ending}"] = np.select([worst, best], VERDICTS[:2], VERDICTS[2])
    golden = 100 * rows["golden_std"].to_numpy()
    rows["p_closure"] = closure(printed, golden, np.where(few, 200.0, 1000.0))
    return rows


def printed_of(rows: pd.DataFrame) -> Printed:
    """Return the three standard deviations of the rows in percentage points."""
    numbers = [100 * rows[f"{name}_std"].to_numpy() for name in ("contributed", "mitigated", "score")]
    return Printed(numbers[0], numbers[1], numbers[2], rows["rows"].to_numpy(dtype=float))


def lines() -> Iterator[str]:
    """Yield the tables of docs/evidence/audit.md in Markdown."""
    rows = signs()
    yield f"Signs decided by the printed numbers ({len(rows)} of Tables 6 to 14)"
    yield from _counts(rows)
    yield "Signs that are decided together (Holm over all)"
    sure = rows[rows["verdict_holm"] == "decided"]
    yield from _table(
        ["", *FACTORS],
        [
            [a, *(_places(part[part["factor"] == f]) for f in FACTORS)]
            for a, part in sure.groupby("approach", sort=False)
        ],
    )
    yield "Signs that are turned with many runs, or by the corrected importance"
    yield from _turned(rows)
    yield "Table and golden runs of different variance (p below 0.05 in the worst case)"
    apart = rows[rows["p_closure"] < LEVEL]
    yield from _table(
        ["system", "task", "factor", "all runs", "golden runs", "p"],
        [
            [r["system"], r["task"], r["factor"], _points(r["score_std"]), _points(r["golden_std"]), _p(r["p_closure"])]
            for r in apart.to_dict("records")
        ],
    )
    count = int(rows["p_closure"].notna().sum())
    alone = binom.sf(len(apart) - 1, count, LEVEL)
    yield f"These are {len(apart)} of {count}; chance alone makes as many or more with probability {alone:.2f}."
    yield "Contributed standard deviations that Tables 1 and 5 have otherwise"
    yield from _otherwise(rows)
    flan = rows["system"] == "Flan-T5"
    less = signs(importance().assign(mitigation_runs=np.where(flan, 20, rows["rows"])))
    yield (
        f"Flan-T5 with 100 rows: {_said(rows[flan])}. With 20: {_said(less[flan])}; all systems then: {_said(less)}."
    )
    yield "Table 3: runs, test size and the sign"
    yield from _ablation(signs(ablation()))
    yield "Sentences of the paper: means"
    told = [judged(each, rows) for each in SENTENCES]
    yield from _table(
        ["section", "sentence", "rows", "quoted", "printed", "with many runs, 95 % interval", "holds?"],
        [
            [
                r["section"],
                r["sentence"],
                r["rows"],
                _number(r["quoted"]),
                _number(r["printed"]),
                _interval(r),
                r["verdict"],
            ]
            for r in told
            if "mean" in r
        ],
    )
    yield "Sentences of the paper: counts"
    yield from _table(
        ["section", "sentence", "rows", "printed above 0", "decided above", "decided below", "holds?"],
        [[r[name] for name in _COUNTED] for r in told if "above" in r],
    )
    verdicts = Counter(str(r["verdict"]) for r in told)
    yield f"Of {len(told)} sentences: " + "; ".join(f"{name} {count}" for name, count in sorted(verdicts.items())) + "."


_COUNTED: Final = ("section", "sentence", "rows", "above", "sure above", "sure below", "verdict")


def _counts(found: pd.DataFrame) -> Iterator[str]:
    groups = [
        ("all", found),
        ("printed above 0", found[found["sign"] > 0]),
        ("printed below 0", found[found["sign"] < 0]),
    ]
    for column, names in (("approach", None), ("factor", FACTORS), ("task", TASKS.values())):
        groups += [(name, found[found[column] == name]) for name in names or found[column].unique()]
    rows = []
    for name, part in groups:
        single, together = part["verdict"].value_counts(), part["verdict_holm"].value_counts()
        numbers = [*(single.get(v, 0) for v in VERDICTS), *(together.get(v, 0) for v in VERDICTS)]
        rows.append([name, len(part), *numbers])
    yield from _table(["", "signs", *VERDICTS, *(f"{v}, Holm" for v in VERDICTS)], rows)


def _turned(found: pd.DataFrame) -> Iterator[str]:
    turned = found[(np.sign(found[["estimate", "corrected"]]).ne(found["sign"], axis=0)).any(axis=1)]
    yield from _table(
        ["system", "task", "factor", "importance", "with many runs", "corrected", "unevenness", "verdict"],
        [
            [
                *(row[name] for name in ("system", "task", "factor")),
                *(_number(row[name]) for name in ("importance", "estimate", "corrected")),
                f"{row['unevenness']:.2f}",
                row["verdict"],
            ]
            for row in turned.to_dict("records")
        ],
    )


def _ablation(found: pd.DataFrame) -> Iterator[str]:
    settings = found[["mitigation_runs", "test_size"]].drop_duplicates().itertuples(index=False)
    rows = []
    for runs, size in settings:
        here = found[(found["mitigation_runs"] == runs) & (found["test_size"] == size)].set_index("factor")
        cells = []
        for factor in here.index:
            row = here.loc[factor]
            mark = "contradicts itself" if row["impossible"] else row["verdict"]
            cells.append(f"{_number(row['importance'])} {mark}")
        rows.append([f"{runs}", size, *cells])
    yield from _table(["runs", "test size", *found["factor"].unique()], rows)
    yield f"Of {len(found)} signs {_said(found)}."


def _otherwise(found: pd.DataFrame) -> Iterator[str]:
    """Yield the signs whose contributed standard deviation is another one in Table 5, with either."""
    keys = ["system", "task", "factor"]
    theirs = strategies()
    theirs = theirs[theirs["strategy"] == "interactions"].set_index(keys)["std"]
    other = found.join(theirs, on=keys)
    other = other[(other["std"] - other["contributed_std"]).abs() > 1e-9]
    # Holm is not of interest here: p-values of eleven rows alone.
    again = signs(other.assign(contributed_std=other["std"], mitigation_runs=other["rows"]))
    rows = []
    for before, after in zip(other.to_dict("records"), again.to_dict("records"), strict=True):
        stds = [f"{100 * each['contributed_std']:.3f}" for each in (before, after)]
        words = ["contradicts itself" if each["impossible"] else each["verdict"] for each in (before, after)]
        sign = "the same" if before["sign"] == after["sign"] else "the other"
        rows.append([*(before[key] for key in keys), *stds, sign, *words])
    yield from _table([*keys, "Tables 6 to 12", "Table 5", "sign", "verdict", "with Table 5"], rows)


def _said(found: pd.DataFrame) -> str:
    single, together = (Counter(found[name]) for name in ("verdict", "verdict_holm"))
    one, all_ = (", ".join(f"{counts[v]} {v}" for v in VERDICTS) for counts in (single, together))
    return f"{one} (Holm: {all_})"


def _places(rows: pd.DataFrame) -> str:
    return f"{(rows['sign'] > 0).sum()} above, {(rows['sign'] < 0).sum()} below" if len(rows) else "none"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"
    yield ""


def _number(value: object) -> str:
    return "" if value is None else minus(f"{float(str(value)):+.2f}")


def _interval(row: dict[str, object]) -> str:
    return f"{_number(row['mean'])} ({_number(row['low'])} to {_number(row['high'])})"


def _points(value: float) -> str:
    return f"{100 * value:.2f}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def main() -> int:
    """Print the tables."""
    for line in lines():
        sys.stdout.write(f"{line}\n" if line.startswith("|") or not line else f"{line}\n\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
