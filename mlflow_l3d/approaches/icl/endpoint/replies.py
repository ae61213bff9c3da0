"""What an endpoint answers: texts and log-probabilities, as the servers write them, and failures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.errors import L3DError

_SHARED_START: Final = 3
"""Words that begin with so many letters alike may have the same first token."""

_ROUNDED: Final = 0.01
"""A logarithm of a probability is at most 0, but for rounding; servers that list probabilities call them the same."""

# The least probability that class words have together as the first token. Below, less than one in 100 generated answers
# begins with a class word, so the order of class words says nothing of the answer: such models think first.
LEAST_SHARE: Final = 0.01

# Words that begin sentences: alone they do not stand for a class word such as "inconclusive".
_OPENERS: Final = frozenset(("a", "an", "as", "i", "in", "it", "no", "the", "this", "to", "we"))

WITHHELD: Final = "content_filter"
"""Why an answer ended that a filter withheld, and Azure's code for a prompt that it refuses."""

MALFORMED: Final = (AttributeError, KeyError, IndexError, TypeError, ValueError)
_BESIDE: Final = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields of a message that hold a thought, as servers name them."""
_THOUGHTS: Final = ("thinking", "reasoning")
"""Kinds of parts of a message that do not belong to the answer."""


def counted(reply: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the tokens of prompt and answer that the server counted, each None if it counted none or nonsense."""
    usage = reply.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    names = "prompt_tokens", "completion_tokens", "total_tokens"
    prompt_tokens, answered, both = (_whole(usage.get(name)) for name in names)
    if answered is not None and prompt_tokens and both:  # Gemini and Grok count thoughts in the total only
        answered = max(answered, both - prompt_tokens)
    return prompt_tokens, answered


def first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice with the lowest index, wherever it stands."""
    return min(reply["choices"], key=lambda each: each.get("index") or 0)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def common(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of every reply: tokens of its prompt, its model and the server's fingerprint."""
    return {
        "prompt_tokens": counted(reply)[0] or 0,
        "model": str(reply.get("model") or ""),
        "fingerprint": str(reply.get("system_fingerprint") or ""),
    }


def stated_fault(reply: Mapping[str, Any]) -> str:
    """Return the error that a reply of status 200 holds in place of an answer, as gateways send; else nothing."""
    choice = first_choice(reply) if reply.get("choices") else {}
    error = reply.get("error") or choice.get("error")
    if not error and choice.get("finish_reason") == "error":
        error = written(reply)["text"] or "no reason"
    return " ".join(str(error.get("message") if isinstance(error, Mapping) else error or "").split())[:300]


