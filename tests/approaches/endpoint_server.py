"""A server that speaks OpenAI's protocol, with a "model" whose log-probabilities are known, and with faults."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKENS = ("negative", "positive", "maybe", "the", "neg")


def log_probability(prompt: str, word: str) -> float:
    """Depends on the last line that is not empty, so that examples matter little and the input much."""
    drawn = hashlib.sha256(f"{prompt}|{word}".encode()).digest()[0] / 255
    return -0.5 - 3 * drawn


class Server:
    """Listens on a free port of the loopback; `faults` are served first: a status, or `cut`, `garbage`, `html`."""

    def __init__(self, *, gives: str = "prompt", chat: bool = True, model: str = "tiny", fingerprint: str = "fp1"):
        self.gives, self.chat, self.model, self.fingerprint = gives, chat, model, fingerprint
        self.size, self.newer = 1, False
        self.chat_choice = lambda best: {"message": {"content": best}}
        self.requests, self.keys, self.under_way, self.most = [], set(), 0, 0
        self.faults, self.retry_after, self.delay = deque(), None, 0.0
        self.models_faults, self.usage = deque(), None
        self.listed_too, self.most_listed = {}, 20
        self.withheld, self.refusal = "", {}
        self.lock = threading.Lock()
        self.start()

    def start(self, port: int = 0) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def do_GET(self):
                if outer.models_faults:
                    status = outer.models_faults.popleft()
                    outer.reply(self, b"<html>" if status == 200 else {"error": {"message": "loading"}}, status)
                    return
                outer.reply(self, {"data": [{"id": outer.model, "created": 3, "meta": {"size": outer.size}}]})

            def do_POST(self):
                outer.post(self)

        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def reply(self, handler, content, status: int = 200, headers=()) -> None:
        data = json.dumps(content).encode() if not isinstance(content, bytes) else content
        handler.send_response(status)
        kind = "application/json" if content != b"<html>" else "text/html"
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))), *headers):
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    def post(self, handler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self.lock:
            self.requests.append(body)
            self.keys.add(handler.headers["Authorization"])
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            fault = self.faults.popleft() if self.faults else None
        try:
            if self.delay:
                threading.Event().wait(self.delay)
            self.serve(handler, body, fault)
        finally:
            with self.lock:
                self.under_way -= 1

    def serve(self, handler, body, fault) -> None:
        if fault == "cut":
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"choices"')
            handler.close_connection = True
        elif fault in {"garbage", "html"}:
            self.reply(handler, b'{"choices": [' if fault == "garbage" else b"<html>")
        elif isinstance(fault, int):
            key = handler.headers["Authorization"].removeprefix("Bearer ")
            headers = [("Retry-After", self.retry_after)] if self.retry_after else []
            message = {"error": {"message": f"no (key {key})", "type": "x", "code": None}}
            self.reply(handler, message, fault, headers)
        elif self.withheld and self.withheld in str(body).partition("Text: ")[2].rpartition("Text: ")[2]:
            self.reply(handler, {"error": self.refusal}, 400)
        elif self.newer and "max_tokens" in body:
            words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            self.reply(handler, {"error": {"message": words, "code": "unsupported_parameter"}}, 400)
        elif (count := body.get("top_logprobs") or int(body.get("logprobs") or 0)) > self.most_listed:
            words = f"Requested sample logprobs of {count}, which is greater than max allowed: {self.most_listed}"
            self.reply(handler, {"error": {"message": words, "type": "BadRequestError", "code": 400}}, 400)
        elif handler.path.endswith("/chat/completions") and not self.chat:
            self.reply(handler, {"error": {"message": "no chat template"}}, 400)
        else:
            self.reply(handler, self.answer(body, chat=handler.path.endswith("/chat/completions")))

    def answer(self, body, *, chat: bool):
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        best = max(TOKENS[:2], key=lambda word: log_probability(prompt, word))
        choice = self.chat_choice(best) if chat else {"text": f" {best}"}
        if body.get("echo") and self.gives == "prompt":
            head, _, word = prompt.rpartition(" ")
            half = log_probability(head, word) / 2
            tokens, values = ["<s>", head, f" {word[:2]}", word[2:], "\n"], [None, -9.0, half, half, -1.0]
            choice["logprobs"] = {"tokens": tokens, "token_logprobs": values}
        elif body.get("logprobs") and self.gives != "nothing":
            rows = [{"token": token, "logprob": log_probability(prompt, token)} for token in TOKENS]
            legacy = {f" {row['token']}": row["logprob"] for row in rows} | self.listed_too
            choice["logprobs"] = {"content": [{"top_logprobs": rows}]} if chat else {"top_logprobs": [legacy]}
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": 1}
        named = {"model": self.model, "system_fingerprint": self.fingerprint}
        usage = usage if self.usage is None else self.usage
        return {"choices": [choice], "usage": usage, **named}


def first_token(prompt: str, word: str) -> float:
    """The known score of a class word: tokens that only it begins with, together."""
    return math.log(sum(math.exp(log_probability(prompt, token)) for token in TOKENS if word.startswith(token)))
