"""What groups of runs say: against scipy, and on simulations whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from groups_cases import grouped, study_of
from scipy import stats
from statsmodels.stats.power import TTestIndPower

from mlflow_l3d.analysis.importance.multiplicity import holm
from mlflow_l3d.metrics.base import Metric
from mlflow_l3d.metrics.known import named
from mlflow_l3d.report.source import Source
from mlflow_l3d.studies.groups.numbers import MOST_GROUPS, GroupsStudy, _bartlett, groups_study
from mlflow_l3d.studies.groups.numbers.grouping import Grouping
from mlflow_l3d.studies.groups.numbers.settings import SettingsStudy, settings_study
from mlflow_l3d.studies.groups.report.words import answers, headline, step

RNG = np.random.default_rng(4)
SCORES = {name: (mean + 0.02 * RNG.standard_normal(6)).tolist() for name, mean in (("a", 0.7), ("b", 0.75), ("c", 0.7))}


@pytest.mark.parametrize("shared", [False, True])
def test_pairs_are_those_of_scipy(shared: bool) -> None:
    study = study_of(SCORES, shared=shared)
    expected = {}
    for row in study.pairs.to_dict("records"):
        one, other = (SCORES[row[side].removeprefix("model=")] for side in ("first", "second"))
        test = stats.ttest_rel(one, other) if shared else stats.ttest_ind(one, other, equal_var=False)
        expected[row["first"], row["second"]] = test.pvalue
        limits = test.confidence_interval()
        assert (row["difference_ci_low"], row["difference_ci_high"]) == pytest.approx((limits.low, limits.high))
        assert (row["difference"], row["p"]) == pytest.approx((np.mean(one) - np.mean(other), test.pvalue))
        assert row["shared"] == (6 if shared else 0)
    assert study.pairs["p_holm"].tolist() == pytest.approx(holm([*expected.values()]).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_setting_that_alone_forms_the_groups_has_one_verdict(names: str, shared: bool) -> None:
    """The page has one answer to one question, on both sides of 5 %: pairs and the effect of their setting."""
    draw, verdicts = np.random.default_rng(0), set()
    for _ in range(10):
        scores = {name: (0.7 + 0.012 * (name == "a") + 0.01 * draw.normal(size=6)).tolist() for name in names}
        study = study_of(scores, shared=shared)
        row = study.settings.frame.set_index("setting").loc["model"]
        assert row["p"] == row["p_holm"] == study.pairs["p_holm"].min()
        differ, moving = answers(study)[1:]
        is_found = not differ.sentences[0].startswith(("**The two do not", "**0 of"))
        assert ("model moves the score" in str(moving)) == is_found
        assert ("No effect of" in str(moving)) != is_found
        verdicts.add(is_found)
    assert verdicts == {False, True}


def test_an_effect_of_combinations_alone_is_named() -> None:
    rows = [{"lr": lr, "size": size, "seed": str(seed)} for lr in "ab" for size in "cd" for seed in range(6)]
    luck = 0.01 * np.random.default_rng(1).normal(size=len(rows))
    scores = np.array([0.7 + 0.05 * ((row["lr"] == "a") == (row["size"] == "c")) for row in rows]) + luck
    study = groups_study(pd.Series(range(len(rows))), scores, grouped(rows), named("accuracy"))
    said = "No effect of lr, size is found. Some of their combinations differ: see the pairs of groups."
    assert said in str(answers(study)[2])


def test_each_group_and_what_they_have_in_common() -> None:
    study = study_of(SCORES)
    frame = pd.DataFrame(SCORES)
    assert study.groups["group"].tolist() == [f"model={name}" for name in frame.mean().sort_values().index[::-1]]
    numbers = study.groups.set_index("group")
    for name, scores in SCORES.items():
        limits = stats.t.interval(0.95, 5, np.mean(scores), stats.sem(scores))
        assert tuple(numbers.loc[f"model={name}", ["mean_ci_low", "mean_ci_high"]]) == pytest.approx(limits)
        luck = stats.t.ppf(0.975, 5) * math.sqrt(2) * np.std(scores, ddof=1)
        assert numbers.loc[f"model={name}", "luck"] == pytest.approx(luck)
    assert study.std == pytest.approx(math.sqrt(frame.var().mean()))
    assert study.luck == pytest.approx(stats.t.ppf(0.975, 15) * math.sqrt(2) * study.std)  # pooled degrees of freedom


def test_groups_of_very_different_spread_have_no_luck_in_common() -> None:
    wide = [0.5, 0.6, 0.7, 0.8, 0.9]
    narrow = [0.70, 0.701, 0.702, 0.703, 0.704]
    assert math.isnan(study_of({"a": wide, "b": narrow}).luck)
    assert math.isnan(study_of({"a": wide, "b": [0.7] * 5}).luck)  # nor with one that has none
    assert study_of({"a": wide, "b": wide}).luck > 0
    sides = wide, narrow[:3]
    spreads = np.array([[np.var(each, ddof=1), len(each) - 1] for each in sides]).T
    assert _bartlett(*spreads) == pytest.approx(stats.bartlett(*sides).pvalue)


def test_smaller_is_better_and_a_single_pair_has_its_difference_in_the_headline() -> None:
    study = study_of({"a": [0.1, 0.2, 0.15], "b": [1.1, 1.2, 1.15]}, metric="rmse")
    assert study.groups["verdict"].tolist() == ["best", "better"]
    assert headline(study) == "model=a is better than model=b by 1.000."


def test_groups_of_one_or_two_runs_are_not_compared_and_need_three() -> None:
    study = study_of({"a": [0.9], "b": [0.7, 0.8], "c": [0.5, 0.5, 0.6], "d": [0.5, 0.6, 0.6]})
    assert study.groups.set_index("group")["runs_needed"].head(2).tolist() == [3, 3]
    assert study.pairs[["first", "second"]].to_numpy().tolist() == [["model=d", "model=c"]]
    assert study.groups["verdict"].tolist() == ["", "", "best", "undecided"]
    alone = study_of({name: [0.1 * at] for at, name in enumerate("abcd")})
    assert alone.pairs.empty
    assert math.isnan(alone.std)


def test_many_groups_are_compared_with_the_best_and_pay_for_all_pairs() -> None:
    groups = MOST_GROUPS + 1
    scores = {str(at): (0.5 + 0.05 * RNG.standard_normal(4)).tolist() for at in range(groups)}
    study = study_of({**scores, "best": [0.9, 0.91, 0.9, 0.91]})
    assert set(study.pairs["first"]) == {"model=best"}
    smallest = study.pairs["p"].min()
    assert study.pairs["p_holm"].min() == pytest.approx(min(1, smallest * (groups + 1) * groups / 2))


def seeded(rows: list[dict[str, object]], scores: list[float]) -> GroupsStudy:
    """Return the study of runs with these parameters."""
    grouping = grouped([{name: str(value) for name, value in row.items()} for row in rows])
    return groups_study(pd.Series(range(len(rows))), np.array(scores), grouping, named("accuracy"))


def test_runs_that_share_a_seed_are_averaged_and_count_once() -> None:
    seeds = [1, 1, 1, 2, 3, None, None]  # a seed that is unknown is new
    rows = [{"model": model, "seed": seed} for model in "ab" for seed in seeds]
    first, second = [0.5, 0.5, 0.62, 0.7, 0.75, 0.8, 0.8], [0.6, 0.7, 0.8, 0.9, 0.75, 0.8, 0.85]
    study = seeded(rows, [*first, *second])
    means = [[np.mean(scores[:3]), *scores[3:]] for scores in (first, second)]
    [pair] = study.pairs.to_dict("records")
    assert (study.averaged, pair["runs_first"], pair["shared"]) == (("params.seed",), 5, 3)
    assert pair["difference"] == pytest.approx(np.mean(means[1]) - np.mean(means[0]))
    numbers = study.groups.set_index("group").loc["model=a"]
    limits = stats.t.interval(0.95, 4, np.mean(means[0]), stats.sem(means[0]))
    assert tuple(numbers[["runs", "independent"]]) == (7, 5)
    assert tuple(numbers[["mean_ci_low", "mean_ci_high"]]) == pytest.approx(limits)
    assert math.isnan(numbers["std_ci_low"])
    assert study.runs["repeated"].sum() == 4


def test_runs_of_repeated_seeds_spread_as_averages_and_around_them() -> None:
    scores = np.array([[0.5, 0.6], [0.7, 0.76], [0.8, 0.84]])
    rows = [{"model": model, "seed": seed} for model in "ab" for seed in (1, 1, 2, 2, 3, 3)]
    groups = seeded(rows, [*scores.ravel(), *scores.ravel()]).groups
    variance = scores.mean(axis=1).var(ddof=1) + scores.var(axis=1).mean()
    assert groups["std"].tolist() == pytest.approx([math.sqrt(variance)] * 2)


def test_seeds_with_unequal_numbers_of_runs_vary_as_single_runs_do() -> None:
    rows = [{"model": model, "seed": seed} for model in "ab" for seed in (1, 1, 1, 2, 3)]
    groups = seeded(rows, [0.5, 0.6, 0.7, 0.9, 0.8] * 2).groups
    # Averages of three runs lack two thirds of what runs with one seed vary by, 0.01, and those of one nothing.
    variance = np.var([0.6, 0.9, 0.8], ddof=1) + 0.01 * (2 / 3) / 3
    assert groups["std"].tolist() == pytest.approx([math.sqrt(variance)] * 2)


def test_a_group_with_one_seed_has_no_verdict() -> None:
    rows = [{"model": model, "seed": 10 * at} for at, model in enumerate("abc") for _ in range(4)]
    study = seeded(rows, [0.5, 0.51, 0.5, 0.52, 0.7, 0.71, 0.7, 0.7, 0.9, 0.9, 0.9, 0.91])
    assert study.pairs.empty
    assert math.isnan(study.luck)
    assert study.groups["runs_needed"].tolist() == [3] * 3
    assert headline(study) == "Each group has one seed only: how much of their differences is luck is not known."


def test_a_seed_with_few_values_that_moves_the_score_may_be_a_setting() -> None:
    rows = [{"rng": rng, "seed": 10 * rng + at} for rng in (0, 1) for at in range(4)]
    assert seeded(rows, [0.5, 0.51, 0.52, 0.5, 0.7, 0.71, 0.7, 0.72]).suspects == ("params.rng",)
    assert seeded(rows, [0.5, 0.51, 0.52, 0.5, 0.5, 0.51, 0.5, 0.52]).suspects == ()


def test_what_distinguishes_no_groups_and_moves_the_score_withholds_the_verdict() -> None:
    rows = [{"lr": rate, "batch": size, "seed": seed} for rate in "ab" for size in "xy" for seed in range(4)]
    luck = 0.01 * np.random.default_rng(1).standard_normal(16)
    hidden = groups_study(*_by_rate(rows, 0.7 + luck + np.tile(np.repeat([0, 0.1], 4), 2)))
    assert (hidden.hidden, hidden.pairs.empty, hidden.settings.frame.empty) == (("params.batch",), True, True)
    assert headline(hidden) == "The score also moves with batch: which group is better is not decided."
    harmless = groups_study(*_by_rate(rows, 0.7 + luck))
    assert (harmless.hidden, len(harmless.pairs)) == ((), 1)
    same = [{**row, "batch": row["lr"]} for row in rows]
    along = groups_study(*_by_rate(same, 0.7 + luck))
    assert (along.hidden, along.along) == ((), ("params.batch",))


def _by_rate(rows: list[dict[str, object]], scores: np.ndarray) -> tuple[pd.Series, np.ndarray, Grouping, Metric]:
    grouping = grouped([{name: str(value) for name, value in row.items()} for row in rows], group_by="lr")
    return pd.Series(range(len(rows))), scores, grouping, named("accuracy")


def test_partly_shared_seeds_need_no_fewer_runs_than_two_groups_of_their_own() -> None:
    effects = 0.03 * np.random.default_rng(1).standard_normal(12)
    rest = 0.004 * np.random.default_rng(2).standard_normal(16)
    rows = [{"model": model, "seed": seed + start} for model, start in (("a", 0), ("b", 4)) for seed in range(8)]
    study = seeded(rows, [0.7 + effects[int(str(row["seed"]))] + each for row, each in zip(rows, rest, strict=True)])
    size = abs(study.pairs["difference"].iloc[0]) / study.std
    power = TTestIndPower().solve_power(size, power=0.8, alpha=0.05)
    assert study.pairs["runs_needed"].iloc[0] >= 0.8 * power


def test_names_that_are_a_parameter_and_a_tag() -> None:
    rows = [{"lr": rate, "seed": seed, "tags.lr": rate, "tags.seed": seed} for rate in "ab" for seed in "123"]
    grouping = grouped(rows, group_by="params.lr,tags.lr")
    study = groups_study(pd.Series(range(6)), np.linspace(0.5, 0.6, 6), grouping, named("accuracy"))
    assert study.settings.frame["setting"].tolist()[0] == "params.lr = tags.lr"


def test_zero_variance_is_not_certainty() -> None:
    study = study_of({"a": [0.8] * 3, "b": [0.79] * 3})
    assert study.pairs["verdict"].tolist() == ["undecided"]
    assert study_of({"a": [0.8] * 3, "b": [0.8] * 3}).pairs["p"].tolist() == [1.0]


@pytest.mark.parametrize("seed", [3, 4])
def test_pairs_of_which_some_share_seeds_need_a_number_of_runs(seed: int) -> None:
    """Of three shared seeds the covariance is larger here than the variances: that is a number, not an error."""
    rng = np.random.default_rng(seed)
    luck = rng.standard_normal(12)
    scores = {name: (luck[:size] + 0.01 * rng.standard_normal(size)).tolist() for name, size in (("a", 3), ("b", 12))}
    assert (study_of(scores, shared=True).pairs["runs_needed"] >= 3).all()


@pytest.fixture
def pairs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out of a study what says neither means nor verdicts: in a simulation it takes a third of the time."""

    def no_settings(scores: pd.Series, *_: object) -> SettingsStudy:
        return settings_study(scores, pd.DataFrame(index=scores.index))

    monkeypatch.setattr("mlflow_l3d.studies.groups.numbers.runs_to_settle", lambda *_: math.inf)
    monkeypatch.setattr("mlflow_l3d.studies.groups.numbers.settings_study", no_settings)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["repeats", "crossed", "one seed"])
