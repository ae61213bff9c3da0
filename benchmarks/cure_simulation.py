"""What is predicted of remedies, next to the truth of a simulated population: estimates, errors and coverage.

Class scores of a run are what it learned of an example: the same for all runs, of its row, of its column, and its own;
each with a bias for some classes, which makes scores vary. The truth comes from new ensembles with all factors redrawn.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from _common import machine, table

from mlflow_l3d.analysis.cure import Prediction, Range
from mlflow_l3d.analysis.cure.ensembles import Members, combine_choices, score_many
from mlflow_l3d.analysis.cure.examples import Point, more_labels, which_examples
from mlflow_l3d.analysis.cure.predict import predict, predict_all
from mlflow_l3d.analysis.importance.tables import known_std, std_interval
from mlflow_l3d.analysis.intervals import ratio_interval
from mlflow_l3d.analysis.judged.table import mean_interval
from mlflow_l3d.metrics.known import registered

FEATURES = 8
SIZES = (2, 3, 5, 7, 10)
METRIC = registered()["f1_macro"]


@dataclass(frozen=True)
class Population:
    """Standard deviations of what rows, columns and single runs learn of an example, and of their biases.

    A share of the rows, columns or runs (`collapsing`) collapses: they give all examples one class.
    """

    classes: int = 2
    examples: int = 200
    signal: float = 0.5
    row: tuple[float, float] = (0.5, 0.3)
    column: tuple[float, float] = (0.5, 0.3)
    run: tuple[float, float] = (0.7, 0.3)
    collapse: float = 0.0
    collapsing: str = "column"

    def rows(self, random: np.random.Generator, rows: int, members: int, *, crossed: bool) -> list[Members]:
        """Draw a table; each row has test examples of its own."""

        def effects(count: int) -> tuple[np.ndarray, np.ndarray]:
            slopes = random.standard_normal((count, FEATURES, self.classes)) / math.sqrt(FEATURES)
            return slopes, random.standard_normal((count, 1, self.classes))

        def collapses(count: int) -> np.ndarray:
            return np.where(random.random(count) < self.collapse, random.integers(self.classes, size=count), -1)

        columns, found, down = effects(members), [], collapses(members)
        for _ in range(rows):
            columns = columns if crossed else effects(members)
            if self.collapsing != "column" or not crossed:
                down = np.repeat(collapses(1), members) if self.collapsing == "row" else collapses(members)
            labels = random.integers(self.classes, size=self.examples)
            features = random.standard_normal((self.examples, FEATURES))
            scores = self.signal * np.eye(self.classes)[labels]
            scores = scores + 0.5 * random.standard_normal((self.examples, self.classes))
            for (slopes, biases), (learned, biased) in zip(
                (effects(1), columns, effects(members)), (self.row, self.column, self.run), strict=True
            ):
                scores = scores + learned * (features @ slopes) + biased * biases
            scores[down >= 0] = np.eye(self.classes)[down[down >= 0], None]
            shared = np.arange(members) if crossed else None
            found.append(Members(scores.argmax(axis=2), labels, scores.astype(np.float32), columns=shared))
        return found

    def truth(self, random: np.random.Generator, results: int) -> dict[tuple[str, int], np.ndarray]:
        """Return the scores of independent ensembles."""
        found: dict[tuple[str, int], list[float]] = {(kind, k): [] for kind in ("vote", "mean") for k in (1, *SIZES)}
        for _ in range(results):
            (row,) = self.rows(random, 1, max(SIZES), crossed=False)
            for kind, k in found:
                answers = combine_choices(kind, row, np.arange(max(SIZES))[None] < k)
                found[kind, k].append(float(score_many(METRIC, row.labels, answers, self.classes)[0]))
        return {name: np.array(values) for name, values in found.items()}

    def golden(self, random: np.random.Generator, runs: int) -> tuple[Range, np.ndarray]:
        """Return the spread of golden runs with its interval, and their scores."""
        rows = self.rows(random, runs, 1, crossed=False)
        scores = np.array([score_many(METRIC, row.labels, row.predictions, self.classes)[0] for row in rows])
        left = np.array([np.delete(scores, run).std() for run in range(runs)])
        return Range(float(scores.std()), *ratio_interval(float(scores.std()), left)), scores

    def studies(
        self, random: np.random.Generator, studies: int, rows: int, members: int, *, crossed: bool, golden: int
    ) -> list[list[Prediction]]:
        """Return what so many studies predict."""
        found = []
        for _ in range(studies):
            std, scores = self.golden(random, golden)
            table = self.rows(random, rows, members, crossed=crossed)
            shared = {"metric": METRIC, "classes": self.classes, "golden_std": std, "golden": scores}
            found.append(predict(table, over=("seed",), **shared))
        return found


def covered(ranges: Sequence[Range], truth: float) -> float:
    """Return the share of intervals that contain the truth."""
    return float(np.mean([each.low <= truth <= each.high for each in ranges]))


def lines(
    name: str, found: Sequence[Sequence[Prediction]], truth: dict[tuple[str, int], np.ndarray]
) -> list[list[str]]:
    """Return a row of the table for each remedy whose truth is known."""
    rows = []
    for (kind, k), scores in truth.items():
        each = [one for study in found for one in study if (one.remedy.kind, one.remedy.members) == (kind, k)]
        each = [one for one in each if one.basis != "unknown"]
        if not each or k == 1:
            continue
        std, change = float(scores.std()), float(scores.mean() - truth[kind, 1].mean())
        stds = np.array([one.std.value for one in each])
        numbers = [std, stds.mean(), stds.std(), change, np.mean([one.mean_change.value for one in each])]
        shares = [covered([one.std for one in each], std), covered([one.mean_change for one in each], change)]
        texts = [f"{100 * number:.2f}" for number in numbers]
        known = f"{each[0].basis}, {len(each)}"
        rows.append([name, f"{kind} {k}", known, *texts[:3], f"{shares[0]:.3f}", *texts[3:], f"{shares[1]:.3f}"])
    return rows


def examples(random: np.random.Generator, studies: int) -> list[list[str]]:
    """Return how often single examples are named, and how true their gain is."""
    rows = []
    for runs, pool, shots, signal in ((200, 40, 8, 0.0), (200, 40, 8, 0.3), (400, 40, 8, 0.6), (400, 400, 20, 0.6)):
        named, gains, truths = 0, [], []
        for _ in range(studies):
            effects = random.standard_normal(pool)
            included = random.random((runs, pool)).argsort(axis=1) < shots
            part = included @ effects
            scale = math.sqrt(signal) / part.std()
            scores = scale * part + math.sqrt(1 - signal) * random.standard_normal(runs)
            found = which_examples(included, scores, factor="sample_choice")
            if len(found.best):
                named += 1
                gains.append(found.prediction.mean_change)
                truths.append(scale * (effects[found.best].sum() - included.mean(axis=0) @ effects))
        hits = [gain.low <= truth <= gain.high for gain, truth in zip(gains, truths, strict=True)]
        texts = [f"{np.mean([g.value for g in gains]):.2f}", f"{np.mean(truths):.2f}", f"{np.mean(hits):.3f}"]
        rows.append(
            [str(runs), f"{shots} of {pool}", f"{signal:g}", f"{named / studies:.2f}", *(texts if named else "---")]
        )
    return rows


def collapse(random: np.random.Generator, studies: int, ensembles: int) -> list[list[str]]:
    """Return what is predicted if columns, rows or single runs collapse; where no run of a table does, nothing is."""
    rows = []
    for collapsing, share in product(("column", "row", "run"), (0.05, 0.15, 0.3)):
        population = Population(signal=1.5, collapse=share, collapsing=collapsing)
        truth = population.truth(random, ensembles)
        for count, members, crossed in ((20, 10, True), (20, 20, True), (60, 10, True), (60, 5, False)):
            found = population.studies(random, studies, count, members, crossed=crossed, golden=200)
            name = f"{share:g} of {collapsing}s, {count} x {members} {'crossed' if crossed else 'nested'}"
            rows += lines(name, found, truth)
            print(name, flush=True)
    return rows


def on_reference(random: np.random.Generator, studies: int, ensembles: int) -> list[list[str]]:
    """Return what golden runs on a reference set predict of votes if some of them give all examples one class."""

    def draw(runs: int, labels: np.ndarray, share: float) -> np.ndarray:
        quality = 0.7 + 0.06 * random.choice([-1.0, 1.0], (runs, 1))
        answers = np.where(random.random((runs, len(labels))) < quality, labels, 1 - labels)
        return np.where(random.random((runs, 1)) < share, random.integers(2, size=(runs, 1)), answers)

    rows, labels = [], np.arange(200) % 2
    for share in (0.05, 0.1, 0.2):
        truth = {}
        for k in (1, 3, 5, 9):
            votes = [draw(k, labels, share).sum(axis=0) > k / 2 for _ in range(ensembles)]
            truth["vote", k] = score_many(METRIC, labels, np.array(votes).astype(int), 2)
        for runs in (60, 200):
            shared = {"over": ("all",), "metric": METRIC, "classes": 2, "test_size": 200}
            found = [predict_all(Members(draw(runs, labels, share), labels), **shared) for _ in range(studies)]
            rows += lines(f"{share:g} of {runs} golden runs", found, truth)
    return rows


Curve = Callable[[float], tuple[float, float, float]]
"""Labels over 60 -> share of runs that fail (scores of .35 +- .01), and mean and standard deviation of the others."""


def curves() -> Iterator[tuple[str, Curve]]:
    """Yield learning curves whose spread falls by a power of the size, and some of which runs begin to learn."""
    for power, fall in product((0.2, 0.5, 1.0, 1.5), (0.1, 0.5)):
        yield f"power {power}, spread {fall}", lambda n, c=power, p=fall: (0.0, 0.8 - 0.3 * n**-c, 0.06 * n**-p)
    yield "logarithm", lambda n: (0.0, 0.5 + 0.08 * math.log2(n), 0.06 * n**-0.3)
    yield "plateau", lambda n: (0.0, 0.8 - 0.3 * math.exp(2 - 2 * n), 0.06 * n**-0.3)
    yield "no effect", lambda n: (0.0, 0.5, 0.06 * n**-0.5)
    yield "spread grows", lambda n: (0.0, 0.4 + 0.08 * math.log2(n), 0.05 * n**0.3)
    for fails, power in product((0.2, 0.5, 0.8, 0.94), (1, 2, 3)):
        odds = fails / (1 - fails)
        yield (
            f"{fails:.0%} fail at 60, power {power}",
            lambda n, o=odds, e=power: (1 / (1 + n**e / o), 0.8 - 0.2 * n**-0.5, 0.03 * n**-0.3),
        )


def label_lines(random: np.random.Generator, studies: int, runs: int) -> Iterator[list[str]]:
    """Yield how often 30 and 60 labels (15, too, in the last two columns) tell the spread and the mean at 120."""
    for name, curve in curves():

        def truth(n: float, curve: Curve = curve) -> tuple[float, float]:
            fails, mean, std = curve(n)
            both = fails * (1 - fails) * (mean - 0.35) ** 2
            return fails * 0.35 + (1 - fails) * mean, math.sqrt(fails * 1e-4 + (1 - fails) * std**2 + both)

        def point(size: int, curve: Curve = curve) -> Point:
            fails, mean, std = curve(size / 60)
            scores = np.where(
                random.random(runs) < fails, random.normal(0.35, 0.01, runs), random.normal(mean, std, runs)
            )
            ends = mean_interval(scores, shares=False)
            return Point(size, Range(known_std(scores), *std_interval(scores)), Range(float(scores.mean()), *ends))

        (before, _), (after, std) = truth(1.0), truth(2.0)
        texts: list[str] = []
        for sizes in ((30, 60), (15, 30, 60)):
            found = [more_labels([*map(point, sizes)], now=60, size=120, unknown="") for _ in range(studies)]
            shares = (
                covered([each.std for each in found], std),
                covered([each.mean_change for each in found], after - before),
            )
            ratios = [[each.std.low / std, each.std.high / std] for each in found]
            means = [[each.mean_change.low, each.mean_change.high] for each in found]
            texts += [] if texts else [f"{ratio:.2f}" for ratio in np.median(ratios, axis=0)]
            texts += [f"{100 * shares[0]:.1f}"]
            if len(sizes) == 2:
                texts += [f"{100 * number:+.1f}" for number in (after - before, *np.median(means, axis=0))]
            texts += [f"{100 * shares[1]:.1f}"]
        yield [name, str(runs), *texts]


def main() -> None:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--truth", type=int, default=20_000, help="ensembles that the truth is taken from")
    # Of a factor that acts alone, few columns that all rows share are the whole sample.
    alone = Population(row=(0.0, 0.0), column=(0.7, 0.8), run=(0.1, 0.0))
    populations = {"2 classes": Population(), "6 classes": Population(6, signal=2.0), "one factor": alone}
    parser.add_argument("--part", choices=("all", *populations, "collapse", "labels"), default="all")
    options = parser.parse_args()
    print(f"# Predicted and true spread of remedies\n\n{machine()} {options.studies} studies each.\n", flush=True)
    head = [
        "table",
        "remedy",
        "basis, studies",
        "true std",
        "predicted",
        "its std",
        "coverage",
        "true change",
        "predicted",
        "coverage",
    ]
    rows: list[list[str]] = []
    random = np.random.default_rng(0)
    if options.part == "collapse":
        print(table(head, collapse(random, options.studies, options.truth)))
        print(table(head, on_reference(random, options.studies, options.truth)))
        return
    if options.part == "labels":
        head = ["curve", "runs", "low / true std", "high / true", "coverage", "true change", "low", "high"]
        head += ["coverage", "three sizes: std", "mean"]
        print(table(head, [line for runs in (40, 200) for line in label_lines(random, options.studies, runs)]))
        return
    for name in [options.part] if options.part in populations else populations:
        population = populations[name]
        truth = population.truth(random, options.truth)
        for count, members, crossed, golden in (
            (20, 10, True, 200),
            (100, 10, True, 1000),
            (60, 5, False, 300),
            (100, 2, False, 100),
        ):
            found = population.studies(random, options.studies, count, members, crossed=crossed, golden=golden)
            design = "crossed" if crossed else "nested"
            rows += lines(f"{name}, {count} x {members} {design}", found, truth)
    print(table(head, rows), flush=True)
    if options.part in populations:
        return
    print("\n## Golden runs on a reference set\n")
    rows = []
    for runs, reference in ((60, 300), (200, 1000)):
        accuracy, spread, size = 0.7, 0.06, 200
        found = []
        for _ in range(options.studies):
            quality = accuracy + spread * random.choice([-1.0, 1.0], (runs, 1))
            right = (random.random((runs, reference)) < quality).astype(np.int64)
            members = Members(right, np.ones(reference, dtype=np.int64))
            found.append(
                predict_all(members, over=("all",), metric=registered()["accuracy"], classes=2, test_size=size)
            )
        for k in (1, 3, 5, 9):
            # A vote is right if most members are, each with one of two probabilities.
            draws = accuracy + spread * random.choice([-1.0, 1.0], (100_000, k))
            wins = np.zeros((len(draws), k + 1))
            wins[:, 0] = 1
            for member in draws.T:
                wins[:, 1:] = wins[:, 1:] * (1 - member[:, None]) + wins[:, :-1] * member[:, None]
                wins[:, 0] *= 1 - member
            vote = wins[:, k // 2 + 1 :].sum(axis=1)
            truth = math.sqrt(vote.var() + (vote * (1 - vote)).mean() / size)
            each = [
                next(p for p in study if p.remedy.members == k and p.remedy.kind != "choose").std for study in found
            ]
            rows.append(
                [
                    f"{runs} runs x {reference}",
                    f"vote {k}",
                    f"{100 * truth:.2f}",
                    f"{100 * np.mean([e.value for e in each]):.2f}",
                    f"{covered(each, truth):.3f}",
                ]
            )
    print(table(["runs x examples", "remedy", "true std", "predicted", "coverage"], rows), flush=True)
    print("\n## Single examples\n")
    print(
        table(
            ["runs", "shots", "share by examples", "named", "gain", "true gain", "coverage"],
            examples(random, options.studies),
        )
    )
    big = Population(examples=1000).rows(random, 100, 10, crossed=True)
    start = time.process_time()
    predict(big, over=("seed",), metric=METRIC, classes=2)
    print(f"\n1,000 runs x 1,000 examples: {time.process_time() - start:.1f} s of CPU.")


if __name__ == "__main__":
    main()
