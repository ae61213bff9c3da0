"""Models behind endpoints: answers as the server gives them, faults, budgets and what is never asked twice."""

import asyncio
import logging
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.utils import formatdate
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from endpoint_server import TOKENS, Server, first_token, log_probability
from finetuning_helpers import handmade_task
from icl_helpers import APPROACH, cell, complete
from run_helpers import wait_until

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.failures import StudyEndedError
from mlflow_l3d.approaches.icl.endpoint.client import Client
from mlflow_l3d.approaches.icl.endpoint.engine import Tally
from mlflow_l3d.approaches.icl.endpoint.replies import (
    EndpointError,
    RefusedError,
    counted,
    end_of_prompt,
    first_token_scores,
    server_message,
    tell_apart,
    written,
)
from mlflow_l3d.approaches.icl.endpoint.served import _QUESTION
from mlflow_l3d.approaches.icl.endpoint.served import asked as chat_request
from mlflow_l3d.approaches.icl.endpoint.store import BudgetError, Endpoint, Store
from mlflow_l3d.approaches.progress import heard_by
from mlflow_l3d.cells.cell import Outcome
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.execution.base import Job
from mlflow_l3d.execution.inline import InlineExecutor
from mlflow_l3d.execution.processes import ProcessExecutor
from mlflow_l3d.execution.sessions import session_of
from mlflow_l3d.metrics.classification import REASONS

pytestmark = pytest.mark.skipif(find_spec("openai") is None, reason="openai is not installed")
MODEL = "openai:tiny"


def task():
    return handmade_task(40, num_labelled=20, test_size=6)


def job(server: Server, cache: Path, **given: Any) -> Job:
    given = {"base_url": server.url, "shots": 1, "calibration": "none", "verbaliser": "negative;positive", **given}
    if given.get("decision") == "generate":
        given.pop("calibration")
    return Job(APPROACH, task(), complete(**given), MODEL, "cpu", cache)


def run(server: Server, cache: Path, cells: Sequence[int] = (0,), **given: Any) -> list[Outcome]:
    return list(InlineExecutor(job=job(server, cache, **given)).run([cell(number) for number in cells]))


def answered(server: Server, cache: Path, **given: Any) -> Outcome:
    """Return the outcome of one cell, which has no error."""
    (found,) = run(server, cache, **given)
    assert found.error is None, found.traceback
    return found


def unread(found: Outcome) -> str:
    """Return the remark on answers that cannot be read."""
    (remark,) = [each for each in APPROACH.remarks(pd.DataFrame([found.metrics])) if "read" in each]
    return remark


def last_text(server: Server) -> str:
    """Return the text that the last prompt asks about."""
    last = next(str(body) for body in reversed(server.requests) if "Text: " in str(body))
    return last.rpartition("Text: ")[2].partition("Answer:")[0]


@pytest.fixture
def no_pause(monkeypatch):
    """Let clients not wait after an answer that is none."""
    monkeypatch.setattr("mlflow_l3d.approaches.icl.endpoint.client._PAUSE", 0.0)


@pytest.fixture
def waits(monkeypatch):
    """Let clients note how long they would wait, and not wait."""
    waits = []

    async def wait_for(end, seconds):
        end.close()
        waits.append(seconds)
        raise TimeoutError

    monkeypatch.setattr("mlflow_l3d.approaches.icl.endpoint.client.asyncio.wait_for", wait_for)
    return waits


OPENED: list[Store] = []


def store_in(endpoint: Endpoint, folder: Path) -> Store:
    OPENED.append(Store(endpoint, folder))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def closed_stores() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def client_of(server: Server, folder: Path, **settings: Any) -> Client:
    endpoint = Endpoint("tiny", server.url, **settings)
    return Client(endpoint, store_in(endpoint, folder))


def asked(client: Client, *texts: str) -> list[Any]:
    async def all_of() -> list[Any]:
        bodies = ({"prompt": text, "max_tokens": 1} for text in texts)
        try:
            return await asyncio.gather(*(client.ask("/completions", body, written) for body in bodies))
        finally:
            await client.close()
            client.store.close()

    return asyncio.run(all_of())


@pytest.mark.parametrize(("chat", "gives"), [("none", "prompt"), ("none", "first"), ("single", "first")])
def test_scores_are_the_servers_log_probabilities(server, tmp_path, chat, gives):
    server.gives = gives
    found = answered(server, tmp_path, chat=chat)
    known = first_token if gives == "first" else log_probability
    bodies = [body for body in server.requests if "Answer with yes" not in str(body)]
    prompts = [body["messages"][0]["content"] if chat == "single" else body["prompt"] for body in bodies]
    if gives == "prompt":
        prompts = [prompt.rpartition(" ")[0] for prompt in prompts]
    scores = np.array([[known(prompt, word) for word in ("negative", "positive")] for prompt in dict.fromkeys(prompts)])
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.unique(found.scores[:, 0]), np.sort(shares[:, 0]), rtol=1e-5)
    np.testing.assert_array_equal(found.predictions, found.scores.argmax(axis=1))
    assert found.metrics["first_token"] == float(gives == "first")