@pytest.mark.usefixtures("pairs_only")
def test_repeated_and_crossed_seeds_claim_no_more(kind: str) -> None:
    """At most 5 % false claims of two groups, with the error of 40 studies; without averages 26 % to 97 %.

    Even 26 % exceed the limit in 98 of 100 such simulations.
    """
    rng, claims = np.random.default_rng(7), []
    sizes = {"repeats": (4, 3), "crossed": (3, 3), "one seed": (1, 5)}[kind]
    cells = [*product(range(2), *map(range, sizes))]
    rows = [{"lr": f"g{group}", "seed": f"{one + (kind == 'one seed') * group}"} for group, one, _ in cells]
    if kind == "crossed":
        rows = [{**row, "init_seed": str(other)} for row, (*_, other) in zip(rows, cells, strict=True)]
    ids, grouping = pd.Series(range(len(rows))), grouped(rows)
    for _ in range(40):
        first, second = rng.standard_normal((2, sizes[0], 1)), rng.standard_normal((2, 1, sizes[1]))
        scores = 0.8 + 0.02 * (first + (kind == "crossed") * second) + 0.003 * rng.standard_normal((2, *sizes))
        study = groups_study(ids, scores.ravel(), grouping, named("accuracy"))
        claims.append(study.pairs["verdict"].eq("better").any())
    assert np.mean(claims) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "shared", "studies"), [((5, 5, 5, 5), True, 60), ((3, 3, 10, 30), False, 100), ((3, 4, 3, 4), False, 60)]
)
@pytest.mark.usefixtures("pairs_only")
def test_groups_that_do_not_differ(sizes: tuple[int, ...], shared: bool, studies: int) -> None:
    """At most 5 % false claims over all pairs, coverage .93 to .97, with the error of so many studies of skewed scores.

    The whole grid is in benchmarks/groups_simulation.py.
    """
    rng, claims, covered = np.random.default_rng(7), [], []
    runs = [(place, at) for place, size in enumerate(sizes) for at in range(size)]
    grouping = grouped([{"model": f"{place}", "seed": f"{at + 1000 * place * (not shared)}"} for place, at in runs])
    for _ in range(studies):
        of_seed = shared * rng.standard_normal(30)
        luck = [(rng.gamma(6, 1, size) - 6) / math.sqrt(6) + of_seed[:size] for size in sizes]
        scores = 0.8 - 0.01 * np.concatenate(luck)
        study = groups_study(pd.Series(range(len(runs))), scores, grouping, named("accuracy"))
        claims.append(study.pairs["p_holm"].min() <= 0.05)
        covered += (study.groups["mean_ci_low"].le(0.8) & study.groups["mean_ci_high"].ge(0.8)).tolist()
    error = math.sqrt(0.05 * 0.95 / studies)
    assert np.mean(claims) <= 0.05 + 2 * error
    assert 0.93 - 1.4 * error <= np.mean(covered) <= 0.97 + 0.92 * error


