"""How a model behind an endpoint is named, what may be spent on it, and what was: answers and counts in a file."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from mlflow_l3d.approaches.icl.recipe import AUTO, Recipe
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.tasks.base import Task

PREFIX: Final = "openai:"
MAY_CHANGE: Final = (
    "An endpoint may answer the same request differently, which counts as an effect of each factor: "
    "mlflow-l3d replicate with the same task, --model and --hyperparameters shows it."
)
"""A remark on studies of an endpoint, for all but those that send the same requests again."""
_OFFICIAL: Final = "https://api.openai.com/v1"
_LETTERS_AROUND: Final = 40
"""Letters that a format puts around an example, about."""
_OF_WEIGHTS: Final = ("quantise", "trust_remote_code", "truncation", "batch_size", "dtype")


def is_endpoint(model: str) -> bool:
    """Return whether a model reference is ``openai:NAME``."""
    return model.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at a server.

    Attributes
    ----------
    name
        What the server calls it.
    base_url
        Where its routes begin, such as ``http://127.0.0.1:8000/v1``.
    concurrency
        Requests under way at once.
    max_requests, max_cost
        Most that may be sent, and spent, 0 for any: on this model, over all processes and commands that share a cache
        folder. What the server refuses does not count.
    prices
        Of a million tokens, of the prompt and of the answer, in the unit of `max_cost`.
    """

    name: str
    base_url: str
    concurrency: int = 8
    max_requests: int = 0
    max_cost: float = 0.0
    prices: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, model: str, recipe: Recipe) -> Endpoint:
        """Return the endpoint of a model reference.

        Raises
        ------
        ParameterError
            If a hyperparameter does not go with a model behind an endpoint, or the package `openai` is missing.
        """
        recipe.refuse(_OF_WEIGHTS, f"has no effect on {model}: weights and tokenizer are the server's", "Leave it out.")
        name = model.removeprefix(PREFIX)
        if not name:
            raise ParameterError("model", model, "names no model", "Write openai:NAME, as the server calls it.")
        if recipe.max_cost and not (recipe.price_input or recipe.price_output):
            allowed = "needs price_input and price_output, the prices of a million tokens"
            raise ParameterError("hyperparameters.max_cost", recipe.max_cost, allowed)
        if find_spec("openai") is None:
            raise ParameterError("model", model, "needs the package openai", "Run: pip install 'mlflow-l3d[endpoints]'")
        where = os.environ.get("OPENAI_BASE_URL") or _OFFICIAL if recipe.base_url == AUTO else recipe.base_url
        prices = recipe.price_input, recipe.price_output
        return cls(name, _checked(where), recipe.concurrency, recipe.max_requests, recipe.max_cost, prices)


def _checked(url: str) -> str:
    """Return an address without a blank at its end; what is secret in it is in no message."""
    parts, name = urlsplit(url), "hyperparameters.base_url"
    if parts.username or parts.password or parts.query:
        allowed = "must hold no user, password or query, which runs would record"
        raise ParameterError(name, "(not shown)", allowed, "Put the key into OPENAI_API_KEY.")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ParameterError(name, url, "must be an address such as http://127.0.0.1:8000/v1")
    return url.rstrip("/")


