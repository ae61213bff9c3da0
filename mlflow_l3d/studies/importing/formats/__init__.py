"""Readers of what other tools write; each returns :class:`~mlflow_l3d.studies.importing.RecordedRun`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.importing import RecordedRun
from mlflow_l3d.studies.importing.formats import apps, csv_file, models


@dataclass(frozen=True, slots=True)
class Format:
    """How the files of a tool are found and read.

    Attributes
    ----------
    patterns
        Names of its files.
    read
        Returns the runs of one file, or why one cannot be read, from its path, the roles of columns, and the metric.
    marks
        Texts of which one is near the beginning of its .json files, without blanks.
    numbered
        The setting that only names or numbers its runs; runs that differ in nothing else differ by luck.
    """

    patterns: tuple[str, ...]
    read: Callable[..., Sequence[RecordedRun | L3DError]]
    marks: tuple[str, ...] = ()
    numbered: str = ""

    def wrote(self, file: Path) -> bool:
        """Return whether the tool wrote a file, judged by its name and the beginning of its JSON."""
        if not any(map(file.match, self.patterns)):
            return False
        if not self.marks or file.suffix != ".json":
            return True
        try:
            with file.open(encoding="utf-8", errors="replace") as text:
                beginning = "".join(text.read(4096).split())
        except OSError as error:
            raise L3DError(f"{file.name}: cannot be read ({error.strerror}). Make it readable, or move it.") from error
        return any(mark in beginning for mark in self.marks)


FORMATS: Final[Mapping[str, Format]] = {
    "lm-eval": Format(("samples_*.jsonl",), models.read_lm_eval),
    "huggingface-trainer": Format(("trainer_state.json",), models.read_trainer, numbered="folder"),
    "inspect": Format(("*.eval", "*.json"), apps.read_inspect, ('"eval":',), "epoch"),
    "promptfoo": Format(("*.json",), apps.read_promptfoo, ('"evalId":', '{"results":{"version":'), "repeat"),
    "tau-bench": Format(("*.json",), apps.read_tau_bench, ('[{"task_id":', '"num_trials":'), "trial"),
    "csv": Format(("*.csv", "*.tsv", "*.jsonl", "*.parquet"), csv_file.read),
}
"""Value of ``--from`` -> format of the files."""


def tool_of(path: Path, tool: str) -> str:
    """Return the tool that wrote a file or the files of a folder: `tool`, unless that is ``auto``.

    Raises
    ------
    ParameterError
        If there is no such path, or the files do not identify the tool.
    """
    if not path.exists():
        raise ParameterError("source", path, "no such file or folder")
    if tool != "auto":
        return tool
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    tools = [name for name, form in FORMATS.items() if any(map(form.wrote, files))]
    # The first two tools also write .json and .csv files, in addition to files that only they write.
    tools = tools[:1] if tools[:1] and tools[0] in ("lm-eval", "huggingface-trainer") else tools
    tools = [name for name in tools if name != "csv"] or tools
    if len(tools) != 1:
        held = f"files of {' and '.join(tools)}" if tools else "no file of a tool that is known"
        fix = f"Name the tool, --from {'|'.join(FORMATS)}, or another path."
        if not tools and any(file.match("results_*.json") for file in files):
            held, fix = "a file results_*.json without samples", models.LOG_SAMPLES
        raise ParameterError("source", path.name, f"there is {held}", fix)
    return tools[0]
