"""Variance components of judgements: against the analysis of variance, with gaps, in hard cases, and simulated."""

import math

import numpy as np
import pandas as pd
import pytest
from judged_app import App
from scipy import stats

from mlflow_l3d.analysis.judged import gain
from mlflow_l3d.analysis.judged.components import components
from mlflow_l3d.analysis.judged.table import usable_judgements
from mlflow_l3d.errors import ParameterError

APP = App(prompt=0.3, row_prompt=0.35)


def variances(found):
    return found.frame.set_index("source")["variance"]


def test_complete_tables_have_the_variances_of_the_analysis_of_variance(rng):
    rows, repeats, judges = 12, 3, 4
    table = APP.draw(rng, rows, repeats, judges)
    y = table.sort_values(["row", "repeat", "judge"])["value"].to_numpy().reshape(rows, repeats, judges)
    mean, of_row, of_judge = y.mean(), y.mean(axis=(1, 2)), y.mean(axis=(0, 1))
    of_answer, of_both = y.mean(axis=2), y.mean(axis=1)
    square_row = repeats * judges * of_row.var(ddof=1)
    square_judge = rows * repeats * of_judge.var(ddof=1)
    square_answer = judges * ((of_answer - of_row[:, None]) ** 2).sum() / (rows * (repeats - 1))
    apart = of_both - of_row[:, None] - of_judge + mean
    square_both = repeats * (apart**2).sum() / ((rows - 1) * (judges - 1))
    rest = y - of_answer[..., None] - of_both[:, None] + of_row[:, None, None]
    square_rest = (rest**2).sum() / (rows * (repeats - 1) * (judges - 1))
    expected = {
        "row": (square_row - square_answer - square_both + square_rest) / (repeats * judges),
        "row x judge": (square_both - square_rest) / repeats,
        "answer": (square_answer - square_rest) / judges,
        "judgement": square_rest,
        "judge": (square_judge - square_both) / (rows * repeats),
    }
    found = components(table.sample(frac=1, random_state=0))
    assert variances(found).to_dict() == pytest.approx(expected)
    assert found.mean == pytest.approx(mean)
    counts = {"row": rows, "judge": judges, "row x judge": rows * judges, "answer": rows * repeats, "judgement": y.size}
    assert found.weights == pytest.approx({source: 1 / count for source, count in counts.items()})
    variance = sum(max(0, expected[name]) * found.weights[name] for name in expected)
    assert found.mean_std == pytest.approx(np.sqrt(variance))


def test_one_judge_with_unequal_repeats_has_the_variances_of_nested_analysis_of_variance(rng):
    table = App().draw(rng, 30, 4, missing=0.3)
    counts = table.groupby("row")["value"].agg(["size", "mean", "var"])
    within = (counts["var"] * (counts["size"] - 1)).sum() / (counts["size"] - 1).sum()
    found = components(table)
    assert variances(found)["answer + judgement"] == pytest.approx(within)
    assert variances(found)["row"] == pytest.approx(counts["mean"].var() - within * (1 / counts["size"]).mean())
    assert "the judge's luck is not known" in found.notes[0]


def test_interactions_of_judges_and_prompts_are_those_of_the_analysis_of_variance(rng):
    rows, repeats, judges, prompts = 12, 2, 4, 3
    table = APP._replace(judge_prompt=0.5).draw(rng, rows, repeats, judges, prompts)
    found = variances(components(table))
    cells = table.groupby(["judge", "prompt"])["value"].mean().unstack().to_numpy()
    apart = cells - cells.mean(axis=0) - cells.mean(axis=1, keepdims=True) + cells.mean()
    square = (apart**2).sum() / ((judges - 1) * (prompts - 1))
    noise = found["row x prompt"] / rows + found["answer"] / (rows * repeats)
    assert found["judge x prompt"] == pytest.approx(square - found["judgement"] / (rows * repeats))
    of_judges = cells.mean(axis=1).var(ddof=1)
    assert found["judge"] == pytest.approx(of_judges - square / prompts - found["row x judge"] / rows)
    assert found["prompt"] == pytest.approx(cells.mean(axis=0).var(ddof=1) - square / judges - noise)
    without = components(table[(table["judge"] > 0) | (table["prompt"] != "0")])
    assert "judge x prompt" not in set(without.frame["source"])  # one judge did not rate one prompt


