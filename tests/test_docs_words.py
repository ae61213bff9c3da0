"""How much there is to read in the documentation, and how hard it is to read."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
CONCEPTS = sorted((DOCS / "concepts").glob("*.md"))


def words(*pages: Path) -> int:
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def prose(page: Path) -> str:
    """Return the sentences of a page, without code, tables, headings, pictures and addresses."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"^(\||#|!\[|\s*$).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)  # a name counts as one short word
    return re.sub(r"[*_>]", "", text)


def syllables(word: str) -> int:
    """Return the groups of vowels but for a silent e at the end: dictionaries of syllables have to be downloaded."""
    groups = len(re.findall(r"[aeiouy]+", word.lower()))
    is_silent = re.search(r"[^aeiouyl]e(s|d)?$", word.lower()) and not re.search(r"[td]ed$|[cgsxz]es$", word)
    return max(1, groups - bool(is_silent))


def reading_grade(text: str) -> float:
    """Return the grade of Flesch and Kincaid (1975): .39 words per sentence + 11.8 syllables per word - 15.59."""
    sentences = [each for each in re.split(r"[.!?](?=\s|$)|\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text) if each.strip()]
    each_word = re.findall(r"[A-Za-z][A-Za-z'-]*", text)
    spoken = sum(map(syllables, each_word))
    return 0.39 * len(each_word) / len(sentences) + 11.8 * spoken / len(each_word) - 15.59


def test_grade_of_sentences_whose_grade_is_known() -> None:
    # 8 words and 9 syllables in one sentence: 3.12 + 13.275 - 15.59
    assert reading_grade("The seed of this long training moves scores.") == pytest.approx(0.805)
    counted = {"investigation": 5, "importance": 3, "redrawn": 2, "table": 2, "changes": 2, "changed": 1, "repeated": 3}
    assert {word: syllables(word) for word in counted} == counted
    assert reading_grade("Run it.\n\nRun it.") == pytest.approx(0.39 * 2 + 11.8 - 15.59)


def test_docs_can_be_read() -> None:
    assert words(ROOT / "README.md") <= 1200
    assert words(*PAGES) <= 35_000
    assert words(DOCS / "architecture.md") <= 1500
    assert len(CONCEPTS) == 5


@pytest.mark.parametrize("page", CONCEPTS, ids=lambda page: page.stem)
def test_concepts_are_short(page: Path) -> None:
    assert words(page) <= 900


@pytest.mark.parametrize("page", [ROOT / "README.md", *CONCEPTS], ids=lambda page: page.stem)
def test_main_pages_are_easy_to_read(page: Path) -> None:
    assert reading_grade(prose(page)) <= 11


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_pages_begin_with_the_question_they_answer(page: Path) -> None:
    first = re.sub(r"\A#.*\n+(?:Written by.*\n+)?", "", page.read_text(encoding="utf-8")).split("\n\n", 1)[0]
    assert "?" in first
