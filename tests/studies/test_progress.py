"""Progress is shown where somebody looks, and its clock goes on while there is nothing to count."""

import io
import os
import sys
import time
from types import ModuleType

import pytest

from mlflow_l3d.approaches.progress import report_progress, tell
from mlflow_l3d.studies import shown
from mlflow_l3d.studies.shown import STDERR, progress_bar, restart_clock, shows_progress, under_way


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def wait_for(self, text: str, times: int = 1) -> None:
        for _ in range(200):
            if self.getvalue().count(text) >= times:
                return
            time.sleep(0.01)
        raise AssertionError(self.getvalue())


def opened(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stderr a terminal; not as a fixture, whose stderr is another one than that of its test."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(shown, "_TICK", 0.01)
    return stream


@pytest.mark.parametrize("where", ["terminal", "notebook", "elsewhere"])
def test_by_default_it_is_shown_where_somebody_looks(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal() if where == "terminal" else io.StringIO())
    if where == "notebook":
        module = ModuleType("IPython")
        shell = type("ZMQInteractiveShell", (), {})()
        module.get_ipython = lambda: shell  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", module)
    assert shows_progress(None) is (where != "elsewhere")
    assert shows_progress(True)
    assert not shows_progress(False)


def test_the_clock_goes_on_until_the_first_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)
    with progress_bar("what", "cell", total=2, shown=True, state="loading") as bar:
        terminal.wait_for("loading", times=3)
        restart_clock(bar)
        bar.update(2)
    assert "2/2" in terminal.getvalue()


def test_the_clock_starts_again_with_the_first_cell_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A self-test may have trained cells before: they stand in the bar as done, and nothing loads any more."""
    opened(monkeypatch)
    with progress_bar("what", "cell", total=4, shown=True, done=2, state="starting") as bar:
        restart_clock(bar)
        assert not bar.postfix
        start = bar.start_t = -1.0
        bar.update()
        restart_clock(bar)
        assert bar.start_t == start


def test_what_a_session_tells_stands_in_the_place_of_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)
    monkeypatch.setattr("mlflow_l3d.approaches.progress._EVERY", 0.0)
    with progress_bar("what", "cell", total=2, shown=True, state="loading") as bar:
        bar.mininterval = 0.0
        parts = report_progress("encoding 1,000 texts", [500, 300, 200], int, 1000)
        states = [terminal.getvalue().rpartition("\r")[2] for _ in parts]
        assert [state.partition("texts: ")[2].split("]")[0] for state in states] == ["0 %", "50 %", "80 %"]
        assert "loading" in terminal.getvalue().rpartition("\r")[2]
        bar.update()
        assert list(report_progress("more", [1], int, 1)) == [1]
        assert bar.postfix == ""
    tell("nobody hears it")


def test_a_line_says_what_is_left_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)
    with under_way("uploading", shown=True, left=lambda: 1234):
        terminal.wait_for("1,234 left")
    assert terminal.getvalue().rpartition("\r")[2].strip() == ""
    before = terminal.getvalue()
    with under_way("scoring", shown=False):
        pass
    assert terminal.getvalue() == before


def test_progress_that_cannot_be_written_is_lost_and_nothing_else(monkeypatch, capsys) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        os.write(write, bytes(1 << 24))  # as much as fits
        with progress_bar("what", "cell", total=2, shown=True) as bar, under_way("scoring", shown=True):
            bar.update(2)
        os.set_blocking(read, False)
        assert set(reader.read()) == {0}
        print("an error", file=STDERR)
        assert reader.read1() == b"an error\n"
    monkeypatch.setattr(sys, "stderr", None)  # as of a process that was started with 2>&-
    assert not shows_progress(True)
    print("an error", file=STDERR)
    assert capsys.readouterr().out == ""