def written(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text of a reply, why it ended, and whether a thought of the model accompanies it."""
    choice = first_choice(reply)
    message = choice.get("message", choice)
    thought = any(message.get(name) for name in _BESIDE)
    finish = choice.get("finish_reason")
    refused = message.get("refusal") or finish == "refusal"
    # Servers leave content out, or null, if a thought took all tokens, or a filter the answer.
    without = thought or refused or finish == WITHHELD
    text = choice["text"] if "message" not in choice else message.get("content") if without else message["content"]
    if isinstance(text, list):  # parts, of which thoughts are some
        thought = thought or any(part.get("type") in _THOUGHTS for part in text)
        text = "".join(str(part.get("text", "")) for part in text if part.get("type") not in _THOUGHTS)
    finish = WITHHELD if refused and not text else finish
    return common(reply) | {"text": str(text or ""), "finish": finish, "thought": bool(thought)}


def first_tokens(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the likeliest first tokens of a reply with their log-probabilities, in either of the two layouts."""
    logprobs = first_choice(reply)["logprobs"]
    if logprobs.get("content"):
        top = [(str(row["token"]), float(row["logprob"])) for row in logprobs["content"][0]["top_logprobs"]]
    else:
        top = [(str(token), float(value)) for token, value in logprobs["top_logprobs"][0].items()]
    if not top or max(value for _, value in top) > _ROUNDED:
        raise ValueError("no log-probabilities")
    return common(reply) | {"top": top}


def if_given(read: Callable[[Mapping[str, Any]], dict[str, Any]], reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `read` does; of an answer without log-probabilities (a refusal, an empty one) what all replies have.

    A reply that holds no answer raises as :func:`written` does.
    """
    try:
        return read(reply)
    except MALFORMED:
        written(reply)
        return common(reply)


def end_of_prompt(reply: Mapping[str, Any], word: str) -> dict[str, Any]:
    """Return the log-probability of the class word that an echoed prompt ends with, and how many tokens it has.

    Tokens are walked from the end, so that what a tokenizer puts in front does not matter; the one token that had to be
    generated is left out.

    Raises
    ------
    ValueError
        If the tokens of the prompt do not end with the word.
    """
    logprobs = first_choice(reply)["logprobs"]
    tokens = [str(token) for token in logprobs["tokens"]]
    values = logprobs["token_logprobs"]
    generated = counted(reply)[1]
    generated = 1 if generated is None else generated
    ends = [end for end in dict.fromkeys((len(tokens) - generated, len(tokens))) if _spells(tokens[:end], word)]
    if not ends:
        raise ValueError("the prompt is not echoed")
    end, start = ends[0], ends[0] - _spells(tokens[: ends[0]], word)
    return common(reply) | {"logprob": float(sum(values[start:end])), "tokens": end - start}


def _spells(tokens: Sequence[str], word: str) -> int:
    """Return how many of the last tokens spell a word, a blank in front of it included; 0 if they do not."""
    text = ""
    for count, token in enumerate(reversed(tokens), 1):
        text = token + text
        if len(text.lstrip()) >= len(word):
            if text.lstrip() != word:
                return 0
            before = tokens[-count - 1] if count < len(tokens) else ""
            return count + int(text == word and bool(before) and not before.strip(" "))
    return 0


def tell_apart(words: Sequence[str], *, start: int | None = _SHARED_START) -> bool:
    """Return whether scores tell class words apart: none begins with another, and no two with `start` letters alike."""
    folded = [word.casefold() for word in words]
    whole = all(not other.startswith(word) for word in folded for other in folded if other is not word)
    return whole and len({word[:start] for word in folded}) == len(words)


def first_token_scores(
    top: Sequence[Sequence[Any]], words: Sequence[str], least_share: float = LEAST_SHARE
) -> tuple[npt.NDArray[np.float64], int]:
    """Return the log-probability of each word's first token, (C,), and how many words have none among those listed.

    A token counts for the one word that begins with it, in any case, with or without a blank in front. A word that is
    not listed has at most the probability of the last one that is, and gets half of that: less than any listed word. If
    all words together have at most `least_share`, or no more than tokens that may begin several words or another
    sentence, nothing is known of any: all scores are nan.
    """
    word_scores, shared = np.zeros(len(words)), 0.0
    for token, value in top:
        text = str(token).lstrip().casefold()
        named = [place for place, word in enumerate(words) if text and word.casefold().startswith(text)]
        if len(named) == 1 and (text not in _OPENERS or text == words[named[0]].casefold()):
            word_scores[named[0]] += np.exp(float(value))
        elif named:
            shared += np.exp(float(value))
    least = min((float(value) for _, value in top), default=0.0)
    unseen = word_scores == 0
    with np.errstate(divide="ignore"):
        scores = np.where(unseen, least - np.log(2), np.log(word_scores))
    if word_scores.sum() <= max(least_share, shared):
        scores[:] = np.nan
    return scores, int(unseen.sum())


_TOO_MANY: Final = 429
_GATEWAY: Final = frozenset({408, _TOO_MANY, 502, 503, 504})
_BAD_REQUEST: Final = 400
BAD_REQUESTS: Final = frozenset({_BAD_REQUEST, 422})
_NOT_FOUND: Final = 404
_UNAUTHORISED: Final = frozenset({401, 403})
_NEVER: Final = 1e10
"""Seconds; what asks to wait longer names no time that anybody waits for."""


class EndpointError(L3DError):
    """The endpoint refuses every request: the next one fails as well."""


class UnreachableError(EndpointError):
    """There is no server at the address."""


class RefusedError(L3DError):
    """The endpoint refuses this one request."""


class WithheldError(RefusedError):
    """A filter refuses this one prompt."""


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error; None if there was no response."""
    return getattr(error, "status_code", None)


def lacks_models(error: Exception) -> bool:
    """Return whether the server has no list of models, or a broken one, though it responds and accepts the key."""
    status = status_of(error)
    return status is not None and status not in _UNAUTHORISED | _GATEWAY


def final_error(error: Exception, base_url: str, secret: str) -> L3DError:
    """Return the error that users read: one line with the server's message, without the key and without a prompt."""
    status = status_of(error)
    if status is None:
        cause = type(error.__cause__ or error).__name__
        return UnreachableError(f"no answer from {base_url} ({cause}). Start the server, or correct base_url.")
    message = server_message(error, secret)
    line = f"{base_url} refuses ({status}): {message}"
    if status in _UNAUTHORISED or "No connected db" in message:  # LiteLLM's proxy, to a missing or wrong key
        return EndpointError(f"{line.rstrip('.')}. Set OPENAI_API_KEY to a key of this server.")
    if status == _BAD_REQUEST and (getattr(error, "code", None) == WITHHELD or "ContentPolicyViolation" in message):
        return WithheldError(line)
    if status == _BAD_REQUEST and re.search("context (length|size|window)", message):
        line = f"{line.rstrip('.')}. Use fewer shots, or a server with a larger context."
    if status in BAD_REQUESTS and "temperature" in message:
        line = f"{line.rstrip('.')}. Set hyperparameter temperature."
    if status == _NOT_FOUND:
        line = f"{line.rstrip('.')}. Correct base_url (most end in /v1) or the name of the model."
    passes = is_limit_that_passes(error)
    if passes:
        wait = f"wait {seconds:,.0f} s" if 1 <= (seconds := asked_wait(error)) < _NEVER else "wait"
        line = f"{line.rstrip('.')}. Lower hyperparameter concurrency, or {wait}; the same command continues."
    return EndpointError(line) if passes or status in {_NOT_FOUND, _TOO_MANY} else RefusedError(line)


def is_limit_that_passes(error: Exception) -> bool:
    """Return whether a server has too much to do, and not that the user has no credit left."""
    status = status_of(error)
    is_busy = status == _TOO_MANY or (status in _GATEWAY and asked_wait(error) > 0)
    return is_busy and getattr(error, "code", None) != "insufficient_quota"


def asked_wait(error: Exception) -> float:
    """Return how many seconds a server asks to wait (`Retry-After`, a number or a date); 0 if it does not."""
    text = getattr(getattr(error, "response", None), "headers", {}).get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError, OverflowError):
        return max(0.0, mktime_tz(date) - time.time()) if (date := parsedate_tz(text)) else 0.0
    return 0.0


def server_message(error: Exception, secret: str = "") -> str:
    """Return the server's message without the secret; of a list of faults, which may hold prompts, the words only."""
    body: Any = getattr(error, "body", None)
    message = body.get("message") or body.get("detail") or body.get("error") if isinstance(body, Mapping) else body
    if isinstance(message, list):
        faults = [fault for fault in message if isinstance(fault, Mapping)]
        message = "; ".join(f"{(fault.get('loc') or [''])[-1]} {fault.get('msg', '')}".strip() for fault in faults)
    text = " ".join(str(message).split()) if isinstance(message, str) and message else "(no reason)"
    text = text.replace(secret, "***") if secret else text
    return text if len(text) <= 300 else f"{text[:297]}..."
