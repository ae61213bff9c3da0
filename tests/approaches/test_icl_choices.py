"""Formats, class words and orders of options that cells draw: which, how often, and what they leave alone."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endpoint_server import Server
from finetuning_helpers import handmade_task
from icl_helpers import APPROACH, complete, prepared, tiny_model
from refusals import refusal

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.icl.formats import MOST_LISTED, PromptChoices, option_order
from mlflow_l3d.approaches.icl.recipe import CHOSEN, Recipe
from mlflow_l3d.cells.cell import Cell
from mlflow_l3d.cells.factors import configuration_seed
from mlflow_l3d.testing import check_approach, one_cell

EVERYTHING = {"prompt_format": "A|B|custom", "verbaliser": "bad;good|no;yes|poor;fine", "choice_order": "random"}
EVERYTHING |= {
    "template": "So: {text} It is || {text} -> {answer}",
    "instruction": "Choose: {options} || Say {options}.",
}
TASK = handmade_task(40, num_labelled=20, test_size=6)


def recipe(**given: Any) -> Recipe:
    return Recipe.of(resolve_hyperparameters(APPROACH, {"shots": 1, "chat": "none", **given}))


def choices(**given: Any) -> PromptChoices:
    return PromptChoices(TASK, recipe(**given), (0, 1))


def seeds(**chosen: int) -> dict[str, int]:
    return {**one_cell(APPROACH.factors).seeds, **dict.fromkeys(CHOSEN, 0), **chosen}


def cell(**chosen: int) -> Cell:
    own = seeds(**chosen)
    return Cell("golden", None, None, None, 0, dict.fromkeys(own, 0), own, str(sorted(own.items())))


def test_a_level_is_a_seed_of_itself_and_the_first_is_what_there_is_without_the_others() -> None:
    made = choices(**EVERYTHING)
    first = choices(verbaliser="bad;good").formats[0]
    assert made.of(seeds()) == first
    names = [made.of(seeds(prompt_format=level)).shot for level in range(5)]
    assert names[2:4] == ["So: {text} It is", "{text} ->"]
    assert names[4] == names[0]
    tops = [made.of(seeds(prompt_format=level, choice_order=1, verbaliser=1)).instruction for level in (2, 3)]
    assert tops == ["Choose: 1) yes 2) no", "Say 1) yes 2) no."]
    words = [made.of(seeds(verbaliser=level)).verbaliser for level in range(3)]
    assert words == [("bad", "good"), ("no", "yes"), ("poor", "fine")]
    assert len(made.formats) == 4 * 3


def test_each_level_is_as_likely() -> None:
    made, runs = choices(**EVERYTHING), 2_000
    drawn = [{name: configuration_seed(3, name, at) for name in CHOSEN} for at in range(runs)]
    found = Counter((form.shot, form.verbaliser, form.options) for form in map(made.of, drawn))
    # Format B lists no options, so that its orders are one.
    shares = {key: 1 / 12 if key[2] == () else 1 / 24 for key in found}
    assert sum(shares.values()) == pytest.approx(1)
    assert sum((found[key] - runs * share) ** 2 / (runs * share) for key, share in shares.items()) < 45  # 20 degrees


def test_orders_are_all_orders() -> None:
    for count in range(1, 5):
        assert [option_order(seed, count) for seed in range(factorial(count))] == list(permutations(range(count)))
    many = MOST_LISTED + 7
    drawn = {option_order(seed, many) for seed in range(50)}
    assert {tuple(sorted(order)) for order in drawn} == {tuple(range(many))}
    assert len(drawn) == 50


def test_another_order_moves_the_options_of_the_instruction_and_the_meaning_of_their_numbers() -> None:
    made = choices(choice_order="random", verbaliser="bad;good")
    usual, other = made.of(seeds()), made.of(seeds(choice_order=1))
    assert usual.instruction.endswith("options: 1) bad 2) good.")
    assert other.instruction == usual.instruction.replace("1) bad 2) good", "1) good 2) bad")
    assert (usual.shot, usual.verbaliser) == (other.shot, other.verbaliser)
    assert [form.parse("option 1") for form in (usual, other)] == [0, 1]
    assert [form.parse("good") for form in (usual, other)] == [1, 1]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.mark.slow
def test_keeps_the_contract_of_an_approach(model: str, tmp_path: Path) -> None:
    settings = {"shots": 1, "chat": "none", **EVERYTHING}
    check_approach(APPROACH, TASK, hyperparameters=settings, model=model, cache=tmp_path, configurations=3)


def test_a_changed_seed_changes_only_what_it_decides(model: str, tmp_path: Path) -> None:
    session = prepared(model, tmp_path, TASK, shots=2, **EVERYTHING)
    usual = session.choices.of(seeds())
    usually = session._asked(cell())
    test, prompts = usually.test, usually.prompts
    for name in CHOSEN:
        changed = session.choices.of(seeds(**{name: 1}))
        assert changed != usual
        otherwise = session._asked(cell(**{name: 1}))
        again, others = otherwise.test, otherwise.prompts
        np.testing.assert_array_equal(test, again)
        # The same examples in the same order: the other prompt says the same in other words.
        shots = _shots(prompts[0], usual)
        assert _shots(others[0], changed) == shots
        assert len(shots) == 4
        assert others != prompts
        (found,) = session.run([cell(**{name: 1})])
        assert found.error is None
        np.testing.assert_array_equal(found.labels, TASK.labels[test])
    session.close()


def _shots(prompt: str, form: Any) -> list[tuple[str, int]]:
    """Return text and class of the examples of a prompt."""
    text = prompt.removeprefix(form.instruction + form.separator if form.instruction else "")
    blocks = text.split(form.separator) if form.separator == "\n\n" else _pairs(text.split("\n"))
    before, _, after = form.shot.partition("{text}")
    found = []
    for block in blocks[:-1]:
        said, word = block.removeprefix(before).split(after + " ")
        found.append((said, form.verbaliser.index(word)))
    return found


def _pairs(lines: list[str]) -> list[str]:
    return ["\n".join(lines[at : at + 2]) for at in range(0, len(lines), 2)]


def test_an_endpoint_is_asked_the_same(server: Server, tmp_path: Path, model: str) -> None:
    server.gives, chosen = "prompt", {"calibration": "none", **EVERYTHING}
    asked = cell(prompt_format=1, verbaliser=2, choice_order=1)
    here = prepared(model, tmp_path, TASK, **chosen)
    prompts = here._asked(asked).prompts
    here.close()
    session = prepared("openai:tiny", tmp_path, TASK, **chosen, base_url=server.url)
    server.requests.clear()
    (found,) = session.run([asked])
    session.close()
    assert found.error is None, found.traceback
    wanted = {f"{prompt} {word}" for prompt in prompts for word in ("poor", "fine")}
    assert {str(body["prompt"]) for body in server.requests} == wanted


def test_factors_are_there_where_there_is_something_to_choose() -> None:
    def inactive(**given: Any) -> set[str]:
        return set(APPROACH.inactive_factors(complete(**given))) & set(CHOSEN)

    assert inactive() == set(CHOSEN)
    assert inactive(prompt_format=" A | B ") == {"choice_order", "verbaliser"}
    assert inactive(verbaliser="a;b|auto") == {"choice_order", "prompt_format"}
    assert inactive(verbaliser="a|b") == set(CHOSEN)
    assert inactive(choice_order="random") == {"prompt_format", "verbaliser"}
    assert inactive(prompt_format="custom", template="{text} a || {text} b", verbaliser="a;b") == set(CHOSEN[1:])


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"prompt_format": "A|E"}, "hyperparameters.prompt_format='E': must be one of A, B, C, D, custom"),
        ({"prompt_format": "A|A"}, "hyperparameters.prompt_format=A|A: must name each choice once"),
        (
            {"choice_order": "random", "prompt_format": "B|C"},
            "hyperparameters.choice_order=random: has nothing to order",
        ),
        ({"verbaliser": "a;b|a;b"}, "hyperparameters.verbaliser=a;b|a;b: lists the same twice"),
        ({"verbaliser": "a;b|c"}, "hyperparameters.verbaliser=c: must have two words or more"),
        ({"verbaliser": "a;b|auto", "prompt_format": "custom", "template": "{text} x"}, "hyperparameters.verbaliser="),
        (
            {"prompt_format": "custom", "template": "{text} x", "verbaliser": "a;b", "instruction": "a || b"},
            "hyperparameters.instruction=a || b: 2 instructions for 1 template(s). Give one, or one for each.",
        ),
    ],
)
def test_mistakes(given: dict[str, Any], line: str) -> None:
    assert refusal(complete, **given).startswith(line)
