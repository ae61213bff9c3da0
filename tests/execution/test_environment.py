import os
import signal
import threading

import pytest

from mlflow_l3d.execution.environment import (
    WORKER_ENVIRONMENT,
    deferred_interrupts,
    forget_project_run,
    starting_worker,
)


def test_a_starting_worker_inherits_its_environment_and_the_parent_keeps_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with starting_worker():
        assert {name: os.environ[name] for name in WORKER_ENVIRONMENT} == WORKER_ENVIRONMENT
    assert dict(os.environ) == before
    with pytest.raises(OSError, match="no memory"), starting_worker():
        raise OSError("no memory")
    assert dict(os.environ) == before


@pytest.mark.parametrize(("block", "error"), [(starting_worker, None), (deferred_interrupts, OSError)])
def test_ctrl_c_in_a_block_is_late_and_not_lost(block, error):
    reached = []

    def start():
        with block():
            # To this thread: the process's signals may go to a thread of a library, which is not blocked.
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            reached.append(True)
            if error:
                raise error

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_a_caller_who_blocks_ctrl_c_keeps_it_blocked():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with starting_worker():
            pass
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def test_what_attaches_a_run_is_forgotten(monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///here.db")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "one")
    forget_project_run()
    assert os.environ["MLFLOW_EXPERIMENT_NAME"] == "one"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "2")  # of another, as mlflow.set_experiment sets it
    forget_project_run()
    assert "MLFLOW_EXPERIMENT_NAME" not in os.environ
    assert "MLFLOW_RUN_ID" not in os.environ
    assert os.environ["MLFLOW_TRACKING_URI"] == "sqlite:///here.db"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_start_is_not_cut_short_by_a_signal_that_another_thread_gets(number):
    def handler(number, frame):
        raise KeyboardInterrupt

    def start():
        with starting_worker():
            under_way.set()
            other.join()
            reached.append("the end of the start")

    before, reached, under_way = signal.signal(number, handler), [], threading.Event()
    # It begins before the start, or the signal would be blocked in it, too.
    other = threading.Thread(target=lambda: under_way.wait() and signal.raise_signal(number))
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
    assert reached
