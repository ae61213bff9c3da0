"""How long evaluation runs of MLflow with 10,000 judgements take to read and to analyse."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from _common import ENVIRONMENT, machine, table

LIMITS = {"MLFLOW_GENAI_EVAL_MAX_WORKERS": "2", "MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT": "0"}


def write_template(question: str) -> str:
    """Evaluate one row as a user does; return the run."""
    import mlflow
    from mlflow.genai.scorers import scorer

    @scorer
    def good(outputs: str) -> bool:
        return bool(outputs)

    data = [{"inputs": {"q": question}}]
    run_id = mlflow.genai.evaluate(data=data, predict_fn=lambda q: q, scorers=[good]).run_id
    mlflow.flush_trace_async_logging()
    return str(run_id)


def copies(connection: sqlite3.Connection, name: str, where: str, key: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table that belong to one trace or run."""
    heads = [each[1] for each in connection.execute(f"PRAGMA table_info({name})")]  # without those that are computed
    lines = connection.execute(f"SELECT {', '.join(heads)} FROM {name} WHERE {where} = ?", (key,))
    yield from (dict(zip(heads, line, strict=True)) for line in lines)


def insert(connection: sqlite3.Connection, name: str, rows: list[dict[str, Any]]) -> None:
    """Add rows to a table."""
    heads, marks = ", ".join(rows[0]), ", ".join("?" * len(rows[0]))
    connection.executemany(f"INSERT INTO {name} ({heads}) VALUES ({marks})", [tuple(row.values()) for row in rows])


def write_answers(path: Path, runs: list[str], rows: int, repeats: int) -> None:
    """Add the answers to all rows, each judged by every run, as copies of the one that MLflow wrote."""
    random, first = np.random.default_rng(0), runs[0]
    luck_of_row, luck_of_judge = random.normal(size=rows), 0.3 * random.normal(size=len(runs))
    with closing(sqlite3.connect(path)) as connection, connection:
        (trace_id,) = connection.execute(
            "SELECT source_id FROM entity_associations WHERE destination_id = ?", (first,)
        ).fetchone()
        places = {"trace_info": "request_id", "trace_tags": "request_id", "trace_request_metadata": "request_id"}
        places |= {"spans": "trace_id"}
        templates = {name: [*copies(connection, name, key, trace_id)] for name, key in places.items()}
        (judgement,) = copies(connection, "assessments", "trace_id", trace_id)
        (link,) = copies(connection, "entity_associations", "source_id", trace_id)
        added: dict[str, list[dict[str, Any]]] = {
            name: [] for name in (*templates, "assessments", "entity_associations")
        }
        for row in range(rows):
            for repeat in range(repeats):
                new, luck = f"tr-{row:016x}{repeat:016x}", luck_of_row[row] + random.normal()
                for name, lines in templates.items():
                    for line in lines:
                        text = {
                            head: value.replace("QUESTION", f"{row}")
                            for head, value in line.items()
                            if isinstance(value, str)
                        }
                        own = {**line, **text, places[name]: new}
                        own |= {"timestamp_ms": line["timestamp_ms"] + repeat} if name == "trace_info" else {}
                        added[name].append(own)
                for run_id, own_luck in zip(runs, luck_of_judge, strict=True):
                    good = luck + own_luck + random.normal() > 0
                    metadata = json.loads(judgement["assessment_metadata"]) | {"mlflow.assessment.sourceRunId": run_id}
                    made = {"assessment_id": f"a-{uuid.uuid4().hex}", "trace_id": new, "value": json.dumps(bool(good))}
                    made |= {"source_id": f"judge {run_id[:4]}", "assessment_metadata": json.dumps(metadata)}
                    added["assessments"].append({**judgement, **made})
                    added["entity_associations"].append(
                        {**link, "association_id": uuid.uuid4().hex, "source_id": new, "destination_id": run_id}
                    )
        for name, lines in added.items():
            insert(connection, name, lines)
        for name in (*templates, "assessments", "entity_associations"):  # the one answer that was copied
            key = {**places, "assessments": "trace_id", "entity_associations": "source_id"}[name]
            connection.execute(f"DELETE FROM {name} WHERE {key} = ?", (trace_id,))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--judges", type=int, default=5)
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT | LIMITS)
    print(machine())
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        import mlflow

        from mlflow_l3d.studies.judged.numbers import score_scorer
        from mlflow_l3d.studies.judged.run import evaluate_judged
        from mlflow_l3d.tracking.connection import connect
        from mlflow_l3d.tracking.earlier.evaluations import read_judged

        os.chdir(folder)
        for inputs, question in (("short", "QUESTION"), ("long", "x" * 1000 + " QUESTION")):
            path = Path(folder) / f"{inputs}.db"
            mlflow.set_tracking_uri(f"sqlite:///{path}")
            mlflow.set_experiment("speed")
            runs = [write_template(question)]
            runs += [str(mlflow.MlflowClient().create_run("1").info.run_id) for _ in range(options.judges - 1)]
            write_answers(path, runs, options.rows, options.repeats)
            client = connect()
            start = time.process_time()
            judged = read_judged(client, *runs)
            after_reading = time.process_time()
            numbers = score_scorer(judged.table)
            after_analysis = time.process_time()
            evaluate_judged(",".join(runs))
            end = time.process_time()
            assert len(judged.table) == options.rows * options.repeats * options.judges
            assert numbers.components.rows == options.rows
            times = (after_reading - start, after_analysis - after_reading, end - after_analysis)
            lines.append([inputs, len(judged.table), *times])
    print(
        table(
            ["inputs", "judgements", "reading, s of CPU", "analysis, s of CPU", "evaluate as a whole, s of CPU"], lines
        )
    )


if __name__ == "__main__":
    main()
