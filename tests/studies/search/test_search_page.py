import re
from html.parser import HTMLParser

import pytest
from pictures import blank
from search_examples import DEFAULT, coarse, fine, result, study

from mlflow_l3d.analysis.search import held_out
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.search.page import MOST_TRIALS, drawn, render

VOID = {"meta", "br", "wbr", "link", "img", "hr", "input"}
ATTACK = "<script>alert('x')</script>"
FETCHED = {"src", "srcset", "data", "poster", "background", "action", "formaction"}


class Page(HTMLParser):
    """Reads a page: tags must nest; attributes, scripts and text are kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" in self.open:
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def shown(found, **more) -> str:
    return render(found, drawn(found), **{"settings": {}, **more})


@pytest.fixture(scope="module")
def studies():
    return {"coarse": coarse(), "fine": fine()}


def whole(studies) -> str:
    held = held_out([0.82, 0.83, 0.81], [0.80, 0.81, 0.80])
    found = result(studies, held_out=held, run_id="a" * 32)
    return shown(found, settings={"task": "rotten_tomatoes"})


@pytest.fixture(scope="module")
def source(studies) -> str:
    return whole(studies)


@pytest.fixture(scope="module")
def page(source):
    assert len(source.encode()) < 200_000
    return Page(source)


def test_it_says_what_was_found_and_what_it_is_worth(page):
    text = page.text.replace("\u00a0", " ")
    row = re.search(r"learning_rate ?2e-05 ?0.00095 ?1e-05 to 0.01, log scale ?0.0002 to 0.005, log scale", text)
    assert row
    assert "Not searched: epochs = 10, optimizer = adamw" in text
    assert "On 200 validation examples f1_macro is 80.00 with the found setting and 74.20 with the default" in text
    assert "The best of 30 trials looks better on the examples that chose it than it is." in text
    assert "not searched on, f1_macro is 82.00 with the found setting and 80.33 with the default: +1.67" in text
    assert "The found setting is better than the default." in text
    assert f"-P hyperparameters={'a' * 32}" in text
    assert "accounts for 91 % of the variance" in text
    assert "30 trials in 12 min 34 s" in text


def test_trials_stand_best_first_and_failed_last(page):
    text = page.text[page.text.index("Trials, best first") :]
    order = re.findall(r"(coarse|fine) (\d+)(?: best| default)? (\d\d\.\d\d|n/a)", text)
    scores = [score for *_, score in order]
    assert len(order) == 30
    complete = [float(score) for score in scores[:-3]]
    assert complete == sorted(complete, reverse=True)
    assert {each[:2] for each in order[-3:-1]} == {("coarse", "3"), ("coarse", "4")}
    assert order[-1] == ("coarse", "7", "n/a")
    assert re.search(r"coarse \d+ best 80.00 complete", text)
    assert re.search(r"coarse 0 default 74.23", text)


def test_nothing_is_fetched(page):
    assert not [each for each in page.attributes if each[1] in FETCHED]
    assert not [value for tag, name, value in page.attributes if name == "href" and tag != "a"]
    assert not [each for each in page.attributes if each[0] in ("link", "iframe", "object", "embed", "base", "img")]
    assert page.scripts == []
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "xlink:href")
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for heading in ("Importance of the", "How the score rose", "Score by"):
        assert heading in page.text


@pytest.mark.slow
def test_same_input_same_page(studies, source):
    assert whole(studies) == source


@pytest.mark.slow
def test_what_is_passed_in_is_escaped(studies):
    given = result(
        studies,
        title=ATTACK,
        notes=(ATTACK,),
        best={**DEFAULT, "optimizer": ATTACK},
        run_id=ATTACK,
        metric=named(ATTACK),
    )
    text = shown(given, settings={ATTACK: ATTACK})
    assert ATTACK not in text
    page = Page(text)
    assert page.text.count(ATTACK) >= 8
    assert not [value for tag, name, value in page.attributes if name == "href"]


def test_a_search_without_scores_has_a_page_without_figures():
    nothing = {"coarse": study([])}
    page = Page(shown(result(nothing, importances={}, best_score=float("nan"), default_score=float("nan"))))
    assert "n/a" in page.text
    assert "figure" not in {tag for tag, *_ in page.attributes}


def test_many_trials_are_cut(monkeypatch):
    blank(monkeypatch.setattr)
    many = {"coarse": study([{"learning_rate": 10 ** -(2 + 0.005 * at)} for at in range(350)])}
    page = Page(shown(result(many)))
    assert f"{350 - MOST_TRIALS} more trials are in trials.json." in page.text


def test_one_level_only(studies):
    only = {"coarse": studies["coarse"]}
    page = Page(shown(result(only, best=DEFAULT)))
    assert "level 2" not in page.text
    assert "no trial beat the default" in page.text
    assert "the default stays" in page.text
