"""Models and servers that several tests of in-context learning share."""

from __future__ import annotations

import shutil
import ssl
import sys
from collections.abc import Iterator
from functools import cache as cached
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from endpoint_server import Server

    from mlflow_l3d.approaches.icl.models import LoadedModel


@pytest.fixture(scope="module")
def causal_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny causal model with a chat template."""
    from icl_tiny_models import CHAT, byte_tokenizer, llama, save

    return save(tmp_path_factory.mktemp("causal"), llama(), byte_tokenizer(CHAT))


@pytest.fixture(scope="module")
def causal(causal_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Load it."""
    from mlflow_l3d.approaches.icl.models import load_model

    return load_model(str(causal_folder), "cpu", cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def seq2seq(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Load a tiny encoder-decoder."""
    from icl_tiny_models import encoder_decoder

    return encoder_decoder(tmp_path_factory.mktemp("seq2seq"))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Save models to be fine-tuned, which sessions read only."""
    from finetuning_models import model_folders

    return model_folders(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def cache() -> Path:
    """Give the cache of this run of the tests: head and meta-learners read the features of the same texts."""
    from mlflow_l3d.paths import cache_folder

    return cache_folder()


@pytest.fixture
def alone() -> Iterator[None]:
    """Compute with one thread, as sessions of stacked cells do."""
    from mlflow_l3d.approaches.numerics import one_thread

    with one_thread():
        yield


@pytest.fixture
def kept_store(migrated_store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep a store in the cache; ours is made from an empty one, so that its migrations are not waited for."""
    from mlflow_l3d.approaches.project import store
    from mlflow_l3d.approaches.project.mlproject import located

    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("L3D_CACHE", str(cache))
    place = located(".", "", "local", cache, cache)
    kept = cache / "projects" / f"store-{place.mlflow}.db"
    kept.parent.mkdir(mode=0o700)
    shutil.copyfile(migrated_store, kept)
    monkeypatch.setattr(sys, "argv", ["", str(kept)])
    exec(store._MAKE, {})


_context = cached(ssl.create_default_context)


@pytest.fixture
def certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients share what they read of certificates, which takes a fiftieth of a second."""
    monkeypatch.setattr(ssl, "create_default_context", _context)


@pytest.fixture
def server(certificates: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start an endpoint; clients hardly wait before they try again."""
    pytest.importorskip("openai")
    from endpoint_server import Server

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.001)
    made = Server()
    yield made
    made.stop()
