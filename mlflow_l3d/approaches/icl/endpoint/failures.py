"""Failures of requests to an endpoint: which of them pass, how long to wait, and what users read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Final

from mlflow_l3d.errors import L3DError

_CONFLICTS: Final = frozenset({408, 409})
_GATEWAY: Final = frozenset({408, 429, 502, 503, 504})
_UNAUTHORISED: Final = frozenset({401, 403})


class EndpointError(L3DError):
    """The endpoint refuses every request: the next one fails as well."""


class UnreachableError(EndpointError):
    """There is no server at the address."""


class RefusedError(L3DError):
    """The endpoint refuses this one request."""


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error; None if there was no response."""
    status: int | None = getattr(error, "status_code", None)
    return status


def is_rate_limit(error: Exception) -> bool:
    """Return whether the server asks for fewer requests; a spent quota is another matter."""
    return status_of(error) == 429 and getattr(error, "code", "") != "insufficient_quota"


def may_pass(error: Exception) -> bool:
    """Return whether the same request may succeed later: no response, a conflict or a fault of the server."""
    status = status_of(error)
    return status is None or status >= 500 or status in _CONFLICTS


def may_pass_for_models(error: Exception) -> bool:
    """Return whether the list of models may be there later: a busy gateway, or a connection that was cut."""
    status = status_of(error)
    was_cut = status is None and type(error.__cause__).__name__ != "ConnectError"
    return status in _GATEWAY or was_cut


def lacks_models(error: Exception) -> bool:
    """Return whether the server has no list of models, or a broken one, though it responds and accepts the key."""
    status = status_of(error)
    return status is not None and status not in _UNAUTHORISED and not may_pass_for_models(error)


def retry_after(error: Exception) -> float | None:
    """Return the seconds that a server asks to wait: ``Retry-After`` (seconds or a date), ``retry-after-ms``."""
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            return max(0.0, float(headers[name]) / unit)
    with suppress(KeyError, ValueError):
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    return None


def final_error(error: Exception, base_url: str, secret: str) -> L3DError:
    """Return the error that users read: one line with the server's message, without the key and without a prompt."""
    status = status_of(error)
    if status is None:
        cause = type(error.__cause__ or error).__name__
        return UnreachableError(f"no answer from {base_url} ({cause}). Start the server, or correct base_url.")
    line = f"{base_url} refuses ({status}): {server_message(error, secret)}"
    if status in _UNAUTHORISED:
        return EndpointError(f"{line} Set OPENAI_API_KEY to a key of this server.")
    return EndpointError(line) if status in {404, 429} else RefusedError(line)


def server_message(error: Exception, secret: str = "") -> str:
    """Return the server's message without the secret; of a list of faults, which may hold prompts, the words only."""
    body: Any = getattr(error, "body", None)
    message = body.get("message") or body.get("detail") or body.get("error") if isinstance(body, Mapping) else body
    if isinstance(message, list):
        message = "; ".join(str(fault.get("msg", "")) for fault in message if isinstance(fault, Mapping))
    text = " ".join(str(message).split()) if isinstance(message, str) and message else "(no reason)"
    text = text.replace(secret, "***") if secret else text
    return text if len(text) <= 300 else f"{text[:297]}..."
