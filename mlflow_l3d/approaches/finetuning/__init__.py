"""Fine-tuning of a pretrained encoder: the whole of it (the papers' recipe), or a dense head on frozen features."""

from mlflow_l3d.approaches.finetuning.approach import Finetuning

__all__ = ["Finetuning"]
