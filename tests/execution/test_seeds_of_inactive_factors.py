"""A session is given a seed for every factor, those without an effect included."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from run_helpers import Place

from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.execution.outcomes import run_cell, run_cells, seeded
from mlflow_l3d.testing import Trouble, bench_job, one_cell


class Recorder:
    """Notes the seeds that it is given."""

    def __init__(self) -> None:
        self.seen: list[dict[str, int]] = []

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        for cell in cells:
            self.seen.append(dict(cell.seeds))
            yield Outcome(cell.key, metrics={"synthetic_score": 0.5})

    def close(self) -> None:
        pass


def test_what_a_design_leaves_out_has_a_fixed_seed(tmp_path: Path) -> None:
    job = bench_job(Trouble(), tmp_path)
    factors = job.approach.factors
    cells = [one_cell(factors[:2], number) for number in range(3)]
    session = Recorder()
    list(run_cells(session, cells, job))
    run_cell(session, cells[0], job)
    for cell, seen in zip([*cells, cells[0]], session.seen, strict=True):
        assert set(seen) == set(factors)
        assert {name: seen[name] for name in factors[:2]} == dict(cell.seeds)
    assert len({tuple(seen[name] for name in factors[2:]) for seen in session.seen}) == 1
    whole = one_cell(factors)
    assert seeded(whole, job) is whole


@pytest.mark.slow
def test_a_small_file_of_which_everything_is_used(tmp_path: Path, place: Place) -> None:
    # All training examples are labelled and all others tested: label_selection has no effect, like model_randomness.
    words = np.random.default_rng(3).permutation(40)
    rows = [f"{'good' if number % 2 else 'bad'} film {number},{number % 2}" for number in words.tolist()]
    file = tmp_path / "small.csv"
    file.write_text("\n".join(["text,label", *rows, ""]))
    given = {"factor": "data_order", "investigation_runs": 2, "hyperparameters": "epochs=1,dropout=0"}
    found = place.investigate(approach="finetuning", task=str(file), metric="f1_macro", **given)
    assert found.to_frame(full=True)["golden_std"].notna().all()
