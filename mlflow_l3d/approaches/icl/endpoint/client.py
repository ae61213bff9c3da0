"""Requests to an endpoint: sent once, again if that helps, within a budget and the limits of the server.

The retries of the package `openai` are switched off. They know neither the budget, which every attempt is counted in,
nor the other requests under way, which wait as well when the server asks for it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from mlflow_l3d.approaches.icl.endpoint import replies
from mlflow_l3d.approaches.icl.endpoint.replies import EndpointError, RefusedError, UnreachableError
from mlflow_l3d.approaches.icl.endpoint.store import Endpoint, Store, key_of
from mlflow_l3d.errors import L3DError, ParameterError

_TRIES: Final = 6
_LOOKS_AGAIN: Final = 0.1
_MOST_REFUSALS: Final = 30
_LONGEST_WAIT: Final = 600.0
_SECONDS: Final = 600.0
_FIRST_WAIT: Final = 0.5
_LAST_SECONDS: Final = 60.0
_NEW_LIMIT: Final = "max_completion_tokens"  # what newer models of OpenAI's call `max_tokens`, and insist on
_PER_MESSAGE: Final = 64  # tokens that a chat template may put around a prompt

Read = Callable[[Mapping[str, Any]], dict[str, Any]]


class Client:
    """Asks one model at one server; used within one event loop.

    Parameters
    ----------
    endpoint
        Model, server and limits.
    store
        Answers and counts.

    Attributes
    ----------
    identity
        Joins the key of every answer: what the server says of its model.
    verify
        Called before the next request if the server was away: it may serve another model now.
    """

    def __init__(self, endpoint: Endpoint, store: Store) -> None:
        from openai import AsyncOpenAI

        for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):  # they log every request
            logging.getLogger(name).setLevel(logging.WARNING)
        self.endpoint, self.store, self.identity = endpoint, store, ""
        self.verify: Callable[[], Any] | None = None
        self._secret = _key()
        self._openai = AsyncOpenAI(
            api_key=self._secret or "none", base_url=endpoint.base_url, max_retries=0, timeout=_SECONDS
        )
        self._free = asyncio.Semaphore(endpoint.concurrency)
        self._flying: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self._resume, self._away, self._checking = 0.0, False, asyncio.Lock()
        self._stopped: L3DError | None = None
        self._renamed: Mapping[str, str] = {}

    async def ask(self, path: str, body: Mapping[str, Any], read: Read, *, asked_for: str = "") -> dict[str, Any]:
        """Return what `read` extracts from the answer; from the store if the request was sent before.

        Parameters
        ----------
        path
            ``/completions`` or ``/chat/completions``.
        body
            The request, without the model.
        read
            Extracts what is needed, as JSON can hold it; it raises an error for an answer that is not well-formed.
        asked_for
            For whom it is asked again, although it was sent before for others; empty for an answer of all.

        Returns
        -------
        dict
            What `read` returned, and under ``paid`` whether a request was sent.

        Raises
        ------
        BudgetError, EndpointError
            If every further request fails as well.
        RefusedError
            If the server refuses this request.
        """
        key = key_of(self.identity, path, body, *filter(None, (asked_for,)))
        stored = self.store.find(key)
        if stored is not None:
            return stored | {"paid": False}
        if key not in self._flying:
            self._flying[key] = asyncio.ensure_future(self._fetch(key, path, body, read))
            self._flying[key].add_done_callback(lambda task: self._landed(key, task))
        # A request under way is paid for: its answer is kept, even if nobody waits for it any more.
        return await asyncio.shield(self._flying[key])

    async def models(self) -> list[Mapping[str, Any]]:
        """Return the server's list of models, empty if it has no such route or a broken one.

        A failure that may pass is waited for. An empty list instead would describe another model, and every cell would
        be asked again.
        """
        for attempt in itertools.count(1):
            try:
                answer: Any = await self._openai.get("/models", cast_to=object)
                break
            except Exception as error:  # noqa: BLE001 - sorted below
                if replies.lacks_models(error):
                    return []
                if not replies.may_pass_for_models(error) or attempt >= _TRIES:
                    final = self._final(error)
                    raise final if isinstance(final, EndpointError) else EndpointError(str(final)) from None
                await self._pause(error, attempt)
        rows = answer.get("data") if isinstance(answer, Mapping) else None
        return [row for row in rows or () if isinstance(row, Mapping)]

    async def send(self, path: str, body: Mapping[str, Any], *, tries: int = _TRIES) -> Mapping[str, Any]:
        """Send a request, again if that helps; return the JSON object of the answer, which is counted but not kept."""
        answer: Mapping[str, Any]
        answer, reserved, cost = await self._request(path, body, dict, tries)
        self.store.settle(reserved, cost)
        return answer

    async def close(self) -> None:
        """Keep what is under way, and close the connections."""
        self._stopped = self._stopped or EndpointError("the session was closed.")
        if self._flying:
            await asyncio.wait(self._flying.values(), timeout=_LAST_SECONDS)
        await self._openai.close()

    def _landed(self, key: str, task: asyncio.Task[dict[str, Any]]) -> None:
        self._flying.pop(key, None)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain if nobody waits

    async def _fetch(self, key: str, path: str, body: Mapping[str, Any], read: Read) -> dict[str, Any]:
        while not self.store.claim(key):  # another process asks
            await asyncio.sleep(_LOOKS_AGAIN)
            if (stored := self.store.find(key)) is not None:
                return stored | {"paid": False}
            if self._stopped is not None:
                raise self._stopped
        if (stored := self.store.find(key)) is not None:  # since it was looked for
            self.store.give_up(key)
            return stored | {"paid": False}
        try:
            return await self._fetch_and_keep(key, path, body, read) | {"paid": True}
        except BaseException:
            self.store.give_up(key)
            raise

    async def _fetch_and_keep(self, key: str, path: str, body: Mapping[str, Any], read: Read) -> dict[str, Any]:
        async with self._free:
            if self._stopped is not None:
                raise self._stopped
            try:
                answer, reserved, cost = await self._request(path, body, read, _TRIES)
            except (RefusedError, asyncio.CancelledError):
                raise
            except L3DError as error:
                self._stopped = error  # the others that wait are not to try as long as this one did
                raise
            content: dict[str, Any] = answer
            self.store.keep(key, content, reserved=reserved, cost=cost)
            return content

    async def _request(
        self, path: str, body: Mapping[str, Any], read: Callable[[Any], Any], tries: int
    ) -> tuple[Any, float, float]:
        """Send a request until it is answered; return what `read` extracts, what was reserved for it, and its cost."""
        most = self._most(body)
        faults = refusals = 0
        while True:
            await self._wait_until_ready()
            if self._stopped is not None:
                raise self._stopped
            self.store.reserve(most)
            renamed = self._renamed
            whole = {"model": self.endpoint.name, **{renamed.get(name, name): each for name, each in body.items()}}
            try:
                answer: Any = await self._openai.post(path, body=whole, cast_to=object)
                content = read(answer)
            except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
                self.store.settle(most, most)
                faults += 1
                if faults >= tries:
                    often = f"{faults} times" if faults > 1 else "once"
                    what = f"{self.endpoint.base_url}{path} gave no answer of that protocol {often}"
                    raise RefusedError(f"{what} ({type(error).__name__})") from None
            except Exception as error:  # noqa: BLE001 - sorted below
                status, limited = replies.status_of(error), replies.is_rate_limit(error)
                self.store.settle(most, 0.0 if status else most)
                if status == 400 and not renamed and "messages" in body and _NEW_LIMIT in replies.server_message(error):
                    self._renamed = {"max_tokens": _NEW_LIMIT}
                    continue
                faults, refusals = faults + (not limited), refusals + limited
                if not (limited and refusals < _MOST_REFUSALS) and not (replies.may_pass(error) and faults < tries):
                    raise self._final(error) from None
                self._away = self._away or status is None
                await self._pause(error, refusals if limited else faults)
            else:
                return content, most, self._cost(answer, most)

    async def _pause(self, error: Exception, attempt: int) -> None:
        """Wait as long as the server asks for, then all other requests wait as well, or longer after each attempt."""
        requested = replies.retry_after(error)
        wait = min(_FIRST_WAIT * 2 ** (attempt - 1), 30.0) if requested is None else requested
        if wait > _LONGEST_WAIT:
            raise EndpointError(f"{self.endpoint.base_url} asks to wait for {wait:.0f} s. Run the same command then.")
        if requested is not None:
            self._resume = max(self._resume, time.monotonic() + wait)
        await asyncio.sleep(wait)

    async def _wait_until_ready(self) -> None:
        while (seconds := self._resume - time.monotonic()) > 0:
            await asyncio.sleep(seconds)
        if self._away and self.verify is not None:
            async with self._checking:
                if self._away:
                    try:
                        await self.verify()
                    except EndpointError as error:
                        if not isinstance(error, UnreachableError):
                            raise
                    else:
                        self._away = False

    def _most(self, body: Mapping[str, Any]) -> float:
        """Return the most that a request can cost: no text has more tokens than bytes."""
        if not any(self.endpoint.prices):
            return 0.0
        texts = [turn["content"] for turn in body.get("messages", ())] or [body.get("prompt", "")]
        tokens = sum(len(text.encode()) + _PER_MESSAGE for text in texts)
        return self._price(tokens, int(body.get("max_tokens", 1)))

    def _cost(self, answer: Mapping[str, Any], most: float) -> float:
        """Return what an answer cost; the most that it can cost if the server does not count its tokens."""
        asked, answered = replies.counted(answer)
        return self._price(asked, answered) if most and asked and answered is not None else most

    def _price(self, asked: int, answered: int) -> float:
        return (asked * self.endpoint.prices[0] + answered * self.endpoint.prices[1]) / 1e6

    def _final(self, error: Exception) -> L3DError:
        return replies.final_error(error, self.endpoint.base_url, self._secret)


def _key() -> str:
    """Return the key of the server, the empty text if there is none."""
    key = os.environ.get("OPENAI_API_KEY", "")
    if not all("!" <= sign <= "~" for sign in key):
        allowed = "must be letters, digits and signs of ASCII without blanks or line breaks"
        raise ParameterError("OPENAI_API_KEY", "***", allowed, "Set it again.")
    return key
