"""Names that others build on: tags, artifacts, and the columns of tables. Changing one is a new schema."""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import Final

SCHEMA: Final = "1"

ROLE: Final = "l3d.role"
SCHEMA_TAG: Final = "l3d.schema"
FACTOR: Final = "l3d.factor"
DESIGN: Final = "l3d.design"
STATE: Final = "l3d.state"
PHASE: Final = "l3d.phase"
ROW: Final = "l3d.row"
REPEAT: Final = "l3d.repeat"
COLUMN: Final = "l3d.column"
INDEX: Final = "l3d.index"
CELL_KEY: Final = "l3d.cell_key"
CONTEXT_KEY: Final = "l3d.context_key"
INVESTIGATION_KEY: Final = "l3d.investigation_key"
SEARCH: Final = "l3d.search"
SEARCH_KEY: Final = "l3d.search_key"
SEARCH_SUBJECT: Final = "l3d.search_subject"
LEVEL: Final = "l3d.level"
TRIAL: Final = "l3d.trial"
TRIAL_STATE: Final = "l3d.trial_state"
SUPERSEDED_BY: Final = "l3d.superseded_by"
CONTINUES: Final = "l3d.continues"
CELLS_OF: Final = "l3d.cells_of"
ANSWERS: Final = "l3d.answers"
OUTPUT: Final = "l3d.output"
PROMPTS: Final = "l3d.prompts"
PARENT: Final = "l3d.parent"
SWEEP: Final = "l3d.sweep"
SWEEP_KEY: Final = "l3d.sweep_key"
COMPARISON: Final = "l3d.comparison"
INVESTIGATIONS: Final = "l3d.investigations"
OF_INVESTIGATION: Final = "l3d.investigation"
GATE_KEY: Final = "l3d.gate_key"
GATE_PAIR: Final = "l3d.gate_pair"
DECISION: Final = "l3d.decision"
REFEREE_KEY: Final = "l3d.referee_key"
REFEREE_RULES: Final = "l3d.referee_rules"
REFEREE_NUMBER: Final = "l3d.referee_number"
REFEREE_SCORES: Final = "l3d.referee_scores"
REFEREE_FRESH_HALF: Final = "l3d.referee_fresh_half"
REFEREE_LOOKS: Final = "l3d.referee_looks"
ERROR: Final = "l3d.error"
GIT_DIRTY: Final = "l3d.git_dirty"
HEARTBEAT: Final = "l3d.heartbeat"
SPOOL: Final = "l3d.spool"
METRIC: Final = "l3d.metric"
GROUP: Final = "l3d.group"
GROUP_RUNS: Final = "l3d.group_runs"
GROUP_STD: Final = "l3d.group_std"
LUCK: Final = "l3d.luck"
METRIC_NAME: Final = "l3d.metric_name"

PARENT_RUN_ID: Final = "mlflow.parentRunId"
RUN_NAME: Final = "mlflow.runName"
NOTE: Final = "mlflow.note.content"
SOURCE_NAME: Final = "mlflow.source.name"
LOGGED_ARTIFACTS: Final = "mlflow.loggedArtifacts"

PREDICTIONS: Final = "predictions.parquet"
REFERENCE: Final = "reference"
"""Column of predictions, bool: whether the example is of the reference set; only of runs that have one."""
CLASS_SCORE: Final = "score_"
"""Begins the names of the columns of class scores."""
JUDGEMENTS: Final = "judgements.parquet"
CELLS: Final = "cells.parquet"
CELLS_TABLE: Final = "cells.json"
INVESTIGATION: Final = "investigation.json"
HYPERPARAMETERS: Final = "hyperparameters.json"
RESULT: Final = "result.json"
IMPORTANCE: Final = "importance.json"
REPORT: Final = "report.html"
SUMMARY: Final = "summary.svg"
EXAMPLES: Final = "examples.json"
INTERIM_ANALYSES: Final = "looks.json"
SEARCH_DOCUMENT: Final = "search.json"
SEEDS: Final = "seeds.json"
SEARCH_REPORT: Final = "search.html"
TRIALS: Final = "trials.json"
TABLES: Final = (CELLS_TABLE, EXAMPLES, INTERIM_ANALYSES, TRIALS, "points.json", "trends.json", "interactions.json")
"""Artifacts in the form of MLflow's ``log_table``, which the UI shows as tables."""
SWEEP_REPORT: Final = "sweep.html"
SWEEP_DOCUMENT: Final = "sweep.json"
POINTS: Final = "points"
"""Stem of the table of a sweep, as ``.parquet``, ``.csv``, ``.tex`` and, for the UI, ``.json``."""
TRACEBACK: Final = "traceback.txt"
CURE: Final = "cure.json"
"""A remedy that was verified, as the parameter `cure` takes it."""

COORDINATES: Final = {"phase": PHASE, "factor": FACTOR, "row": ROW, "column": COLUMN, "index": INDEX}
"""Column of a table of cells that says where a cell stands -> tag of its run that does."""

_FORBIDDEN: Final = re.compile(r"[^\w./: -]")
_LONGEST: Final = 250


def metric_name(name: str) -> str:
    """Return the name of a parent's metric as MLflow takes it: the plus of joint factors becomes a dash."""
    return accepted(name.replace("+", "-"))


def accepted(name: str) -> str:
    """Return a name of a metric, parameter or tag as MLflow takes it; no two names become one.

    If something is forbidden (a character, more than 250 of them, a path such as ``a//b``), dashes stand for it, and
    six digits of a hash of the name follow.
    """
    clean = _FORBIDDEN.sub("-", name)
    # What stays as it is as a path below a folder.
    plain = posixpath.normpath(clean) == clean and not clean.startswith(("..", "/")) and clean != "."
    clean = clean if plain else clean.replace("/", "-").lstrip(".")
    if name and clean == name and len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{clean[: _LONGEST - 7]}-{digest}"
