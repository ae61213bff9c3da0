"""Requests to an endpoint: sent once, again if that helps, within a budget; the package `openai` tries again."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from filelock import AsyncFileLock

from mlflow_l3d.approaches.failures import LAST_SECONDS
from mlflow_l3d.approaches.icl.endpoint import replies
from mlflow_l3d.approaches.icl.endpoint.replies import EndpointError, RefusedError, UnreachableError
from mlflow_l3d.approaches.icl.endpoint.store import Endpoint, Store, key_of
from mlflow_l3d.errors import L3DError, ParameterError

_RETRIES: Final = 8
"""Of the package `openai`: half a second, then twice as long each time up to 8 s, or up to 120 s if the server asks."""
_RETRIES_FOR_MODELS: Final = 3
_READS: Final = 3
"""How often an answer is asked for that is none of the protocol."""
_PAUSE: Final = 2.0  # seconds before the second time, twice as many before the third: gateways answer under overload
_SECONDS: Final = 600.0  # for an answer, and what a server may ask to wait
_NEW_LIMIT: Final = "max_completion_tokens"  # what newer models of OpenAI's call `max_tokens`, and insist on
_INSTEAD: Final = {"max_tokens": _NEW_LIMIT, "seed": ""}
"""Field -> the one that is sent in its place if a refusal names that, or nothing if it names the field."""
_PER_MESSAGE: Final = 64  # tokens that a chat template may put around a prompt

_log = logging.getLogger(__name__)
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
        Called before a request is sent again: the server may have been away, and serve another model now.
    wait_until
        When the last wait ends that the server asked for, by `time.monotonic`.
    """

    def __init__(self, endpoint: Endpoint, store: Store) -> None:
        for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):  # they log every request
            logging.getLogger(name).setLevel(logging.WARNING)
        self.endpoint, self.store, self.identity = endpoint, store, ""
        self.verify: Callable[[], Awaitable[None]] | None = None
        self._secret = _key()
        self._openai = self._connected()
        self._free = asyncio.Semaphore(endpoint.concurrency)
        self._flying: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self._stopped: L3DError | None = None
        self._stop = asyncio.Event()
        self._renamed: dict[str, str] = {}
        self._warned, self._longest, self.wait_until = False, 1.0, 0.0  # shorter waits interest nobody

    def _connected(self) -> Any:
        """Return the client of `openai`, which counts attempts at a request before they are sent."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        class Counting(AsyncOpenAI):
            async def _prepare_request(_, request: Any) -> None:
                if request.content:
                    await self._before(request)

        async def answered(response: Any) -> None:
            if response.is_error and response.request.content:  # what is refused costs nothing
                self.store.take_back(self._most(json.loads(response.request.content)))

        connections = DefaultAsyncHttpxClient(event_hooks={"response": [answered]})
        settings: dict[str, Any] = {"base_url": self.endpoint.base_url, "max_retries": _RETRIES, "timeout": _SECONDS}
        return Counting(api_key=self._secret or "none", http_client=connections, **settings)

    async def _before(self, request: Any) -> None:
        retries = int(request.headers.get("x-stainless-retry-count", "0"))
        if retries:
            await self._check_again()
        if retries > 2 and not self._warned:  # a limit that passes soon interests nobody
            self._warned = True
            _log.warning("%s gave no answer %d times, and is asked again.", self.endpoint.base_url, retries)
        self.store.reserve(self._most(json.loads(request.content)))

    async def _check_again(self) -> None:
        """Raise if no request is to be sent again: the study ends, or the server has another model."""
        if self._stopped is not None:
            raise self._stopped
        if self.verify is not None:
            with suppress(UnreachableError):
                await self.verify()

    def _end(self, error: L3DError) -> None:
        """Let requests that wait fail, too: they are not to try as long as this one did."""
        self._stopped = self._stopped or error
        self._stop.set()

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
        if (stored := self.store.find(key)) is not None:
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
        try:
            again = {"max_retries": _RETRIES_FOR_MODELS}
            answer: Any = await self._openai.get("/models", cast_to=object, options=again)
        except Exception as error:  # noqa: BLE001 - sorted below
            if replies.lacks_models(error):
                return []
            final = replies.final_error(error, self.endpoint.base_url, self._secret)
            raise final if isinstance(final, EndpointError) else EndpointError(str(final)) from None
        rows = answer.get("data") if isinstance(answer, Mapping) else None
        return [row for row in rows or () if isinstance(row, Mapping)]

    async def close(self) -> None:
        """Keep what is under way, and close the connections."""
        self._end(EndpointError("the session was closed."))
        if self._flying:
            await asyncio.wait(self._flying.values(), timeout=LAST_SECONDS)
        await self._openai.close()

    def _landed(self, key: str, task: asyncio.Task[dict[str, Any]]) -> None:
        self._flying.pop(key, None)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain if nobody waits

    async def _fetch(self, key: str, path: str, body: Mapping[str, Any], read: Read) -> dict[str, Any]:
        async with self._free, AsyncFileLock(self.store.lock(key)):
            if (stored := self.store.find(key)) is not None:  # another process asked
                return stored | {"paid": False}
            if self._stopped is not None:
                raise self._stopped
            try:
                content = await self.send(path, body, read, key)
            except RefusedError:
                raise
            except L3DError as error:
                self._end(error)
                raise
            return content | {"paid": True}

    async def send(self, path: str, body: Mapping[str, Any], read: Read = dict, key: str = "") -> dict[str, Any]:
        """Send a request, again if that helps; count the answer, and return what `read` extracts, kept under a key."""
        renamed, most, fault, answer = self._renamed, self._most(body), "", None
        wait = 0.0
        for attempt in range(_READS):
            if attempt > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), max(wait, _PAUSE * attempt if fault else 0.0))
                await self._check_again()
                wait = 0.0
            fields = {renamed.get(name, name): each for name, each in body.items()}
            whole = {"model": self.endpoint.name, **{name: each for name, each in fields.items() if name}}
            try:
                answer = await self._openai.post(path, body=whole, cast_to=object)
                self._renamed = self._renamed | renamed
                if not (fault := replies.stated_fault(answer)):
                    content, cost = read(answer), self._cost(answer, most)
                    if key:
                        self.store.keep(key, content, reserved=most, cost=cost)
                    else:
                        self.store.settle(most, cost)
                    return content
            except replies.MALFORMED as error:
                fault = "a page or a stream, not JSON" if isinstance(answer, str) else type(error).__name__
                if isinstance(answer, str) and not key:  # whoever is asked first is waited for no longer
                    break
            except L3DError:  # the budget
                raise
            except Exception as error:  # noqa: BLE001 - sorted here
                refusal = replies.server_message(error) if "messages" in body else ""
                words = re.findall(r"\w+", refusal) if replies.status_of(error) in replies.BAD_REQUESTS else []
                others = {name: new for name, new in _INSTEAD.items() if (new or name) in words and name not in renamed}
                wait = replies.asked_wait(error)
                may_pass = replies.is_limit_that_passes(error) and wait <= _SECONDS
                if attempt + 1 == _READS or not (others or may_pass):
                    raise replies.final_error(error, self.endpoint.base_url, self._secret) from None
                renamed = renamed | others
                self.wait_until = max(self.wait_until, time.monotonic() + wait)
                if wait > self._longest:
                    self._longest = wait
                    _log.warning("%s asks to wait %.0f s. Waiting.", self.endpoint.base_url, wait)
        where = f"{self.endpoint.base_url}{path}"
        times = f" {attempt + 1} times" if attempt > 0 else ""
        raise RefusedError(f"{where} gave no answer of OpenAI's protocol{times} ({fault}). Check base_url.")

    def _most(self, body: Mapping[str, Any]) -> float:
        """Return the most that a request can cost: no text has more tokens than bytes."""
        if not any(self.endpoint.prices):
            return 0.0
        tokens = sum(len(text) + _PER_MESSAGE for text in texts_of(body))
        return self._price(tokens, int(body.get("max_tokens", body.get(_NEW_LIMIT, 1))))

    def _cost(self, answer: Mapping[str, Any], most: float) -> float:
        """Return what an answer cost; the most that it can cost if the server does not count its tokens."""
        asked, answered = replies.counted(answer)
        return self._price(asked, answered) if most and asked and answered is not None else most

    def _price(self, asked: int, answered: int) -> float:
        return (asked * self.endpoint.prices[0] + answered * self.endpoint.prices[1]) / 1e6


def texts_of(body: Mapping[str, Any]) -> list[bytes]:
    """Return the texts of a request."""
    return [turn["content"].encode() for turn in body.get("messages", ({"content": body.get("prompt", "")},))]


def _key() -> str:
    """Return the key of the server, the empty text if there is none."""
    key = os.environ.get("OPENAI_API_KEY", "")
    if not all("!" <= sign <= "~" for sign in key):
        allowed = "must be letters, digits and signs of ASCII without blanks or line breaks"
        raise ParameterError("OPENAI_API_KEY", "***", allowed, "Set it again.")
    return key