@pytest.mark.parametrize(
    ("listed", "is_another"),
    [
        ({"\n": -0.01, "<|im_end|>": -0.02, "positive": -0.03}, 0),  # as vLLM lists them
        ({f" {token}": log_probability(_QUESTION, token) + 0.25 for token in TOKENS}, 0),  # logits in bfloat16
        ({f" {token}": log_probability(_QUESTION, token) - 0.5 for token in TOKENS}, 1),
    ],
    ids=["no words", "rounded", "of other tokens"],
)
def test_neither_other_tokens_nor_rounding_hide_what_the_server_gives(server, tmp_path, listed, is_another):
    """Echoed log-probabilities of other tokens are not used."""
    server.listed_too = listed
    assert answered(server, tmp_path, chat="none").metrics["first_token"] == is_another


def test_without_log_probabilities_answers_are_generated_and_a_line_says_so(server, tmp_path, caplog):
    server.gives = "nothing"
    found = answered(server, tmp_path, calibration="batch")
    assert found.scores is None
    assert found.metrics["generated"] == 1
    assert found.metrics["unparsed_share"] == 0
    assert "answers are generated and parsed, without calibration" in caplog.text
    with pytest.raises(ParameterError, match="calibration=contextual: needs log-probabilities"):
        run(server, tmp_path, calibration="contextual")


THOUGHT = "positive or negative?\nHm."


@pytest.mark.slow
@pytest.mark.parametrize(
    "message",
    [
        lambda best: {"content": f"<think>{THOUGHT}</think>\n\n{best}"},
        lambda best: {"content": f"{THOUGHT}</think>{best}"},
        lambda best: {"content": best, "reasoning_content": THOUGHT},
        lambda best: {"content": best, "reasoning": THOUGHT},
        lambda best: {"content": best, "reasoning_details": [{"type": "reasoning.text", "text": THOUGHT}]},
        lambda best: {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": best}]},
    ],
    ids=["marked", "opened by the template", "reasoning_content", "reasoning", "reasoning_details", "parts"],
)
def test_thoughts_are_no_answer(server, tmp_path, message):
    server.gives = "nothing"
    given = {"decision": "generate", "chat": "single"}
    plain = answered(server, tmp_path / "plain", **given)
    server.chat_choice = lambda best: {"message": message(best), "finish_reason": "stop"}
    found = answered(server, tmp_path / "thinks", **given, thought_tokens=50)
    np.testing.assert_array_equal(found.predictions, plain.predictions)
    assert found.metrics["unparsed_share"] == 0
    assert server.requests[-1]["max_tokens"] == 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "message", "ended", "reason"),
    [
        ({}, {"content": f"<think>{THOUGHT}"}, "length", "thought"),
        ({}, {"content": None, "reasoning_content": THOUGHT}, "length", "thought"),
        ({}, {"reasoning": THOUGHT}, "length", "thought"),
        ({"thought_tokens": 5}, {"content": "positive or"}, "length", "thought"),
        ({}, {"content": "it may well"}, "length", "cut"),
        ({}, {"content": " "}, "length", "empty"),
        ({}, {"role": "assistant"}, "content_filter", "filtered"),
        ({}, {"content": None, "refusal": "I'm sorry, I cannot help with that."}, "stop", "filtered"),
        ({}, {"content": ""}, "refusal", "filtered"),
    ],
)
def test_why_nothing_could_be_read(server, tmp_path, caplog, given, message, ended, reason):
    server.gives = "nothing"
    server.chat_choice = lambda best: {"message": message, "finish_reason": ended}
    found = answered(server, tmp_path, decision="generate", chat="single", **given)
    shares = {name: value for name, value in found.metrics.items() if name.startswith("unparsed_")}
    assert shares == {"unparsed_share": 1, f"unparsed_{reason}_share": 1}
    assert ("inside a thought" in caplog.text) == (reason == "thought")
    line = f"6 of 6 answers {REASONS[reason]}: example_id {', '.join(map(str, found.example_ids))}."
    assert (line in caplog.text) == (reason in {"thought", "filtered"})
    assert REASONS[reason] in unread(found)


def test_models_that_insist_on_the_newer_name_of_the_limit(server, tmp_path):
    older = answered(server, tmp_path / "a", decision="generate")
    server.newer = True
    server.requests.clear()
    np.testing.assert_array_equal(answered(server, tmp_path / "b", decision="generate").predictions, older.predictions)
    first, *rest = server.requests
    assert first["max_tokens"] == 1
    assert all(body["max_completion_tokens"] in {1, 10} and "max_tokens" not in body for body in rest)
    assert {body["max_completion_tokens"] for body in rest} == {1, 10}


@pytest.mark.parametrize(
    "refusal",
    [
        {"error": {"message": "Unsupported parameter: 'seed' is not supported with this model.", "param": "seed"}},
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
    ],
    ids=["OpenAI", "Mistral"],
)
def test_reasoning_models_are_never_sent_what_they_refuse(server, tmp_path, refusal):
    reply, server.newer = server.reply, True

    def strict(handler, content, *how):
        body = server.requests[-1] if handler.command == "POST" else {}
        if body.get("temperature", 1) != 1 or body.get("logprobs"):
            content, how = {"error": {"message": "Unsupported value: 'temperature' does not support 0."}}, (400,)
        elif "seed" in body:
            content, how = refusal, (422 if "detail" in refusal else 400,)
        reply(handler, content, *how)

    server.reply = strict
    given = {"decision": "generate", "thought_tokens": 50, "concurrency": 1, "chat": "single"}
    answered(server, tmp_path, temperature=1.0, **given)
    names = ["max_completion_tokens", "messages", "model", "temperature"]
    assert [sorted(body) for body in server.requests[-6:]] == 6 * [names]
    assert server.requests[0]["max_tokens"] == 51  # a thought fits
    with pytest.raises(L3DError, match="Set hyperparameter temperature"):
        run(server, tmp_path / "cold", **given)


