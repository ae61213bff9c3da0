import errno
import io
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from filelock import FileLock
from finetuning_helpers import handmade_task
from transformers import BatchEncoding

from mlflow_l3d.approaches import models
from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.approaches.models import features, pretrained
from mlflow_l3d.approaches.models.tokens import tokenise
from mlflow_l3d.approaches.progress import heard_by
from mlflow_l3d.errors import ParameterError

FOUND = models.resolve(Finetuning.default_model)
TEXTS = handmade_task(70).texts


def load(cache, texts=TEXTS, **chosen):
    return features.load_or_encode(texts, features.Encoding(FOUND, **chosen), cache)


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    return np.array(load(tmp_path_factory.mktemp("cache")))


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "pooling"), [(1, "mean"), (2, "cls")])
def test_features_are_those_of_one_text_at_a_time(tmp_path, columns, pooling):
    texts = handmade_task(9, columns).texts
    found = load(tmp_path, texts, pooling=pooling)
    encoder, tokenizer = pretrained.load_encoder(FOUND)
    for row, pair in zip(found, zip(*texts, strict=True), strict=True):
        with torch.inference_mode():
            states = encoder(**tokenizer(*pair, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(row, states.mean(0) if pooling == "mean" else states[0], atol=2e-5)


def test_pairs_keep_their_segments_and_length():
    _, tokenizer = pretrained.load_encoder(FOUND)
    texts = (("a b c d e f", "x"), ("y", "z z z z z z z z z"))
    tokens = tokenise(tokenizer, texts, 8)
    batch = tokens.batch(np.array([1, 0]), "cpu")
    expected = tokenizer(["x", texts[0][0]], [texts[1][1], "y"], truncation=True, max_length=8, padding=True)
    assert set(batch) == set(expected)
    for name, rows in expected.items():
        assert batch[name].tolist() == rows
    assert batch["token_type_ids"].max() == 1


def test_the_texts_that_are_cut_are_counted_in_tokens():
    _, tokenizer = pretrained.load_encoder(FOUND)
    slow = MagicMock(side_effect=lambda *given, **settings: BatchEncoding(dict(tokenizer(*given, **settings))))
    texts = (("a b c", "a b c d e", "internationalisation " * 3), ("x y", "x", "z"))
    for each in (tokenizer, slow):
        assert tokenise(each, texts, 9).is_cut.tolist() == [False, False, True]
        assert tokenise(each, texts, 8).is_cut.tolist() == [False, True, True]


def test_many_texts_are_tokenised_in_chunks(monkeypatch):
    _, tokenizer = pretrained.load_encoder(FOUND)
    whole = tokenise(tokenizer, TEXTS, 16)
    monkeypatch.setattr("mlflow_l3d.approaches.models.tokens.CHUNK", 8)
    chunked = tokenise(tokenizer, TEXTS, 16)
    assert np.array_equal(whole.starts, chunked.starts)
    assert np.array_equal(whole.columns["input_ids"], chunked.columns["input_ids"])


@pytest.mark.slow
def test_the_number_of_cores_does_not_change_a_bit(encoded, monkeypatch):
    before = torch.get_num_threads()
    for workers in (1, 3):
        file = io.BytesIO()
        monkeypatch.setattr(features, "cores", lambda count=workers: count)
        features.encode(file, TEXTS, features.Encoding(FOUND), free=10**9)
        file.seek(0)
        assert np.load(file).tobytes() == encoded.tobytes()
    assert torch.get_num_threads() == before


@pytest.mark.slow
def test_bfloat16_rounds_and_gives_the_same_bits_for_any_number_of_cores(tmp_path, monkeypatch):
    texts, files = (TEXTS[0][:40],), [io.BytesIO(), io.BytesIO()]
    for workers, file in enumerate(files, 1):
        monkeypatch.setattr(features, "cores", lambda count=workers: count)
        features.encode(file, texts, features.Encoding(FOUND, dtype="bfloat16"), free=10**9)
    assert files[0].getvalue() == files[1].getvalue()
    files[0].seek(0)
    exact, rounded = load(tmp_path, texts), np.load(files[0])
    assert rounded.dtype == np.float32
    assert 1e-4 < np.abs(rounded - exact).max() < 3e-2  # two to three decimal digits, of numbers below 1


@pytest.fixture
def fake(monkeypatch):
    """Count the encodings, and write numbers instead of features."""
    calls = []

    def encode(file, texts, *given, **options):
        calls.append(len(texts[0]))
        np.save(file, np.full((len(texts[0]), 4), 0.5, dtype=np.float32))

    monkeypatch.setattr(features, "encode", encode)
    return calls


def test_a_second_session_reads_what_is_there(tmp_path, fake):
    assert load(tmp_path).shape == (70, 4)
    second = load(tmp_path)
    assert fake == [70]
    assert isinstance(second, np.memmap)
    assert not second.flags.writeable


def test_key_follows_what_features_depend_on(tmp_path, fake):
    for texts, chosen in (
        (TEXTS, {}),
        (TEXTS, {"pooling": "mean", "max_length": 128}),
        (TEXTS, {"pooling": "cls"}),
        (TEXTS, {"max_length": 16}),
        (TEXTS, {"dtype": "bfloat16"}),
        ((TEXTS[0][::-1],), {}),
        ((TEXTS[0], TEXTS[0]), {}),
    ):
        load(tmp_path, texts, **chosen)
    assert len(fake) == 6


@pytest.mark.slow
def test_encoding_tells_how_far_it_is(monkeypatch):
    told = []
    monkeypatch.setattr("mlflow_l3d.approaches.progress._EVERY", 0.0)
    with heard_by(told.append):
        features.encode(io.BytesIO(), TEXTS, features.Encoding(FOUND), free=10**9)
    assert told == [*(f"encoding 70 texts: {100 * done // 70} %" for done in (0, 32, 64)), ""]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:4],
        lambda content: content[:-40],
        lambda content: content[:200] + bytes(len(content) - 200),
        lambda content: content[:-33] + bytes([content[-33] ^ 1]) + content[-32:],
        lambda content: content.replace(b"'<f4'", b"'>f4'"),
        lambda content: content[:-32],  # as they were before there was a checksum
    ],
)
def test_a_damaged_file_is_made_again(tmp_path, fake, damage, caplog):
    whole = np.array(load(tmp_path))
    (path,) = (tmp_path / "features").glob("*.npy")
    path.write_bytes(damage(path.read_bytes()))
    assert np.array_equal(load(tmp_path), whole)
    assert len(fake) == 2
    assert "are damaged, or have no checksum, and are made again" in caplog.text
    load(tmp_path)
    assert len(fake) == 2


