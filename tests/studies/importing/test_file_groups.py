"""Files with several settings are groups of runs, as runs on the tracking server are: two doors, one answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow.utils.file_utils import local_file_uri_to_path
from refusals import fails, refuses
from run_helpers import Place
from scipy import stats

from mlflow_l3d import compare, cure
from mlflow_l3d.studies.comparison.results import ComparedRuns
from mlflow_l3d.studies.evaluation.finished import load
from mlflow_l3d.studies.evaluation.run import evaluate
from mlflow_l3d.studies.groups.numbers import GroupsStudy
from mlflow_l3d.tracking.connection import connect

DRAW = np.random.default_rng(5)
APART = [("A", seed, 0.92 + 0.004 * DRAW.normal()) for seed in range(6)]
APART += [("B", seed, 0.62 + 0.004 * DRAW.normal()) for seed in range(6)]
NEAR = [("A", seed, score) for seed, score in enumerate([0.7, 0.85, 0.85, 0.8])]
NEAR += [("B", seed, score) for seed, score in enumerate([0.45, 0.6, 0.55, 0.8])]


def rows_of(scores: Iterable[tuple[str, int, float]]) -> pd.DataFrame:
    return pd.DataFrame(scores, columns=["model", "seed", "accuracy"])


def of_runs(rows: pd.DataFrame, **options: Any) -> GroupsStudy:
    """Log each row as a run of other code, and evaluate the experiment."""
    import mlflow

    connect()
    mlflow.set_experiment("theirs")
    for row in rows.to_dict("records"):
        with mlflow.start_run():
            mlflow.log_metric("accuracy", row.pop("accuracy"))
            mlflow.log_params(row)
    return evaluate("experiment:theirs", log=False, **options).study


def check_same(one: GroupsStudy, other: GroupsStudy) -> None:
    assert (one.std, one.luck, one.seeds) == (pytest.approx(other.std), pytest.approx(other.luck), other.seeds)
    columns = ["group", "runs", "independent", "mean", "std", "luck", "verdict"]
    pd.testing.assert_frame_equal(one.groups[columns], other.groups[columns])
    pd.testing.assert_frame_equal(one.pairs, other.pairs)
    pd.testing.assert_frame_equal(one.settings.frame, other.settings.frame)


@pytest.mark.slow
def test_cure_refuses_a_mix_of_settings(place: Place) -> None:
    rows_of(APART).to_csv("scores.csv", index=False)
    mixed = evaluate("scores.csv").run_id
    refuses(f"{mixed}: holds runs of several settings, whose", cure, mixed)


@pytest.mark.slow
def test_compare_takes_the_difference_of_settings_for_no_luck(place: Place) -> None:
    draw, systems = np.random.default_rng(1), []
    for name, gain, counts in (("one", 0.0, (6, 3)), ("other", 0.1, (3, 5))):
        rows = [
            {"seed": 100 * len(systems) + 10 * heat + seed, "heat": heat, "accuracy": 0.6 + (0.2 + gain) * heat + luck}
            for heat, count in enumerate(counts)
            for seed, luck in enumerate(0.01 * draw.normal(size=count))
        ]
        Path(name).mkdir()
        systems.append(pd.DataFrame(rows))
        systems[-1].to_csv(f"{name}/scores.csv", index=False)
    parents = [evaluate(f"{name}/scores.csv").run_id for name in ("one", "other")]
    compared = compare(*parents)
    (found,) = compared.comparison.differences
    means, errors = zip(*((heat.mean(), heat.var() / heat.size()) for heat in of_heat(systems)), strict=True)
    assert found.means == pytest.approx([each.mean() for each in means])
    assert found.spread.error == pytest.approx(np.sqrt(sum(each.sum() / 4 for each in errors)))
    by_heat = zip(*([part.to_numpy() for _, part in heat] for heat in of_heat(systems)), strict=True)
    wins = [np.greater.outer(*runs).mean() for runs in by_heat]
    assert found.run_wins.value == pytest.approx(np.mean(wins)), "single runs meet within their setting"
    assert compared.comparison.notes[-1].startswith("Each of 2 settings has equal weight: heat=0, heat=1.")
    hot = evaluate("other/scores.csv", only="heat=1").run_id
    mix = r"have different settings \(.*: heat=0, heat=1; .*: one\)"
    refuses(mix, compare, parents[0], hot)
    systems[0].drop([7, 8]).to_csv("one/scores.csv", index=False)
    lonely = evaluate("one/scores.csv").run_id
    refuses("has one run of heat=1, whose luck is unknown", compare, lonely, parents[1])


def sides_of(rows: pd.DataFrame) -> list[str]:
    """Evaluate the runs of each model as files of their own; return the parent runs."""
    for model, part in rows.groupby("model"):
        Path(f"{model}").mkdir()
        part.to_csv(f"{model}/scores.csv", index=False)
    return [evaluate(f"{model}/scores.csv").run_id for model in rows["model"].unique()]


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [(6, 6), (6, 1)])
@pytest.mark.parametrize("heats", [1, 2])
def test_compare_counts_runs_of_one_seed_once_as_evaluate_does(place: Place, repeats: Any, heats: int) -> None:
    draw, rows = np.random.default_rng(3), []
    for model, times in zip("AB", repeats, strict=True):
        for heat, seed in product(range(heats), range(5)):
            mean = 0.8 + 0.02 * (model == "B") + 0.02 * draw.normal()
            again = ({"model": model, "heat": heat, "seed": seed} for _ in range(times))
            rows += [each | {"accuracy": mean + 0.001 * draw.normal()} for each in again]
    both = pd.DataFrame(rows)
    both.to_csv("scores.csv", index=False)
    pairs = evaluate("scores.csv").study.pairs
    parents = sides_of(both)
    for parent in parents:  # nothing is read from the tables, which a user may delete
        folder = place.client.get_run(parent).info.artifact_uri
        Path(local_file_uri_to_path(folder), "runs.json").unlink(missing_ok=True)
    compared = compare(*parents)
    (found,) = compared.comparison.differences
    assert found.runs == (5, 5), "heats may share the luck of a seed"
    assert found.shared_runs == 5
    assert any(note.startswith(f"A: {30 * heats} runs have 5 seeds.") for note in compared.comparison.notes)
    if heats == 1:
        (pair,) = pairs.to_dict("records")
        assert pair["p"] == pytest.approx(found.p)
        assert pair["shared"] == 5
    seeds = both.groupby(["model", "heat", "seed"])["accuracy"].mean()
    assert found.means == pytest.approx(seeds.groupby("model").mean().tolist())


@pytest.mark.slow
def test_compare_takes_files_of_one_task_name_or_of_the_same_test_examples(place: Place) -> None:
    rows = pd.DataFrame(product(range(4), range(24)), columns=["seed", "example_id"])
    rows = rows.assign(label=rows.example_id % 2, prediction=(rows.example_id + rows.seed) // 2 % 2)
    others = rows.assign(prediction=(rows.example_id * (rows.seed + 1)) // 3 % 2)

    def compared(first: pd.DataFrame, second: pd.DataFrame) -> tuple[ComparedRuns, str]:
        first.to_csv("one.csv", index=False)
        second.to_csv("other.csv", index=False)
        parents = [evaluate(f"{name}.csv").run_id for name in ("one", "other")]
        result = compare(*parents)
        return result, " ".join(note for note in result.comparison.notes if "different test examples" in note)

    same, note = compared(rows, others)
    (found,) = same.comparison.differences
    assert (found.first, found.second, found.shared_examples, note) == ("one.csv", "other.csv", 24, "")
    named, less = rows.assign(task="t"), others[others.example_id >= 6].assign(task="t")
    partly, note = compared(named, less)
    assert partly.comparison.differences[0].shared_examples == 18
    assert "(24 and 18, 18 of them in common)" in note
    apart, note = compared(named, less.assign(example_id=less.example_id.astype(float)))
    (found,) = apart.comparison.differences
    assert (found.shared_examples, found.spread.examples) == (0, 42)
    assert "0 of them in common" in note
    assert "by equal ids (1 is not 1.0)" in note
    why = r"different tasks .*files need equal test examples, or one name and equal"
    refuses(why, compared, named, less.assign(task="u"))
    refuses("test example 6 has the labels 0 and 1", compared, named, less.assign(label=1 - less.label))


@pytest.mark.slow
def test_compare_pairs_the_seeds_of_settings_whatever_the_order_of_rows(place: Place) -> None:
    draw, rows = np.random.default_rng(3), list(product("AB", (0, 1), range(5)))
    both = pd.DataFrame(rows, columns=["model", "heat", "seed"])
    both["accuracy"] = 0.8 + 0.02 * draw.normal(size=len(both))
    first, second = (part.sort_values("heat", ascending=model == "A") for model, part in both.groupby("model"))
    parents = sides_of(pd.concat([first, second]))
    (found,) = compare(*parents).comparison.differences
    assert (found.shared_runs, found.shared_factors) == (5, ("seed",))
    by_seed = (part.groupby("seed")["accuracy"].mean() for part in (first, second))
    assert found.spread.error == pytest.approx(stats.sem(np.subtract(*by_seed)))
    apart = [part.pivot(index="seed", columns="heat", values="accuracy").to_numpy().T for part in (first, second)]
    ahead = [np.subtract.outer(*heat) > 0 for heat in zip(*apart, strict=True)]
    other_seeds = ~np.eye(5, dtype=bool)
    assert found.run_wins.value == pytest.approx(np.mean([wins[other_seeds].mean() for wins in ahead]))
    assert found.pair_wins.value == pytest.approx(np.mean([wins.diagonal().mean() for wins in ahead]))


@pytest.mark.slow
def test_compare_refuses_crossed_seeds_and_names_the_command_that_takes_them(place: Place) -> None:
    draw = np.random.default_rng(4)
    rows = pd.DataFrame(product("AB", range(4), range(4)), columns=["model", "seed", "init_seed"])
    parents = sides_of(rows.assign(accuracy=0.7 + 0.01 * draw.normal(size=len(rows))))
    said = "has crossed seeds .seed and init_seed., .* Evaluate one file with the runs of all systems"
    refuses(said, compare, *parents)
    refuses(r"no such run .* mlflow-l3d evaluate A/scores.csv$", compare, "A/scores.csv", "B/scores.csv")


def of_heat(systems: list[pd.DataFrame]) -> Iterable[Any]:
    return (rows.groupby("heat")["accuracy"] for rows in systems)


@pytest.mark.slow
@pytest.mark.parametrize(("scores", "verdict"), [(APART, "is better than"), (NEAR, "may be as good")])
def test_a_setting_is_no_luck_whether_its_effect_is_found_or_not(place: Place, scores: Any, verdict: str) -> None:
    rows = rows_of(scores)
    rows.to_csv("scores.csv", index=False)
    done = evaluate("scores.csv")
    study, within = done.study, rows.groupby("model")["accuracy"]
    std = float(np.sqrt(within.var().mean()))
    limit = stats.t.ppf(0.975, len(rows) - 2) * np.sqrt(2) * std
    assert (study.std, study.luck) == (pytest.approx(std), pytest.approx(limit))
    assert std < 0.8 * rows["accuracy"].std(), "all runs together vary more"
    said = done.summary()
    assert f"a difference below {100 * limit:.1f} points may be luck" in said
    assert verdict in said.splitlines()[0]
    answer = " ".join(done.report().answers[2].sentences)
    means = 100 * within.mean()
    moved = f"model moves the score (p <0.001): {means['A']:.1f} at A, {means['B']:.1f} at B."
    assert ("No effect of model is found." in answer) == (scores is NEAR) != (moved in answer)
    check_same(study, of_runs(rows))
    again = evaluate(done.run_id)
    check_same(again.study, study)
    check_same(load(done.run_id).study, study)
    assert connect().get_run(done.run_id).data.metrics["group_luck"] == pytest.approx(limit)


def test_luck_of_one_group_alone_is_not_shown_as_a_range(place: Place) -> None:
    scores = [("A", seed, score) for seed, score in enumerate([0.5, 0.6, 0.7])] + [
        ("B", seed, 0.9) for seed in range(3)
    ]
    rows_of(scores).to_csv("scores.csv", index=False)
    answer = evaluate("scores.csv").report().answers[0].sentences[0]
    two = "Between two runs of a group, a difference below"
    assert re.fullmatch(rf"{two} \*\*[\d.]+ points\*\* \(model=A\) may be \[\[luck\|luck\]\]\.", answer)


def predictions_of(models: dict[str, float], seeds: int = 5, examples: int = 40) -> pd.DataFrame:
    draw, labels = np.random.default_rng(2), np.arange(examples) % 2
    frames = []
    for model, quality in models.items():
        for seed in range(seeds):
            answers = np.where(draw.random(examples) < quality, labels, 1 - labels)
            frames.append(pd.DataFrame({"example_id": range(examples), "label": labels, "prediction": answers}))
            frames[-1] = frames[-1].assign(seed=seed, model=model)
    return pd.concat(frames)


@pytest.mark.slow
def test_predictions_agree_within_groups(place: Place) -> None:
    table = predictions_of({"A": 0.9, "B": 0.6})
    table.to_csv("predictions.csv", index=False)
    done = evaluate("predictions.csv")
    groups = done.study.groups.set_index("group")
    for model, rows in table.groupby("model"):
        runs = rows.pivot_table(index="example_id", columns="seed", values="prediction")
        right = runs.eq(rows.drop_duplicates("example_id").set_index("example_id")["label"], axis=0)
        agree = np.mean([(runs[one] == runs[other]).mean() for one, other in combinations(runs, 2)])
        found = groups.loc[f"model={model}"]
        assert (found["consistency"], found["mean"]) == (pytest.approx(agree), pytest.approx(right.mean().mean()))
        assert found["fragile_share"] == pytest.approx((right.any(axis=1) & ~right.all(axis=1)).mean())
        if model == "A":
            split = right.sum(axis=1).sub(2.5).abs()
            assert split[done.examples["example_id"].astype(int)].iloc[0] == split.min()
    alone = evaluate("predictions.csv", only="model=A").study
    assert alone.pairs["consistency"].mean == pytest.approx(groups.loc["model=A", "consistency"])
    assert alone.own.std == pytest.approx(groups.loc["model=A", "std"])
    numbers = table.assign(label=table["label"] + 0.25, prediction=table["prediction"] + 0.3)
    numbers.to_csv("numbers.csv", index=False)
    of_numbers = evaluate("numbers.csv", task_kind="regression")
    groups = of_numbers.study.groups.set_index("group")
    for model, rows in numbers.groupby("model"):
        runs = rows.pivot_table(index="example_id", columns="seed", values="prediction")
        apart = np.mean([(runs[one] - runs[other]).abs().mean() for one, other in combinations(runs, 2)])
        assert groups.loc[f"model={model}", "absolute_difference"] == pytest.approx(apart)
    assert groups["consistency"].isna().all()
    assert of_numbers.examples is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({"group_by": "model"}, 2),
        ({"group_by": "params.lr", "seed": "seed"}, 2),
        ({"only": "lr=0.10"}, 2),
        ({"seed": "lr,seed"}, 2),
        ({"only": "model=A,params.lr=1e-1", "group_by": "lr"}, 1),
    ],
)
def test_options_mean_the_same_for_files_and_runs(place: Place, options: dict[str, str], groups: int) -> None:
    draw = np.random.default_rng(3)
    every = [(model, lr, seed) for model in "AB" for lr in (0.1, 0.2) for seed in range(4)]
    rows = pd.DataFrame(every, columns=["model", "lr", "seed"]).assign(accuracy=0.7 + 0.01 * draw.normal(size=16))
    rows.to_csv("scores.csv", index=False)
    one, other = evaluate("scores.csv", **options).study, of_runs(rows, **options)
    assert len(one.groups) == groups
    check_same(one, other)


@pytest.mark.parametrize(("options", "said"), [({"only": "lr=3"}, "no run has these"), ({"only": "lt=1"}, "lr")])
def test_options_that_no_run_has_are_one_line_at_both_doors(place: Place, options: Any, said: str) -> None:
    rows = rows_of(NEAR).assign(lr=0.1)
    rows.to_csv("scores.csv", index=False)
    refuses(rf"only=.*{said}", evaluate, "scores.csv", **options)
    refuses(rf"only=.*{said}", of_runs, rows, **options)


def rewards(model: str, rate: float, number: int, trials: int = 3) -> dict[str, Any]:
    draw = np.random.default_rng([number, len(model)])
    rows = [
        {"id": "x", "task_id": str(task), "trial": trial, "reward_info": {"reward": float(draw.random() < rate)}}
        for trial in range(1, trials + 1)
        for task in range(20)
    ]
    about = {"num_trials": trials, "agent_info": {"llm": model}, "environment_info": {"domain_name": "airline"}}
    return {"info": about, "simulations": rows}


@pytest.mark.slow
def test_repeats_are_luck_and_have_no_numbers_in_common(place: Place, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for number, (model, rate) in enumerate([("gpt", 0.8), ("gpt", 0.8), ("llama", 0.4)]):
        text = json.dumps(rewards(model, rate, number), indent=2)
        (tmp_path / "logs" / f"{number}.json").write_text(text, encoding="utf-8")
    study = evaluate(tmp_path / "logs", from_="tau-bench").study
    runs = study.runs.groupby("group")["score"]
    assert runs.size().to_dict() == {"model=gpt": 6, "model=llama": 3}, "trial 1 of two files: two runs"
    assert (study.averaged, study.seeds, study.pairs["shared"].tolist()) == ((), (), [0])
    assert study.std == pytest.approx(np.sqrt((runs.var() * (runs.size() - 1)).sum() / 7))
    welch = stats.ttest_ind(*(part for _, part in runs), equal_var=False)
    assert welch.pvalue == pytest.approx(study.pairs["p"].iloc[0], abs=0.02)
    alone = evaluate(tmp_path / "logs" / "2.json").study
    assert (alone.seeds, alone.passes["k"].tolist()) == ((1, 2, 3), [1, 2, 3])


@pytest.mark.slow
def test_providers_of_promptfoo_are_groups(place: Place, tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    rows = []
    for _ in range(3):
        for provider, rate in (("a", 0.8), ("b", 0.4)):
            for test in range(10):
                right, case = bool(draw.random() < rate), {"vars": {"q": test}, "assert": [{"value": f"v{test}"}]}
                rows.append({"provider": {"id": provider}, "prompt": {"label": "p"}, "testIdx": test, "testCase": case})
                rows[-1] |= {"success": right, "score": float(right), "response": {"output": f"v{test}" * right}}
    (tmp_path / "out.json").write_text(json.dumps({"results": {"version": 3, "results": rows}}), encoding="utf-8")
    study = evaluate(tmp_path / "out.json").study
    table = pd.DataFrame({"model": [row["provider"]["id"] for row in rows], "right": [row["success"] for row in rows]})
    means = table.assign(run=np.arange(60) // 10).groupby(["model", "run"])["right"].mean()
    std = float(np.sqrt(means.groupby("model").var().mean()))
    assert study.luck == pytest.approx(min(1.0, stats.t.ppf(0.975, 4) * np.sqrt(2) * std))
    assert study.groups["group"].tolist() == ["model=a", "model=b"]


@pytest.mark.slow
def test_runs_that_share_a_seed_are_averaged_and_folders_name_groups(place: Place, tmp_path: Path) -> None:
    rows = pd.DataFrame({"seed": [0, 0, 1, 1, 2, 2], "accuracy": [0.8, 0.81, 0.79, 0.82, 0.8, 0.78]})
    rows.to_csv("scores.csv", index=False)
    study = evaluate("scores.csv").study
    assert (study.averaged, study.groups["independent"].tolist()) == (("params.seed",), [3])
    check_same(study, of_runs(rows))
    for name, loss in {"base-1": 0.5, "base-2": 0.6, "new-1": 0.3, "new-2": 0.35}.items():
        (tmp_path / "out" / name).mkdir(parents=True)
        state = {"log_history": [{"eval_loss": loss}]}
        (tmp_path / "out" / name / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    study = evaluate(tmp_path / "out").study
    assert study.groups[["group", "mean"]].values.tolist() == [
        ["run name=new-#", pytest.approx(0.325)],
        ["run name=base-#", pytest.approx(0.55)],
    ]


def test_the_next_step_names_the_tool_only_if_it_was_named(place: Place) -> None:
    rows_of(NEAR).to_csv("scores.csv", index=False)
    assert "--from" not in evaluate("scores.csv").summary()
    rows_of(NEAR[1:]).to_csv("named.csv", index=False)
    assert "--from=csv" in evaluate("named.csv", from_="csv").summary()


@pytest.mark.slow
def test_one_run_of_each_setting_has_no_luck_and_groups_are_no_seeds_study(place: Place) -> None:
    runs = [("A", 1, 0.7), ("B", 1, 0.8), ("C", 1, 0.9)]
    rows_of(runs).to_csv("scores.csv", index=False)
    assert "how much of their differences is luck is not known" in evaluate("scores.csv").summary().splitlines()[0]
    rows_of(NEAR).to_csv("near.csv", index=False)
    parents = [evaluate(name).run_id for name in ("scores.csv", "near.csv")]
    fails(r"has 3 groups of runs.*--only NAME=VALUE", evaluate, parents)
    lower = evaluate("near.csv", metric="accuracy:lower")
    for result in (lower, evaluate(lower.run_id)):
        assert result.study.groups["group"].tolist() == ["model=B", "model=A"]
    refuses("metric='f1': must be one that the runs have", evaluate, parents[1], metric="f1")


def test_groups_that_differ_in_their_last_setting_have_different_names_in_the_table(place: Place) -> None:
    settings = [("3e-5", 32, 8), ("1e-4", 32, 8), ("3e-5", 64, 8), ("1e-4", 64, 8), ("3e-5", 64, 16)]
    rows = [(*each, seed, 0.7 + 0.02 * at + 0.01 * seed) for at, each in enumerate(settings) for seed in range(4)]
    columns = ["learning_rate", "per_device_train_batch_size", "lora_rank", "seed", "accuracy"]
    pd.DataFrame(rows, columns=columns).to_csv("scores.csv", index=False)
    table = evaluate("scores.csv").report().table
    assert len({row[0] for row in table.rows}) == 5