def test_seeds_and_temperature_are_passed_and_the_same_cell_asks_the_same(server, tmp_path):
    first = run(server, tmp_path / "a", (0, 1), decision="generate", temperature=0.5)
    sent = [(body["seed"], body["temperature"]) for body in server.requests][1:]
    assert len(set(sent)) == 12
    assert {temperature for _, temperature in sent} == {0.5}
    server.requests.clear()
    again = run(server, tmp_path / "b", (1, 0), decision="generate", temperature=0.5)
    assert {(body["seed"], body["temperature"]) for body in server.requests[1:]} == set(sent)
    for one, other in zip(first, reversed(again), strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions)


def test_nothing_is_paid_twice_and_neither_key_nor_prompt_is_kept(server, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    before, count = answered(server, tmp_path), len(server.requests)
    after = answered(server, tmp_path, concurrency=3)
    assert after.metrics["requests_sent"] == 0
    assert len(server.requests) == count + 1
    np.testing.assert_array_equal(before.predictions, after.predictions)
    assert server.keys == {"Bearer sk-secret"}
    (file,) = tmp_path.glob("endpoints/*.sqlite")
    for secret in (b"sk-secret", b"Determine", server.requests[-1]["messages"][0]["content"].encode()):
        assert secret not in file.read_bytes()
        assert secret.decode() not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("last", [0.2, 7.0])
def test_answers_that_are_under_way_at_an_interruption_are_kept(server, tmp_path, last):
    server.delay, cells = 0.2, [cell(number) for number in range(4)]
    outcomes = ProcessExecutor(job=job(server, tmp_path, concurrency=3), workers=1).run(cells)
    assert next(outcomes).error is None
    server.delay, asked = last, len(server.requests)
    wait_until(lambda: len(server.requests) > asked, "a request")  # one that takes so long is under way
    outcomes.close()
    server.delay, paid = 0.2, len(server.requests)
    # Three at a time, and those that were about to begin: the call goes no further.
    assert last < 1 or paid <= asked + 6
    found = run(server, tmp_path, range(4))
    assert [one.error for one in found] == [None] * 4
    assert paid < len(server.requests)
    prompts = Counter(str(body) for body in server.requests if "yes or no" not in str(body))
    assert set(prompts.values()) == {1}


def test_faults_are_tried_again(server, tmp_path, no_pause):
    known = answered(server, tmp_path / "a")
    server.retry_after = "0.01"
    server.faults.extend([None, 429, 500, "cut", "garbage", "html", 503, 429])
    np.testing.assert_array_equal(answered(server, tmp_path / "b", concurrency=2).predictions, known.predictions)


def test_a_limit_of_tokens_per_minute_is_waited_for(server, tmp_path, caplog):
    server.retry_after = "0.01"
    server.faults.extend([429] * 20)
    (found,) = asked(client_of(server, tmp_path / "a"), "a")
    assert found["text"].strip() in TOKENS
    assert len(server.requests) == 21
    assert [line for line in caplog.messages if "asked again" in line] == [
        f"{server.url} gave no answer 3 times, and is asked again."
    ]
    server.faults.extend([429] * 60)
    with pytest.raises(EndpointError, match="Lower hyperparameter concurrency, or wait; the same command continues"):
        asked(client_of(server, tmp_path / "b"), "a")


def test_a_long_wait_that_a_server_asks_for_is_waited_or_ends_the_study(server, tmp_path, waits):
    async def verify():
        waits.append("verified")

    server.retry_after = "300"  # the package openai does not wait so long
    server.faults.append(503)
    client = client_of(server, tmp_path / "a")
    client.verify = verify
    (found,) = asked(client, "a")
    assert (found["text"].strip() in TOKENS, waits) == (True, [300, "verified"])
    for date, wait in ((formatdate(time.time() + 7200), r"wait 7,\d+ s"), ("1e99", "wait")):
        server.retry_after = date
        server.faults.append(503)
        with pytest.raises(EndpointError, match=f"or {wait}; the same command continues"):
            asked(client_of(server, tmp_path / "b"), "a")
    assert (len(waits), len(server.requests)) == (2, 4)


def test_whoever_waits_for_a_cell_hears_that_the_server_asked_for_it(server, tmp_path, monkeypatch):
    monkeypatch.setattr("mlflow_l3d.approaches.icl.endpoint.client._RETRIES", 0)
    monkeypatch.setattr("mlflow_l3d.approaches.icl.endpoint.engine._LOOK_SECONDS", 0.01)
    server.retry_after, told = "0.2", []
    server.faults.extend([*[None] * 6, 503])  # the last of seven requests is a cell's
    with heard_by(told.append):
        answered(server, tmp_path)
    assert (told[0], told[-1]) == (f"waiting 0 s for {server.url}", "")


@pytest.mark.parametrize("wait", ["0.3", "300"])
def test_a_request_is_not_sent_again_after_the_session_was_closed(server, tmp_path, wait):
    server.retry_after = wait
    server.faults.extend([429] * 60)

    async def closed():
        client = client_of(server, tmp_path)
        asking = asyncio.ensure_future(client.ask("/chat/completions", chat_request("a", chat=True), dict))
        while not server.requests:
            await asyncio.sleep(0.01)
        await client.close()
        return await asyncio.gather(asking, return_exceptions=True)

    (error,) = asyncio.run(closed())
    assert str(error) == "the session was closed."
    assert len(server.requests) < 9  # as often is a request sent


def refusing(server, status, message, code=None):
    """Let a server refuse each request that has the word `refused`."""
    reply, refusal = server.reply, ({"error": {"message": message, "code": code}}, status)
    server.reply = lambda handler, *how: reply(handler, *(refusal if "refused" in str(server.requests[-1]) else how))


def sent(client, *texts):
    async def all_of():
        requests = [client.send("/chat/completions", chat_request(text, chat=True)) for text in texts]
        found = [(await asyncio.gather(each, return_exceptions=True))[0] for each in requests]
        await client.close()
        return found

    return asyncio.run(all_of())


def test_no_credit_is_not_called_a_limit_that_passes(server, tmp_path):
    server.retry_after = "0.01"
    refusing(server, 429, "You exceeded your current quota", "insufficient_quota")
    (error,) = sent(client_of(server, tmp_path), "refused")
    assert re.search(r"refuses \(429\): You exceeded your current quota$", str(error))


def test_a_refusal_that_quotes_the_name_of_a_field_takes_it_from_no_other_request(server, tmp_path):
    refusing(server, 400, "blocked: 'plant a seed'")
    error, _ = sent(client_of(server, tmp_path), "refused", "another")
    assert "blocked" in str(error)
    assert "seed" in server.requests[-1]


def test_what_is_refused_at_last_is_told(server, tmp_path):
    server.newer, server.retry_after = True, "0.01"
    server.faults.extend([429] * 20)
    (error,) = sent(client_of(server, tmp_path), "a")
    assert "Unsupported parameter: 'max_tokens'" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [500, "cut", 429, "garbage"])
