import pytest

from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.testing import Trouble, bench_job, check_executor, design_cells


def test_conformance(tmp_path):
    check_executor(InlineExecutor, cache=tmp_path, workers=1, separate_processes=False, prefetch=1)


def test_cells_run_in_order_one_at_a_time(tmp_path):
    taken = []

    def cells():
        for cell in design_cells(FACTORS, 6):
            taken.append(cell.key)
            yield cell

    for done, outcome in enumerate(InlineExecutor(job=bench_job(Trouble(), tmp_path)).run(cells()), start=1):
        assert len(taken) == done
        assert taken[-1] == outcome.key


@pytest.mark.parametrize("ending", ["end", "close", "interrupt"])
def test_the_session_is_closed_once(tmp_path, ending):
    outcomes = InlineExecutor(job=bench_job(Trouble(), tmp_path)).run(design_cells(FACTORS, 3))
    next(outcomes)
    assert not list(tmp_path.glob("closed-*"))
    if ending == "end":
        list(outcomes)
    elif ending == "close":
        outcomes.close()
    else:
        with pytest.raises(KeyboardInterrupt):
            outcomes.throw(KeyboardInterrupt())
    assert len(list(tmp_path.glob("closed-*"))) == 1


def test_workers_would_have_no_effect(tmp_path):
    with pytest.raises(ParameterError, match=r"workers=4: must be 1 or auto .* Use executor=processes"):
        InlineExecutor(job=bench_job(Trouble(), tmp_path), workers=4)


def test_an_exception_of_the_preparation_is_one_line(tmp_path):
    executor = InlineExecutor(job=bench_job(Trouble(prepare="raise"), tmp_path))
    with pytest.raises(L3DError, match=r"^approach trouble could not be prepared: RuntimeError: no luck today") as info:
        list(executor.run(design_cells(FACTORS, 2)))
    assert str(info.value).endswith("no luck today")
    assert "in prepare" in "".join(info.value.__notes__)


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_lost_device_ends_everything_in_one_line(tmp_path, at_once):
    cells = list(design_cells(FACTORS, 4))
    job = bench_job(Trouble({cells[1].key: "lost device"}, at_once=at_once), tmp_path)
    outcomes = InlineExecutor(job=job).run(cells)
    assert next(outcomes).error is None
    with pytest.raises(L3DError, match=r"^device=cpu is lost to this process \(CUDA error: an illegal memory access"):
        next(outcomes)
    assert len(list(tmp_path.glob("closed-*"))) == 1
