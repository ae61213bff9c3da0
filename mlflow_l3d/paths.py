"""Where things are kept between runs: one cache folder, and in it the spool of results not yet on the server."""

from __future__ import annotations

import os
from pathlib import Path

from mlflow_l3d.errors import ParameterError


def cache_folder() -> Path:
    """Return the cache folder, created if need be: ``$L3D_CACHE``, or the user's cache folder of this system.

    Raises
    ------
    ParameterError
        If it cannot be created or written.
    """
    from platformdirs import user_cache_path

    given = os.environ.get("L3D_CACHE")
    folder = Path(given).expanduser().absolute() if given else user_cache_path("mlflow-l3d")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ParameterError("L3D_CACHE", folder, f"must be a folder that can be written ({reason})") from error
    if not os.access(folder, os.W_OK):
        raise ParameterError("L3D_CACHE", folder, "must be a folder that can be written", "Set L3D_CACHE to another.")
    return folder