@pytest.mark.parametrize("given", [{"chat": "auto"}, {"chat": "none"}])
def test_what_fails_for_a_moment_says_nothing_of_what_a_server_gives(
    server, tmp_path, monkeypatch, no_pause, fault, given
):
    monkeypatch.setenv("L3D_CACHE", str(tmp_path / "known"))
    settings = complete(base_url=server.url, **given)
    known = APPROACH.dependencies(settings, MODEL)
    assert known["endpoint_log_probabilities"] == ("first" if given["chat"] == "auto" else "prompt")
    for place in range(3):
        monkeypatch.setenv("L3D_CACHE", str(tmp_path / f"{place}"))
        server.faults.extend([*[None] * place, fault])
        assert APPROACH.dependencies(settings, MODEL) == known
        server.faults.clear()


@pytest.mark.parametrize(("gives", "more"), [("first", 1), ("nothing", 1), ("prompt", 2)])
def test_the_next_command_looks_at_a_known_server_once(server, tmp_path, monkeypatch, gives, more):
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    server.gives, settings = gives, complete(base_url=server.url, chat="none" if gives == "prompt" else "auto")
    known, count = APPROACH.dependencies(settings, MODEL), len(server.requests)
    assert known["endpoint_log_probabilities"] == gives
    assert APPROACH.dependencies(settings, MODEL) == known
    assert len(server.requests) == count + more


def test_sessions_ask_in_the_way_that_is_in_the_key(server, tmp_path, monkeypatch):
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    server.gives = "nothing"
    asked = job(server, tmp_path)
    APPROACH.dependencies(asked.hyperparameters, MODEL)
    server.gives, count = "first", len(server.requests)
    with session_of(asked) as prepared:
        assert prepared._way == "generate"
    assert len(server.requests) == count + 1
    assert APPROACH.dependencies(asked.hyperparameters, MODEL)["endpoint_log_probabilities"] == "first"


@pytest.mark.slow
@pytest.mark.parametrize("gives", ["first", "prompt"])
def test_a_text_without_log_probabilities_has_no_class(server, tmp_path, gives):
    server.gives = gives
    chat = "single" if gives == "first" else "none"
    whole, answer = answered(server, tmp_path / "a", chat=chat), server.answer
    lacking = last_text(server)

    def without(body: Any, **how: Any) -> Any:
        found = answer(body, **how)
        if lacking in str(body).rpartition("Text: ")[2]:
            found["choices"][0]["logprobs"] = None
        return found

    server.answer, count = without, len(server.requests)
    found = answered(server, tmp_path / "b", chat=chat)
    gone = found.predictions < 0
    assert gone.sum() == 1
    assert found.metrics["unparsed_share"] == pytest.approx(1 / 6)
    assert "16.7 % give class words less than 1 % of the probability" in unread(found)
    np.testing.assert_array_equal(found.predictions[~gone], whole.predictions[~gone])
    np.testing.assert_array_equal(found.scores[gone], [[0.5, 0.5]])
    assert len(server.requests) == 2 * count, "what is no fault is not asked again"


