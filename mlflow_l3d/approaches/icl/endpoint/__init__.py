"""Prompting cell after cell with a model behind an endpoint of OpenAI's protocol: vLLM, llama.cpp, Ollama, hosted."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing import parent_process
from pathlib import Path
from typing import Final

import numpy as np

from mlflow_l3d.approaches.failures import StudyEndedError, failed
from mlflow_l3d.approaches.icl.endpoint.engine import Connection, Tally
from mlflow_l3d.approaches.icl.endpoint.replies import EndpointError
from mlflow_l3d.approaches.icl.endpoint.store import BudgetError
from mlflow_l3d.approaches.icl.session import Answers, Asked, PromptSession
from mlflow_l3d.cells.cell import Cell, Outcome
from mlflow_l3d.cells.factors import REPLICATE, stream
from mlflow_l3d.errors import L3DError, ParameterError

_log = logging.getLogger(__name__)
_ROUNDS: Final = 20
_MOST_CELLS: Final = 16


class EndpointSession(PromptSession):
    """Answer the test examples of cells; those of a call are asked side by side, so that the server never idles."""

    def _load(self, model: str, device: str, cache: Path) -> None:  # noqa: ARG002
        """Look at the server; the prompts of chats alternate between user and assistant, which every template takes."""
        recipe = self.recipe
        self.connection = Connection(model, self.recipe, cache, self.opened)
        served = self.connection.served
        if parent_process() is not None and threading.current_thread() is threading.main_thread():
            # A worker that is stopped keeps the answers that are under way: closing the session waits for them.
            # (SystemExit would count as an error of a cell, which is tried again.)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        self.chat = served.chat
        self.conversation = "mistral" if recipe.chat == "turns" else None
        where, why, self._way = self.connection.endpoint.base_url, "", "generate"
        if recipe.decision == "score":
            calibrated = recipe.calibration != "none"
            obstacles = [self.connection.obstacle(each.verbaliser, calibrated) for each in self.choices.formats]
            why = next(filter(None, obstacles), "")
            self._way = self._way if why else served.gives  # all cells alike
        requests = max(1, self.task.settings.test_size or len(self.task.labels))  # of a cell, about
        requests *= len(self.classes) if self._way == "prompt" else 1
        self.cells_at_once = max(1, min(_MOST_CELLS, _ROUNDS * self.connection.endpoint.concurrency // requests))
        if self._way == "first":
            _log.warning("%s: class words are scored by their first token, which is all that it lists", where)
        if why and recipe.calibration == "contextual":
            allowed = f"needs log-probabilities of {where}, and {why}"
            raise ParameterError("hyperparameters.calibration", "contextual", allowed, "Use decision=generate.")
        if why:
            line = "%s: no log-probabilities (%s), so answers are generated and parsed, without calibration"
            _log.warning(line, where, why)

    def run(self, cells: Iterable[Cell]) -> Iterator[Outcome]:
        """Ask for all cells at once, and yield their outcomes in order.

        Raises
        ------
        StudyEndedError
            If the budget is spent, or the endpoint answers nobody.
        """
        started, under_way = time.perf_counter(), []
        try:
            for cell in cells:
                try:
                    asked = self._asked(cell)
                    under_way.append((cell, asked, self.connection.begin(self._answered(cell, asked))))
                except Exception as error:  # noqa: BLE001 - the contract: a cell that raises has an outcome
                    yield failed(cell.key, error)
            for cell, asked, work in under_way:
                try:
                    outcome = self._judged(cell, asked, *self.connection.outcome(work))
                except (BudgetError, EndpointError) as error:
                    raise StudyEndedError(str(error)) from error
                except Exception as error:  # noqa: BLE001 - as above
                    outcome = failed(cell.key, error)
                yield replace(outcome, duration_seconds=time.perf_counter() - started)
                started = time.perf_counter()
        finally:
            for _, _, work in under_way:
                work.cancel()

    async def _answered(self, cell: Cell, asked: Asked) -> Answers:
        """Return the answers; none of texts for which the server gives no log-probabilities.

        Raises
        ------
        L3DError
            If it gives them for no text, or not for the empty inputs.
        """
        recipe = self.recipe
        tally = Tally(cell.key if recipe.answers == "fresh" or cell.factor == REPLICATE else "")
        seed, form, prompts = cell.seeds["model_randomness"], asked.form, asked.prompts
        if self._way == "generate":
            draws = stream(seed, "requests")
            written = await self.connection.generate(prompts, recipe.new_tokens, recipe.temperature, draws, tally)
            predictions, unparsed = self._read(asked, written)
            return predictions, None, tally.metrics | unparsed | {"generated": 1.0}
        logprobs, unseen = await self.connection.score(prompts, form.verbaliser, tally, asked.empty)
        ways = {"first_token": float(self._way == "first"), "unseen_share": unseen, "generated": 0.0}
        withheld = np.array([str(prompt) in tally.withheld for prompt in prompts[: asked.tested]])
        of_prompts, blank = logprobs[: len(prompts)], logprobs[len(prompts) :]
        has_scores = np.asarray(~np.isnan(of_prompts).any(axis=1))
        tested = has_scores[: asked.tested]
        if not tested.any() or np.isnan(blank).any():
            why = "gave class words less than 1 % of the probability, or listed none. Use decision=generate."
            if tested.any():
                why = "listed no class words for empty inputs. Use calibration=batch."
            elif withheld.all():
                why = "withheld all answers (content_filter). Leave out the texts that its filter refuses."
            raise L3DError(f"{self.connection.endpoint.base_url} {why}")
        numbers, shares = self._decided(cell, of_prompts[has_scores], blank, int(tested.sum()))
        metrics = tally.metrics | ways
        if has_scores.all():
            return numbers, shares, metrics
        predictions = np.full(len(of_prompts), -1, dtype=np.int64)
        scores = np.full((len(of_prompts), len(self.task.class_names)), 1 / len(self.classes), dtype=np.float32)
        predictions[has_scores], scores[has_scores] = numbers, shares
        self._hint("filtered", asked, withheld)
        missing = float(np.mean(~tested))
        unlikely = float(np.mean(~tested & ~withheld))
        reasons = {"unparsed_unlikely_share": unlikely, "unparsed_filtered_share": float(np.mean(withheld))}
        given = {name: share for name, share in reasons.items() if share}
        return predictions, scores, metrics | {"unparsed_share": missing} | given
