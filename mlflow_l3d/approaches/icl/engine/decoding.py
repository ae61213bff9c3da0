"""Continuing many texts: their rows are run a few at a time, then decoded all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from mlflow_l3d.approaches.icl.engine.base import Batches, Continuation
from mlflow_l3d.approaches.icl.engine.packed import PackedModel
from mlflow_l3d.approaches.icl.engine.rows import NOBODY, Block, Rows, joined, lay_out, row_width
from mlflow_l3d.approaches.icl.engine.tensors import copy_to_host, next_tokens, on_device
from mlflow_l3d.approaches.icl.engine.trie import IntArray

# A step of decoding reads all weights of the model whatever it has to do: with fewer texts it mostly waits for memory.
TEXTS = 256
# Most keys that are kept at once, if a text does not have more: a number, and bytes of all layers.
CACHED_TOKENS = 16_384
CACHED_BYTES = 2 * 2**30
# Most tokens of packed rows run at once, by kind of device. On an H200 a model of 135M answers 1,983 texts a second of
# 2,298 shared tokens in place of 1,261 with 4,096, and 14,893 in place of 7,041 of 93: it waits for launches.
PACKED_TOKENS = {"cuda": 16_384}
# Most bytes of their keys, copies of the prefix included: 135M has 2 GB of them there, a model of 7B would have 12.
PACKED_BYTES = 4 * 2**30


def packed_tokens(packed: PackedModel, prefix: Rows, batches: Batches) -> int:
    """Return the most tokens of packed rows that are run at once, by model, prefix and device."""
    most = PACKED_TOKENS.get(packed.device.type)
    if batches.are_chosen or most is None:
        return batches.tokens
    row = row_width(prefix.tokens, packed.row_tokens)
    rows = PACKED_BYTES // (_key_bytes(prefix) * (prefix.tokens + row))
    return min(most, max(1, rows) * row)


def cached_tokens(prefix: Rows) -> int:
    """Return how many keys are kept at once behind a prefix; it follows from the model alone."""
    return min(CACHED_TOKENS, max(1, CACHED_BYTES // _key_bytes(prefix)))


def _key_bytes(prefix: Rows) -> int:
    """Return the bytes of what is kept of a token in all layers, 1 if there is no prefix to tell."""
    size: int = sum(part.nbytes for layer in prefix.cache.layers for part in (layer.keys, layer.values))
    return max(1, size // max(1, prefix.tokens))


def decode(
    packed: PackedModel, prefix: Rows, texts: Sequence[Sequence[int]], how: Continuation, batch_tokens: int
) -> list[list[int]]:
    """Return the continuations of texts behind a prefix; a text that has ended is run no further.

    Parameters
    ----------
    packed
        The model.
    prefix
        The row of the shared prefix; stays as it is.
    texts
        What follows the prefix, n texts.
    how
        As in `CausalEngine.generate`.
    batch_tokens
        Most tokens of texts run at once.
    """
    results: list[list[int]] = [[] for _ in texts]
    rows, logits, texts_of = _begun(packed, prefix, texts, batch_tokens)
    ends = prefix.tokens + np.asarray([len(text) for text in texts])
    for step in range(how.limit):
        filled = texts_of >= 0
        running = texts_of[filled]
        flat = logits.flatten(0, 1)
        if len(running) < len(flat):
            flat = flat[on_device(flat.device, np.flatnonzero(filled))[0]]
        chosen, going = np.full(texts_of.shape, 0), filled.copy()
        chosen[filled] = copy_to_host(next_tokens(flat, step, how.sampling, running))
        going[filled] = how.extend([results[text] for text in running], chosen[filled])
        if not going.any() or step == how.limit - 1:
            break
        rows_left = going.any(axis=1)
        if not rows_left.all():
            rows.keep(np.flatnonzero(rows_left))
        block = _next(texts_of[rows_left], chosen[rows_left], going[rows_left], ends + step)
        texts_of = block.texts
        logits = packed.extend(rows, block, texts_of.shape[1])
    return results


def _begun(
    packed: PackedModel, prefix: Rows, texts: Sequence[Sequence[int]], batch_tokens: int
) -> tuple[Rows, torch.Tensor, IntArray]:
    """Run the texts behind the prefix.

    Returns
    -------
    The rows to be decoded; the logits behind the texts, (_, _, vocabulary), the first two axes in the order of what
    follows; and which texts each row has, (R, S), -1 if it has fewer.
    """
    length = prefix.tokens
    block = lay_out(texts, None, length, batch_tokens, row_tokens=packed.row_tokens)
    parts, logits = [], []
    for part in block.parts(batch_tokens):
        rows = prefix.branch(len(part.tokens))
        logits.append(packed.extend(rows, part, part.texts.shape[1]))
        rows.cut(length)
        parts.append(rows)
    # What may run at once makes short rows behind a long prefix, of which each would keep a copy.
    count = len(block.texts)
    each = -(-count // -(-count // max(1, round(length / block.tokens.shape[1]))))
    joint = joined(prefix, parts, each)
    texts_of = np.pad(block.texts, ((0, len(joint.owners) * each - count), (0, 0)), constant_values=-1)
    return joint, torch.cat(logits), texts_of.reshape(len(joint.owners), -1)


def _next(texts: IntArray, tokens: IntArray, going: npt.NDArray[np.bool_], ends: IntArray) -> Block:
    """Return the block with one more token per continuing text, (R, S) each; `ends` is a text's next position."""
    # Those that go on come first, in their order.
    order = np.argsort(~going, axis=1, kind="stable")[:, : int(going.sum(axis=1).max())]
    alive = np.take_along_axis(going, order, axis=1)
    texts_left = np.where(alive, np.take_along_axis(texts, order, axis=1), -1)
    return Block(
        tokens=np.where(alive, np.take_along_axis(tokens, order, axis=1), 0),
        owners=np.where(alive, texts_left, NOBODY),
        positions=np.where(alive, ends[texts_left], 0),
        nodes=np.full(texts_left.shape, -1),
        texts=texts_left,
    )
