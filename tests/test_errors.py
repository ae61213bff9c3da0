"""Errors that a user can mend are one line, here and on the other side of a process."""

import errno
import pickle
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_l3d.errors import L3DError, ParameterError, disk_line, imported, unknown_name

KNOWN = ["data_order", "data_split", "label_selection"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ParameterError("n", 1, "must be at least 2"), "n=1: must be at least 2."),
        (ParameterError("n", 1, "must be at least 2."), "n=1: must be at least 2."),
        (ParameterError("n", 1, "must be at least 2", "Use 2."), "n=1: must be at least 2. Use 2."),
        (ParameterError("n", None, "must be\n  a number"), "n=None: must be a number."),
        (L3DError("two\nlines \t here"), "two lines here"),
    ],
)
def test_one_line(error: L3DError, line: str) -> None:
    assert str(error) == line


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_whatever_was_typed_stays_one_line(name: str, value: str, allowed: str, fix: str) -> None:
    for error in (ParameterError(name, value, allowed, fix), unknown_name(name, value, [allowed, fix])):
        assert len(str(error).splitlines()) <= 1


def test_a_working_folder_that_was_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vanished = FileNotFoundError(errno.ENOENT, "No such file or directory")
    monkeypatch.setenv("PWD", str(tmp_path / "stale"))
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    assert disk_line(vanished) == ""  # as of a socket
    (tmp_path / "gone").rmdir()
    assert disk_line(vanished).startswith("The working folder was removed. Change to another one")
    assert disk_line(FileNotFoundError(errno.ENOENT, "No such file or directory", "a.csv")) == ""


def test_a_temporary_folder_that_was_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vanished = FileNotFoundError(errno.ENOENT, "No such file or directory", str(tmp_path / "gone" / "tmp1"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert disk_line(vanished) == ""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert disk_line(vanished).startswith(f"The temporary folder {tmp_path / 'gone'} was removed. Make it, then")


def test_kinds() -> None:
    error = ParameterError("n", 1, "must be at least 2", "Use 2.")
    assert isinstance(error, L3DError)
    assert isinstance(error, ValueError)
    assert (error.name, error.value, error.allowed, error.fix) == ("n", 1, "must be at least 2", "Use 2.")


@pytest.mark.parametrize(
    "error", [ParameterError("n", 1, "must be 2", "Use 2."), L3DError("a line"), unknown_name("a", "b", KNOWN)]
)
def test_errors_cross_a_process_boundary_whole(error: L3DError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("data_ordr", "data_order"),
        ("order_data", None),
        ("dataorder", "data_order"),
        ("LABEL_SELECTION", "label_selection"),
        (" data_split", "data_split"),
        ("zzz", None),
        ("", None),
    ],
)
def test_did_you_mean(value: str, meant: str | None) -> None:
    line = str(unknown_name("factor", value, reversed(KNOWN)))
    assert line.startswith(f"factor={value!r}: must be one of data_order, data_split, label_selection.")
    assert line.endswith(f" Did you mean {meant!r}?" if meant else "label_selection.")


def test_nothing_known() -> None:
    assert str(unknown_name("factor", "x", [], "a factor of mine:")) == "factor='x': must be a factor of mine: (none)."


def test_a_library_that_is_there_and_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_a_library.py").write_text("raise ImportError('libhalf.so: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(L3DError, match=r"needs half_a_library, which cannot be loaded \(libhalf\.so: no such file\)\."):
        imported("half_a_library", "executor=half", "half")
    with pytest.raises(L3DError, match=r"^executor=none needs no_library\. Run: pip install 'mlflow-l3d\[none\]'"):
        imported("no_library", "executor=none", "none")