AZURE = {"message": "The response was filtered due to the prompt", "param": "prompt", "code": "content_filter"}
LITELLM = {"message": "litellm.BadRequestError: litellm.ContentPolicyViolationError: filtered", "code": "400"}


@pytest.mark.parametrize("refusal", [AZURE, LITELLM], ids=["azure", "litellm"])
@pytest.mark.parametrize(
    ("gives", "chat", "decision"),
    [("prompt", "none", "score"), ("first", "single", "score"), ("nothing", "single", "generate")],
)
def test_a_prompt_that_a_filter_refuses_is_one_wrong_answer(server, tmp_path, caplog, gives, chat, decision, refusal):
    server.gives, given = gives, {"chat": chat, "decision": decision}
    whole = answered(server, tmp_path / "a", **given)
    server.withheld, server.refusal = last_text(server).partition("\\n")[0], refusal
    found = answered(server, tmp_path / "b", **given)
    gone = found.predictions < 0
    assert gone.sum() == 1
    assert f"1 of 6 answers {REASONS['filtered']}: example_id {found.example_ids[gone][0]}." in caplog.text
    np.testing.assert_array_equal(found.predictions[~gone], whole.predictions[~gone])
    shares = {name: value for name, value in found.metrics.items() if name.startswith("unparsed_") and value}
    assert shares == {"unparsed_share": pytest.approx(1 / 6), "unparsed_filtered_share": pytest.approx(1 / 6)}
    assert f"16.7 % {REASONS['filtered']}" in unread(found)
    server.withheld = "e"
    (none,) = run(server, tmp_path / "b", (1,), **given)
    assert "withheld all answers" in (none.error or "") or none.metrics["unparsed_filtered_share"] == 1


@pytest.mark.parametrize(
    ("status", "said", "fix"),
    [
        (404, "Not Found", "(most end in /v1)"),
        (400, "No connected db.", "Set OPENAI_API_KEY"),
        (400, "request (989 tokens) exceeds the available context size (512 tokens)", "Use fewer shots"),
    ],
    ids=["address without /v1", "litellm without a key", "llama.cpp"],
)
def test_what_servers_refuse_ends_with_the_fix(server, tmp_path, status, said, fix):
    server.reply, reply = lambda handler, _, *how: reply(handler, {"error": {"message": said}}, *how), server.reply
    server.faults.append(status)
    with pytest.raises(L3DError, match=re.escape(said.rstrip("."))) as error:
        asked(client_of(server, tmp_path), "a")
    assert fix in str(error.value)


def test_a_server_that_lists_no_class_word_predicts_nothing(server, tmp_path, monkeypatch):
    server.gives = "first"
    monkeypatch.setattr("endpoint_server.TOKENS", ("token_id:1", "token_id:2"))
    (found,) = run(server, tmp_path / "a", chat="single", verbaliser="negative;positive")
    assert "gave class words less than 1 %" in found.error


def test_class_words_behind_the_token_of_a_thought_are_no_answer(server, tmp_path, monkeypatch):
    server.gives, known = "first", log_probability
    monkeypatch.setattr("endpoint_server.TOKENS", (*TOKENS, "<think>"))

    def thinks(prompt, token):
        return -0.0001 if token == "<think>" else known(prompt, token) - 12

    monkeypatch.setattr("endpoint_server.log_probability", thinks)
    (found,) = run(server, tmp_path, chat="single")
    assert "gave class words less than 1 % of the probability, or listed none. Use decision=gen" in found.error


@pytest.mark.parametrize(("chat", "gives"), [("none", "prompt"), ("single", "first")])
def test_words_that_are_all_equally_likely_choose_no_class(server, tmp_path, monkeypatch, chat, gives):
    server.gives = gives
    with session_of(job(server, tmp_path, chat=chat, shots=1)) as session:
        monkeypatch.setattr("endpoint_server.TOKENS", TOKENS[:4])
        monkeypatch.setattr("endpoint_server.log_probability", lambda *_: -2.0)
        (found,) = session.run([cell()])
    assert "same log-probability behind 6 of 6 prompts. Use decision=generate" in found.error


@pytest.mark.parametrize("chat", ["single", "none"])
def test_a_server_that_lists_few_tokens_is_asked_for_these(server, tmp_path, chat):
    known = answered(server, tmp_path / "20", chat=chat)
    server.most_listed = 4
    found = answered(server, tmp_path / "4", chat=chat)
    assert max(body.get("top_logprobs", 1) for body in server.requests[-6:]) == (4 if chat == "single" else 1)
    assert found.metrics["first_token"] == float(chat == "single")
    np.testing.assert_array_equal(found.scores, known.scores)


@pytest.mark.parametrize(
    ("most", "why"),
    [(1, "it lists 1, too few .* vLLM: --max-logprobs 20"), (0, "which is greater than max allowed: 0")],
)
def test_a_server_that_lists_too_few_tokens_says_why_answers_are_generated(server, tmp_path, caplog, most, why):
    server.most_listed = most
    assert answered(server, tmp_path, chat="single").metrics["generated"] == 1
    assert re.search(rf"no log-probabilities \(.*{why}", caplog.text)


def test_whole_words_that_begin_with_another_are_not_scored(server, tmp_path, caplog):
    given = {"chat": "none", "verbaliser": "pos;positive"}
    assert answered(server, tmp_path, **given).metrics["generated"] == 1
    assert "(a class word begins with another, and can never score higher), so answers are gen" in caplog.text
    assert answered(server, tmp_path, **given, calibration="batch").metrics["generated"] == 0


