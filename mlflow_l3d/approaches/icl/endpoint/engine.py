"""A model behind an endpoint: its connection, and scores and texts as the engines of models that are here give them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.icl.decisions import Written
from mlflow_l3d.approaches.icl.endpoint import replies
from mlflow_l3d.approaches.icl.endpoint import served as server
from mlflow_l3d.approaches.icl.endpoint.client import Client, Read, texts_of
from mlflow_l3d.approaches.icl.endpoint.replies import EndpointError
from mlflow_l3d.approaches.icl.endpoint.store import Endpoint, Store, key_of
from mlflow_l3d.approaches.icl.prompts import Prompt
from mlflow_l3d.approaches.icl.recipe import Recipe
from mlflow_l3d.approaches.progress import tell
from mlflow_l3d.errors import L3DError

T = TypeVar("T")

_MOST_BYTES: Final = 8
"""Per token; text has 3 to 5. Servers that cut a prompt in silence (Ollama keeps half of its context) count fewer."""

_LOOK_SECONDS: Final = 5.0
"""How often whoever waits for answers says that the server asked for it."""

_log = logging.getLogger(__name__)


@dataclass
class Tally:
    """What the answers of one cell have in common.

    Attributes
    ----------
    asked_for
        What else than the request the answers are stored under: the key of a cell that asks again what others asked.
    tokens
        Of each prompt, as the server counts them.
    paid, answers, foreign, short
        Requests sent, answers used, how many of those another fingerprint gave than the study began with, and of how
        many prompts the server counts so few tokens that it must have cut them (or did not count all).
    withheld
        Scored prompts that a filter refuses.
    """

    asked_for: str = ""
    tokens: list[int] = field(default_factory=list)
    paid: int = 0
    answers: int = 0
    foreign: int = 0
    short: int = 0
    withheld: set[str] = field(default_factory=set)

    @property
    def metrics(self) -> dict[str, float]:
        """``requests_sent``, shares of answers, and ``prompt_tokens`` if the server counts them."""
        answers = max(1, self.answers)
        counted = [tokens for tokens in self.tokens if tokens > 0]
        metrics = {"other_fingerprint_share": self.foreign / answers, "few_tokens_share": self.short / answers}
        tokens = {"prompt_tokens": float(np.mean(counted))} if counted else {}
        return {**metrics, "requests_sent": float(self.paid), **tokens}


class Connection:
    """A connection to a server: all requests for scores and texts are made at once, and the client queues them.

    Parameters
    ----------
    model, recipe
        Whom to ask, and how.
    cache
        Where answers are kept, in a folder below.
    opened
        Closes connections, the file of answers and the thread.
    again
        Whether to find out again what the server gives, as at the start of a study.

    Attributes
    ----------
    served
        Facts about the server.

    Raises
    ------
    L3DError
        If the server does not answer, or not as it should.
    """

    def __init__(self, model: str, recipe: Recipe, cache: Path, opened: ExitStack, *, again: bool = False) -> None:
        self.endpoint = Endpoint.of(model, recipe)
        from anyio.from_thread import start_blocking_portal

        store = opened.enter_context(closing(Store(self.endpoint, cache / "endpoints")))
        # An event loop in a thread of its own, so that a session also works if one runs already, as in a notebook.
        self._portal = opened.enter_context(start_blocking_portal())
        opened.callback(self._portal.call, self._portal.stop, True)  # what is under way is cancelled
        self._client = Client(self.endpoint, store)
        opened.callback(lambda: self.result(self._client.close()))
        self.served = self.result(server.look(self._client, recipe, again=again))
        self._client.verify = lambda: server.same(self._client, self.served)
        self._client.identity = "|".join(self.served.identity.values())
        self._fingerprints = {self.served.fingerprint}
        self._path = server.CHAT if self.served.chat else server.TEXT

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine."""
        future: Future[T] = self._portal.start_task_soon(lambda: work)
        return future

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self.outcome(self.begin(work))

    def outcome(self, work: Future[T]) -> T:
        """Return what a coroutine gives; meanwhile say that the server asked to wait: this worker does not hang."""
        state = ""
        while wait([work], timeout=_LOOK_SECONDS).not_done:
            if (left := self._client.wait_until - time.monotonic()) > 0:
                tell(state := f"waiting {left:.0f} s for {self.endpoint.base_url}")
        if state:
            tell("")
        return work.result()

    def obstacle(self, words: Sequence[str], calibrated: bool = False) -> str:
        """Return why class words get no scores that tell them apart; the empty text if they do.

        A whole word that begins with another can only win if scores are `calibrated`.
        """
        served = self.served
        if served.gives == "nothing":
            return served.refusal or "it lists none"
        if served.gives == "prompt":
            is_fair = calibrated or replies.tell_apart(words, start=None)
            return "" if is_fair else "a class word begins with another, and can never score higher"
        if served.top < min(len(words), server.FEWEST):
            return f"it lists {served.top}, too few for the class words; vLLM: --max-logprobs 20"
        return "" if replies.tell_apart(words) else "its first tokens do not tell the class words apart"

    async def score(
        self, prompts: Sequence[Prompt], words: Sequence[str], tally: Tally, empty: Sequence[Prompt] = ()
    ) -> tuple[npt.NDArray[np.float64], float]:
        """Return the log-probability of every class word behind every prompt, (n, C), then behind the `empty` inputs.

        If the server gives those of whole prompts, it is the sum over the word's tokens; else that of its first one,
        and the second value returned is the share of words that were not among the likeliest tokens. Of a prompt for
        which it gives none, or where class words are too unlikely, they are nan; empty inputs need no likely word.

        Raises
        ------
        L3DError
            If all words are equally likely behind most prompts: a fault of the server, not rounding.
        """
        everything, unseen = [*prompts, *empty], 0
        if self.served.gives == "prompt":
            values: list[Any] = [self._behind(str(prompt), word, tally) for prompt in everything for word in words]
            values = await asyncio.gather(*values)
        else:
            least = [replies.LEAST_SHARE] * len(prompts) + [0.0] * len(empty)
            answers = await asyncio.gather(*(self._first(prompt, tally) for prompt in everything))
            rows = [replies.first_token_scores(top, words, share) for top, share in zip(answers, least, strict=True)]
            values = [row for row, _ in rows]
            unseen = sum(count for _, count in rows)
        scores = np.array(values, dtype=np.float64).reshape(len(everything), len(words))
        scores[np.isneginf(scores).all(axis=1)] = np.nan
        tied = int((np.ptp(scores, axis=1) == 0).sum())
        if tied > max(1, len(everything) / 2):
            what = f"gives all class words the same log-probability behind {tied} of {len(everything)} prompts"
            raise L3DError(f"{self.endpoint.base_url} {what}. Use decision=generate, or another judge.")
        return scores, unseen / max(1, scores.size)

    async def generate(
        self, prompts: Sequence[Prompt], tokens: int, temperature: float, draws: np.random.Generator, tally: Tally
    ) -> list[Written]:
        """Return the texts with which prompts are answered, each drawn by the server with a seed of its own."""
        seeds = draws.integers(2**31, size=len(prompts)).tolist() if temperature else [0] * len(prompts)
        how: dict[str, Any] = {"chat": self.served.chat, "tokens": tokens, "temperature": temperature}
        bodies = [(each, server.asked(each, **how, seed=seed)) for each, seed in zip(prompts, seeds, strict=True)]
        answers = await asyncio.gather(*(self._one(*each, replies.written, tally) for each in bodies))
        return [Written(str(each["text"]), each.get("finish") or "", bool(each.get("thought"))) for each in answers]

    async def _behind(self, prompt: str, word: str, tally: Tally) -> float:
        read = partial(replies.if_given, partial(replies.end_of_prompt, word=word))
        answer = await self._one(prompt, server.echoed(prompt, f" {word}"), read, tally)
        tally.tokens[-1] -= int(answer.get("tokens", 0))
        return float(answer.get("logprob", np.nan))

    async def _first(self, prompt: Prompt, tally: Tally) -> list[Any]:
        chat = self.served.chat
        body = server.asked(prompt, chat=chat) | server.listed(self.served.top, chat=chat)
        answer = await self._one(prompt, body, partial(replies.if_given, replies.first_tokens), tally)
        return list(answer.get("top", ()))

    async def _one(self, prompt: Prompt, body: Mapping[str, Any], read: Read, tally: Tally) -> dict[str, Any]:
        try:
            answer = await self._client.ask(self._path, body, read, asked_for=tally.asked_for)
        except replies.WithheldError:  # what a filter refuses is free, and has an answer: none
            tally.tokens.append(0)
            tally.answers += 1
            tally.withheld.add(str(prompt))
            return {"text": "", "finish": replies.WITHHELD}
        model, fingerprint = str(answer["model"] or ""), str(answer["fingerprint"] or "")
        if model != self.served.model:
            raise EndpointError(server.model_changed_message(self._client, model or "a model without a name"))
        if fingerprint not in self._fingerprints:
            self._fingerprints.add(fingerprint)
            before, where = self.served.fingerprint or "none", self.endpoint.base_url
            line = "%s answers with the fingerprint %s; the study began with %s. other_fingerprint_share counts such."
            _log.warning(line, where, fingerprint or "none", before)
        tally.tokens.append(int(answer["prompt_tokens"]))
        tally.paid += bool(answer["paid"])
        tally.answers += 1
        tally.short += 0 < int(answer["prompt_tokens"]) * _MOST_BYTES < sum(map(len, texts_of(body)))
        tally.foreign += fingerprint != self.served.fingerprint
        return answer


def identity(model: str, recipe: Recipe, cache: Path) -> dict[str, str]:
    """Return what the server says of a model, and a hash of its address; part of a cell's key.

    Servers say little: two of them may give one name to two models, or to two quantisations of one.

    Raises
    ------
    L3DError
        If the server does not answer, or not as it should.
    """
    with ExitStack() as opened:
        connection = Connection(model, recipe, cache, opened, again=True)
        reading = {"endpoint_first_tokens": "3"} if connection.served.gives == "first" else {}  # how they are read
        address = key_of(connection.endpoint.base_url)[:12]
        return {**connection.served.identity, **reading, "endpoint_address": address}
