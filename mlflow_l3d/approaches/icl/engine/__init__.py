"""Score and generate answers for many prompts that share their beginning, without paying for it more than once.

`CausalEngine` and `Seq2SeqEngine` have the same two methods. ``score(prompts, answers)`` gives the log-probability of
every answer after every prompt; ``generate(prompts, max_new_tokens, stop)`` continues every prompt, greedily or with a
`Sampling`. Prompts and answers are token ids; what the ids mean is the caller's business.

Importing this package imports torch.
"""

from mlflow_l3d.approaches.icl.engine.causal import CausalEngine
from mlflow_l3d.approaches.icl.engine.reading import Sampling
from mlflow_l3d.approaches.icl.engine.seq2seq import Seq2SeqEngine

__all__ = ["CausalEngine", "Sampling", "Seq2SeqEngine"]
