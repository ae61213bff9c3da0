"""What was asked and paid: answers of endpoints, and the count of a budget, in a file of the cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mlflow_l3d.approaches.icl.endpoint.reference import Endpoint
from mlflow_l3d.errors import L3DError

_WAIT_SECONDS: Final = 60.0
_GIVEN_UP_SECONDS: Final = 900.0
"""A claim that is older is nobody's: its answer would have come, or failed."""
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, since REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS spent (id INTEGER PRIMARY KEY CHECK (id = 1), requests INTEGER, cost REAL)",
    "INSERT OR IGNORE INTO spent VALUES (1, 0, 0.0)",
)


class BudgetError(L3DError):
    """A request would go beyond the budget."""


class Store:
    """The answers and the count of one model at one server, shared by all processes.

    Keys are hashes, so neither prompts nor the server's key are kept; answers are.

    Parameters
    ----------
    endpoint
        Whose, and with which budget.
    folder
        Folder of the file.
    """

    def __init__(self, endpoint: Endpoint, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._endpoint, self._owner = endpoint, f"{os.getpid()}@{socket.gethostname()}"
        self.file = folder / f"{key_of(endpoint.base_url, endpoint.name)[:16]}.sqlite"
        self._file = sqlite3.connect(self.file, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        # No WAL, which several machines cannot share; a process that is killed leaves a whole file all the same.
        for line in ("PRAGMA journal_mode=PERSIST", "PRAGMA synchronous=OFF"):
            self._execute(line)
        for line in _TABLES:
            self._execute(line)

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the answer of a key; None where it was not asked before."""
        row = self._execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def claim(self, key: str) -> bool:
        """Return whether this process is to ask; False where another one does, and has no answer yet."""
        values = (key, self._owner, time.time())
        if self._execute("INSERT OR IGNORE INTO claims VALUES (?, ?, ?)", values).rowcount:
            return True
        row = self._execute("SELECT owner, since FROM claims WHERE key = ?", (key,)).fetchone()
        if row is None:
            return self.claim(key)
        if row[0] != self._owner and not _given_up(*row):
            return False
        update = "UPDATE claims SET owner = ?, since = ? WHERE key = ? AND owner = ?"
        return bool(self._execute(update, (self._owner, time.time(), key, row[0])).rowcount)

    def give_up(self, key: str) -> None:
        """Let another process ask."""
        self._execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, self._owner))

    def keep(self, key: str, answer: Mapping[str, Any], *, reserved: float, cost: float) -> None:
        """Keep an answer, and count what it cost in the place of what was reserved for it."""
        self._execute("BEGIN IMMEDIATE")
        self._execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, json.dumps(answer)))
        self._execute("DELETE FROM claims WHERE key = ?", (key,))
        self._execute("UPDATE spent SET cost = cost + ?", (cost - reserved,))
        self._execute("COMMIT")

    def release(self, reserved: float) -> None:
        """Give back what was reserved for a request that the server refused."""
        if reserved:
            self._execute("UPDATE spent SET cost = cost - ?", (reserved,))

    def reserve(self, cost: float) -> None:
        """Count a request before it is sent, with the most that it can cost.

        Raises
        ------
        BudgetError
            If the budget does not allow it. Counted are requests of all processes and commands.
        """
        requests, most = self._endpoint.max_requests, self._endpoint.max_cost
        limits, numbers = ["1"], [cost]
        if requests:
            limits.append(f"requests < {requests:d}")
        if most:
            limits.append("cost + ? <= ?")
            numbers += [cost, most]
        allowed = " AND ".join(limits)
        # The numbers are our own; nothing of a user's stands in the statement.
        update = f"UPDATE spent SET requests = requests + 1, cost = cost + ? WHERE {allowed}"  # noqa: S608
        if self._execute(update, numbers).rowcount:
            return
        sent, spent = self.spent()
        reached, value = ("max_requests", f"{requests}") if requests and sent >= requests else ("max_cost", f"{most:g}")
        where = f"{self._endpoint.name} at {self._endpoint.base_url}"
        raise BudgetError(
            f"{reached}={value}: the budget is spent ({sent} requests to {where} so far, cost {spent:.6g}). Finished "
            f"cells stay, and so do answers; the same command with a larger {reached} goes on."
        )

    def spent(self) -> tuple[int, float]:
        """Return how many requests were sent, and what they cost."""
        requests, cost = self._execute("SELECT requests, cost FROM spent").fetchone()
        return int(requests), float(cost)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        until = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                return self._file.execute(statement, values)
            except sqlite3.OperationalError as error:  # "locked" is not always waited for
                if "locked" not in str(error) or time.monotonic() > until:
                    raise L3DError(f"the cache of answers cannot be used ({error}).") from error
                time.sleep(0.01)


def _given_up(owner: str, since: float) -> bool:
    """Return whether the process of a claim is gone, or the claim is old."""
    process, _, host = owner.partition("@")
    if time.time() - since > _GIVEN_UP_SECONDS:
        return True
    if host != socket.gethostname() or os.name == "nt":
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # somebody else's
        pass
    return False


def key_of(*content: object) -> str:
    """Return the hash of what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