def test_a_process_verifies_a_file_once(tmp_path, fake, monkeypatch):
    load(tmp_path)
    monkeypatch.setattr(features, "_verified", seen := Seen(features._verified))
    load(tmp_path)
    assert (len(fake), seen.added) == (1, 0)
    (path,) = (tmp_path / "features").glob("*.npy")
    os.utime(path)
    load(tmp_path)
    load(tmp_path)
    assert (len(fake), seen.added) == (1, 1)


class Seen(set):
    """Counts what is added."""

    added = 0

    def add(self, element):
        self.added += 1
        super().add(element)


def test_a_file_of_another_shape_is_made_again(tmp_path, fake):
    load(tmp_path)
    (path,) = (tmp_path / "features").glob("*.npy")
    np.save(path, np.zeros((69, 4), np.float32))
    assert len(load(tmp_path)) == 70
    np.save(path, np.zeros((70, 4)))
    assert load(tmp_path).dtype == np.float32


def test_what_a_killed_process_left_does_not_disturb(tmp_path, fake):
    load(tmp_path)
    (path,) = (tmp_path / "features").glob("*.npy")
    path.rename(path.with_suffix(".partial"))
    path.with_suffix(".partial").write_bytes(b"half of it")
    load(tmp_path)
    kept = {file.suffix for file in (tmp_path / "features").iterdir()} - {".lock"}
    assert kept == {".npy", ".truncated"}


def test_one_encodes_and_the_others_wait(tmp_path, fake):
    threads = [threading.Thread(target=load, args=(tmp_path,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fake == [70]


def test_whoever_waits_for_another_process_says_so_once(tmp_path, fake, monkeypatch):
    told, path = [], tmp_path / "features" / f"{features.features_key(TEXTS, features.Encoding(FOUND))}.lock"
    path.parent.mkdir()
    monkeypatch.setattr(features, "_PATIENCE", 0.01)
    other = FileLock(path, thread_local=False)
    with ThreadPoolExecutor(1) as thread, heard_by(told.append):
        thread.submit(other.acquire).result()
        thread.submit(lambda: [time.sleep(0.1), other.release()])
        load(tmp_path)
    assert (told, fake) == (["waiting for another process that encodes these 70 texts", ""], [70])


def test_a_full_disk_is_noticed_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(features.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(ParameterError, match=r"No space left on device.*L3D_CACHE") as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert not list((tmp_path / "features").glob("*.npy"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_fills_up_leaves_no_half_file(tmp_path, monkeypatch, code):
    def encode(file, *given, **options):
        file.write(b"something")
        raise OSError(code, "disk trouble")

    monkeypatch.setattr(features, "encode", encode)
    with pytest.raises(ParameterError, match=r"^L3D_CACHE=.*\(disk trouble\).*set the environment variable L3D_CACHE"):
        load(tmp_path)
    assert [file.suffix for file in (tmp_path / "features").iterdir() if file.suffix != ".lock"] == []


def test_too_long_for_the_model(tmp_path):
    with pytest.raises(ParameterError, match=r"max_length=4096: the model takes at most 512 tokens"):
        load(tmp_path, max_length=4096)
