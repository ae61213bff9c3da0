"""What Zhou et al. (2025) published for fine-tuning on GLUE and SuperGLUE.

Table 5 (RoBERTa-large) and Table 6 (Llama-3.2-3B with LoRA) of the version of ten seeds. What Table 5 leaves out for
SuperGLUE, and STS-B, is taken from Table 4 of the version of five seeds; the others agree in both. "Unless stated
otherwise, we adopt the default hyperparameter values from the Hugging Face framework" (appendix A.3): no warm-up, no
weight decay, gradients cut at 1, and no early stopping. They train on the train set and evaluate on the dev set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.models.references import target


@dataclass(frozen=True, slots=True)
class Settings:
    """What differs from task to task."""

    epochs: int
    learning_rate: float
    batch_size: int = 10
    max_length: int = 512


SETTINGS: Final[Mapping[str, tuple[Settings, Settings | None]]] = {
    "mrpc": (Settings(8, 2e-5), Settings(20, 3e-5)),
    "qnli": (Settings(6, 2e-5), Settings(6, 3e-5)),
    "qqp": (Settings(8, 1e-5), Settings(2, 2e-5, batch_size=32)),
    "sst2": (Settings(7, 2e-5), Settings(6, 3e-5)),
    "rte": (Settings(10, 1e-5), Settings(20, 3e-5)),
    "cola": (Settings(8, 1e-5), Settings(6, 1e-5)),
    "stsb": (Settings(3, 4e-5, batch_size=32), None),
    "boolq": (Settings(8, 1e-5), Settings(10, 1e-5)),
    "cb": (Settings(7, 2e-5), Settings(20, 5e-5)),
    "rte_superglue": (Settings(10, 2e-5), Settings(10, 1e-5)),
    "multirc": (Settings(6, 2e-5), Settings(10, 2e-5)),
    "wic": (Settings(8, 1e-5), Settings(10, 1e-5)),
    "copa": (Settings(9, 3e-5, max_length=256), Settings(10, 3e-5, max_length=256)),
}
"""Task -> settings of RoBERTa-large, and of Llama-3.2-3B, as published. RTE stands in both benchmarks."""
_DEFAULTS: Final[Mapping[str, Value]] = {
    "warmup_share": 0.0,
    "weight_decay": 0.0,
    "gradient_clipping": 1.0,
    "gradient_accumulation": 2,
    "early_stopping_patience": 0,
    "selection": "last",
}
# SuperGLUE's tables of LoRA were cut off in the text that we have; the sentence about LoRA is about all tasks.
_LORA: Final[Mapping[str, Value]] = {
    "lora_r": 8,
    "lora_alpha": 16.0,
    "lora_dropout": 0.1,
    "lora_targets": "q_proj+v_proj",
    "dropout": 0.0,
}


def published_seeds(model: str, task: str) -> dict[str, Value] | None:
    """Return the hyperparameters of the study for a model and a task, for :class:`Finetuning`.

    Parameters
    ----------
    model
        A preset, its hub id, or any other reference: all but Llama-3.2-3B are given those of RoBERTa-large.
    task
        Name of the task.

    Returns
    -------
    dict or None
        None for a task without settings.
    """
    lora = target(model.partition("@")[0]) == target("llama-3.2-3b")
    setting = SETTINGS.get(task, (None, None))[lora]
    if setting is None:
        return None
    values: dict[str, Value] = {"trainable": "lora" if lora else "full", **asdict(setting)}
    return {**values, **_DEFAULTS, **(_LORA if lora else {"dropout": 0.1})}
