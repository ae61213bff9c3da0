"""The baseline of the fine-tuning benchmark: Hugging Face's Trainer on one seed, as run_glue.py uses it.

With `start` and `orders` in its settings it begins with our weights and visits the examples in our order.
"""

from __future__ import annotations

import time
from typing import Any

from _common import answer, settings_of_child
from _finetuning_cases import BATCH, MODEL, load


def main() -> None:
    """Train, then predict the validation part; clocks around the parts."""
    settings = settings_of_child()
    marks = {"start": time.perf_counter()}
    import numpy as np
    import torch
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        default_data_collator,
    )

    from mlflow_l3d.approaches import models

    marks["imports"] = time.perf_counter()
    folder = models.resolve(MODEL).path_or_id
    task = load(settings)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    drop = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), settings["dropout"])
    torch.manual_seed(settings["seed"])
    model = AutoModelForSequenceClassification.from_pretrained(settings.get("start") or folder, num_labels=2, **drop)
    whole = settings["padding"] == "max_length"

    def tokenised(part: int) -> Any:
        rows = np.flatnonzero(task.parts == part)
        texts = [[column[row] for row in rows] for column in task.texts]
        data = Dataset.from_dict({"first": texts[0], "second": texts[1], "label": task.labels[rows]})

        def encode(batch: dict[str, Any]) -> Any:
            padding = "max_length" if whole else False
            limit = settings["max_length"]
            return tokenizer(batch["first"], batch["second"], padding=padding, max_length=limit, truncation=True)

        return data.map(encode, batched=True, remove_columns=["first", "second"])

    train, test = tokenised(0), tokenised(1)
    if settings.get("orders"):
        # One long epoch in our order of examples; the schedule counts steps and does not see epochs.
        train = train.select([row for order in settings["orders"] for row in order])
    arguments = TrainingArguments(
        output_dir="trainer",
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=8,
        num_train_epochs=1 if settings.get("orders") else settings["epochs"],
        learning_rate=settings["learning_rate"],
        seed=settings["seed"],
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        bf16=settings["dtype"] == "bfloat16",
        dataloader_pin_memory=False,
        **({"train_sampling_strategy": "sequential"} if settings.get("orders") else {}),
    )
    collator = default_data_collator if whole else DataCollatorWithPadding(tokenizer)
    trainer = Trainer(model=model, args=arguments, train_dataset=train, data_collator=collator)
    marks["prepared"] = time.perf_counter()
    trainer.train()
    marks["trained"] = time.perf_counter()
    predicted = trainer.predict(test).predictions
    marks["evaluated"] = time.perf_counter()
    answer(
        settings,
        {
            "wall": marks["evaluated"] - settings["spawned"],
            "marks": marks,
            "spawned": settings["spawned"],
            "logits": predicted.tolist(),
            "predictions": predicted.argmax(1).tolist(),
            "threads": torch.get_num_threads(),
            "cpu": time.process_time(),
        },
    )


if __name__ == "__main__":
    main()
