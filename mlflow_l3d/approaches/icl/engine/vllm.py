"""vLLM as the engine: its kernels and its cache of prompts, the same questions and answers as our own engines.

Answers are scored from the log-probabilities of their tokens, asked for behind the prompt and behind each beginning of
an answer, so that vLLM finds every prompt in its cache. It runs in this process, batches do not change what a prompt
gives (``VLLM_BATCH_INVARIANT``, unless that is set otherwise), and each text that is drawn has a seed of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from mlflow_l3d.approaches.icl.engine.base import Continuation, Engine, TokenIds
from mlflow_l3d.approaches.icl.engine.trie import ROOT, AnswerTrie
from mlflow_l3d.approaches.models.pretrained import TRUST
from mlflow_l3d.approaches.numerics import SHARERS
from mlflow_l3d.errors import L3DError, ParameterError

if TYPE_CHECKING:
    from mlflow_l3d.approaches.models.references import ModelReference

_INSTALL: Final = "Run: pip install vllm (on a machine with a GPU; docs.vllm.ai says which versions of torch it takes)"
_INVARIANT: Final = "VLLM_BATCH_INVARIANT"
_MOST_TOKENS: Final = 128
"""Of so many tokens vLLM gives log-probabilities at once (its `MAX_LOGPROB_TOKEN_IDS`)."""
_SHARE_OF_MEMORY: Final = 0.9


def vllm_numerics() -> dict[str, str]:
    """Return what joins the key of a cell: the version, and whether batches may change a result.

    Raises
    ------
    L3DError
        If vLLM is not installed.
    """
    try:
        installed = version("vllm")
    except PackageNotFoundError:
        raise L3DError(f"hyperparameters.engine=vllm needs vllm. {_INSTALL}") from None
    return {"vllm": installed, "vllm_batch_invariant": os.environ.get(_INVARIANT, "1")}


def load_vllm(found: ModelReference, device: str, *, dtype: str, trust: bool, context: int) -> Any:
    """Load a model into vLLM, with this process's part of the GPU's memory.

    Parameters
    ----------
    found
        Folder, or hub id and commit.
    device
        ``cuda`` or ``cuda:1``.
    dtype
        ``auto``, ``float32`` or ``bfloat16``.
    trust
        Whether code that comes with the model is run.
    context
        Most tokens of prompt and answer.

    Raises
    ------
    ParameterError
        If the device is no GPU.
    L3DError
        If vLLM is not installed, or is one that cannot score answers.
    """
    kind, _, number = device.partition(":")
    if kind != "cuda":
        allowed = f"runs on GPUs, and device={device} is none"
        raise ParameterError("hyperparameters.engine", "vllm", allowed, "Leave it out.")
    vllm_numerics()
    os.environ.setdefault(_INVARIANT, "1")
    # Scheduling is the same each time only in this process, and a worker may have no children.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    _take_card(int(number or 0))
    from vllm import LLM, SamplingParams

    if not hasattr(SamplingParams(), "logprob_token_ids"):
        raise L3DError(f"hyperparameters.engine=vllm: vllm {version('vllm')} cannot score given tokens: update it.")
    return LLM(
        model=found.path_or_id,
        revision=found.commit if found.kind == "hub" else None,
        dtype=dtype,
        seed=0,
        **{TRUST: trust},
        max_model_len=context,
        gpu_memory_utilization=_SHARE_OF_MEMORY / int(os.environ.get(SHARERS, "1")),
        enable_prefix_caching=True,
        generation_config="vllm",
    )


def _take_card(number: int) -> None:
    """Let this process see one card only."""
    import torch

    if number == 0:  # the one that vLLM takes
        return
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        fix = "Set CUDA_VISIBLE_DEVICES to the card and use device=cuda."
        raise ParameterError("device", f"cuda:{number}", "is not the first card, which vLLM takes", fix)
    cards = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    os.environ["CUDA_VISIBLE_DEVICES"] = cards[number] if len(cards) > number else str(number)


class VllmEngine(Engine):
    """Scores answers and generates with a model in vLLM.

    Parameters
    ----------
    model
        A `vllm.LLM`.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def _score(self, texts: Sequence[TokenIds], trie: AnswerTrie) -> npt.NDArray[np.float64]:
        from vllm import SamplingParams

        asked = list(_asked(trie))
        prompts, settings = [], []
        for text in texts:
            for beginning, tokens_of_node in asked:
                prompts.append({"prompt_token_ids": [*text, *beginning]})
                how = SamplingParams(
                    temperature=0.0, max_tokens=1, logprob_token_ids=[*tokens_of_node], detokenize=False
                )
                settings.append(how)
        answers = iter(self.model.generate(prompts, settings, use_tqdm=False))
        read = np.empty((len(texts), len(trie.reads[0])))
        for row in read:
            for _, tokens_of_node in asked:
                logprobs = next(answers).outputs[0].logprobs[0]
                for token, places in tokens_of_node.items():
                    row[places] = logprobs[token].logprob
        return trie.total(read)

    def _generate(self, texts: Sequence[TokenIds], how: Continuation) -> list[list[int]]:
        """Return the continuations; all tokens up to the limit are written, whether or not a text has ended."""
        from vllm import SamplingParams

        sampling, stop = how.sampling, how.stop
        wanted: dict[str, Any] = {"max_tokens": how.limit, "stop_token_ids": sorted(stop), "ignore_eos": True}
        wanted |= {"detokenize": False, "temperature": 0.0 if sampling is None else sampling.temperature}
        # Each text has a seed that is its own, drawn like the numbers of our own engines.
        seeds = [None] * len(texts) if sampling is None else (sampling.uniforms[:, 0] * 2**53).astype(np.int64).tolist()
        settings = [SamplingParams(seed=seed, **wanted) for seed in seeds]
        outputs = self.model.generate([{"prompt_token_ids": list(text)} for text in texts], settings, use_tqdm=False)
        return [list(takewhile(lambda token: token not in stop, one.outputs[0].token_ids)) for one in outputs]


def _asked(trie: AnswerTrie) -> Iterator[tuple[TokenIds, dict[int, list[int]]]]:
    """Yield each beginning of answers with what is read behind it: token -> its places in ``trie.reads``."""
    behind: dict[int, dict[int, list[int]]] = {}
    for place, (node, token) in enumerate(zip(*trie.reads, strict=True)):
        behind.setdefault(int(node) - 1, {}).setdefault(int(token), []).append(place)
    for node, places_of_token in behind.items():
        beginning = () if node == ROOT else tuple(trie.tokens[np.flatnonzero(trie.ancestors[node])].tolist())
        rest = list(places_of_token.items())
        for start in range(0, len(rest), _MOST_TOKENS):
            yield beginning, dict(rest[start : start + _MOST_TOKENS])
