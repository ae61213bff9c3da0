"""Simulated applications with judges, whose variance components are known. Used by tests and benchmarks only."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import multivariate_normal, norm


class App(NamedTuple):
    """Standard deviations of the luck of an application and its judges, on a normal scale.

    `threshold`: judgements are 1 above it, else 0; None for the numbers themselves.
    """

    row: float = 1.0
    answer: float = 0.7
    judge: float = 0.3
    row_judge: float = 0.4
    prompt: float = 0.0
    row_prompt: float = 0.0
    judge_prompt: float = 0.0
    rest: float = 0.5
    threshold: float | None = None

    def draw(self, random, rows, repeats, judges=1, prompts=1, *, missing=0.0, row=None, shift=0.0, names=""):
        """Return a table of judgements: all effects drawn, those of rows, judges and both unless `row` has them."""
        shared = self.draw_rows(random, rows, judges) if row is None else row
        value = shift + (shared[0][:, None] + shared[1] + shared[2])[:, None, None, :]
        value = value + self.prompt * random.normal(size=(prompts, 1, 1))
        value = value + self.row_prompt * random.normal(size=(rows, prompts, 1, 1))
        if self.judge_prompt:
            value = value + self.judge_prompt * random.normal(size=(prompts, 1, judges))
        value = value + self.answer * random.normal(size=(rows, prompts, repeats, 1))
        value = value + self.rest * random.normal(size=(rows, prompts, repeats, judges))
        if self.threshold is not None:
            value = (value > self.threshold) * 1.0
        row, prompt, repeat, judge = np.indices(value.shape).reshape(4, -1)
        answer = np.char.add(names + "-", ((row * prompts + prompt) * repeats + repeat).astype(str))
        table = pd.DataFrame(
            {"row": row, "answer": answer, "repeat": repeat, "judge": judge, "judgement": 0, "value": value.ravel()}
        )
        if prompts > 1:
            table["prompt"] = names + prompt.astype(str).astype(object)
        return table[random.random(len(table)) >= missing].reset_index(drop=True)

    def draw_rows(self, random, rows, judges):
        """Return the effects of rows, judges and both, for two systems to share."""
        sizes = (rows,), (judges,), (rows, judges)
        stds = self.row, self.judge, self.row_judge
        return [std * random.normal(size=size) for std, size in zip(stds, sizes, strict=True)]

    @property
    def mean(self):
        """Mean of all judgements."""
        return 0.0 if self.threshold is None else float(norm.sf(self.threshold / self.scale))

    @property
    def scale(self):
        """Standard deviation of all on the normal scale."""
        return math.sqrt(sum(std**2 for std in self[:-1]))

    def truth(self):
        """Return the variance of each source; those of 0 and 1 from the bivariate normal distribution."""
        squares = {name: getattr(self, name) ** 2 for name in self._fields[:-1]}

        def shared(*names):
            part = sum(squares[name] for name in names)
            if self.threshold is None:
                return part
            at = -self.threshold / self.scale
            ratio = part / self.scale**2
            both = multivariate_normal([0, 0], [[1, ratio], [ratio, 1]], allow_singular=True).cdf([at, at])
            return both - self.mean**2

        row, judge, prompt = shared("row"), shared("judge"), shared("prompt")
        cell = shared("row", "prompt", "row_prompt")
        truth = {"row": row, "judge": judge, "prompt": prompt, "row x prompt": cell - row - prompt}
        truth["row x judge"] = shared("row", "judge", "row_judge") - row - judge
        truth["judge x prompt"] = shared("judge", "prompt", "judge_prompt") - judge - prompt
        truth["answer"] = shared("row", "prompt", "row_prompt", "answer") - cell
        every = self.mean * (1 - self.mean) if self.threshold is not None else self.scale**2
        return truth | {"judgement": every - sum(truth.values())}
