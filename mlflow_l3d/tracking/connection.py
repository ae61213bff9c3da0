"""The way to a tracking server: quick refusals instead of minutes of silence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.privacy import public_text

if TYPE_CHECKING:
    from mlflow import MlflowClient

# One call to a dead server blocks for minutes with MLflow's own settings, and repeats POSTs on the way, which doubles
# runs. The uploader repeats calls itself, after looking whether the first one arrived.
_SETTINGS: Final = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_OUTAGES: Final = {408, 425, 429, 500, 502, 503, 504}
"""Answers of HTTP after which the same call may succeed."""
_PERMANENT: Final = {"FEATURE_DISABLED": 403, "INVALID_STATE": 409, "RESOURCE_LIMIT_EXCEEDED": 403}
"""Codes of MLflow that are refusals, and that it answers with 500."""


def public_uri(uri: str) -> str:
    """Return an address without the user and the password in it."""
    return re.sub(r"(?<=://)[^/\s]*@", "", uri)


def public_path(text: str) -> str:
    """Return a text with the user's home folder as ``~`` and the working folder as ``.``."""
    for folder, sign in ((Path.cwd(), "."), (Path.home(), "~")):
        if len(folder.parts) > 1:
            text = re.sub(re.escape(str(folder)) + r"(?![\w.-])", sign, text)
    return text


def is_outage(error: BaseException) -> bool:
    """Return whether a failed call may succeed later: the server is away, overloaded or locked, not unwilling."""
    code = getattr(error, "error_code", None)
    if code is None:
        # requests' errors are OSErrors; so is a full or absent disk. An answer that refuses is no outage.
        status = getattr(getattr(error, "response", None), "status_code", 500)
        return isinstance(error, OSError) and status in _OUTAGES
    from mlflow.exceptions import ERROR_CODE_TO_HTTP_STATUS

    stated = re.findall(r"error code (\d+)\b", str(error))
    return {{**ERROR_CODE_TO_HTTP_STATUS, **_PERMANENT}.get(code, 500), *map(int, stated)} <= _OUTAGES


@contextmanager
def own_settings() -> Iterator[None]:
    """Let calls to a tracking server fail at once and in silence, except where the user has set MLflow's variables."""
    added = [name for name in _SETTINGS if name not in os.environ]
    os.environ.update({name: _SETTINGS[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def connect() -> MlflowClient:
    """Return a client of the current tracking server that has answered once.

    Raises
    ------
    ParameterError
        If the server does not answer or refuses, or the folder holds an old file store; with the fix.
    """
    import mlflow

    uri = ""
    try:
        uri = mlflow.get_tracking_uri()
        if uri.startswith("sqlite:///") and Path(uri.removeprefix("sqlite:///")).is_dir():
            # MLflow would try for hours to open it.
            folder = public_path(uri)
            raise ParameterError("MLFLOW_TRACKING_URI", folder, "is a folder", f"Name a file in it: {folder}/mlflow.db")
        client = mlflow.MlflowClient()
        client.search_experiments(max_results=1)
    except L3DError:
        raise
    except Exception as error:
        raise _unreachable(public_uri(uri), error) from error
    return client


def _unreachable(uri: str, error: Exception) -> L3DError:
    text, code = error_line(error), getattr(error, "error_code", "")
    if "error code 401" in text or code == "UNAUTHENTICATED":
        allowed, fix = "the server refuses the login", "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
    elif "error code 403" in text or code == "PERMISSION_DENIED":
        allowed, fix = "the server denies this user access", "Ask for permission to read and write."
    elif uri.endswith("mlruns") or "file store" in text.lower() or "filesystem tracking" in text.lower():
        uri, allowed = uri or "./mlruns", "MLflow no longer writes to a folder of files"
        fix = "Set MLFLOW_TRACKING_URI=sqlite:///mlflow.db, or move the old ./mlruns away."
    elif uri.startswith("sqlite:") and "already exists" in text:
        allowed = "MLflow is making this store in another process, or was stopped while it made it"
        fix = "Try again; if it stays so and the file holds no runs, remove the file."
    else:
        detail = text if len(text) <= 200 else text[:200] + " ..."
        allowed, fix = f"no tracking server answers there ({detail})", "Start it, or set another address."
    return ParameterError("MLFLOW_TRACKING_URI", uri, allowed, fix)


def error_line(error: BaseException) -> str:
    """Return an exception as one line without credentials and without the user's folder."""
    text = str(error) or type(error).__name__
    return public_path(public_text(public_uri(" ".join(text.split()))))
