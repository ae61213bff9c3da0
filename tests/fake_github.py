"""A GitHub for tests, on this machine: the comments of one pull request, and a runner of the steps of an action."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from answering_server import serve

ROOT = Path(__file__).resolve().parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
SCRIPT = ROOT / "mlflow_l3d" / "ci" / "pull_request.sh"
TOKEN = "ghs_never-to-be-seen"
LIST = "/repos/owner/name/issues/7/comments"


@dataclass
class GitHub:
    """The comments, and what was asked: method and path."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    refused: str = ""
    url: str = ""

    def add(self, body: str, kind: str = "Bot", association: str = "NONE") -> int:
        number = 1000 + len(self.comments)
        self.comments.append({"id": number, "body": body, "user": {"type": kind}, "author_association": association})
        return number

    def answer(self, method: str, path: str, token: str, body: Any) -> tuple[int, Any]:
        place, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        self.asked.append(f"{method} {place}")
        if token != f"Bearer {TOKEN}" or method in self.refused.split():
            return (401 if token != f"Bearer {TOKEN}" else 403), {"message": "Resource not accessible by integration"}
        if (method, place) == ("GET", LIST):
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return 200, self.comments[size * (page - 1) : size * page]
        if (method, place) == ("POST", LIST):
            return 201, {"id": self.add(body["body"])}
        for comment in self.comments:
            if (method, place) == ("PATCH", f"/repos/owner/name/issues/comments/{comment['id']}"):
                comment["body"] = body["body"]
                return 200, comment
        return 404, {}


@contextmanager
def fake_github() -> Iterator[GitHub]:
    """Serve it in the block."""
    github = GitHub()

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        token = request.headers.get("Authorization", "")
        status, found = github.answer(request.command, request.path, token, json.loads(body) if body else None)
        return status, json.dumps(found).encode()

    with serve(answer) as address:
        github.url = f"http://{address}"
        yield github


@dataclass(frozen=True)
class Job:
    """A job of a workflow: its folder, and its environment.

    The folder `bin` is the first of its PATH.
    """

    folder: Path
    variables: Mapping[str, str]

    def program(self, name: str, text: str) -> None:
        """Write a program of the shell."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    @property
    def summary(self) -> str:
        path = self.folder / "summary.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def start(self, command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a step does."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        base = {"PATH": path, "HOME": str(self.folder), "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md")}
        environment = {**base, **self.variables, **variables}
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)

    def script(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the script alone."""
        return self.start(["bash", str(SCRIPT), *words], **variables)

    def act(self, **inputs: str) -> tuple[int, str, dict[str, str]]:
        """Run the steps of the action up to the first that fails; return its exit status, all output, and outputs."""
        contexts = {f"inputs.{name}": str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
        given = {"token": TOKEN, "pull_request": "7", **inputs}
        contexts |= {f"inputs.{name.replace('_', '-')}": value for name, value in given.items()}
        contexts["steps.upload.outputs.artifact-url"] = "https://github.example/report"
        code, printed = 0, ""
        for step in ACTION["runs"]["steps"]:
            if "run" not in step:
                continue
            environment = {name: filled(str(value), contexts) for name, value in step["env"].items()}
            output = self.folder / "output"
            output.write_text("", encoding="utf-8")
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = self.start(command, **environment, GITHUB_ACTION_PATH=str(ROOT), GITHUB_OUTPUT=str(output))
            printed += done.stdout + done.stderr
            lines = output.read_text(encoding="utf-8").splitlines()
            written = (line.partition("=") for line in lines)
            contexts |= {f"steps.{step['id']}.outputs.{name}": value for name, _, value in written}
            if code := done.returncode:
                break
        outputs = {name: filled(each["value"], contexts) for name, each in ACTION["outputs"].items()}
        return code, printed, outputs


def filled(text: str, contexts: Mapping[str, str]) -> str:
    """Return a text with its expressions replaced; of one that is not known nothing is left."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: contexts.get(found[1], ""), text)
