"""How long the sessions of the points of a sweep take to be prepared; started by sweep_cost.py."""

from __future__ import annotations

import time

from _common import answer, settings_of_child


def main() -> None:
    """Prepare the session of every point, one after the other, as a worker does; then one alone, in warm libraries."""
    settings = settings_of_child()
    given = {name: value for name, value in settings.items() if name not in ("result", "spawned")}
    from mlflow_l3d.execution.sessions import JointSession
    from mlflow_l3d.studies.base import job_of
    from mlflow_l3d.studies.sweep.request import specify_sweep

    jobs = [job_of(point.setup) for point in specify_sweep(given).points]
    seconds = []
    sessions = JointSession(jobs)
    for number in range(len(jobs)):
        started = time.perf_counter()
        sessions.session(number)
        seconds.append(time.perf_counter() - started)
    sessions.close()
    alone = JointSession(jobs[-1:])
    started = time.perf_counter()
    alone.session(0)
    answer(settings, {"prepared": seconds, "alone": time.perf_counter() - started})


if __name__ == "__main__":
    main()