@pytest.mark.slow
def test_gaps_leave_the_variances_unbiased_also_if_a_judge_rated_the_easy_rows_only(rng):
    found = []
    for _ in range(16):
        table = APP.draw(rng, 30, 2, 3, 3, missing=0.2)
        easy = table.groupby("row")["value"].mean().nlargest(15).index
        # All rows are rated by two judges, so the third's luck is known from rows that it shares with them.
        table = table[(table["judge"] < 2) | table["row"].isin(easy)]
        found.append(variances(components(table)))
    means, errors = pd.DataFrame(found).mean(), pd.DataFrame(found).sem()
    truth = APP.truth()
    for source in ("judge", "prompt", "row x prompt", "answer", "judgement"):
        assert abs(means[source] - truth[source]) < 3.5 * errors[source], source


@pytest.mark.parametrize(
    ("repeats", "judges", "sources"),
    [
        (1, 1, ["row + answer + judgement"]),
        (3, 1, ["row", "answer + judgement"]),
        (1, 3, ["row + answer", "row x judge + judgement", "judge"]),
        (2, 2, ["row", "row x judge", "answer", "judgement", "judge"]),
    ],
)
def test_sources_that_cannot_be_separated_are_one(rng, repeats, judges, sources):
    found = components(App().draw(rng, 20, repeats, judges))
    assert list(found.frame["source"]) == sources
    joined = found.frame["source"].str.contains(" + ", regex=False)
    assert (found.frame["note"].str.contains("cannot be separated") == joined).all()


def test_repeated_judgements_separate_judges_from_judgements(rng):
    table = App().draw(rng, 30, 2, 3)
    again = table.assign(judgement=1, value=table["value"] + rng.normal(size=len(table)))
    found = variances(components(pd.concat([table, again], ignore_index=True)))
    assert "answer x judge" in found
    assert found["judgement"] == pytest.approx(0.5, rel=0.3)


def test_what_did_not_vary_has_no_claim(rng):
    table = App(threshold=0.0).draw(rng, 20, 2, 2)
    same = components(table.assign(value=1.0))
    assert (same.frame["variance"] == 0).all()
    unseen = 1 - 0.05 ** (1 / 20)  # so many of all rows may vary, of which none was seen
    assert same.frame["high"].to_numpy() == pytest.approx(unseen * (1 - unseen))
    assert components(table.assign(value=2.0)).frame["high"].isna().all()
    assert same.mean == 1
    assert same.mean_low < 0.9  # twenty rows that all pass: one in ten may fail
    constant = components(table.assign(value=table["value"].where(table["judge"] > 0, 1.0)))
    assert variances(constant)["judge"] > 0
    tiny = components(table[table["row"] < 2])
    assert tiny.frame["variance"].isna().all()
    assert "Add rows" in tiny.notes[0]


def test_rows_that_one_judge_alone_rated_are_no_obstacle(rng):
    table = App().draw(rng, 20, 2, 3)
    found = components(table[(table["row"] > 1) | (table["judge"] == 0)])
    assert np.isfinite(found.frame[["low", "high"]].to_numpy()).all()


def test_a_judge_per_row_is_no_judge_variance(rng):
    table = App().draw(rng, 20, 2, 2)
    found = components(table[table["row"] % 2 == table["judge"]])
    assert "judge" not in list(found.frame["source"])
    assert any("cannot be separated from that of rows" in note for note in found.notes)


def test_factors_that_change_together_are_one(rng):
    table = APP.draw(rng, 20, 2, 2, 3)
    found = components(table.assign(model=table["prompt"]))
    assert {"prompt", "row x prompt"} <= set(found.frame["source"])
    assert "model" not in "".join(found.frame["source"])
    assert found.notes[0].startswith("prompt and model always change together")