def test_equal_means_are_no_difference() -> None:
    scores = [0.71, 0.73, 0.75, 0.72]
    study = study_of({"a": scores, "b": scores[::-1], "c": [each - 0.2 for each in scores]})
    assert study.tied == {"model=b"}
    assert headline(study) == "model=a and model=b have equal means; the others are worse, beyond luck."
    two = study_of({"a": scores, "b": scores})
    assert headline(two) == "model=a and model=b have equal means."
    long = "learning_rate=3e-05, per_device_train_batch_size=32"
    other = replace(two, groups=two.groups.replace("model=a", long), pairs=two.pairs.replace("model=a", long))
    assert headline(other) == f"{long} and model=b have equal means."
    assert "--tag=true" in step(two, Source()).command


def test_equal_scores_of_each_group_may_be_copies_of_one_run() -> None:
    study = study_of({"x": [0.5] * 5, "y": [0.6] * 5})
    assert study.pairs["verdict"].tolist() == ["undecided"]
    assert study.groups["luck"].isna().all()
    assert not study.settings.found
    assert headline(study).startswith("Each group has the same score in all runs: how much")
    assert "--tag" not in step(study, Source()).command
    assert "the seed reach the training" in step(study, Source()).text


def test_a_group_of_equal_scores_varies_like_one_run_of_the_other() -> None:
    """Its runs may be copies: t = difference / (std sqrt(1 + 1/n)) with the degrees of freedom of the other."""
    scores = [0.58, 0.62, 0.6, 0.61]
    study = study_of({"x": [0.55] * 9, "y": scores})
    t = (np.mean(scores) - 0.55) / (np.std(scores, ddof=1) * math.sqrt(1 + 1 / 4))
    assert study.pairs["p"].tolist() == pytest.approx([2 * stats.t.sf(t, 3)])
    assert study.pairs["runs_needed"].iloc[0] > 3
    assert study_of({"x": [0.2] * 5, "y": scores}).pairs["verdict"].tolist() == ["better"]
