"""The page and the figures of a search: what is drawn is what was found, and nothing is fetched."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from pictures import blank
from search_examples import DEFAULT, GRID, coarse, result, trials, true_score

from mlflow_l3d.approaches.hyperparameters import SearchRange
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.style import panels, save_png
from mlflow_l3d.studies.search.numbers import compare_held_out
from mlflow_l3d.studies.search.report.figures import log_ticks, place_choices, two_lines
from mlflow_l3d.studies.search.report.page import MOST_TRIALS, search_report

KINDS_DRAWN = ["importances", "history", "slice"]
VOID = {"meta", "br", "wbr", "link", "img", "hr", "input"}
ATTACK = "<script>alert('x')</script>"
FETCHED = {"src", "srcset", "data", "poster", "background", "action", "formaction"}
RESULT = result(held_out=compare_held_out([0.82, 0.83, 0.81], [0.80, 0.81, 0.80]), run_id="a" * 32)


class Page(HTMLParser):
    """Reads a page: tags must nest; attributes, scripts and text are kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag != "script" or attrs in ([], [("type", "application/json"), ("id", "data")])
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words).replace("\u00a0", " "))


def shown(each: Any, **settings: str) -> str:
    return search_report(each, settings=settings).to_html()


def draw_figures(each: Any) -> dict[str, Any]:
    return {picture.name: picture.figure for picture in search_report(each).pictures}


@pytest.fixture(scope="module")
def figures() -> Any:
    return draw_figures(RESULT)


@pytest.fixture(scope="module")
def page() -> Page:
    source = shown(RESULT, task="rotten_tomatoes")
    assert len(source.encode()) < 200_000
    return Page(source)


def test_it_says_what_was_found_and_what_it_is_worth(page: Page) -> None:
    text = page.text
    assert re.search(r"learning_rate ?2e-05 ?0.00095 ?1e-05 to 0.01, log scale ?0.0002 to 0.005, log scale", text)
    assert "Not searched: epochs = 10, optimizer = adamw" in text
    assert "On 200 validation examples f1_macro is 80.00 with the found setting and 74.23 with the default" in text
    assert "The best of 30 trials looks better on the examples that chose it than it is." in text
    assert "not searched on, f1_macro is 82.00 with the found setting and 80.33 with the default: +1.67" in text
    assert "The found setting is better than the default." in text
    assert f"-P hyperparameters={'a' * 32}" in text
    assert "accounts for 91 % of the variance" in text
    assert "30 trials in 12 min 34 s" in text
    for heading in ("Importance of the", "How the score rose", "Score by"):
        assert heading in text


def test_trials_stand_best_first_and_failed_last(page: Page) -> None:
    text = page.text[page.text.index("Trials, best first") :]
    order = re.findall(r"(coarse|fine) (\d+)(?: best| default)? (\d\d\.\d\d|n/a)", text)
    assert len(order) == 30
    complete = [float(score) for *_, score in order[:-3]]
    assert complete == sorted(complete, reverse=True)
    assert {each[:2] for each in order[-3:-1]} == {("coarse", "3"), ("coarse", "4")}
    assert order[-1] == ("coarse", "7", "n/a")
    assert re.search(r"coarse \d+ best 80.00 complete", text)
    assert re.search(r"coarse 0 default 74.23", text)


def test_nothing_is_fetched(page: Page) -> None:
    assert not [each for each in page.attributes if each[1] in FETCHED]
    assert not [value for tag, name, value in page.attributes if name == "href" and tag != "a"]
    assert not [each for each in page.attributes if each[0] in ("link", "iframe", "object", "embed", "base", "img")]
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "xlink:href")
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_what_is_passed_in_is_escaped() -> None:
    texts: Any = {"title": ATTACK, "notes": (ATTACK,), "run_id": ATTACK, "metric": named(ATTACK)}
    text = shown(result(best={**DEFAULT, "optimizer": ATTACK}, **texts), **{ATTACK: ATTACK})
    assert ATTACK not in text
    page = Page(text)
    assert page.text.count(ATTACK) >= 8
    assert not [value for tag, name, value in page.attributes if name == "href"]


def test_pages_of_a_search_without_scores_of_one_level_and_of_many_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    blank(monkeypatch.setattr)
    nothing = Page(shown(result({"coarse": trials(GRID[:1], failed=(0,))}, importances={})))
    assert "n/a" in nothing.text
    assert "figure" not in {tag for tag, *_ in nothing.attributes}
    kept = Page(shown(result({"coarse": coarse()}, best=DEFAULT)))
    assert "level 2" not in kept.text
    assert "no trial beat the default" in kept.text
    assert "the default stays" in kept.text
    many = {"coarse": trials([{"learning_rate": 10 ** -(2 + 0.005 * at)} for at in range(350)])}
    assert f"{350 - MOST_TRIALS} more trials are in trials.json." in Page(shown(result(many))).text


