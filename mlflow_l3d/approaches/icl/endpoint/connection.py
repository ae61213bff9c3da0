"""A model behind an endpoint, once it was looked at: connections, kept answers, and what asks it."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from mlflow_l3d.approaches.icl.endpoint.client import Client
from mlflow_l3d.approaches.icl.endpoint.engine import EndpointEngine
from mlflow_l3d.approaches.icl.endpoint.loop import Loop
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
    served, engine, loop
        What was found, what asks, and where that runs.

    Raises
    ------
    L3DError
        If the server does not answer, or not as it should.
    """

    def __init__(self, model: str, recipe: Recipe, cache: Path, *, again: bool = False) -> None:
        self.endpoint = Endpoint.of(model, recipe)
        self._store, self.loop = Store(self.endpoint, cache / "endpoints"), Loop()
        self._client = Client(self.endpoint, self._store)
        try:
            self.served = self.result(look(self._client, recipe, again=again))
        except BaseException:
            self.close()
            raise
        self._client.identity = "|".join(self.served.identity.values())
        self._client.verify = lambda: same(self._client, self.served)
        self.engine = EndpointEngine(self._client, self.served)

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self.loop.submit(work).result()

    def close(self) -> None:
        """Close connections, the file of answers and the thread."""
        with closing(self.loop), closing(self._store):
            self.result(self._client.close())


def identity(model: str, recipe: Recipe, cache: Path) -> dict[str, str]:
    """Return what the server says of a model; part of a cell's key.

    Raises
    ------
    L3DError
        If the server does not answer, or not as it should.
    """
    with closing(Connection(model, recipe, cache, again=True)) as connection:
        return connection.served.identity