_WAIT_SECONDS: Final = 60.0
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS spent (id INTEGER PRIMARY KEY CHECK (id = 1), requests INTEGER, cost REAL)",
    "INSERT OR IGNORE INTO spent VALUES (1, 0, 0.0)",
)
_RESERVE: Final = (
    "UPDATE spent SET requests = requests + 1, cost = cost + :cost "
    "WHERE (:requests = 0 OR requests < :requests) AND (:most = 0 OR cost + :cost <= :most)"
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
        self._endpoint = endpoint
        self.file = folder / f"{key_of(endpoint.base_url, endpoint.name)[:16]}.sqlite"
        self._file = sqlite3.connect(self.file, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        # No WAL, which several machines cannot share; a process that is killed leaves a whole file all the same.
        try:
            for line in ("PRAGMA journal_mode=PERSIST", "PRAGMA synchronous=OFF", *_TABLES):
                self._execute(line)
        except BaseException:
            self.close()
            raise

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the answer of a key; None if it was not asked before."""
        row = self._execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        try:
            return None if row is None else json.loads(row[0])
        except ValueError:  # damaged: asked again
            return None

    def lock(self, key: str) -> Path:
        """Return the file that whoever asks locks, so that others wait for the answer; many keys share one."""
        return self.file.with_suffix(f".{key[:3]}.lock")

    def keep(self, key: str, answer: Mapping[str, Any], *, reserved: float = 0.0, cost: float = 0.0) -> None:
        """Keep an answer, and count what it cost in the place of what was reserved for it: both or neither."""
        with self._file:  # an error takes back what was begun
            self._execute("BEGIN IMMEDIATE")
            self._execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, json.dumps(answer)))
            self.settle(reserved, cost)
            self._execute("COMMIT")

    def settle(self, reserved: float, cost: float) -> None:
        """Count what a request cost in the place of what was reserved for it."""
        if reserved:
            self._execute("UPDATE spent SET cost = cost + ?", (cost - reserved,))

    def take_back(self, reserved: float) -> None:
        """Count a request no more that the server refused (429, 500): nobody pays for it."""
        self._execute("UPDATE spent SET requests = requests - 1, cost = cost - ?", (reserved,))

    def reserve(self, cost: float) -> None:
        """Count a request before it is sent, with the most that it can cost.

        Raises
        ------
        BudgetError
            If the budget does not allow it. Counted are requests of all processes and commands.
        """
        requests, most = self._endpoint.max_requests, self._endpoint.max_cost
        if self._execute(_RESERVE, {"cost": cost, "requests": requests, "most": most}).rowcount:
            return
        sent, spent = self.spent()
        reached, value = ("max_requests", f"{requests}") if requests and sent >= requests else ("max_cost", f"{most:g}")
        where = f"{self._endpoint.name} at {self._endpoint.base_url}"
        held = (
            f" with what requests under way may cost; the next one may cost {cost:.6g}" if reached == "max_cost" else ""
        )
        raise BudgetError(
            f"{reached}={value}: the budget is spent ({sent} requests to {where} so far, cost {spent:.6g}{held}). "
            f"Finished cells stay, and so do answers; the same command with a larger {reached} continues."
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
            except sqlite3.OperationalError as error:  # such as a full disk: the answers in it are good
                if "locked" not in str(error) or time.monotonic() > until:  # SQLite does not wait for every lock
                    raise L3DError(f"the file of answers {self.file} cannot be used ({error}).") from error
                time.sleep(0.01)
            except sqlite3.DatabaseError as error:
                raise L3DError(
                    f"the file of answers {self.file} is damaged ({error}). Delete it and run the same command again: "
                    "answers in it are asked and paid again, and max_requests and max_cost count from 0."
                ) from error


def key_of(*content: object) -> str:
    """Return the hash of what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def price_per_request(recipe: Recipe, task: Task, numerics: Mapping[str, str], classes: int) -> float:
    """Return about what a request costs: four letters are a token, an answer takes what it may; 0 without prices."""
    letters = sum(len(text) for column in task.texts for text in column) / max(1, len(task.labels))
    asked = (1 + recipe.shots * max(1, classes)) * (letters + _LETTERS_AROUND) / 4
    answered = recipe.new_tokens if numerics.get("endpoint_log_probabilities") == "nothing" else 1
    return (asked * recipe.price_input + answered * recipe.price_output) / 1e6


def requests_per_example(numerics: Mapping[str, str], classes: int) -> int:
    """Return how many requests a test example takes: one, or one for each class; 0 if the model is here."""
    gives = numerics.get("endpoint_log_probabilities")
    return 0 if gives is None else classes if gives == "prompt" else 1
