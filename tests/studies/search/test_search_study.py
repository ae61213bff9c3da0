"""Storages, samplers, pruners, planned settings: by name, from seeds, and one clear line where they cannot be."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_l3d.approaches.hyperparameters import SearchChoices, SearchRange, Value
from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.studies.search import optional, samplers, storages
from mlflow_l3d.studies.search.samplers import Stage, planned, pruner_name, pruner_of, sampler_name, sampler_of
from mlflow_l3d.studies.search.space import SearchSpace
from mlflow_l3d.studies.search.storages import public_storage, storage_of, storage_place
from mlflow_l3d.studies.search.study import distributions, open_study, suggest

SPACE = SearchSpace(
    {
        "rate": SearchRange(1e-4, 1e-1, log=True),
        "epochs": SearchRange(5, 50, log=True, whole=True, coarse=(10, 30)),
        "dropout": SearchRange(0.0, 0.5),
        "kind": SearchChoices(("a", "b")),
        "flag": SearchChoices((False, True)),
    },
    fixed={"size": 8},
)
SIZE = 4 * 2 * 3 * 2 * 2


def value_of(params: dict[str, Value]) -> float:
    return -abs(float(params["rate"]) - 1e-2) - float(params["dropout"]) / 10 - (params["kind"] == "b")


def study_in(folder: Path, sampler: str = "random", stage: Stage = "fine", seed: int = 0, storage: str = "auto") -> Any:
    return open_study(storage_of(storage, folder), "a level", sampler_of(sampler, stage=stage, seed=seed), none())


def none() -> Any:
    return pruner_of("none")


def run(study: Any, trials: int, space: SearchSpace = SPACE) -> list[dict[str, Value]]:
    asked = []
    for _ in range(trials):
        trial = study.ask()
        asked.append(suggest(trial, space))
        study.tell(trial, value_of(asked[-1]))
    return asked


def test_distributions_are_those_of_the_ranges() -> None:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    assert distributions(SPACE) == {
        "rate": FloatDistribution(1e-4, 1e-1, log=True),
        "epochs": IntDistribution(5, 50, log=True),
        "dropout": FloatDistribution(0.0, 0.5),
        "kind": CategoricalDistribution(("a", "b")),
        "flag": CategoricalDistribution((False, True)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tpe", "random", "NSGAIISampler", "nsgaiii", "gp"])
def test_every_sampler_suggests_what_the_space_holds(name: str, tmp_path: Path) -> None:
    if name == "gp":
        pytest.importorskip("torch")
    study = study_in(tmp_path, name)
    study.enqueue_trial({"rate": 0.05, "epochs": 7, "dropout": 0.0, "kind": "b", "flag": True})
    asked = run(study, 9)
    assert asked[0] == {"size": 8, "rate": 0.05, "epochs": 7, "dropout": 0.0, "kind": "b", "flag": True}
    assert all(SPACE.contains(each, params[each]) for params in asked for each in SPACE.ranges)
    assert all(type(params["epochs"]) is int and type(params["flag"]) is bool for params in asked)
    assert len({tuple(params.values()) for params in asked}) > 5
    assert study.direction.name == "MAXIMIZE"


def test_tpe_comes_closer_than_it_began(tmp_path: Path) -> None:
    values = [value_of(params) for params in run(study_in(tmp_path, "auto"), 30)]
    assert max(values[:5]) < max(values[15:])
    assert sum(values[:10]) / 10 < sum(values[-10:]) / 10


def test_seeds_decide_what_is_drawn(tmp_path: Path) -> None:
    def first(begun: int = 0, seed: int = 0, stage: Stage = "fine") -> dict[str, Value]:
        folder = tmp_path / f"{begun}-{seed}-{stage}-{len(list(tmp_path.iterdir()))}"
        sampler = sampler_of("tpe", stage=stage, seed=seed, begun=begun)
        return run(open_study(storage_of("auto", folder), "s", sampler, none()), 1)[0]

    assert first() == first()  # zero is a seed
    assert len({first()["rate"], first(seed=1)["rate"], first(begun=3)["rate"], first(stage="coarse")["rate"]}) == 4
    assert first(seed=2**53 - 1)


@pytest.mark.parametrize(
    ("name", "stage", "grid_size", "trials", "short"),
    [
        ("auto", "coarse", 32, 40, "grid"),
        ("auto", "coarse", 32, 32, "grid"),
        ("auto", "coarse", 33, 32, "qmc"),
        ("auto", "fine", 32, 40, "tpe"),
        ("GridSampler", "fine", 99, 3, "grid"),
        ("QMCSampler", "coarse", 3, 99, "qmc"),
        (" TPE ", "coarse", 3, 99, "tpe"),
        ("RandomSampler", "coarse", 3, 99, "random"),
        ("nsga_ii", "coarse", 3, 99, "nsgaii"),
    ],
)
def test_names_of_samplers(name: str, stage: Stage, grid_size: int, trials: int, short: str) -> None:
    assert sampler_name(name, stage=stage, grid_size=grid_size, trials=trials) == short


def test_unknown_samplers_and_missing_packages_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = r"^sampler='tpes': must be one of auto, cmaes, gp, grid, nsgaii, .*\. Did you mean 'tpe'\?$"
    with pytest.raises(ParameterError, match=wanted):
        sampler_of("tpes", stage="fine", seed=0)
    with pytest.raises(ParameterError, match=r"^sampler='BruteForceSampler': must be one of"):
        sampler_of("BruteForceSampler", stage="fine", seed=0)
    monkeypatch.setattr(samplers, "find_spec", lambda name: None)
    wanted = r"^sampler=CmaEsSampler: needs the package cmaes, which is not installed\. Run: pip install cmaes$"
    with pytest.raises(ParameterError, match=wanted):
        sampler_of("CmaEsSampler", stage="fine", seed=0)
    monkeypatch.setattr(optional, "find_spec", lambda name: None)
    with pytest.raises(L3DError, match=r"needs the package optuna\. Run: pip install 'mlflow-l3d\[search\]'$"):
        sampler_of("tpe", stage="fine", seed=0)


def test_cmaes_where_it_is_installed(tmp_path: Path) -> None:
    if importlib.util.find_spec("cmaes") is None:
        with pytest.raises(ParameterError, match="pip install cmaes"):
            sampler_of("cmaes", stage="fine", seed=0)
        return
    assert len(run(study_in(tmp_path, "cmaes"), 9)) == 9


@pytest.mark.parametrize(
    ("name", "short", "kind"),
    [
        ("auto", "median", "MedianPruner"),
        ("none", "none", "NopPruner"),
        ("NopPruner", "none", "NopPruner"),
        ("percentile", "percentile", "PercentilePruner"),
        ("SuccessiveHalvingPruner", "successive_halving", "SuccessiveHalvingPruner"),
        ("hyperband", "hyperband", "HyperbandPruner"),
        ("patient", "patient", "PatientPruner"),
        ("WilcoxonPruner", "wilcoxon", "WilcoxonPruner"),
    ],
)
def test_names_of_pruners(name: str, short: str, kind: str) -> None:
    assert pruner_name(name) == short
    assert type(pruner_of(name)).__name__ == kind


def test_unknown_pruners_are_one_line() -> None:
    with pytest.raises(ParameterError, match=r"^pruner='medain': must be one of auto, .*Did you mean 'median'\?$"):
        pruner_of("medain")


def test_the_default_pruner_ends_what_is_below_the_median(tmp_path: Path) -> None:
    study = open_study(storage_of("auto", tmp_path), "s", sampler_of("random", stage="fine", seed=0), pruner_of("auto"))

    def told(scores: list[float]) -> int | None:
        """Return the epoch after which the trial was told to end."""
        trial = study.ask()
        for epoch, score in enumerate(scores):
            trial.report(score, epoch)
            if trial.should_prune():
                study.tell(trial, state=ended)
                return epoch
        study.tell(trial, scores[-1])
        return None

    from optuna.trial import TrialState

    ended = TrialState.PRUNED
    assert [told([0.1 * n, 0.1 * n, 0.1 * n]) for n in range(5, 0, -1)] == [None] * 5  # nothing to compare with before
    assert told([0.05, 0.06, 0.9]) == 1  # not in the first epoch
    assert told([0.05, 0.9, 0.9]) is None
    assert told([0.36, 0.36, 0.36]) is None  # the median of the second epoch is 0.35


@pytest.mark.parametrize("seed", [0, 1])
def test_a_planned_grid_is_every_combination_once_in_random_order(seed: int) -> None:
    found = planned(SPACE, sampler="grid", stage="coarse", trials=1000, seed=seed)
    assert len(found) == SPACE.grid_size == SIZE
    every = [dict(zip(SPACE.ranges, point, strict=True)) for point in itertools.product(*SPACE.coarse().values())]
    assert sorted(map(str, found)) == sorted(map(str, every))
    assert list(found) != every
    assert found == planned(SPACE, sampler="grid", stage="coarse", trials=1000, seed=seed)
    assert found != planned(SPACE, sampler="grid", stage="coarse", trials=1000, seed=seed + 1)


def test_what_is_tried_anyway_is_not_planned() -> None:
    one = {**SPACE.grid_point(3), "size": 8, "another": 1}
    outside = {**SPACE.grid_point(4), "rate": 3e-4}
    found = planned(SPACE, sampler="grid", stage="coarse", trials=SIZE, seed=0, done=[one, outside, {"rate": 1e-4}])
    assert len(found) == SIZE - 1
    assert SPACE.grid_point(3) not in found
    part = planned(
        SPACE, sampler="grid", stage="coarse", trials=10, seed=0, done=[SPACE.grid_point(n) for n in range(50)]
    )
    assert len(part) == 10
    assert not [point for point in part if point in [SPACE.grid_point(n) for n in range(50)]]


@given(st.integers(1, 60), st.integers(0, 2**53 - 1))
@settings(max_examples=15, deadline=None)
def test_planned_quasi_random_points_are_different_and_inside(trials: int, seed: int) -> None:
    coarse = SPACE.coarse()
    for stage in ("coarse", "fine"):
        found = planned(SPACE, sampler="qmc", stage=stage, trials=trials, seed=seed)
        assert len(found) == len({tuple(point.items()) for point in found}) == trials
        assert all(SPACE.contains(name, value) for point in found for name, value in point.items())
        on_grid = all(value in coarse[name] for point in found for name, value in point.items())
        assert on_grid or stage == "fine"


def test_quasi_random_points_are_balanced_and_run_out() -> None:
    found = planned(SPACE, sampler="qmc", stage="coarse", trials=32, seed=0)
    assert set(Counter(point["rate"] for point in found).values()) <= {7, 8, 9}
    fine = planned(SPACE, sampler="qmc", stage="fine", trials=64, seed=0)
    assert 30 <= sum(float(point["rate"]) < 10**-2.5 for point in fine) <= 34  # the middle on the scale of logarithms
    assert {type(point["epochs"]) for point in fine} == {int}
    small = SearchSpace({"kind": SearchChoices(("a", "b")), "epochs": SearchRange(1, 2, whole=True)})
    assert len(planned(small, sampler="qmc", stage="coarse", trials=9, seed=0)) == 4
    assert planned(small, sampler="tpe", stage="coarse", trials=9, seed=0) == ()
    assert planned(SearchSpace({}), sampler="grid", stage="fine", trials=9, seed=0) == ()
    huge = SearchSpace({f"x{n}": SearchRange(1e-9, 1.0, log=True) for n in range(40)})
    assert len(planned(huge, sampler="grid", stage="coarse", trials=5, seed=0)) == 5


@pytest.mark.parametrize("kind", ["auto", "journal", "sqlite"])
def test_a_study_goes_on_where_it_was(kind: str, tmp_path: Path) -> None:
    text = {"auto": "auto", "journal": str(tmp_path / "my.log"), "sqlite": f"sqlite:///{tmp_path / 'my.db'}"}[kind]
    run(study_in(tmp_path / "made", storage=text), 3)
    study = study_in(tmp_path / "made", storage=text)
    assert [trial.number for trial in study.trials] == [0, 1, 2]
    assert (tmp_path / "made" / "optuna.log").is_file() == (kind == "auto")


def test_workers_open_the_place_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert storage_place("auto", Path("made")) == str(tmp_path / "made" / "optuna.log")
    assert storage_place("my.log", Path("made")) == str(tmp_path / "my.log")
    assert storage_place("sqlite:///my.db", Path("made")) == f"sqlite:///{tmp_path / 'my.db'}"
    assert storage_place("postgresql://u:p@h/d", Path("made")) == "postgresql://u:p@h/d"
    for text in ("auto", "my.log", "sqlite:///my.db"):
        place = storage_place(text, Path("made"))
        assert storage_place(place, Path("elsewhere")) == place
        run(study_in(Path("made"), storage=text), 1)
        assert len(study_in(Path("elsewhere"), storage=place).trials) == 1
    assert not Path("elsewhere").exists()


def test_a_line_that_a_killed_process_did_not_end_is_cut_off(tmp_path: Path) -> None:
    run(study_in(tmp_path), 3)
    path = tmp_path / "optuna.log"
    whole = path.read_bytes()
    for torn in (b'{"op_code":5,"worker', whole.splitlines()[-1][:-1]):
        path.write_bytes(whole + torn)
        study = study_in(tmp_path)
        assert len(study.trials) == 3
        assert path.read_bytes().startswith(whole)
        assert [json.loads(line)["op_code"] for line in path.read_bytes()[len(whole) :].splitlines()] == [0]  # opened
    run(study, 2)
    assert len(study_in(tmp_path).trials) == 5
    assert sorted(each.name for each in tmp_path.iterdir()) == ["optuna.log", "optuna.log.flock"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere", r"^storage=nowhere: must be auto, a path that ends in \.log, or the URL of a database"),
        ("{folder}/no/x.log", r"^storage=x\.log: cannot be reached \(its folder does not exist\)\. Mend that, or use"),
        ("sqlite:///{folder}/no/x.db", r"^storage=sqlite:///x\.db: cannot be reached \(unable to open database file\)"),
        ("sqlite:///{folder}/text.db", r"^storage=sqlite:///text\.db: cannot be reached \(file is not a database\)"),
        ("{folder}/text.log", r"^storage=text\.log: cannot be reached \("),
        ("{folder}/folder.log", r"^storage=folder\.log: cannot be reached \(is a directory\)"),
        ("sqlite://", r"^storage=sqlite://: lives in one process only\. Use auto\.$"),
        (
            "redis://u:secret@h/0",
            r"^storage=redis://h/0: cannot be reached \(SQLAlchemy knows no such kind",
        ),
        ("sqlite+nodriver:///x.db", r"cannot be reached \("),
    ],
)
def test_a_storage_that_cannot_be_reached_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("these are no trials\n" * 99, encoding="utf-8")
    (tmp_path / "text.log").write_text("these are no trials\n" * 99, encoding="utf-8")
    (tmp_path / "folder.log").mkdir()
    with pytest.raises(ParameterError, match=message) as raised:
        storage_of(text.format(folder=tmp_path), tmp_path)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ParameterError, match=r"^storage=auto: cannot be reached \(.+\)\. Name another\.$"):
        storage_of("auto", tmp_path / "file" / "folder")


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.execute("CREATE TABLE experiments (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(ParameterError, match=r"^storage=sqlite:///mlflow\.db: is the database of another program\."):
        storage_of(f"sqlite:///{path}", tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('connection failed: FATAL: password authentication failed for user "bob"', "the server refused the login"),
        ("connection to server at 10.0.0.9 failed: Connection refused\nIs it running?", "failed: Connection refused)"),
    ],
)
def test_neither_user_nor_password_is_shown(
    said: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlalchemy

    def refuse(*_: object, **__: object) -> None:
        raise sqlalchemy.exc.OperationalError("SELECT 1", {}, RuntimeError(said))

    monkeypatch.setattr(sqlalchemy, "create_engine", refuse)
    with pytest.raises(ParameterError) as raised:
        storage_of("postgresql://bob:s3cr@t@10.0.0.9:5432/trials?password=s3cret", tmp_path)
    text = str(raised.value)
    assert text.startswith("storage=postgresql://10.0.0.9:5432/trials: cannot be reached (")
    assert shown in text
    assert not [word for word in ("bob", "s3cr", "SELECT") if word in text]
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("/home/bob/optuna.log", "optuna.log"),
        ("sqlite:////home/bob/my.db", "sqlite:///my.db"),
        ("postgresql+psycopg://bob:p@ss@host:1/trials?sslmode=require", "postgresql+psycopg://host:1/trials"),
        ("auto", "auto"),
    ],
)
def test_what_is_logged_of_a_storage(text: str, public: str) -> None:
    assert public_storage(text) == public


def test_optuna_is_quiet_but_warns(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import optuna

    run(study_in(tmp_path), 2)
    assert optuna.logging.get_verbosity() == optuna.logging.WARNING
    assert capfd.readouterr().err == ""
    assert storages.AUTO == "auto"
