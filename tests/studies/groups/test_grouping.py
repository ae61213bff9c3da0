"""Which parameters are seeds, names of runs or settings, and the groups that remain."""

from __future__ import annotations

import pytest
from groups_cases import grouped, sets
from refusals import refuses

from mlflow_l3d.studies.groups.numbers.grouping import canonical

SEEDS = ["seed", "random_state", "svc__random_state", "random_seed", "data_seed", "seed_everything", "model.seed"]
SEEDS += [
    "tags.seed",
    "randomState",
    "torch-manual-seed",
    "cv_fold",
    "replicate",
    "rng",
    "PYTHONHASHSEED",
    "cv_split",
    "seed0",
]


@pytest.mark.parametrize("name", SEEDS)
def test_names_of_seeds(name: str) -> None:
    rows = [{"lr": rate, name: seed} for rate in ("0.1", "0.2") for seed in ("1", "2", "None")]
    grouping = grouped(rows)
    assert sets(grouping) == [[0, 1, 2], [3, 4, 5]]
    assert grouping.seeds == (name if "." in name else f"params.{name}",)
    assert grouping.names == ("lr=0.1", "lr=0.2")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *[("n_seeds", "12"), ("k_fold", "12"), ("seed_model", "ab"), ("repeat", "13"), ("repetition_penalty", "12")],
        *[("fold_dim", "12"), ("seed_fraction", "12"), ("initial_seeds", "12"), ("use_seed", "01"), ("seed_lr", "12")],
        *[("learning_rate_seed", "12"), ("epsilon_end", "12"), ("lr_start", "12"), ("checkpoint_path", "ab")],
        *[("model_run_id", "ab"), ("results_file", "ab"), ("work_dir", "ab"), ("prompt_repetition", "14")],
    ],
)
def test_other_numbers_with_such_words_are_settings(name: str, values: str) -> None:
    rows = [{name: value, "seed": seed} for value in values for seed in "123"]
    assert sets(grouped(rows)) == [[0, 1, 2], [3, 4, 5]]


def test_numbers_written_differently_are_one_value_and_none_is_another() -> None:
    rows = [{"lr": text, "seed": str(at)} for at, text in enumerate(["0.001", "1e-3", "0.0010", None, "0.002", None])]
    grouping = grouped(rows)
    assert sets(grouping) == [[0, 1, 2], [3, 5], [4]]
    assert grouping.names == ("lr=0.001", "lr=not logged", "lr=0.002")
    assert canonical("12345678901234567890") == "12345678901234567890"  # a seed of 64 bits keeps its digits


def test_versions_and_ids_stay_texts() -> None:
    rows = [{"dataset_version": text, "lr": "0.1"} for text in ("1.1", "1.10", "1.1", "1.10")]
    assert sets(grouped(rows)) == [[0, 2], [1, 3]]
    assert sets(grouped([{"zone": text, "seed": seed} for text in ("00123", "123") for seed in "12"])) == [
        [0, 1],
        [2, 3],
    ]


def test_a_seed_may_make_groups_and_one_without_a_value_is_not_fixed() -> None:
    rows = [{"lr": rate, "seed": seed, "random_state": "None"} for rate in "12" for seed in "345"]
    assert grouped(rows, group_by="params.seed").names == ("seed=3", "seed=4", "seed=5")
    assert grouped(rows).fixed_seeds == ()


def test_folders_names_times_and_inner_seeds_of_a_run_split_no_groups() -> None:
    rows = [
        {
            "learning_rate": rate,
            "seed": str(seed),
            "output_dir": f"/home/me/out/{rate}-{seed}",
            "logging_dir": f"runs/{'Nov' if seed % 2 else 'Dec'}{seed}_host",
            "run_name": f"x-{rate}-{seed}",
            "started": f"2026-01-0{seed + 1} 10:11:12",
            "steps": f"[('svc', SVC(C={rate}, random_state={seed}))]",
            "trial": str(seed),
        }
        for rate in ("0.1", "0.2")
        for seed in range(3)
    ]
    grouping = grouped(rows)
    assert sets(grouping) == [[0, 1, 2], [3, 4, 5]]
    assert set(grouping.seeds) == {"params.seed", "params.trial"}
    assert set(grouping.ignored) == {f"params.{name}" for name in ("output_dir", "logging_dir", "run_name", "started")}


def test_data_and_models_are_settings_although_they_are_paths() -> None:
    rows = [{"model_name_or_path": f"/models/{name}", "seed": seed} for name in "ab" for seed in "12"]
    assert sets(grouped(rows)) == [[0, 1], [2, 3]]


def test_a_search_is_not_merged() -> None:
    rows = [{"lr": str(0.1 * at), "seed": str(at)} for at in range(6)]
    assert len(grouped(rows).names) == 6


def test_naming_schemes_distinguish_groups_if_nothing_else_does() -> None:
    rows = [{"seed": str(at % 3)} for at in range(6)]
    names = [f"{kind}-{at}" for kind in ("baseline", "new") for at in range(3)]
    assert sets(grouped(rows, names)) == [[0, 1, 2], [3, 4, 5]]
    random = ["bold-lark-12", "calm-fox-3", "shy-owl-7", "red-ant-1", "big-cat-2", "old-dog-9"]  # as MLflow's own are
    assert sets(grouped(rows, random)) == [[0, 1, 2, 3, 4, 5]]


def test_tags_distinguish_groups_if_each_value_is_in_several_runs() -> None:
    rows = [
        {"depth": "3", "random_state": seed, "tags.estimator": name, "tags.host": f"{name}{seed}"}
        for name in "ab"
        for seed in "12"
    ]
    grouping = grouped(rows)
    assert (sets(grouping), [*grouping.ignored]) == ([[0, 1], [2, 3]], ["tags.host"])


def test_long_values_that_are_cut_to_the_same_text_stay_two_groups() -> None:
    rows = [{"prompt": f"{'x' * 60}{end}", "seed": seed} for end in "ab" for seed in "12"]
    assert len(set(grouped(rows).names)) == 2


def test_what_the_user_names_decides() -> None:
    rows = [{"lr": rate, "depth": depth, "noise": seed} for rate in "12" for depth in "12" for seed in "345"]
    assert len(grouped(rows).names) == 12
    assert len(grouped(rows, seed="params.noise").names) == 4
    by_rate = grouped(rows, group_by="lr", seed="noise")
    assert (by_rate.names, [*by_rate.ignored]) == (("lr=1", "lr=2"), ["params.depth"])
    assert len(grouped([{**row, "seed": "1"} for row in rows], seed="none").names) == 12
    refuses(r"^group_by='params.rate': must be one that the runs have: params.depth", grouped, rows, group_by="rate")


def test_a_seed_that_is_the_same_in_all_runs_is_named() -> None:
    assert grouped([{"lr": rate, "seed": "42"} for rate in "1122"]).fixed_seeds == ("params.seed",)
