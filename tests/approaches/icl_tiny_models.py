"""Tiny random models with a tokenizer of bytes, for the tests of in-context learning."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers import models as tokenizer_models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from mlflow_l3d.approaches.icl.models import load_model
from mlflow_l3d.errors import L3DError

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
SPECIAL = ["<s>", "</s>"]
CHAT = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def byte_tokenizer(chat="", **special):
    tokens = {token: index for index, token in enumerate(SPECIAL + ALPHABET)}
    backend = Tokenizer(tokenizer_models.BPE(vocab=tokens, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, **{"bos_token": "<s>", "eos_token": "</s>", **special}
    )
    if chat:
        tokenizer.chat_template = chat
    return tokenizer


def llama(**other):
    torch.manual_seed(3)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    settings = {"num_key_value_heads": 2, "vocab_size": 258, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
    ends = {"bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": False}
    return LlamaForCausalLM(LlamaConfig(**(sizes | settings | ends | other))).eval()


def t5(width=32):
    torch.manual_seed(4)
    sizes = {"d_model": width, "d_kv": width // 4, "d_ff": 2 * width, "num_layers": 2, "num_heads": 4}
    ends = {"eos_token_id": 1, "pad_token_id": 0, "decoder_start_token_id": 0}
    return T5ForConditionalGeneration(T5Config(**sizes, **ends, vocab_size=258)).eval()


def save(folder, model, tokenizer):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def refusal(call, *arguments, **keywords):
    with pytest.raises(L3DError) as caught:
        call(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def encoder_decoder(folder):
    """Load a tiny T5 whose tokenizer ends every text with the end token and says that 40 tokens fit."""
    tokenizer = byte_tokenizer(model_max_length=40)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return load_model(str(save(folder, t5(), tokenizer)), "cpu", cache=folder)
