"""What a server says of its model, and what it can do: asked before the first cell."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from mlflow_l3d.approaches.icl.endpoint import replies
from mlflow_l3d.approaches.icl.endpoint.client import Client
from mlflow_l3d.approaches.icl.endpoint.replies import EndpointError, RefusedError, UnreachableError
from mlflow_l3d.approaches.icl.endpoint.store import key_of
from mlflow_l3d.approaches.icl.recipe import AUTO, Recipe
from mlflow_l3d.errors import L3DError, ParameterError

CHAT: Final = "/chat/completions"
TEXT: Final = "/completions"
FEWEST: Final = 5  # fewer first tokens must be as many as class words
_ALLOWED: Final = re.compile(r"greater than max allowed: (\d+)")
"""What vLLM says: "Requested sample logprobs of 20, which is greater than max allowed: 4"."""
_TOP: Final = (20, FEWEST)
_NEAR: Final = 0.3  # two steps of a logit between 16 and 32 in bfloat16, and a bit
_QUESTION: Final = "Answer with yes or no.\nAnswer:"
_DESCRIBES: Final = ("id", "root", "parent", "owned_by", "max_model_len", "meta")

Gives = Literal["prompt", "first", "nothing"]


@dataclass(frozen=True, slots=True)
class Served:
    """A model as its server serves it.

    Attributes
    ----------
    model, fingerprint
        What its replies say; the empty text if they say nothing.
    description
        Hash of what the list of models says of it.
    chat
        Whether prompts go to the route of chats.
    gives
        Log-probabilities of the `prompt`, of the `first` token of an answer, or `nothing`; `nothing` also if answers
        are generated and none are asked for.
    top
        How many first tokens the server lists.
    refusal
        The server's reason for giving nothing; empty if it states none.
    """

    model: str
    fingerprint: str
    description: str
    chat: bool
    gives: Gives
    top: int = 0
    refusal: str = ""

    @property
    def identity(self) -> dict[str, str]:
        """What of it decides results; part of a cell's key."""
        whose = " ".join(part or "-" for part in (self.model, self.fingerprint, self.description))
        route = "chat" if self.chat else "text"
        return {"endpoint": whose, "endpoint_route": route, "endpoint_log_probabilities": self.gives}


async def look(client: Client, recipe: Recipe, *, again: bool = True) -> Served:
    """Ask a server, in at most eight requests of one token each, who it is and what it gives.

    These facts are kept next to the answers, so that all sessions of a study ask in the way that is in its keys. What
    fails for a moment is tried again: it says nothing of what a server gives.

    Parameters
    ----------
    client, recipe
        Whom to ask, and for what.
    again
        Whether to find out again what it gives. A server that still says and gives the same is asked once.

    Raises
    ------
    ParameterError
        If it does not answer, does not have the model, or has no chats if those are asked for.
    BudgetError
        If the budget is spent.
    """
    name = client.endpoint.name
    rows = await client.models()
    score = recipe.decision == "score"
    tried = {"none": (False,), AUTO: (True, False)}.get(recipe.chat, (True,))
    description = _described(rows, name)
    place = key_of("look", description, tried, score)
    if (stored := client.store.find(place)) is not None and not (again and stored["gives"] == "prompt"):
        served = Served(**stored)
        more = listed(served.top or _TOP[0], chat=served.chat) if again and score else {}
        with suppress(RefusedError, *replies.MALFORMED):
            reply = await client.send(CHAT if served.chat else TEXT, _probe(recipe, chat=served.chat) | more)
            lists_tokens = "top" in replies.if_given(replies.first_tokens, reply)
            same_gives = not more or lists_tokens == (served.gives == "first")
            said = replies.common(reply)
            if same_gives and (said["model"], said["fingerprint"]) == (served.model, served.fingerprint):
                return served
    refused: RefusedError | EndpointError | None = None
    for chat in tried:
        try:
            served = await _tried(client, recipe, description, chat=chat)
        except UnreachableError:
            raise
        except (RefusedError, EndpointError) as error:
            refused = refused or error
        else:
            client.store.keep(place, asdict(served))
            return served
    names = [str(row.get("id")) for row in rows]
    if names and name not in names:
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        fix = f"Did you mean {close[0]!r}?" if close else str(refused)
        raise ParameterError("model", f"openai:{name}", f"the server has {', '.join(names[:10])}", fix)
    raise L3DError(str(refused)) from None


async def same(client: Client, served: Served) -> None:
    """Raise :class:`EndpointError` if a server describes another model now; without its list it describes none."""
    rows = await client.models()
    if rows and _described(rows, client.endpoint.name) != served.description:
        raise EndpointError(model_changed_message(client, "another model of that name"))


