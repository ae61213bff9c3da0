"""An investigation of a command that is given credentials, and fails with many more on its lips: none is kept."""

import json
import re

import pytest
from mlflow import MlflowClient
from test_privacy import SECRETS

from mlflow_l3d import cli
from mlflow_l3d.approaches.command.approach import Command

SCRIPT = """
import json, os, pathlib, sys
texts = [line.replace("\\n", " ") for line in json.load(open("{here}/texts.json"))]
count = pathlib.Path("{here}/count")
number = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (number + 1))
if part := texts[3 * number : 3 * number + 3]:
    sys.exit(" ".join([*part, os.environ["MY_VAULT_PASSWORD"]]))
json.dump({"rmse": number % 5}, open("metrics.json", "w"))
"""
COMMAND = (
    "python -SE train.py {seed} {other} --api-key {{swordfish}} --store redis://alice:hunter2@dbhost -u me:sword,fish"
)


@pytest.mark.slow
def test_no_credential_is_kept_or_shown(tracking_uri, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("MY_VAULT_PASSWORD", "first-of-the-environment")
    monkeypatch.setenv("L3D_CACHE", str(tmp_path / "cache"))
    (tmp_path / "train.py").write_text(SCRIPT.replace("{here}", str(tmp_path)))
    (tmp_path / "texts.json").write_text(json.dumps([re.sub("<<|>>", "", text) for text in SECRETS]))
    words = ["investigate", "--approach=command", f"--command={COMMAND}", "--factor=seed", "--metric=rmse"]
    words += ["--hyperparameters=classes=none,environment=MY_VAULT_PASSWORD", "--self-test=skip", "--executor=inline"]
    status = cli.main([*words, "--investigation-runs=4", "--mitigation-runs=4", "--golden-runs=8"])
    said = capfd.readouterr()
    written = {"terminal": f"{said.out}{said.err}"}
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name not in {"train.py", "texts.json"}:
            written[str(path.relative_to(tmp_path))] = path.read_bytes().decode("utf-8", "replace")
    client = MlflowClient(tracking_uri)
    for run in client.search_runs(["0"]):
        written[f"run {run.info.run_id}"] = str(run.to_dictionary())
    assert status == 0, said.err
    assert any("traceback.txt" in name for name in written)
    assert "redis://***@dbhost" in written["terminal"] + str(written)
    secrets = {*(re.split("<<|>>", text)[1] for text in SECRETS), "{swordfish}", "alice", "hunter2", "sword,fish"}
    leaks = {(name, secret) for name, text in written.items() for secret in secrets if secret in text}
    assert leaks == set()


def test_the_key_of_a_cell_tells_credentials_apart_and_holds_none(tmp_path):
    given = {"files": "", "environment": ""}
    one, other = (
        Command(f"python {{seed}} --password {word}", here=tmp_path).dependencies(given, "")
        for word in ("swordfish", "hunter2")
    )
    assert one != other
    assert "swordfish" not in str(one)
