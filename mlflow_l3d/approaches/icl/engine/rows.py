"""How texts are laid out in rows, and the keys and values of such rows."""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch

from mlflow_l3d.approaches.icl.engine.reading import AnswerTrie, IntArray

SHARED = -1
NOBODY = -2
# Tokens of a row behind a short prefix, and how much longer rows may become by filling them up: a row less saves a copy
# of the prefix, if there are copies.
_NARROWEST = 128
_PADDED = 1.15


@dataclass
class Rows:
    """The keys and values of R rows of tokens, and whose they are.

    Attributes
    ----------
    cache
        Keys and values of every layer, (R, heads, K, size).
    owners
        (R, K) number of the text that a key belongs to; every text sees what is `SHARED`, none what is `NOBODY`'s.
    positions
        (R, K) position of a key in its text, the prefix included.
    """

    cache: Any
    owners: IntArray
    positions: IntArray

    @property
    def tokens(self) -> int:
        """How many keys a row has."""
        return int(self.owners.shape[1])

    @classmethod
    def empty(cls) -> Rows:
        """Return a row without keys, full-length in every layer: windows are a matter of the mask here."""
        from transformers import DynamicCache

        nothing = np.zeros((1, 0), dtype=np.int64)
        return cls(DynamicCache(), nothing, nothing)

    def branch(self, count: int) -> Rows:
        """Return `count` rows that start with the keys of this single one and grow by themselves; nothing is copied."""
        cache = copy.copy(self.cache)
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        for layer in cache.layers:
            layer.keys, layer.values = (part.expand(count, -1, -1, -1) for part in (layer.keys, layer.values))
        return Rows(cache, self.owners.repeat(count, axis=0), self.positions.repeat(count, axis=0))

    def cut(self, length: int) -> None:
        """Drop the first keys of all rows."""
        for layer in self.cache.layers:
            layer.keys = layer.keys[:, :, length:].clone()
            layer.values = layer.values[:, :, length:].clone()
        self.owners, self.positions = self.owners[:, length:], self.positions[:, length:]

    def keep(self, rows: IntArray) -> None:
        """Drop all rows but these."""
        for layer in self.cache.layers:
            layer.batch_select_indices(torch.from_numpy(rows).to(layer.keys.device))
        self.owners, self.positions = self.owners[rows], self.positions[rows]