def model_changed_message(client: Client, what: str) -> str:
    """Return the line that says that cells to come would have another key."""
    where = f"{client.endpoint.base_url} now answers as {what}, and no longer as it did when this study began"
    return f"{where}. Finished cells stay; the same command asks the new one, in cells of its own."


def _probe(recipe: Recipe, *, chat: bool) -> dict[str, Any]:
    """Return a request as those of a study: reasoning models refuse other temperatures, and to answer unthinking."""
    return asked(_QUESTION, chat=chat, tokens=1 + recipe.thought_tokens, temperature=recipe.temperature)


async def _tried(client: Client, recipe: Recipe, description: str, *, chat: bool) -> Served:
    """Return what a server says on one of its two routes, and what can be had of log-probabilities."""
    path = CHAT if chat else TEXT
    body = _probe(recipe, chat=chat)
    score = recipe.decision == "score"

    def served(reply: Mapping[str, Any], gives: Gives, top: int = 0, refusal: str = "") -> Served:
        said = replies.common(reply)
        return Served(said["model"], said["fingerprint"], description, chat, gives, top, refusal)

    if score and not chat:
        with suppress(RefusedError, *replies.MALFORMED):
            return served(await _echo(client, path, body), "prompt")
    refusal = ""
    if score:
        try:
            reply, top = await _listing(client, path, body, [*_TOP])
            return served(reply, "first", top)
        except (RefusedError, *replies.MALFORMED) as error:
            refusal = str(error).partition(": ")[2]
    reply = await client.send(path, body)
    try:
        replies.written(reply)
    except replies.MALFORMED:
        raise RefusedError(f"{client.endpoint.base_url}{path} gave an answer without a text. Check base_url.") from None
    return served(reply, "nothing", 0, refusal)


async def _listing(client: Client, path: str, body: dict[str, Any], counts: list[int]) -> tuple[Mapping[str, Any], int]:
    """Return a reply with likely first tokens and how many: the first of `counts` that works, or what vLLM allows."""
    fault: Exception = ValueError("no log-probabilities")
    while counts:
        top = counts.pop(0)
        try:
            reply = await client.send(path, body | listed(top, chat=path == CHAT))
            replies.first_tokens(reply)
        except (RefusedError, *replies.MALFORMED) as error:
            fault, allowed = error, _ALLOWED.search(str(error))
            counts = [int(allowed[1])] if allowed and 0 < int(allowed[1]) < top else counts
        else:
            return reply, top
    raise fault


async def _echo(client: Client, path: str, body: dict[str, Any]) -> Mapping[str, Any]:
    """Return a reply with an echoed prompt; some servers put its log-probabilities to the wrong tokens.

    The likeliest word behind a prompt must have the same one when it is in the prompt.
    """
    reply, _ = await _listing(client, path, body, [FEWEST])
    top = replies.first_tokens(reply)["top"]
    words = {token: value for token, value in top if token.strip().isalpha()}  # not end tokens and line breaks
    best = max(words, key=lambda token: (token.startswith(" "), words[token]))
    reply = await client.send(path, echoed(_QUESTION, f" {best.strip()}"))
    if abs(replies.end_of_prompt(reply, best.strip())["logprob"] - words[best]) > _NEAR:
        raise ValueError("log-probabilities of other tokens")
    return reply


def asked(prompt: Any, *, chat: bool, tokens: int = 1, temperature: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """Return a request: a text, the turns of a chat, or one user's turn."""
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    what = {"messages": turns} if chat else {"prompt": prompt}
    return {**what, "max_tokens": tokens, "temperature": temperature, "seed": seed}


def echoed(prompt: str, answer: str) -> dict[str, Any]:
    """Return the request for the log-probabilities of a prompt and its answer; most servers must generate a token."""
    return asked(prompt + answer, chat=False) | {"echo": True, "logprobs": 1}


def listed(top: int, *, chat: bool) -> dict[str, Any]:
    """Return what asks for the likeliest tokens."""
    return {"logprobs": True, "top_logprobs": top} if chat else {"logprobs": top}


def _described(rows: list[Mapping[str, Any]], name: str) -> str:
    """Return the hash of what lasts of a model's entry: not when it was started, nor who may use it."""
    entries = [row for row in rows if row.get("id") == name] or (rows if len(rows) == 1 else [])
    return key_of({field: entries[0].get(field) for field in _DESCRIBES})[:12] if entries else ""
