"""The approach `icl`, as the platform sees it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.hooks import PublishedStudy, changing
from mlflow_l3d.approaches.hyperparameters import Hyperparameter, SearchChoices, Searched, SearchRange, Value
from mlflow_l3d.approaches.icl import recipe as recipes
from mlflow_l3d.approaches.icl.endpoint.store import is_endpoint
from mlflow_l3d.approaches.icl.formats import MOST_LISTED, check_words
from mlflow_l3d.approaches.icl.paper import TABLES
from mlflow_l3d.approaches.icl.recipe import CHOSEN, ENDPOINT, JUDGE
from mlflow_l3d.approaches.icl.session import remarks_of
from mlflow_l3d.approaches.models import PRESETS, default_quantisation, gguf, resolve, target
from mlflow_l3d.approaches.models.pretrained import need_bitsandbytes
from mlflow_l3d.approaches.numerics import minor_version, torch_numerics
from mlflow_l3d.approaches.shots import chosen_classes, equal_orders
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import ParameterError, renamed
from mlflow_l3d.metrics.base import OF_TEXTS
from mlflow_l3d.paths import cache_folder
from mlflow_l3d.tasks.base import Task

if TYPE_CHECKING:
    import pandas as pd


class InContextLearning(Approach):
    """In-context learning with a language model; see :class:`mlflow_l3d.approaches.base.Approach` for the contract.

    Labelled examples are in the prompt, nothing is trained (Pecher et al. 2024, sections 4 and D).
    """

    name: str = "icl"
    version: str = "2"
    factors: tuple[str, ...] = (*TASK_FACTORS, "data_order", "sample_choice", "model_randomness", *CHOSEN, JUDGE)
    on_request: tuple[str, ...] = (*CHOSEN, JUDGE)
    hyperparameters: Mapping[str, Hyperparameter] = recipes.HYPERPARAMETERS
    metrics: tuple[str, ...] = ("unparsed_share", "prompt_tokens", "f1_macro_published", "judge_score")
    task_kinds: tuple[str, ...] = ("classification", *OF_TEXTS)
    default_model: str = "smollm2-135m-instruct"
    default_task: str = "rotten_tomatoes"
    only_evaluates: bool = True
    self_tested: bool = False
    published_study: PublishedStudy | None = PublishedStudy(
        ("flan-t5-base", "llama-2-13b-chat", "mistral-7b-instruct-v0.1", "zephyr-7b-alpha"),
        mitigation_runs=20,
        metric="f1_macro_published",
    )

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Check the hyperparameters together, and the class words; say which calibration `auto` is."""
        recipe = recipes.Recipe.of(hyperparameters)
        for words in recipe.word_sets:
            if words != recipes.AUTO:
                check_words(words)
        return {**hyperparameters, "calibration": recipe.calibration}

    def identity(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the hyperparameters that belong into a cell's key.

        See :data:`recipe.LATER` and :data:`recipe.NOT_IN_KEYS`; `chat` is as it once was. Answers that are asked for
        again depend on how many requests are under way.
        """
        declarations = self.hyperparameters
        in_key = {
            name: value
            for name, value in hyperparameters.items()
            if name not in recipes.NOT_IN_KEYS and not (name in recipes.LATER and value == declarations[name].default)
        }
        if hyperparameters["answers"] == "fresh":  # a server that answers several at once may answer otherwise
            in_key["concurrency"] = hyperparameters["concurrency"]
        before = {"single": "true", "none": "false"}
        return in_key | {"chat": before.get(str(in_key["chat"]), in_key["chat"])}

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:
        """Return what else decides the numbers: the version of bitsandbytes, the weights of the selection's encoder.

        Of a model behind an endpoint also what its server says of it.

        Raises
        ------
        ParameterError
            If the packages of 4-bit weights are missing or a dtype is given for them, or the encoder leads to no model.
        L3DError
            If an endpoint does not answer, or not as it should.
        """
        recipe = recipes.Recipe.of(hyperparameters)
        versions = dict(dependencies_of(model, recipe))
        for at, name in enumerate(recipe.judge_names):
            with renamed("hyperparameters.judge"):
                said = dependencies_of(name, recipe.of_judge()) if is_endpoint(name) else {}
                versions[f"judge {at}"] = " ".join(said.values()) or revision_of(name)
        if hyperparameters["dtype"] == "bfloat16":
            versions["attention on a cpu"] = "products"
        quantise, dtype = hyperparameters["quantise"], hyperparameters["dtype"]
        if (default_quantisation(model) if quantise == recipes.AUTO else quantise) != "none":
            if dtype != recipes.AUTO:
                allowed = "4-bit weights have a type of their own to compute in"
                raise ParameterError("hyperparameters.dtype", dtype, allowed, "Use dtype=auto, or quantise=none.")
            need_bitsandbytes()
            versions["bitsandbytes"] = minor_version("bitsandbytes", "icl")
        if hyperparameters["selection"] == "similarity":
            with renamed("hyperparameters.selection_encoder"):
                versions["selection_encoder"] = resolve(str(hyperparameters["selection_encoder"])).revision
        return versions

    def published(self, task: str, given: Mapping[str, Value], model: str = "") -> Mapping[str, Value] | None:  # noqa: ARG002
        """Return the setting of the paper: 2 shots a class, prompt format A, 10 greedy tokens (section 4, appendix D).

        The authors' code asks Flan-T5 in plain text, cut off on the right, and its other models turn by turn, with the
        4-bit weights that bitsandbytes has by default. None for a task that Pecher et al. (2024) do not have. If
        paper and code differ, see docs/how-to/prompts.md.
        """
        if task not in TABLES:
            return None
        settings: dict[str, Value] = {
            "shots": 2,
            "prompt_format": "A",
            "decision": "generate",
            "calibration": "none",
            "max_new_tokens": 10,
            "temperature": 0.0,
        }
        if "t5" in target(model).casefold():
            return settings | {"chat": "none", "truncation": "right"}
        authors = {preset.reference for preset in PRESETS.values() if preset.quantise == "4bit"}
        return settings | {"chat": "turns"} | ({"quantise": "fp4"} if target(model) in authors else {})

    def search_space(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, Searched]:
        """Return what is searched under complete hyperparameters: the shots, the format, the calibration of scores.

        At most 24 combinations at level 1. A custom format stays, zero-shot stays zero-shot and formats that a factor
        chooses from stay (else factors would come into effect), and generated answers have no scores to calibrate.
        """
        space: dict[str, Searched] = {}
        if hyperparameters["shots"] != 0:
            space["shots"] = SearchRange(1, 8, log=True, whole=True, coarse=(1, 2, 5))
        chosen = hyperparameters["choice_order"] == "random"
        if hyperparameters["prompt_format"] in {"A", "B", "C", "D"} and not chosen:
            space["prompt_format"] = SearchChoices(("A", "B", "C", "D"))
        if hyperparameters["decision"] == "score":
            space["calibration"] = SearchChoices(("none", "batch"))
        return space

    def equal_draws(self, task: Task, hyperparameters: Mapping[str, Value], cells: pd.DataFrame) -> tuple[str, ...]:
        """Return which two columns of `data_order` put few examples into one order."""
        return equal_orders(cells, int(hyperparameters["shots"]) * max(1, self.classes(task, hyperparameters)))

    def levels(self, task: Task, hyperparameters: Mapping[str, Value]) -> Mapping[str, int]:
        """Return how many formats, sets of class words and, of a few options, orders there are to choose from."""
        recipe, options = recipes.Recipe.of(hyperparameters), self.classes(task, hyperparameters)
        orders = math.factorial(options) if options <= MOST_LISTED else 0
        lengths = dict(zip(CHOSEN, (len(recipe.formats), orders, len(recipe.word_sets)), strict=True))
        if recipe.judge_temperature == 0:  # else a verdict is drawn, and the factor chooses from no list
            lengths[JUDGE] = len(recipe.judges)
        inactive = self.inactive_factors(hyperparameters)
        return {name: length for name, length in lengths.items() if length and name not in inactive}

    def classes(self, task: Task, hyperparameters: Mapping[str, Value]) -> int:
        """Return how many classes the hyperparameter `classes` names."""
        return len(chosen_classes(str(hyperparameters["classes"]), task.class_names)) if task.form.has_classes else 0

    def task_kinds_under(self, hyperparameters: Mapping[str, Value]) -> tuple[str, ...]:
        """Return what complete hyperparameters allow: an answer that is a text must be generated."""
        return ("classification",) if hyperparameters["decision"] == "score" else self.task_kinds

    def missing_metrics(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return what asks for generated answers, or for a judge."""
        reasons = {}
        if hyperparameters["decision"] == "score":
            reasons["unparsed_share"] = "answers are scored, not parsed; set hyperparameter decision=generate"
        if hyperparameters["judge"] == "none":
            reasons["judge_score"] = "nobody judges; set hyperparameter judge to a model, in a task of texts"
        return reasons

    def remarks(self, cells: pd.DataFrame) -> tuple[str, ...]:
        """Return how many prompts were cut off, what ran slowly, and how many answers could not be read or judged."""
        return remarks_of(cells)

    def remedies(self, task: Task, hyperparameters: Mapping[str, Value]) -> tuple[Remedy, ...]:
        """Return batch calibration (Zhou et al. 2024), the instructed format, nearest examples, and the best answer."""
        values: dict[str, dict[str, Value]] = {}
        if hyperparameters["decision"] == "score" and task.form.has_classes:
            values["batch calibration"] = {"calibration": "batch"}
        if hyperparameters["prompt_format"] in ("B", "C", "D"):
            values["prompt with instructions (format A)"] = {"prompt_format": "A"}
        if int(hyperparameters["shots"]) and hyperparameters["calibration"] != "contextual":
            values["shots that are most similar to the question"] = {"selection": "similarity"}
        values["most likely answer (temperature 0)"] = {"temperature": 0.0}
        return changing(hyperparameters, values, "prompt")

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return the factors without an effect: no examples to choose or order, greedy answers, lists of one."""
        recipe = recipes.Recipe.of(hyperparameters)
        several = "set hyperparameter {0} to several, e.g. to {1}"
        inactive: dict[str, str] = {}
        if recipe.shots == 0:
            reason = "shots is 0, so that the prompt has no example; set hyperparameter shots, e.g. to 2"
            inactive |= {"data_order": reason, "sample_choice": reason}
        elif recipe.selection == "similarity":
            inactive["sample_choice"] = "selection=similarity chooses the examples; set hyperparameter selection=random"
        if recipe.temperature == 0:
            reason = "temperature is 0, which asks for the likeliest answer; set hyperparameter temperature, e.g. to 1"
            inactive["model_randomness"] = reason
        if len(recipe.formats) == 1:
            inactive["prompt_format"] = f"there is one format; {several.format('prompt_format', 'A|B|C|D')}"
        if recipe.choice_order == "fixed":
            inactive["choice_order"] = "choice_order is fixed; set hyperparameter choice_order=random"
        if len(recipe.word_sets) == 1:
            fix = several.format("verbaliser", "bad;good|negative;positive")
            inactive["verbaliser"] = f"there is one set of class words; {fix}"
        if not recipe.judges:
            inactive[JUDGE] = "there is no judge; set hyperparameter judge to a model"
        elif len(recipe.judges) == 1 and recipe.judge_temperature == 0:
            inactive[JUDGE] = (
                "there is one judge, whose verdicts are not drawn; set hyperparameter judge to several with | between, "
                "judge_template to several with || between, or judge_temperature, e.g. to 1"
            )
        return inactive

    def inactive_on(self, task: Task, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return the same for a task: if answers are texts, there may be one example in the prompt."""
        reasons = dict(self.inactive_factors(hyperparameters))
        if not task.form.has_classes and hyperparameters["shots"] == 1:
            reasons["data_order"] = "the prompt has one example only; set hyperparameter shots, e.g. to 2"
        return reasons

    def model_revision(self, model: str) -> str:
        """Return what identifies the weights; see :func:`revision_of`."""
        return revision_of(model)

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return the device class, the versions (major.minor) of torch and transformers, and the threads."""
        return torch_numerics(device, self.name)

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Load the model and return a session.

        Raises
        ------
        ParameterError
            If model, device, format or class words do not fit.
        """
        recipe = recipes.Recipe.of(hyperparameters)
        torch_numerics(device, self.name)
        if is_endpoint(model):
            from mlflow_l3d.approaches.icl.endpoint import EndpointSession

            return EndpointSession(task, recipe, model, device, cache)
        from mlflow_l3d.approaches.icl.local_session import LocalSession

        return LocalSession(task, recipe, model, device, cache)


def revision_of(model: str) -> str:
    """Return what identifies the weights behind a reference: a commit, or a hash of the files.

    For a GGUF file it is a hash of the file and of the converter's version. The name of a preset whose weights are
    quantised adds ``+4bit``, so that it never counts as the same model as the bare hub id. Of a model that a server has
    it is the reference: :func:`dependencies_of` has what the server says of it.

    Raises
    ------
    ParameterError
        If the reference leads to no model.
    """
    if is_endpoint(model):
        return model
    quantised = default_quantisation(model)
    return gguf.revision(model) if quantised == "none" else f"{gguf.revision(model)}+{quantised}"


def dependencies_of(model: str, recipe: recipes.Recipe) -> Mapping[str, str]:
    """Return what a server says of its model, which joins the numerics of the cells; nothing of a model that is here.

    Raises
    ------
    ParameterError
        If hyperparameters are for endpoints, and the model is here.
    L3DError
        If a server does not answer, or not as it should.
    """
    if is_endpoint(model):
        from mlflow_l3d.approaches.icl.endpoint.engine import identity

        return identity(model, recipe, cache_folder())
    if not any(map(is_endpoint, recipe.judge_names)):
        allowed = f"is for a model behind an endpoint, and model={model} is none"
        recipe.refuse(ENDPOINT, allowed, "Use model=openai:NAME, or leave it out.")
    recipe.refuse(("answers",), f"asks an endpoint again, and model={model} is none", "Leave it out.")
    return {}