def test_failures_and_missing_values_do_not_count(rng):
    table = App(threshold=0.0).draw(rng, 20, 2, 2).assign(failed="")
    broken = table.copy()
    broken.loc[broken["row"] == 3, "failed"] = "answer"
    broken.loc[broken.index[:2], "failed"] = "judge"
    broken.loc[broken.index[2], "value"] = np.nan
    usable = usable_judgements(broken)
    assert (usable.failed_answers, usable.failed_judgements) == (2, 3)
    kept = table[(table["row"] != 3) & (table.index > 2)]
    pd.testing.assert_frame_equal(components(broken).frame, components(kept).frame)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("row", range(80), "several values"),
        ("prompt", range(80), "several values"),
        ("scorer", ["a", "b"] * 40, "several scorers"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(rng, column, values, message):
    with pytest.raises(ParameterError, match=message):
        components(App().draw(rng, 20, 2, 2).assign(**{column: values}))


def test_ten_thousand_judgements_have_variances_near_the_truth(rng):
    found = components(APP.draw(rng, 200, 5, 5, 2))
    truth = APP.truth()
    assert variances(found)["judgement"] == pytest.approx(truth["judgement"], rel=0.05)
    inside = found.frame.set_index("source")
    assert sum(inside["low"][name] <= truth[name] <= inside["high"][name] for name in inside.index) >= len(inside) - 1


def test_limits_of_skewed_rows_are_those_of_a_jackknife_of_the_jackknife(rng):
    values = rng.exponential(size=12)
    without = np.array([np.delete(values, row).var(ddof=1) for row in range(12)])
    squares = (without - without.mean()) ** 2
    logs = np.log([np.delete(squares, row).sum() for row in range(12)])
    known = max(3, 2 / (11 / 12 * ((logs - logs.mean()) ** 2).sum()))
    spread = 11 / 12 * squares.sum() * (stats.t.ppf(0.975, known) / stats.norm.ppf(0.975)) ** 2
    degrees = 2 * values.var(ddof=1) ** 2 / spread
    table = pd.DataFrame({"row": range(12), "answer": range(12), "judge": "exact match", "value": values})
    limits = components(table).frame.iloc[0][["low", "high"]].to_list()
    stretch = np.exp(stats.norm.ppf(0.975) * np.sqrt((1 + 30 / 17) * 2 / degrees))
    assert limits == pytest.approx(values.var(ddof=1) * np.array([degrees / stats.chi2.ppf(0.975, degrees), stretch]))


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5, 0.9])
def test_the_interval_of_one_answer_per_row_holds_the_variance_of_passing(share):
    covered = 0.0
    for passed in range(21):
        table = pd.DataFrame({"row": range(20), "answer": range(20), "judge": "exact match"})
        found = components(table.assign(value=np.arange(20) < passed)).frame.iloc[0]
        held = found["low"] <= share * (1 - share) + 1e-12 <= found["high"] + 2e-12
        covered += stats.binom.pmf(passed, 20, share) * held
    assert 0.93 < covered < 0.985


def test_notes_say_where_intervals_hold_less_often(rng):
    few, many = (components(App().draw(rng, rows, 1, judges)) for rows, judges in ((99, 4), (100, 5)))
    assert "99 rows: if few are unlike the rest, the interval of their variance covers about 90 %." in few.notes
    assert "only 4 levels: a wide interval, which covers 90 % or more" in few.frame.set_index("source")["note"]["judge"]
    assert not many.notes
    rare = components(App(threshold=2.5).draw(rng, 200, 2)).notes  # few of many rows pass
    assert any(note.startswith("200 rows: if few are unlike the rest") for note in rare)
    note = many.frame.set_index("source")["note"]["judge"]
    assert note == "if few are unlike the rest, the interval covers about 90 %"


def test_limits_of_three_judges_hold_for_exponential_ones(rng):
    effects = rng.exponential(size=(5000, 3))
    table = pd.DataFrame({"row": np.arange(20).repeat(3), "judge": np.tile(np.arange(3), 20)})
    table["answer"] = table["row"]
    table["value"] = effects[0][table["judge"]] + rng.normal(scale=1e-6, size=60)
    judge = components(table).frame.set_index("source").loc["judge"]
    low, high = judge["low"] / judge["variance"], judge["high"] / judge["variance"]
    assert [low, high] == pytest.approx(1.5 / stats.chi2.ppf([0.975, 0.025], 1.5), rel=1e-3)
    variance = effects.var(axis=1, ddof=1)
    assert 0.91 < np.mean((variance * low < 1) & (variance * high > 1)) < 0.95