def joined(prefix: Rows, parts: Sequence[Rows], each: int) -> Rows:
    """Return rows that hold what `each` rows of the parts hold, behind one prefix; the parts are used up.

    Parameters
    ----------
    prefix
        The row of the shared prefix, P tokens.
    parts
        Rows without the prefix, of N tokens each, R altogether.
    each
        How many of them go into one row.

    Returns
    -------
    ceil(R / each) rows of P + each * N tokens; what the last one lacks is `NOBODY`'s.
    """
    count = sum(len(part.owners) for part in parts)
    rows = -(-count // each)
    joint = prefix.branch(rows)
    for number in range(len(parts[0].cache.layers)):
        layers, held = [part.cache.layers[number] for part in parts], []
        for name in ("keys", "values"):
            tensor = torch.cat([getattr(layer, name) for layer in layers])
            # Layer by layer, so that no more than one of them is there twice.
            for layer in layers:
                setattr(layer, name, None)
            tensor = torch.nn.functional.pad(tensor, (0, 0, 0, 0, 0, 0, 0, rows * each - count))
            held.append(tensor.view(rows, each, *tensor.shape[1:]).transpose(1, 2).flatten(2, 3))
        joint.cache.update(*held, number)
    for name, filler in (("owners", NOBODY), ("positions", 0)):
        numbers = np.concatenate([getattr(part, name) for part in parts])
        numbers = np.pad(numbers, ((0, rows * each - count), (0, 0)), constant_values=filler).reshape(rows, -1)
        setattr(joint, name, np.concatenate([getattr(joint, name), numbers], axis=1))
    return joint


@dataclass(frozen=True)
class Block:
    """More tokens of R rows, N each; what is wanted is the distribution behind the last ones.

    Attributes
    ----------
    tokens, owners, positions
        (R, N) each; a place that is filled up is `NOBODY`'s.
    nodes
        (R, N) number of the trie's inner node that a token is, -1 for a token of a text.
    texts
        (R, S) the texts of each row, -1 if a row has fewer; the last S * (1 + I) tokens of a row are each text's
        last token and its I nodes.
    """

    tokens: IntArray
    owners: IntArray
    positions: IntArray
    nodes: IntArray
    texts: IntArray

    def parts(self, tokens: int) -> list[Block]:
        """Return blocks of neighbouring rows, of no more than so many tokens if a row has no more."""
        size = max(1, tokens // self.tokens.shape[1])
        starts, fields = range(0, len(self.tokens), size), vars(self).values()
        return [Block(*(field[start : start + size] for field in fields)) for start in starts]


def lay_out(
    texts: Sequence[Sequence[int]], trie: AnswerTrie | None, start: int, most: int, *, row_tokens: int | None = None
) -> Block:
    """Return the block of n texts that follow a prefix of `start` tokens, with a trie's inner nodes below each.

    Text i is owner i. A row has no more than about `most` tokens, unless a text alone has more. A token pays for all
    keys of its row, and a row for its copy of the prefix; so rows get about as many tokens as the prefix has, or as
    `row_tokens` if these are fewer.
    """
    inner = 0 if trie is None else len(trie.tokens)
    lengths = [len(text) for text in texts]
    packs = _packs([length + inner for length in lengths], min(most, row_width(start, row_tokens)), most)
    slots = max(map(len, packs))
    body = max(sum(lengths[text] - 1 for text in pack) for pack in packs)
    shape = (len(packs), body + slots * (1 + inner))
    tokens, positions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    owners, nodes = np.full(shape, NOBODY), np.full(shape, -1)
    placed = np.full((len(packs), slots), -1)
    # Rows, slots, texts and their lengths, text by text; then the same token by token, and which of its text it is.
    row = np.array([at for at, pack in enumerate(packs) for _ in pack])
    slot = _counted(map(len, packs))
    text = np.array([one for pack in packs for one in pack])
    length, last = np.array(lengths)[text], body + slot * (1 + inner)
    placed[row, slot] = text
    own, number = np.repeat(np.arange(len(text)), length), _counted(length)
    before = np.cumsum(length - 1) - (length - 1)
    before -= before[np.searchsorted(row, row)]
    where = row[own], np.where(number < length[own] - 1, before[own] + number, last[own])
    owners[where], positions[where] = text[own], start + number
    tokens[where] = np.fromiter(chain.from_iterable(texts[one] for one in text), np.int64, len(own))
    if inner and trie is not None:
        where = row[:, None], last[:, None] + 1 + np.arange(inner)
        owners[where] = text[:, None]
        nodes[where] = np.arange(inner)
        tokens[where] = trie.tokens
        positions[where] = start + length[:, None] - 1 + trie.depths
    return Block(tokens, owners, positions, nodes, placed)


def row_width(start: int, row_tokens: int | None) -> int:
    """Return about how many tokens a row gets behind a prefix of `start`; see :func:`lay_out`."""
    return max(_NARROWEST, start if row_tokens is None else min(start, row_tokens))


def _counted(sizes: Iterable[int]) -> IntArray:
    """Return the numbers from 0 below each size, one after the other."""
    every = np.array(list(sizes))
    numbers: IntArray = np.arange(every.sum()) - np.repeat(np.cumsum(every) - every, every)
    return numbers


def _packs(costs: Sequence[int], width: int, most: int) -> list[list[int]]:
    """Return the items of each row, as even in tokens and in items as can be had."""
    total = sum(costs)
    count = max(1, min(len(costs), total // max(width, *costs)))
    packs = _dealt(costs, count)
    while count > 1 and count * _fullest(costs, packs) > _PADDED * total:
        count -= 1
        packs = _dealt(costs, count)
    while count < len(costs) and _fullest(costs, packs) > max(most, *costs):
        count += 1
        packs = _dealt(costs, count)
    return packs


def _fullest(costs: Sequence[int], packs: Sequence[Sequence[int]]) -> int:
    return max(sum(costs[item] for item in pack) for pack in packs)


def _dealt(costs: Sequence[int], count: int) -> list[list[int]]:
    """Return the items of `count` rows: the most costly first, each to the emptiest row that has a place left."""
    most = -(-len(costs) // count)
    packs: list[list[int]] = [[] for _ in range(count)]
    open_rows = [(0, row) for row in range(count)]
    for item in sorted(range(len(costs)), key=lambda item: -costs[item]):
        filled, row = open_rows[0]
        packs[row].append(item)
        if len(packs[row]) < most:
            heapq.heapreplace(open_rows, (filled + costs[item], row))
        else:
            heapq.heappop(open_rows)
    return [sorted(pack) for pack in packs]
