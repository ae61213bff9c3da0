"""The gallery shows what benchmarks/pictures.py makes: its commands, and reports that name no machine."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from pages import Page
from project_scripts import load_script

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    return load_script("benchmarks/pictures.py")


def test_page_has_the_block_of_each_study_and_no_other(pictures) -> None:
    page = (GALLERY / "index.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"<!-- made: (\w+) -->\n(.*?)<!-- end -->", page, re.DOTALL))
    shown = {name: study for name, study in pictures.STUDIES.items() if study.title}
    assert blocks.keys() == shown.keys()
    for name, study in shown.items():
        assert f"\nmlflow-l3d {study.command}\n" in blocks[name], f"{name}: run benchmarks/pictures.py {name}"
        assert f"]({name}.html)" in blocks[name]


def test_reports_fit_the_site_and_name_no_machine(pictures) -> None:
    reports = {path.stem: path.read_text(encoding="utf-8") for path in GALLERY.glob("*.html")}
    assert reports.keys() == {name for name, study in pictures.STUDIES.items() if study.title}
    sizes = [len(text.encode()) for text in reports.values()]
    assert max(sizes) <= pictures.MOST_BYTES
    assert sum(sizes) <= pictures.MOST_BYTES_TOGETHER
    for name, text in reports.items():
        assert not re.search(r"/(?:work|home|root|tmp)/|/dev/shm|127\.0\.0\.1|sqlite:", text), name


class FirstScreen(Page):
    """Reads the words that stand before the first table, without the title of the tab."""

    first = ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table" and not self.first:
            self.first = self.text
        super().handle_startendtag(tag, attrs)


def test_real_reports_answer_in_120_words() -> None:
    for path in GALLERY.glob("*.html"):
        page = FirstScreen(re.sub("<title>.*</title>", "", path.read_text(encoding="utf-8"), count=1))
        assert 60 <= len(page.first.split()) <= 120, path.name


def test_studies_follow_those_that_they_need(pictures) -> None:
    assert pictures.with_needed(["gate"]) == ["head", "gate"]
    assert pictures.with_needed(["search", "compare"]) == ["head", "prototypes", "compare", "search"]
    names = list(pictures.STUDIES)
    for at, name in enumerate(names):
        assert set(pictures.with_needed([name])) <= set(names[: at + 1])


def test_block_is_replaced_alone(pictures, tmp_path, monkeypatch) -> None:
    page = tmp_path / "index.md"
    before = "# A\n\n<!-- made: csv -->\nold\n<!-- end -->\n\nB\n\n<!-- made: five -->\n\n<!-- end -->\n"
    page.write_text(before, "utf-8")
    monkeypatch.setattr(pictures, "GALLERY", tmp_path)
    for name in ("five", "csv", "csv"):
        pictures.write_block(name, f"new {name}")
    assert page.read_text("utf-8") == (
        "# A\n\n<!-- made: csv -->\n\nnew csv\n\n<!-- end -->\n\nB\n\n<!-- made: five -->\n\nnew five\n\n<!-- end -->\n"
    )


def test_private_words_in_reports_stop_the_script(pictures, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pictures, "GALLERY", tmp_path)
    report = tmp_path / "csv.html"
    report.write_text("<p>fine</p>", encoding="utf-8")
    pictures.check_reports(tmp_path)
    report.write_text(f"<p>{tmp_path}/mlflow.db</p>", encoding="utf-8")
    with pytest.raises(SystemExit, match="Private"):
        pictures.check_reports(tmp_path)


def test_answer_is_the_headline_and_the_question_of_the_study(pictures) -> None:
    output = (
        "Twice\nas good.\n=====\nsearch in 3 s;\nreport.html is there.\n"
        "How large is it? 3 points.\nIs it luck? No: not\n    by chance.\n\ntable? x\n"
    )
    assert pictures.answer_of(output, "Is it luck?") == "**Twice as good.** Is it luck? No: not by chance."
    assert pictures.answer_of(output, "Is it?") == pictures.answer_of(output, "") == "**Twice as good.**"
