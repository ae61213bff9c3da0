"""A model behind an endpoint, once it was looked at: connections, kept answers, and what asks it."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

from mlflow_l3d.approaches.icl.endpoint.client import Client
from mlflow_l3d.approaches.icl.endpoint.engine import EndpointEngine
from mlflow_l3d.approaches.icl.endpoint.reference import Endpoint
from mlflow_l3d.approaches.icl.endpoint.served import look, same
from mlflow_l3d.approaches.icl.endpoint.store import Store
from mlflow_l3d.approaches.icl.recipe import Recipe

T = TypeVar("T")


class Connection:
    """Looks at a server, and holds what a session needs to ask it.

    Parameters
    ----------
    model, recipe
        Whom to ask, and how.
    cache
        Where answers are kept, in a folder below.
    again
        Whether to find out anew what the server gives, as at the start of a study.

    Attributes
    ----------
    served, engine
        What was found, and what asks.

    Raises
    ------
    L3DError
        If the server does not answer, or not as it should.
    """

    def __init__(self, model: str, recipe: Recipe, cache: Path, *, again: bool = False) -> None:
        self.endpoint = Endpoint.of(model, recipe)
        from anyio.from_thread import start_blocking_portal

        self._store, self._open = Store(self.endpoint, cache / "endpoints"), ExitStack()
        # An event loop in a thread of its own, so that a session also works if one runs already, as in a notebook.
        self._portal = self._open.enter_context(start_blocking_portal())
        self._client = Client(self.endpoint, self._store)
        try:
            self.served = self.result(look(self._client, recipe, again=again))
        except BaseException:
            self.close()
            raise
        self._client.identity = "|".join(self.served.identity.values())
        self._client.verify = lambda: same(self._client, self.served)
        self.engine = EndpointEngine(self._client, self.served)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine."""
        future: Future[T] = self._portal.start_task_soon(lambda: work)
        return future

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self.begin(work).result()

    def close(self) -> None:
        """Close connections, the file of answers and the thread."""
        with self._open, closing(self._store):
            try:
                self.result(self._client.close())
            finally:
                self._portal.call(self._portal.stop, True)  # what is under way is cancelled


def identity(model: str, recipe: Recipe, cache: Path) -> dict[str, str]:
    """Return what the server says of a model; part of a cell's key.

    Raises
    ------
    L3DError
        If the server does not answer, or not as it should.
    """
    with closing(Connection(model, recipe, cache, again=True)) as connection:
        return connection.served.identity