def test_probabilities_are_no_log_probabilities(server, tmp_path, monkeypatch, caplog):
    server.gives = "first"
    monkeypatch.setattr("endpoint_server.log_probability", lambda *_: 0.5)
    assert answered(server, tmp_path, chat="single", calibration="batch").scores is None
    assert "answers are generated" in caplog.text


@pytest.mark.parametrize(
    "fault",
    [
        {"error": {"message": "upstream overloaded", "code": 503}},
        {"choices": [{"message": {"content": ""}, "error": {"message": "upstream overloaded"}}]},
        {"choices": [{"message": {"content": "upstream overloaded"}, "finish_reason": "error"}]},
    ],
    ids=["body", "choice", "finish_reason"],
)
def test_an_error_that_comes_as_an_answer_is_none(server, tmp_path, fault, waits):
    server.answer = lambda *_, **__: fault
    with pytest.raises(RefusedError, match=r"no answer of OpenAI's protocol 3 times \(upstream overloaded\). Check"):
        asked(client_of(server, tmp_path), "a")
    assert waits == [2, 4]


def test_a_stream_is_no_answer(server, tmp_path, no_pause):
    server.faults.extend(["html"] * 3)
    with pytest.raises(RefusedError, match=r"3 times \(a page or a stream, not JSON\)"):
        asked(client_of(server, tmp_path), "a")

    async def looked_at(client: Client) -> None:
        try:
            await client.send("/completions", {"prompt": "a"})
        finally:
            await client.close()

    server.faults.append("html")
    with pytest.raises(RefusedError, match=r"/completions gave no answer of OpenAI's protocol \(a page"):  # at once
        asyncio.run(looked_at(client_of(server, tmp_path)))


def test_a_reply_without_a_choice_says_what_to_do(server, tmp_path):
    server.answer = lambda *_, **__: {"choices": []}
    with pytest.raises(L3DError, match=r"/chat/completions gave an answer without a text\. Check base_url"):
        run(server, tmp_path, (0,))


def test_no_more_requests_are_under_way_than_asked_for(server, tmp_path):
    server.delay = 0.05
    asked(client_of(server, tmp_path, concurrency=3), *map(str, range(12)))
    assert server.most == 3


def test_a_budget_ends_the_study_in_one_line_and_a_larger_one_goes_on(server, tmp_path):
    with pytest.raises(L3DError, match=r"max_requests=9: the budget is spent \(9 requests to tiny at .* continues"):
        run(server, tmp_path, (0, 1), max_requests=9)
    assert len(server.requests) == 9
    found = run(server, tmp_path, (0, 1), max_requests=14)
    assert [one.error for one in found] == [None, None]
    assert len(server.requests) == 14  # 12 texts, and a look at the server each time


def test_costs_are_bounded_before_and_counted_after(server, tmp_path):
    client = client_of(server, tmp_path, concurrency=1, max_cost=0.001, prices=(1.0, 2.0))
    asked(client, "one two three")
    assert store_in(client.endpoint, tmp_path).spent() == (1, pytest.approx((3 * 1.0 + 1 * 2.0) / 1e6))
    held = r"max_cost=0.001: the budget is spent \(1 requests .* cost 5e-06 with what requests under way may cost; "
    with pytest.raises(BudgetError, match=held + r"the next one may cost 0\.001066\)"):
        asked(client_of(server, tmp_path, max_cost=0.001, prices=(1.0, 2.0)), "x" * 1000)
    assert len(server.requests) == 1


def test_attempts_are_counted_but_not_what_is_refused(server, tmp_path):
    server.faults.extend([500, "cut", 429])
    client = client_of(server, tmp_path, prices=(1.0, 2.0))
    asked(client, "one")
    assert store_in(client.endpoint, tmp_path).spent() == (2, pytest.approx(((3 + 64 + 2.0) + (1 + 2.0)) / 1e6))


@pytest.mark.slow
@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0}, {"prompt_tokens": "many"}, {"prompt_tokens": -9}, "?"])
def test_a_server_that_does_not_count_is_paid_the_most(server, tmp_path, usage):
    server.usage = usage
    client = client_of(server, tmp_path, prices=(1.0, 2.0))
    asked(client, "one")
    assert store_in(client.endpoint, tmp_path).spent() == (1, pytest.approx((3 + 64 + 2.0) / 1e6))


@pytest.mark.parametrize("counted", [50, 20_000])
def test_prompts_that_a_server_cuts_are_named(server, tmp_path, counted):
    server.usage = {"prompt_tokens": counted, "completion_tokens": 1}
    template = "{text} " + "Is it good or bad? " * 50
    found = answered(server, tmp_path, chat="single", template=template, prompt_format="custom")
    lines = APPROACH.remarks(pd.DataFrame([found.metrics]))
    assert any("100.0 % of the prompts have too few tokens: did" in line for line in lines) == (counted == 50)


def test_tokens_that_no_server_counted_are_not_logged():
    assert "prompt_tokens" not in Tally(tokens=[0, 0]).metrics
    assert Tally(tokens=[5, 0, 7]).metrics["prompt_tokens"] == 6


