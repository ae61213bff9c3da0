"""What `transformers` asks of one GGUF file several times, done once: to read the packaged model takes seconds."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

_read, _map_names, _map = gguf.GGUFReader, gguf.get_tensor_name_map, np.memmap


@lru_cache(maxsize=1)
def _known(path: str, *stamp: int) -> gguf.GGUFReader:
    with pytest.MonkeyPatch.context() as patch:  # each of half a million slices of a `memmap` takes ten times longer
        patch.setattr(np, "memmap", lambda file, mode: np.asarray(_map(file, mode=mode)))
        return _read(path)


def _reader(path: Any, *mode: Any) -> gguf.GGUFReader:
    """Return what was read, as long as the file is the same: for configuration, weights and tokenizer."""
    status = Path(path).stat()
    return _read(path, *mode) if mode else _known(str(path), status.st_ino, status.st_mtime_ns, status.st_size)


# Names are asked for at every module of a model, and are those of its architecture.
gguf.GGUFReader, gguf.get_tensor_name_map = _reader, lru_cache(maxsize=1)(_map_names)
