"""What decides the numbers, on GPUs that are pretended: none of this was run on one."""

import os

import pytest
from pretended_cards import pretend_cards

torch = pytest.importorskip("torch")

from mlflow_l3d.approaches.base import resolve_hyperparameters  # noqa: E402
from mlflow_l3d.approaches.finetuning import Finetuning  # noqa: E402
from mlflow_l3d.approaches.finetuning.loading import compute_dtype  # noqa: E402
from mlflow_l3d.approaches.finetuning.recipe import Recipe  # noqa: E402
from mlflow_l3d.approaches.models import ModelReference  # noqa: E402
from mlflow_l3d.approaches.models.features import Encoding, features_key  # noqa: E402
from mlflow_l3d.approaches.numerics import equal_cards, reproducible, torch_numerics  # noqa: E402
from mlflow_l3d.errors import ParameterError  # noqa: E402
from mlflow_l3d.execution.environment import default_workers, places  # noqa: E402


def recipe(**given):
    approach = Finetuning()
    return Recipe(**approach.complete(resolve_hyperparameters(approach, given)))


def test_emulated_bfloat16_is_none(monkeypatch, caplog):
    pretend_cards(monkeypatch, "Tesla T4", bfloat16=False)
    assert compute_dtype(recipe(trainable="full"), "cuda") is torch.float32
    assert not caplog.messages
    assert compute_dtype(recipe(trainable="lora"), "cuda") is torch.float32
    assert caplog.messages == ["Tesla T4 has no bfloat16 of its own, so another precision is used"]
    with pytest.raises(ParameterError, match="dtype=bfloat16: cuda does not compute in it by itself"):
        compute_dtype(recipe(trainable="full", dtype="bfloat16"), "cuda")
    pretend_cards(monkeypatch, "NVIDIA A100")
    assert compute_dtype(recipe(trainable="lora"), "cuda") is torch.bfloat16
    assert compute_dtype(recipe(trainable="lora", lora_cells=2), "cuda") is torch.float32
    assert compute_dtype(recipe(trainable="lora"), "cpu") is torch.float32


@pytest.mark.parametrize("instructions", ["_is_amx_tile_supported", "_is_avx512_bf16_supported", None])
def test_a_cpu_without_instructions_for_bfloat16_refuses_it(monkeypatch, instructions):
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda found=name == instructions: found)
    wanted = recipe(trainable="full", dtype="bfloat16")
    if instructions:
        assert compute_dtype(wanted, "cpu") is torch.bfloat16
        return
    assert compute_dtype(recipe(trainable="full"), "cpu") is torch.float32
    with pytest.raises(ParameterError, match=r"cpu does not compute in it by itself. Use dtype=float32\."):
        compute_dtype(wanted, "cpu")


def test_what_names_the_numbers_of_a_gpu(monkeypatch):
    pretend_cards(monkeypatch, "NVIDIA A100", "NVIDIA A100")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    on_host = torch_numerics("cpu", "icl")
    assert set(on_host) == {"device", "threads", "torch", "transformers"}
    card = {
        "device": "cuda NVIDIA A100",
        "cuda": "12.8",
        "cudnn": "91002",
        "tf32": "off",
        "attention": "repeatable sdpa without cudnn",
    }
    assert torch_numerics("cuda", "icl") == torch_numerics("cuda:1", "icl") == {**on_host, **card}


def test_features_of_two_kinds_of_gpu_are_two_files(monkeypatch):
    found = ModelReference("model", "revision")
    pretend_cards(monkeypatch, "NVIDIA A100", "NVIDIA H100", "NVIDIA A100")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)  # one built for CUDA asks for a driver
    keys = [features_key([["a"]], Encoding(found, "mean", 8, device)) for device in ("cuda", "cuda:1", "cuda:2", "cpu")]
    assert keys[0] == keys[2]
    assert len({*keys}) == 3


def test_only_equal_cards_work_together(monkeypatch, caplog):
    pretend_cards(monkeypatch, "NVIDIA A100", "NVIDIA H100", "NVIDIA A100")
    assert places("cuda") == ["cuda:0", "cuda:2"]
    assert default_workers("cuda") == 2
    assert "one kind, NVIDIA A100; left out: NVIDIA H100" in caplog.text
    assert places("cuda:1") == ["cuda:1"]
    caplog.clear()
    pretend_cards(monkeypatch, "NVIDIA A100", "NVIDIA A100")
    assert equal_cards() == [0, 1]
    assert not caplog.messages


def switches():
    cudnn = torch.backends.cudnn
    chosen = torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    return (*chosen, cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32, filled)


def test_the_switches_of_a_gpu_are_set_and_put_back(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # noted, so that it is put back
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    before = switches()
    with reproducible("cpu"):
        assert switches() == before
    with reproducible("cuda:1"):
        assert switches() == (True, "highest", True, False, False, False)
        assert not torch.is_deterministic_algorithms_warn_only_enabled()  # attention would not repeat
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert switches() == before
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    with reproducible("cuda", deterministic=False):
        assert switches() == (False, "highest", False, False, False, False)
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    assert switches() == before
