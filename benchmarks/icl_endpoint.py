"""Texts a second that a model behind an endpoint answers: ours, and a plain asyncio loop with the same concurrency.

python benchmarks/icl_endpoint.py [--cells 16] [--concurrency 8] [--milliseconds 20] [--repeats 5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from _common import machine, spread, table

from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.icl import InContextLearning
from mlflow_l3d.tasks.resolve import load_task
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.testing import one_cell

ROWS = [{"token": word, "logprob": value} for word, value in (("negative", -1.0), ("positive", -0.9))]
REPLY = {
    "choices": [{"message": {"content": "positive"}, "logprobs": {"content": [{"top_logprobs": ROWS}]}}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 1},
    "model": "tiny",
    "system_fingerprint": "fp",
}
TESTS = 100


def serve(connection: Connection, seconds: float) -> None:
    """Answer everything after a while, as a server with free slots does."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
                await reader.readexactly(int(fields.get(b"content-length", 0)))
                get = head.startswith(b"GET")
                await asyncio.sleep(0 if get else seconds)
                body = json.dumps({"data": [{"id": "tiny"}]} if get else REPLY).encode()
                start = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(start.encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        connection.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def plain(url: str, concurrency: int, prompts: list[str]) -> None:
    """Ask with the package `openai` as its README has it."""
    from openai import AsyncOpenAI

    free = asyncio.Semaphore(concurrency)
    async with AsyncOpenAI(api_key="none", base_url=url) as client:

        async def one(prompt: str) -> None:
            turns: Any = [{"role": "user", "content": prompt}]
            more: Any = {"max_tokens": 1, "temperature": 0.0, "seed": 0, "logprobs": True, "top_logprobs": 20}
            async with free:
                await client.chat.completions.create(model="tiny", messages=turns, **more)

        await asyncio.gather(*map(one, prompts))


def main() -> None:
    """Run both, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--milliseconds", type=float, default=20.0)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(machine())
    ours_end, theirs_end = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs_end, options.milliseconds / 1000), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours_end.recv()}/v1"
    approach, count = InContextLearning(), options.cells * TESTS
    task = load_task("rotten_tomatoes", settings=SplitSettings(100, TESTS))
    given = {"base_url": url, "concurrency": options.concurrency}
    hyperparameters = approach.complete(resolve_hyperparameters(approach, given))
    ours, theirs = [], []
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as cache:
            how = {"model": "openai:tiny", "device": "cpu", "cache": Path(cache)}
            session = approach.prepare(task, hyperparameters, **how)
            cells = [one_cell(approach.factors, number) for number in range(options.cells)]
            prompts = [str(prompt) for cell in cells for prompt in session._asked(cell).prompts]
            started = time.perf_counter()
            for first in range(0, len(cells), session.cells_at_once):
                outcomes = list(session.run(cells[first : first + session.cells_at_once]))
                assert not any(outcome.error for outcome in outcomes), outcomes[0].error
            ours.append(count / (time.perf_counter() - started))
            session.close()
        started = time.perf_counter()
        asyncio.run(plain(url, options.concurrency, prompts))
        theirs.append(count / (time.perf_counter() - started))
    server.terminate()
    ratio = median(one / other for one, other in zip(ours, theirs, strict=True))
    rows = [["plain asyncio loop", spread(theirs), "1"], ["ours", spread(ours), f"{ratio:.2f}"]]
    print(table(["", f"texts a second, {options.concurrency} at once", "ratio"], rows))


if __name__ == "__main__":
    main()
