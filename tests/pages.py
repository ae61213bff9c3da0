"""A page as a reader sees it."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "wbr", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Reads a page: tags must nest, attributes and words are kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            # What a word means is no part of the sentence.
            self.open.append("tip" if ("role", "tooltip") in attrs else tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() in (tag, "tip")

    def handle_data(self, data: str) -> None:
        # The title of a mark is told where one points at it.
        if not {"style", "script", "tip"} & set(self.open) and not {"svg", "title"} <= set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        """Its words, with plain spaces and signs."""
        return plain_words("".join(self.words))


def plain_words(text: str) -> str:
    """Return a text on one line without true minus signs and spaces that do not break."""
    return re.sub(r"\s+", " ", text.replace("\N{MINUS SIGN}", "-"))