def test_history_has_percentage_points_of_complete_trials_on_one_scale(figures: Any) -> None:
    assert list(figures) == KINDS_DRAWN
    first, second = figures["history"].axes
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["level 1: coarse", "level 2: fine"]
    best, points = first.lines
    complete = [trial for trial in coarse() if trial.state == "complete"]
    assert list(points.get_xdata()) == [trial.number for trial in complete]
    assert list(points.get_ydata()) == pytest.approx([100 * trial.score for trial in complete])
    assert list(best.get_ydata()) == sorted(best.get_ydata())
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[0] < 100 * true_score(DEFAULT) < first.get_ylim()[1]
    best, points = draw_figures(result({"coarse": coarse()}, metric=named("mse")))["history"].axes[0].lines
    assert list(best.get_ydata()) == pytest.approx(np.minimum.accumulate(points.get_ydata())), "lower is better"


def test_importances_are_not_made_to_sum_to_one(figures: Any) -> None:
    axes = figures["importances"].axes[0]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([91, 3, 0.4])
    assert [text.get_text() for text in axes.texts] == ["91 %", "3 %", "<1 %"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["learning_rate", "layers", "batch_size"]


def test_slice_has_a_panel_for_what_was_varied(figures: Any) -> None:
    first, second = figures["slice"].subfigs
    assert [part.get_suptitle() for part in (first, second)] == ["level 1: coarse", "level 2: fine"]
    assert [axes.get_xlabel() for axes in first.axes] == ["batch_size", "layers", "learning_rate"]
    assert [axes.get_xlabel() for axes in second.axes] == ["learning_rate"]
    assert [label.get_text() for label in first.axes[0].get_xticklabels()] == ["4", "8", "16"]
    assert [axes.get_xscale() for axes in first.axes] == ["linear", "linear", "log"]
    assert [label.get_text() for label in first.axes[2].get_xticklabels()] == ["1e-5", "0.0001", "0.001", "0.01"]
    strength = first.axes[0].collections[0].get_alpha()
    assert list(strength) == sorted(strength)


def test_what_has_nothing_to_show_is_left_out() -> None:
    def kinds(each: Any, **more: Any) -> list[str]:
        return list(draw_figures(result({"coarse": each}, importances={}, **more)))

    assert kinds(trials(GRID[:2], failed=(0, 1))) == []
    assert kinds(trials(GRID[:3], pruned=(0, 1, 2))) == []
    assert kinds(trials(GRID[:1])) == ["history"]
    assert kinds(trials(GRID, lambda params: 0.5)) == ["history", "slice"]
    assert kinds(coarse(failed=(0,)), metric=named("f$_{1$ \u00e9")) == KINDS_DRAWN[1:]


def test_gaps_defaults_outside_the_range_and_many_hyperparameters(tmp_path: Any) -> None:
    one_level = result({"coarse": coarse()})
    stage = one_level.stages[0]
    more = {f"a_long_name_of_number_{at}": SearchRange(0, 2) for at in range(6)}
    table = one_level.trials.assign(**{name: np.arange(len(one_level.trials)) % 3 for name in more})
    table.loc[1, ["batch_size", "learning_rate"]] = [64, 0.5]
    table.loc[2, "layers"] = None
    wide = replace(stage, ranges={**stage.ranges, **more})
    figures = draw_figures(replace(one_level, trials=table, stages=(wide,)))
    assert len(figures["slice"].axes) == 12
    for kind, figure in figures.items():
        save_png(figure, tmp_path / f"{kind}.png", 40)


@pytest.mark.slow
def test_the_same_result_gives_the_same_page_and_small_pictures(figures: Any, tmp_path: Any) -> None:
    again = draw_figures(RESULT)
    assert shown(RESULT) == shown(RESULT)
    for kind in ("history", "slice"):
        path, second = tmp_path / f"{kind}.png", tmp_path / f"{kind}-again.png"
        save_png(figures[kind], path)
        save_png(again[kind], second)
        assert path.read_bytes() == second.read_bytes()
        assert plt.imread(path).shape[1] == 1140
        assert path.stat().st_size < 200_000


def test_ticks_and_names() -> None:
    assert log_ticks(1e-5, 1e-2) == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2])
    assert log_ticks(1e-8, 1) == pytest.approx([1e-8, 1e-5, 1e-2])
    assert log_ticks(2e-4, 5e-3) == pytest.approx([2e-4, 1e-3, 5e-3])
    assert two_lines("freeze_embeddings") == "freeze_\nembeddings"
    assert two_lines("dropout") == "dropout"
    values = result().trials["state"].astype(object)
    values[:3] = ["b", None, 3]
    with panels(2.0) as (_, [axes]):
        places = place_choices(axes, values[:3])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3", "b"]
    assert list(places.fillna(-1)) == [1, -1, 0]
