"""Readers of what other tools write; each returns :class:`~mlflow_l3d.studies.importing.recorded.RecordedRun`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from mlflow_l3d.studies.importing.recorded import RecordedRun


@dataclass(frozen=True, slots=True)
class Format:
    """How the files of a tool are found and read.

    Attributes
    ----------
    patterns
        Names of its files.
    module
        Of this package; its ``read(path, columns)`` returns the runs of one file.
    """

    patterns: tuple[str, ...]
    module: str

    @property
    def read(self) -> Callable[[Path, Mapping[str, str]], list[RecordedRun]]:
        """The reader of one file."""
        reader: Callable[[Path, Mapping[str, str]], list[RecordedRun]] = import_module(f"{__name__}.{self.module}").read
        return reader


FORMATS: Final[Mapping[str, Format]] = {
    "lm-eval": Format(("samples_*.jsonl",), "lm_eval"),
    "inspect": Format(("*.eval", "*.json"), "inspect_log"),
    "promptfoo": Format(("*.json",), "promptfoo"),
    "csv": Format(("*.csv",), "csv_file"),
    "huggingface-trainer": Format(("trainer_state.json",), "trainer"),
}
"""Value of ``--from`` -> how it is read."""
