"""Texts that begin alike are cut into tokens once as far as they do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

WORTH: Final = 400
"""Characters that texts begin with before it pays; and tokens of the beginning that are cut again with each end."""
_AGAIN: Final = 24
_SURE: Final = 16


def tokenised(tokenizer: Any, texts: Sequence[str], **settings: Any) -> list[list[int]]:
    """Return the tokens of texts as ``tokenizer(texts, **settings)`` has them.

    The first text is cut as a whole, the others behind what all begin with, together with the last tokens of that.
    These must come out as in the first text: how a text is cut depends on what is near, and if the last tokens are
    as they were, so are those before. A text of which that does not hold is cut as a whole, and so are all if the
    longest text shows that it was not enough, or if the tokenizer does not tell where its tokens lie.

    Parameters
    ----------
    tokenizer
        A tokenizer of `transformers`.
    texts
        n texts.
    settings
        Without truncation and padding.
    """
    alike = zip(min(texts), max(texts), strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], alike))
    if len(texts) < 3 or shared < WORTH or not tokenizer.is_fast:
        return _whole(tokenizer, texts, settings)
    first = tokenizer(texts[0], return_offsets_mapping=True, **settings)
    ids, spans = first["input_ids"], first["offset_mapping"]
    # The last tokens of the beginning may be cut otherwise with what follows.
    inside = [at for at, (start, end) in enumerate(spans) if start < end <= shared - 1]
    if len(inside) < 2 * _AGAIN:
        return _whole(tokenizer, texts, settings)
    sure, begin = inside[-_AGAIN], inside[-2 * _AGAIN]
    start = spans[begin][0]
    sure_span = (spans[sure][0] - start, spans[sure][1] - start)
    ends = tokenizer([text[start:] for text in texts], return_offsets_mapping=True, **settings)
    token_ids: list[list[int]] = []
    for text, end_ids, places in zip(texts, ends["input_ids"], ends["offset_mapping"], strict=True):
        at = next((at for at, place in enumerate(places) if place == sure_span), 0)
        same = at > 0 and end_ids[at : at + _SURE] == ids[sure : sure + _SURE]
        token_ids.append(ids[:sure] + end_ids[at:] if same else _whole(tokenizer, [text], settings)[0])
    longest = max(range(len(texts)), key=lambda item: len(texts[item]))
    if token_ids[longest] != _whole(tokenizer, [texts[longest]], settings)[0]:
        return _whole(tokenizer, texts, settings)
    return token_ids


def _whole(tokenizer: Any, texts: Sequence[str], settings: dict[str, Any]) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(list(texts), **settings)["input_ids"]
    return ids