def test_rows_that_never_pass_twice_may_still_differ():
    # 60 rows x 2 answers, 12 of which pass once: 4.9 % of all rows may pass each time, and none of these show it.
    row = np.arange(60).repeat(2)
    values = ((np.arange(120) % 2 == 0) & (row < 12)) * 1.0
    found = components(pd.DataFrame({"row": row, "answer": range(120), "judge": "exact match", "value": values})).frame
    unseen = 1 - 0.05 ** (1 / 60)
    assert found["variance"][0] < 0
    assert (found["low"][0], found["high"][0]) == (0, pytest.approx(unseen * (1 - unseen)))


def test_a_judge_unlike_the_rest_widens_the_interval_of_judges(rng):
    def limits(effects):
        judge, row = np.arange(10).repeat(50), np.tile(np.arange(50), 10)
        table = pd.DataFrame({"row": row, "answer": row, "judge": judge, "value": effects.repeat(50)})
        table["value"] += 0.01 * rng.normal(size=500)
        return components(table).frame.set_index("source").loc["judge", ["low", "high"]] / effects.var(ddof=1)

    normal = 9 / stats.chi2.ppf([0.975, 0.025], 9)
    assert limits(np.linspace(-1, 1, 10)).tolist() == pytest.approx(normal, rel=0.01)
    assert (limits(np.eye(10)[0]) / normal).between([0, 2], [0.5, np.inf]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("app", "draws"), [(APP, 50), (App(judge=0.7, threshold=0.9), 100)])
def test_intervals_hold_the_truth(app, draws):
    """At least 95 % less 2.6 standard errors: of ten numbers; without the luck of judges, one has 85 %."""
    rng, truth, held = np.random.default_rng(1), app.truth(), []
    for _ in range(draws):
        frame = components(app.draw(rng, 40, 3, 5)).frame.set_index("source")
        if app.threshold is None:
            truth["row"] = app.row**2 + app.row_prompt**2
        held.append({name: frame["low"][name] <= truth[name] <= frame["high"][name] for name in frame.index})
    least = 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / draws)
    assert (pd.DataFrame(held).mean() >= least).all(), pd.DataFrame(held).mean()


def test_gains_are_those_of_the_variances(rng):
    found = components(App().draw(rng, 20, 2, 3))
    lines = gain(found).set_index("design")
    now = lines["mean_std"]["now"] ** 2
    positive = variances(found).clip(lower=0)
    assert now == pytest.approx(found.mean_std**2)
    of_judges = positive["judge"] + positive["row x judge"] / 20 + positive["judgement"] / 40
    saved = of_judges * (1 / 3 - 1 / 4)
    assert now - lines["mean_std"]["one more judge"] ** 2 == pytest.approx(saved)
    saved = (positive["answer"] / 20 + positive["judgement"] / 60) * (1 / 2 - 1 / 3)
    assert now - lines["mean_std"]["one more repeat"] ** 2 == pytest.approx(saved)
    assert lines["judgements"].to_dict()["one more row"] == 21 * 6


def test_nothing_is_promised_of_what_is_not_known(rng):
    confounded = gain(components(App().draw(rng, 20, 1))).set_index("design")
    assert confounded["gain"]["one more repeat"] == 0  # nothing is known of answers
    assert gain(components(App().draw(rng, 20, 1)[:0]))["gain"].isna().all()  # of no judgement at all


def test_variances_of_shares_are_at_most_a_quarter():
    lines = [(row, row, judge, judge) for row in range(4) for judge in (0, 1)]
    found = components(pd.DataFrame(lines, columns=["row", "answer", "judge", "value"])).frame
    assert found["variance"].max() == found["high"].max() == 0.25
    assert found["std"].max() == 0.5
