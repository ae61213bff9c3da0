"""Judges of answers: what they are asked, how verdicts become scores, and what the factor `judge` moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import icl_helpers
import numpy as np
import pytest
from endpoint_server import Server, log_probability
from icl_helpers import APPROACH, log_likelihoods, shares, tiny_model
from icl_tiny_models import CHAT, refusal

from mlflow_l3d.approaches.icl.decisions import probabilities
from mlflow_l3d.approaches.icl.encoding import answer_ids, prompts_ids
from mlflow_l3d.approaches.icl.judge import Question
from mlflow_l3d.approaches.icl.models import load_model
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.known import named
from mlflow_l3d.metrics.sequences import references
from mlflow_l3d.parameters.checks import check_kind
from mlflow_l3d.parameters.setup import Setup
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.identity import make_task
from mlflow_l3d.tasks.resolve import bind_task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.testing import check_approach, one_cell
from mlflow_l3d.testing.cells import changed

ONE = one_cell(APPROACH.factors)
OTHER = changed(ONE, "judge", 1)
TWO_QUESTIONS = "{answer} or {reference}? ({options}) || Right, {text} {answer}?"


def task() -> Task:
    found = make_task(
        "letters",
        [[f"which letter follows {chr(97 + at)}?" for at in range(24)]],
        [[f"letter {chr(98 + at)}", "another"] for at in range(24)],
        kind="generation",
    )
    return bind_task(found, SplitSettings(num_labelled=12, test_size=4))


def complete(**given: Any) -> dict[str, Any]:
    usual = {"decision": "generate", "chat": "none", "max_new_tokens": 3, "judge_words": "negative;positive"}
    return icl_helpers.complete(**{**usual, **given})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="module")
def model(folder: Path) -> str:
    return tiny_model(folder / "tiny")


@pytest.fixture(scope="module")
def chatting(folder: Path) -> str:
    return tiny_model(folder / "chatting", CHAT, initializer_range=0.6)


def outcomes(model: str, cache: Path, *cells: Cell, **given: Any) -> list[Any]:
    session = APPROACH.prepare(task(), complete(**given), model=model, device="cpu", cache=cache)
    found = list(session.run(cells))
    session.close()
    for each in found:
        assert each.error is None, each.traceback
    return found


def test_what_is_asked() -> None:
    asked = Question.of("auto", "no;yes", 1).asked(["2 + 2?"], ["4", "four"], "{text} 5 ")
    assert asked == (
        "Question: 2 + 2?\nRight answer: 4 / four\nGiven answer: {text} 5\n"
        "Does the given answer say the same as the right one? Answer with one of: no, yes.\nVerdict:"
    )
    pair = Question.of(r"{text_2}\n{answer} ({options})", "bad;fair;good", 2)
    assert pair.asked(["a", "b"], ["c"], "d") == "b\nd (bad, fair, good)"


@pytest.mark.parametrize("judge", ["tiny", "chatting"])
def test_a_score_is_the_mean_verdict_under_the_model(
    judge: str, model: str, chatting: str, folder: Path, tmp_path: Path
) -> None:
    words, template = ("bad", "so", "good"), "{text} {answer} {reference}?"
    given = {"judge": str(folder / judge), "judge_template": template, "judge_words": ";".join(words)}
    (found,) = outcomes(model, tmp_path, ONE, **given)
    loaded, scores = load_model(str(folder / judge), "cpu", cache=tmp_path), []
    texts = dict(zip(task().example_ids.tolist(), task().texts[0], strict=True))
    for number, label, answer in zip(found.example_ids.tolist(), found.labels, found.predictions, strict=True):
        prompt = f"{texts[number]} {answer} {' / '.join(references(label))}?".replace("  ", " " if not answer else "  ")
        (ids,) = prompts_ids(loaded, [prompt], loaded.chat)
        answers = [answer_ids(loaded, f" {word}", loaded.chat) for word in words]
        verdicts = shares(log_likelihoods(loaded.model, ids, answers))
        scores.append(0 * verdicts[0] + 0.5 * verdicts[1] + 1 * verdicts[2])
    assert found.metrics["judge_score"] == pytest.approx(np.mean(scores), abs=1e-5)
    assert found.metrics["without_verdict_share"] == 0


@pytest.mark.slow
def test_another_judge_judges_the_same_answers(model: str, chatting: str, tmp_path: Path) -> None:
    both = f"{model}|{chatting}"
    cells = [changed(ONE, "judge", number) for number in range(8)]
    found = outcomes(model, tmp_path, *cells, judge=both, judge_template=TWO_QUESTIONS)
    alone = {
        (name, text): outcomes(model, tmp_path, ONE, judge=name, judge_template=text)[0].metrics["judge_score"]
        for text in map(str.strip, TWO_QUESTIONS.split("||"))
        for name in (model, chatting)
    }
    assert len({*alone.values()}) == 4
    expected = list(alone.values())
    for cell, outcome in zip(cells, found, strict=True):
        assert outcome.predictions.tolist() == found[0].predictions.tolist()
        assert outcome.metrics["judge_score"] == expected[cell.seeds["judge"] % 4]
    assert len({cell.seeds["judge"] % 4 for cell in cells}) > 1


def test_answers_are_written_once_for_all_judges(
    model: str, chatting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow_l3d.approaches.icl.local_session import LocalSession

    written, answers = [], LocalSession._answers
    monkeypatch.setattr(
        LocalSession, "_answers", lambda self, cell, *more: written.append(cell) or answers(self, cell, *more)
    )
    given = {"judge": model, "judge_temperature": 1.0}
    cells = [ONE, OTHER, changed(ONE, "sample_choice", 1), changed(ONE, "judge", 2)]
    found = outcomes(model, tmp_path, *cells, **given)
    assert written == [cells[0], cells[2]]
    fresh = outcomes(model, tmp_path, cells[3], **given)[0]
    assert {**fresh.metrics} == {**found[3].metrics}


@pytest.mark.slow
def test_drawn_verdicts(model: str, tmp_path: Path) -> None:
    drawn = [changed(ONE, "judge", number) for number in range(60)]
    found = outcomes(model, tmp_path, *drawn, judge=model, judge_temperature=1.0)
    scores = np.array([each.metrics["judge_score"] for each in found])
    assert {*(scores * 4).tolist()} <= {0, 1, 2, 3, 4}  # four answers, each 0 or 1
    (mean,) = outcomes(model, tmp_path, ONE, judge=model)
    assert abs(scores.mean() - mean.metrics["judge_score"]) < 4 * 0.25 / np.sqrt(60)


@pytest.mark.slow
def test_keeps_the_contract_of_an_approach(model: str, chatting: str, tmp_path: Path) -> None:
    settings = {"decision": "generate", "chat": "none", "max_new_tokens": 3, "shots": 1}
    settings |= {"judge": f"{model}|{chatting}", "judge_template": TWO_QUESTIONS}
    check_approach(APPROACH, task(), hyperparameters=settings, model=model, cache=tmp_path, configurations=4)


@pytest.mark.slow
@pytest.mark.parametrize("gives", ["prompt", "first", "nothing"])
def test_a_judge_behind_an_endpoint(gives: str, server: Server, model: str, tmp_path: Path) -> None:
    server.gives, server.chat = gives, gives != "prompt"
    given = {"judge": "openai:tiny", "judge_base_url": server.url}
    (found,) = outcomes(model, tmp_path, ONE, **given)
    prompts = sorted({str(body.get("prompt") or body["messages"][-1]["content"]) for body in server.requests})
    judged = [prompt for prompt in prompts if prompt.endswith("Verdict:")]
    words = ("negative", "positive")
    if gives == "prompt":  # a request for each verdict
        judged = sorted({prompt.removesuffix(f" {word}") for prompt in prompts for word in words} - {*prompts})
    logs = np.array([[log_probability(prompt, word) for word in words] for prompt in judged])
    if gives == "first":  # "neg" begins one verdict only
        logs[:, 0] = np.logaddexp(logs[:, 0], [log_probability(prompt, "neg") for prompt in judged])
    values = (logs.argmax(axis=1) == 1).astype(float) if gives == "nothing" else probabilities(logs)[:, 1]
    assert len(judged) == len(found.predictions)
    assert found.metrics["judge_score"] == pytest.approx(values.mean())
    assert found.metrics["without_verdict_share"] == 0
    sent = len(server.requests)
    outcomes(model, tmp_path, ONE, **given)
    assert len(server.requests) - sent <= 8, "answers are kept, but for the look at the server"


@pytest.mark.slow
def test_a_judge_that_thinks_first_is_asked_for_a_text(
    server: Server, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endpoint_server.TOKENS", ("negative", "positive", "<think>"))
    monkeypatch.setattr("endpoint_server.log_probability", lambda _, token: -0.0001 if token == "<think>" else -12.0)
    server.gives, server.chat_choice = "first", lambda _: {"message": {"content": "<think>negative?</think> positive"}}
    (found,) = outcomes(model, tmp_path, ONE, judge="openai:tiny", judge_base_url=server.url)
    assert found.metrics["judge_score"] == 1


@pytest.mark.slow
def test_verdicts_that_begin_with_another_are_asked_for(server: Server, model: str, tmp_path: Path) -> None:
    server.gives, server.chat = "prompt", False
    (found,) = outcomes(
        model, tmp_path, ONE, judge="openai:tiny", judge_base_url=server.url, judge_words="neg;negative"
    )
    assert set(server.requests[-1]) == {"model", "prompt", "max_tokens", "temperature", "seed"}
    assert found.metrics["judge_score"] == 1


def test_no_verdict_at_all_is_an_error(server: Server, model: str, tmp_path: Path) -> None:
    server.gives = "nothing"
    given = {"judge": "openai:tiny", "judge_base_url": server.url, "judge_words": "no;yes"}
    session = APPROACH.prepare(task(), complete(**given), model=model, device="cpu", cache=tmp_path)
    (found,) = session.run([ONE])
    session.close()
    assert found.error is not None
    assert "The judge gave none of the verdicts no, yes" in found.error


def test_what_identifies_a_judge_joins_the_key(
    model: str, chatting: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    approach = APPROACH
    given = complete(judge=f"{chatting}|openai:tiny", judge_base_url=server.url)
    found = approach.dependencies(given, model)
    assert found["judge 0"] == approach.model_revision(chatting)
    assert found["judge 1"].startswith("tiny fp1 ")
    assert "judge_base_url" not in approach.identity(given)
    shown = Setup.public_hyperparameters.fget(type("S", (), {"hyperparameters": given}))
    assert shown["judge"] == "chatting|openai:tiny"


def test_where_the_factor_has_an_effect(model: str) -> None:
    approach = APPROACH

    def level(**given: Any) -> int | None:
        own = complete(**given)
        levels = approach.levels(task(), own)
        assert not {"judge"} & {*levels} & {*approach.inactive_factors(own)}
        return levels.get("judge") if "judge" not in approach.inactive_factors(own) else -1

    assert level(judge_words="no;yes") == -1
    assert level(judge=model) == -1
    assert level(judge=f"{model}|x") == 2
    assert level(judge=f"{model}|x", judge_template=TWO_QUESTIONS) == 4
    assert level(judge=model, judge_temperature=0.5) is None, "verdicts are drawn: no list"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"judge_template": "{answer}?"}, "hyperparameters.judge_template={answer}?: is for a judge"),
        ({"judge_temperature": 1.0}, "hyperparameters.judge_temperature=1.0: is for a judge"),
        ({"judge": "a|a"}, "hyperparameters.judge=a|a: lists the same twice"),
        ({"judge": "a", "decision": "score"}, "hyperparameters.judge=a: is for decision=generate, in a task of texts"),
        ({"judge": "MODEL", "judge_template": "{text}?"}, "hyperparameters.judge_template={text}?: lacks the slot"),
        ({"judge": "MODEL", "judge_template": "{answer}{x}"}, "hyperparameters.judge_template={answer}{x}: {x} is no"),
        ({"judge": "MODEL", "judge_words": "yes;Yes"}, "hyperparameters.judge_words=yes;Yes: 'yes' and 'Yes' cannot"),
        ({"judge": "/no/where"}, "hyperparameters.judge=/no/where: must be a folder here"),
    ],
)  # fmt: skip
def test_mistakes(given: dict[str, Any], line: str, model: str, tmp_path: Path) -> None:
    own = {name: model if value == "MODEL" else value for name, value in given.items()}
    usual = {"judge_words": "no;yes"} if own.get("judge_words") is None else {}
    approach = APPROACH

    def use() -> None:
        settings = complete(**usual, **own)
        approach.dependencies(settings, model)
        approach.prepare(task(), settings, model=model, device="cpu", cache=tmp_path)

    assert refusal(use).startswith(line)


def test_a_score_of_nobody_is_refused(model: str) -> None:
    approach = APPROACH
    with pytest.raises(ParameterError, match="metric=judge_score: has no value here: nobody judges; set"):
        check_kind(task(), approach, complete(judge_words="no;yes"), named("judge_score"))
    check_kind(task(), approach, complete(judge=model), named("judge_score"))


def test_classes_have_no_judge(model: str, tmp_path: Path) -> None:
    classes = make_task("two", [[f"t {at}" for at in range(20)]], [0, 1] * 10, ("a", "b"))
    with pytest.raises(ParameterError, match=r"judge=.*: has no effect: two has classes, and no answers"):
        APPROACH.prepare(classes, complete(judge=model), model=model, device="cpu", cache=tmp_path)