@pytest.mark.parametrize("key", ["sk-secret\r", "sk-\u0441ecret", " "])
def test_a_key_that_no_header_can_hold(server, tmp_path, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ParameterError, match=r"^OPENAI_API_KEY=\*\*\*: must be letters"):
        client_of(server, tmp_path)


def test_a_list_of_models_that_fails_for_a_moment_is_no_other_model(server, tmp_path, monkeypatch):
    given = complete(base_url=server.url)
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    known = APPROACH.dependencies(given, MODEL)
    server.models_faults.extend([503, 429])
    assert APPROACH.dependencies(given, MODEL) == known
    server.models_faults.extend([503] * 6)
    with pytest.raises(L3DError, match=r"refuses \(503\): loading"):
        APPROACH.dependencies(given, MODEL)


def test_a_key_is_no_part_of_a_text_that_was_cut():
    error = Exception()
    error.body = {"message": "x" * 290 + " sk-secret"}
    assert "sk-" not in server_message(error, "sk-secret")


def test_two_processes_share_one_count(server, tmp_path):
    endpoint = Endpoint("tiny", server.url, max_requests=3)
    one, other = store_in(endpoint, tmp_path), store_in(endpoint, tmp_path)
    for store in (one, other, one):
        store.reserve(0.0)
    with pytest.raises(BudgetError):
        other.reserve(0.0)
    one.close(), other.close()


def test_two_processes_do_not_ask_the_same(server, tmp_path):
    server.delay = 0.2
    one, other = client_of(server, tmp_path), client_of(server, tmp_path)
    with ThreadPoolExecutor() as pool:
        begun = [pool.submit(asked, client, "a", "b", text) for client, text in ((one, "c"), (other, "d"))]
        found = [each.result() for each in begun]
    assert sorted(body["prompt"] for body in server.requests) == ["a", "b", "c", "d"]
    assert found[0][:2] == [{**each, "paid": not each["paid"]} for each in found[1][:2]]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [lambda data: b"x" * 200 + data[200:], lambda data: data[:4096] + b"\xff" * 8192])
def test_a_damaged_file_of_answers_is_one_line_whose_advice_works(server, tmp_path, damage):
    run(server, tmp_path)
    (file,) = (tmp_path / "endpoints").glob("*.sqlite")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(L3DError, match=rf"^the file of answers {file} is damaged .* Delete it") as found:
        run(server, tmp_path)
    assert "\n" not in str(found.value)
    file.unlink()
    assert run(server, tmp_path)[0].error is None


def test_a_process_that_is_killed_leaves_an_answer_and_its_cost_or_neither(tmp_path):
    endpoint, copies = Endpoint("m", "http://127.0.0.1/v1", prices=(1.0, 1.0)), list[Path]()
    store = store_in(endpoint, tmp_path / "now")

    def copy(statement: str) -> None:
        copies.append(tmp_path / str(len(copies)))
        shutil.copytree(tmp_path / "now", copies[-1])

    store._file.set_trace_callback(copy)  # before each statement: what a kill there leaves
    store.reserve(3.0)
    store.keep("key", {"text": "x"}, reserved=3.0, cost=1.0)
    store.close()
    left = [(each.find("key"), each.spent()) for each in (store_in(endpoint, folder) for folder in copies)]
    assert left[0] == (None, (0, 0.0))
    assert left[1:] == [(None, (1, 3.0))] * (len(left) - 1)
    store = store_in(endpoint, tmp_path / "now")
    assert (store.find("key"), store.spent()) == ({"text": "x"}, (1, 1.0))


def test_an_answer_that_cannot_be_kept_holds_up_nobody_and_the_file_is_not_called_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr("mlflow_l3d.approaches.icl.endpoint.store._WAIT_SECONDS", 0.1)
    endpoint = Endpoint("m", "http://127.0.0.1/v1")
    store, other = store_in(endpoint, tmp_path), store_in(endpoint, tmp_path)
    store._file.execute("PRAGMA max_page_count = 1")
    with pytest.raises(L3DError, match=r"cannot be used \(database or disk is full\)\.$"):
        store.keep("key", {"text": "x" * 100_000})
    with pytest.raises(TypeError):
        store.keep("key", {"text": b"no JSON"})
    other.reserve(0.0)
    assert other.find("key") is None


def test_an_endpoint_that_goes_away_ends_the_study_and_the_next_command_goes_on(server, tmp_path):
    run(server, tmp_path)
    server.stop()
    with pytest.raises(L3DError, match=r"no answer from http://127.0.0.1:\d+/v1 .*Start the server"):
        run(server, tmp_path)
    server.start(server.port)
    assert answered(server, tmp_path).metrics["requests_sent"] == 0


@pytest.mark.parametrize("change", ["name", "description"])
def test_another_model_ends_the_study(server, tmp_path, change):
    with session_of(job(server, tmp_path)) as prepared:
        if change == "name":
            server.model, said = "other", "now answers as other"
        else:
            server.size, said = 2, "another model of that name"
            server.faults.append("cut")
        with pytest.raises(StudyEndedError, match=said):
            list(prepared.run([cell(1)]))


