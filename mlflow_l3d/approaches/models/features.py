"""Features of a frozen encoder: computed once for a task, kept on disk, shared by all workers."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.models import ModelReference
from mlflow_l3d.approaches.models.pretrained import config_and_tokenizer, load_encoder
from mlflow_l3d.approaches.models.tokens import Tokens, check_length, tokenise
from mlflow_l3d.approaches.numerics import cores, device_numerics, minor_version
from mlflow_l3d.approaches.progress import report_progress, tell
from mlflow_l3d.cells.cell import content_key
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.settings import IntArray

FloatArray = npt.NDArray[np.float32]
_log = logging.getLogger(__name__)
BATCH: Final = 32
"""Examples encoded together; part of what decides the last bits, so it does not depend on the machine."""
_PATIENCE: Final = 0.5
"""Seconds that pass before a process says that it waits for another one."""
_verified: set[tuple[Path, int, int]] = set()
"""Files, as they were when this process found their content to have its checksum."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How texts become features.

    Attributes
    ----------
    encoder
        What encodes.
    pooling
        ``mean`` over the tokens, or the first one (``cls``).
    max_length
        Tokens of an example; more are cut off.
    device
        Where it computes.
    dtype
        What it computes in: ``float32``, or ``bfloat16``, where its weights stay float32.
    """

    encoder: ModelReference
    pooling: str = "mean"
    max_length: int = 128
    device: str = "cpu"
    dtype: str = "float32"


def load_or_encode(texts: Sequence[Sequence[str]], encoding: Encoding, cache: Path) -> FloatArray:
    """Return the features of all texts, from the cache if they are there.

    One process encodes, with all cores, while others that want the same wait. A file appears under its name only
    when it is whole; one whose content has another checksum is made again.

    Parameters
    ----------
    texts
        One column of n texts, or two.
    encoding
        What encodes them, and how.
    cache
        The cache folder; features lie in ``features/``.

    Returns
    -------
    ndarray
        Shape (n, D), float32, memory-mapped and read-only.

    Raises
    ------
    ParameterError
        If the cache folder cannot take the file (no space, no right to write), or the model cannot be loaded.
    """
    path = cache / "features" / f"{features_key(texts, encoding)}.npy"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if (features := _stored(path)) is None:
            with _alone(path.with_suffix(".lock"), len(texts[0])):
                if _stored(path) is None:
                    if path.exists():
                        _log.warning("Features in %s are damaged, or have no checksum, and are made again", path.name)
                    _write(path, texts, encoding)
            features = _stored(path)
    except OSError as error:
        allowed = f"the cache folder cannot take the features ({error.strerror or type(error).__name__})"
        fix = "Free some space there, or set the environment variable L3D_CACHE to another folder."
        raise ParameterError("L3D_CACHE", cache, allowed, fix) from error
    if features is None:
        raise RuntimeError(f"{path.name} changed while it was written")
    return features


def truncated_share(texts: Sequence[Sequence[str]], encoding: Encoding, cache: Path) -> float:
    """Return the share of the examples that were cut: from the file next to their features, or counted."""
    path = cache / "features" / f"{features_key(texts, encoding)}.truncated"
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        _, tokenizer = config_and_tokenizer(encoding.encoder)
        share = tokenise(tokenizer, texts, encoding.max_length).truncated_share
    with suppress(OSError):
        path.write_text(str(share))
    return share


@contextmanager
def _alone(lock: Path, rows: int) -> Iterator[None]:
    """Hold a lock; say once that another process has it, for a worker of the same study reports its progress."""
    from filelock import FileLock, Timeout

    try:
        held = FileLock(lock).acquire(timeout=_PATIENCE)
    except Timeout:
        tell(f"waiting for another process that encodes these {rows:,} texts")
        held = FileLock(lock).acquire()
        tell("")
    with held:
        yield


def _write(path: Path, texts: Sequence[Sequence[str]], encoding: Encoding) -> None:
    """Write features, and their checksum, to a file that appears only when it is whole."""
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            cut = encode(file, texts, encoding, free=shutil.disk_usage(path.parent).free)
            file.flush()
            file.seek(0, os.SEEK_END)
            file.write(hashlib.sha256(np.load(partial, mmap_mode="r")).digest())
            file.flush()
            os.fsync(file.fileno())
        path.with_suffix(".truncated").write_text(str(cut))
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def features_key(texts: Sequence[Sequence[str]], encoding: Encoding) -> str:
    """Return the hash of all that the features depend on: weights, texts, pooling, cut, precision, library versions."""
    digest = hashlib.sha256()
    for column in texts:
        digest.update(len(column).to_bytes(8))
        for text in column:
            content = text.encode("utf-8", "surrogatepass")
            digest.update(len(content).to_bytes(8) + content)
    return content_key(
        {
            "format": 1,
            "model": encoding.encoder.revision,
            "texts": digest.hexdigest(),
            "pooling": encoding.pooling,
            "max_length": encoding.max_length,
            **device_numerics(encoding.device),
            "dtype": encoding.dtype,
            "torch": minor_version("torch"),
            "transformers": minor_version("transformers"),
        }
    )


def encode(file: BinaryIO, texts: Sequence[Sequence[str]], encoding: Encoding, *, free: int) -> float:
    """Encode all texts into a .npy file, row by row, and return the share of the examples that were cut.

    Memory does not grow with the number of texts.

    Each worker thread computes its batches with one thread of torch: the numbers do not depend on how many cores
    there are, and no core waits for another.

    Parameters
    ----------
    file
        Open for writing in binary mode.
    texts, encoding
        As for :func:`load_or_encode`.
    free
        Bytes free on the disk: too few are noticed before the work, not after it.
    """
    device, (encoder, tokenizer) = encoding.device, load_encoder(encoding.encoder)
    check_length(encoding.max_length, tokenizer, encoder.config)
    encoder.to(device)
    rows, width = len(texts[0]), int(encoder.config.hidden_size)
    if free < rows * width * 4:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    tokens = tokenise(tokenizer, texts, encoding.max_length)
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, width)})
    start = file.tell()
    batches = tokens.by_length(np.arange(rows), BATCH)

    def one(batch: IntArray) -> npt.NDArray[Any]:
        # Of this thread alone.
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=encoding.dtype == "bfloat16"):
            return pooled(encoder, tokens, batch, encoding.pooling, device).cpu().numpy()

    count, before = cores() if device == "cpu" else 1, torch.get_num_threads()
    _log.info("Encoding %d texts once for all cells, with %d threads", rows, count)
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            encoded = zip(batches, pool.map(one, batches), strict=True)
            for batch, values in report_progress(f"encoding {rows:,} texts", encoded, lambda part: len(part[0]), rows):
                for position, row in zip(batch.tolist(), values, strict=True):
                    file.seek(start + position * width * 4)
                    file.write(row.astype("<f4").tobytes())
    finally:
        torch.set_num_threads(before)
    return tokens.truncated_share


def pooled(encoder: Any, tokens: Tokens, positions: IntArray, pooling: str, device: str) -> torch.Tensor:
    """Return one vector an example, shape (b, D): the mean over its tokens, or its first token (``cls``)."""
    with torch.inference_mode():
        inputs = tokens.batch(positions, device)
        states = encoder(**inputs).last_hidden_state.float()
        if pooling == "cls":
            return states[:, 0]  # type: ignore[no-any-return]
        weights = inputs["attention_mask"].unsqueeze(2).to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)  # type: ignore[no-any-return]


def _stored(path: Path) -> FloatArray | None:
    """Return the stored features, or None if there are none or the file is not what was written."""
    try:
        features: FloatArray = np.load(path, mmap_mode="r", allow_pickle=False)
        status = path.stat()
    except (FileNotFoundError, ValueError, EOFError):
        return None
    if features.dtype != np.float32:  # the checksum covers the bytes, and not their type
        return None
    version = path, status.st_ino, status.st_mtime_ns
    if version not in _verified:
        checksum = hashlib.sha256(features.data).digest()
        with path.open("rb") as file:
            file.seek(-len(checksum), os.SEEK_END)
            if file.read() != checksum:
                return None
        _verified.add(version)
    return features