def test_another_fingerprint_is_said(server, tmp_path, caplog):
    with session_of(job(server, tmp_path)) as session:
        server.fingerprint = "fp2"
        server.faults.append("cut")
        server.models_faults.append(200)  # a page in place of the list of models describes none
        (found,) = session.run([cell()])
    assert found.metrics["other_fingerprint_share"] == 1
    assert "answers with the fingerprint fp2; the study began with fp1" in caplog.text
    first, *lines = APPROACH.remarks(pd.DataFrame([found.metrics]))
    assert "the same request differently, which counts as an effect of each factor" in first
    (line,) = [line for line in lines if "fingerprint" in line]
    assert line.startswith("100.0 %")


def test_what_the_server_says_is_in_the_key_and_what_may_be_spent_is_not(server, tmp_path, monkeypatch):
    monkeypatch.setenv("L3D_CACHE", str(tmp_path))
    given = resolve_hyperparameters(APPROACH, {"base_url": server.url, "max_requests": 99})
    first = APPROACH.dependencies(given, MODEL)
    assert first["endpoint"].startswith("tiny fp1 ")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert APPROACH.dependencies({**given, "base_url": "auto"}, MODEL) == first
    assert APPROACH.identity(given) == APPROACH.identity(resolve_hyperparameters(APPROACH, {}))
    twin = Server()  # says the same, and may be another quantisation
    try:
        assert APPROACH.dependencies(given | {"base_url": twin.url}, MODEL) != first
    finally:
        twin.stop()
    assert APPROACH.dependencies(given, MODEL) == first
    server.size = 2
    assert APPROACH.dependencies(given, MODEL) != first
    server.gives = "nothing"
    assert APPROACH.dependencies(given, MODEL)["endpoint_log_probabilities"] == "nothing"


@pytest.mark.parametrize(
    ("given", "model", "line"),
    [
        ({"base_url": "http://user:hunter2@host/v1"}, MODEL, r"base_url=\(not shown\): must hold no user"),
        ({"base_url": "host"}, MODEL, "base_url=host: must be an address"),
        ({"quantise": "4bit"}, MODEL, "quantise=4bit: has no effect on openai:tiny"),
        ({"max_cost": 1.0}, MODEL, "max_cost=1.0: needs price_input"),
        ({"concurrency": 2}, "smollm2-135m-instruct", "concurrency=2: is for a model behind an endpoint"),
        ({}, "openai:", "model=openai:: names no model"),
    ],
)
def test_mistakes_are_one_line(given, model, line):
    with pytest.raises(ParameterError, match=line) as error:
        APPROACH.dependencies(resolve_hyperparameters(APPROACH, given), model)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(("status", "kind"), [(401, EndpointError), (404, EndpointError), (400, RefusedError)])
def test_what_a_server_refuses_is_one_line_without_the_key(server, tmp_path, status, kind):
    server.faults.append(status)
    with pytest.raises(kind, match=rf"refuses \({status}\): no \(key \*\*\*\)"):
        asked(client_of(server, tmp_path), "a")
    assert len(server.requests) == 1


@pytest.mark.parametrize(("name", "why"), [("tinny", "Did you mean 'tiny'"), ("none-such", r".* refuses \(404\): no")])
def test_a_model_that_the_server_does_not_have(server, tmp_path, name, why):
    server.faults.extend([404, 404, 404, 404])
    with pytest.raises(ParameterError, match=rf"model=openai:{name}: the server has tiny\. {why}"):
        list(InlineExecutor(job=replace(job(server, tmp_path), model=f"openai:{name}")).run([cell()]))


def test_replies_of_other_layouts():
    echo = {"tokens": [" the", " pos", "itive"], "token_logprobs": [None, -1.0, -0.5]}
    reply = {"choices": [{"logprobs": echo}], "usage": {"completion_tokens": 0}}
    assert end_of_prompt(reply, "positive")["logprob"] == -1.5
    with pytest.raises(ValueError, match="not echoed"):
        end_of_prompt(reply, "negative")
    words = ("negative", "positive")
    scores, unseen = first_token_scores([("pos", -1.0), (" ", -0.1), ("zebra", -3.0)], words)
    assert scores.tolist() == pytest.approx([-3.0 - np.log(2), -1.0])
    assert unseen == 1
    scores, _ = first_token_scores([("Positive", -1.0), ("positive", -1.0)], words)
    assert scores.tolist() == pytest.approx([-1 - np.log(2), np.log(2) - 1]), (
        "in any case, and behind it what is not listed"
    )
    several = [("nega", -3.0), ("neutral", -3.0), ("Ne", -0.2)]
    assert np.isnan(first_token_scores(several, ("negative", "neutral"))[0]).all(), "most begins both"
    sentence = [("I", -0.1), ("Correct", -3.0)]
    assert np.isnan(first_token_scores(sentence, ("inconclusive", "correct"))[0]).all(), "I am not sure"
    assert first_token_scores([("no", -0.1), ("yes", -3.0)], ("no", "yes"))[0].argmax() == 0
    choices = [{"index": 1, "text": "bad"}, {"index": 0, "text": "good"}]
    assert written({"choices": choices})["text"] == "good"
    assert counted({"usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 50}}) == (9, 41)
    assert np.isnan(first_token_scores([("token_id:17", -0.1), ("token_id:4", -3.0)], words)[0]).all()
    assert not tell_apart(("Nor", "north"))
    assert tell_apart(("Entity", "Expression"))
    assert not tell_apart(("World", "World news"))
    assert not tell_apart(("search a", "search b"))
