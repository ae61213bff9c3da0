"""Which existing runs differ by luck alone: what seeds and names of runs look like, and the groups that remain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlflow_l3d.analysis.intervals import IntArray
from mlflow_l3d.errors import ParameterError, unknown_name
from mlflow_l3d.privacy import public_text
from mlflow_l3d.report.numbers import shorten
from mlflow_l3d.studies.groups.numbers.settings import JOINED, varying_settings

AUTO: Final = "auto"
NONE: Final = "none"
NO_VALUE: Final = "None"
NOT_LOGGED: Final = "not logged"
"""Texts of a parameter without a value, and of one that a run lacks."""
_SEED: Final = re.compile(
    "(.*_)?(seed|random_state|rng(_state)?|fold|replicate|cv_split|pythonhashseed)(_(id|idx|index|value|everything))?"
)
"""Names of seeds: others with such words are settings, as seed_fraction, fold_dim and repetition_penalty."""
_PERHAPS: Final = re.compile("(.*_)?(repeat|rep|repetition|replication|run|trial|attempt)(_(id|idx|index|number))?")
"""Names of numbers that are seeds if they differ in all runs of every group: repeat=3 may be a setting."""
_OF_MACHINE: Final = re.compile(
    r"(.*[_.\-/])?(time_?stamp|date_?time|(start|end)(_?time|_at|ed)|(created|started)(_?(time|at|on))?|uu?id|host(_?name)?|pid"
    r"|local_rank|gpu_id)",
    re.IGNORECASE,
)
"""Names of times and machines: never settings."""
_WRITES: Final = re.compile(
    r"(.*[_.\-/])?((output|out|log|logging|save|saving|results?|checkpoints?|ckpt|cache|work|working|tmp|temp|tensorboard|"
    r"tb|run|wandb|artifacts?)[_-]?(dir|path|folder|directory|root|file|uri|url)"
    r"|(run|job|trial|process|wandb|slurm)[_-]?(name|id)|(push_to_)?hub_model_id)",
    re.IGNORECASE,
)
"""Names of what a run writes, and of runs: settings only if each value is in two runs or more."""
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Grouping:
    """How runs are grouped.

    Attributes
    ----------
    group
        Shape (n,): the number of the group of each run.
    names
        What distinguishes each group, in words.
    seeds, fixed_seeds
        Names of seeds, and of seeds with one value in all runs.
    seed_values, settings, ignored
        One row per run: values of seeds, of what distinguishes groups, and of what else varies; equal values are equal
        texts.
    """

    group: IntArray
    names: tuple[str, ...]
    seeds: tuple[str, ...]
    fixed_seeds: tuple[str, ...]
    seed_values: pd.DataFrame
    settings: pd.DataFrame
    ignored: pd.DataFrame

    @property
    def known_seeds(self) -> pd.DataFrame:
        """The seeds of each run; a missing one is like no other."""
        seeds = self.seed_values.reset_index(drop=True)
        unknown = "run " + pd.Series(seeds.index, dtype=str)
        return seeds.mask(seeds.isin([NO_VALUE, NOT_LOGGED]), unknown, axis=0)

    @property
    def is_plain(self) -> bool:
        """Whether all runs are of one group, and no two of them share a seed."""
        seeds = self.known_seeds
        return len(self.names) == 1 and not any(seeds[name].duplicated().any() for name in seeds)


def canonical(text: str) -> str:
    """Return a value as equal values have it: numbers in one form, no seeds in descriptions of objects.

    Examples
    --------
    >>> [canonical(text) for text in ("1e-3", "0.0010", "007", "null", "SVC(random_state=3)", "cuda:1")]
    ['0.001', '0.001', '007', 'None', 'SVC(random_state=*)', 'cuda']
    """
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return text
    if text.lower() in ("true", "false"):
        return text.capitalize()
    if text.lower() in ("", "none", "null", "nan"):
        return NO_VALUE
    with suppress(ValueError):
        if not re.match(r"-?0\d", text) and np.isfinite(number := float(text)):
            return f"{number:.15g}"
    seedless = re.sub(r"((?:\w*seed|random_state)['\"]?\s*[=:]\s*)(?:\d+|None|null)", r"\1*", text)
    return re.sub(r"\bcuda:\d+\b", "cuda", seedless)


def group_runs(params: pd.DataFrame, names: pd.Series, *, group_by: str = AUTO, seed: str = AUTO) -> Grouping:
    """Return the groups of runs that differ by seeds alone.

    Parameters
    ----------
    params
        One row per run: texts as categories, by ``params.NAME`` and ``tags.NAME``.
    names
        The runs' own names.
    group_by, seed
        Names of columns, separated by commas (without prefix: a parameter), or ``auto``; no seeds if ``none``.

    Raises
    ------
    ParameterError
        If a column is not there.

    Notes
    -----
    Tags, paths, and names of runs without their digits distinguish groups if each of their texts is in two runs or
    more: ``baseline-1, baseline-2, new-1, new-2`` are two groups even if nothing else was logged.
    """
    columns = [str(name) for name in params if params[name].notna().any()]
    asked_keys = [] if group_by == AUTO else _columns("group_by", group_by, columns)
    asked_seeds = [] if seed in (AUTO, NONE) else _columns("seed", seed, columns)
    several = [name for name in columns if params[name].nunique(dropna=False) > 1]
    used = dict.fromkeys([*several, *asked_keys, *asked_seeds])  # of many runs the texts of all would take much memory
    values = pd.DataFrame({name: _texts(params[name]) for name in used}, params.index)
    varying = [name for name in several if values[name].nunique() > 1]
    seeds = [name for name in varying if is_seed(name) and _are_whole(values[name])]
    seeds = [name for name in (seeds if seed == AUTO else asked_seeds) if name not in asked_keys]
    writes = [name for name in varying if _WRITES.fullmatch(name) or _OF_MACHINE.fullmatch(name)]
    if group_by == AUTO:
        keys = [name for name in varying if name.startswith("params.") and name not in (*seeds, *writes)]
        perhaps = [name for name in keys if _sounds_like(_PERHAPS, name) and _are_whole(values[name])]
        if seed == AUTO:
            surely = pd.Series(_numbered(values[[key for key in keys if key not in perhaps]]), values.index)
            seeds += [name for name in perhaps if _differs_in_groups(surely, values[name])]
        settings = values[[name for name in keys if name not in seeds]].copy()
        tags = [name for name in varying if name.startswith("tags.") and not name.startswith("tags.mlflow.")]
        schemes = {"run name": names.str.replace(r"\d+", "#", regex=True)}
        schemes |= {name: values[name] for name in dict.fromkeys([*writes, *tags]) if not _OF_MACHINE.fullmatch(name)}
        for name, texts in schemes.items():
            if name not in seeds and _splits(_numbered(settings), texts):
                settings[name] = texts
    else:
        settings = values[[name for name in asked_keys if name not in seeds]]
    group = _numbered(settings)
    labels = pd.Series(_labels(settings.iloc[np.unique(group, return_index=True)[1]]))
    again = labels.groupby(labels).cumcount()  # long values may be cut to the same text
    labels = labels.where(again == 0, labels + " (" + (again + 1).astype(str) + ")")
    rest = values[[name for name in varying if name not in (*seeds, *settings)]]
    fixed = [name for name in columns if is_seed(name) and name not in (*varying, *settings)]
    fixed = [name for name in fixed if {*map(canonical, params[name].dropna().unique())} != {NO_VALUE}]
    return Grouping(group, tuple(labels), tuple(seeds), tuple(fixed), values[seeds], settings, rest)


def params_of(settings: pd.DataFrame) -> pd.DataFrame:
    """Return settings, texts in one column each, as :func:`group_runs` takes them."""
    return settings.astype(object).astype("category").add_prefix("params.")


def chosen_runs(params: pd.DataFrame, only: Mapping[str, str]) -> npt.NDArray[np.bool_]:
    """Return which runs have these values; raise a ParameterError if none has, or a column is not there."""
    names = _columns("only", ",".join(only), [str(name) for name in params])
    is_chosen = np.ones(len(params), dtype=bool)
    for name, value in zip(names, only.values(), strict=True):
        is_chosen &= _texts(params[name]) == _canonical_of(name)(value)
    if not is_chosen.any():
        listed = ",".join(f"{name}={value}" for name, value in only.items())
        raise ParameterError("only", listed, "no run has these", "Name values that one run has.")
    return is_chosen


def _canonical_of(name: object) -> Callable[[str], str]:
    """Return what equal values of a column have in common."""
    # Texts that may look like numbers: version 1.10 is not 1.1.
    exact = {"version", "id", "commit", "hash", "sha", "revision", "release", "code"}
    return canonical if exact.isdisjoint(_snake(str(name)).split("_")) else str.strip


def _texts(column: pd.Series) -> npt.NDArray[np.object_]:
    """Return the canonical texts of categories."""
    levels = np.array([*map(_canonical_of(column.name), column.cat.categories), NOT_LOGGED], dtype=object)
    return levels[column.cat.codes]


def _columns(parameter: str, text: str, there: Sequence[str]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    names = [name if name.startswith(("params.", "tags.")) else f"params.{name}" for name in names]
    for name in names:
        if name not in there:
            raise unknown_name(parameter, name, there, "one that the runs have:")
    return names


def _snake(name: str) -> str:
    """Return a name without prefix and digits, as ``model_random_state`` of ``params.model.randomState2``."""
    return "_".join(re.findall("[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", short_name(name)).lower()))


def _sounds_like(names: re.Pattern[str], name: str) -> bool:
    # Counts, rates and switches are settings: n_seed, k_fold, use_seed.
    settings = {"n", "num", "number", "count", "total", "k", "use", "rate", "lr"}
    return bool(names.fullmatch(words := _snake(name))) and settings.isdisjoint(words.split("_"))


def is_seed(name: str) -> bool:
    """Return whether a parameter has the name of a seed."""
    return _sounds_like(_SEED, name)


def _are_whole(values: pd.Series) -> bool:
    return all(_WHOLE.fullmatch(text) for text in {*values} - {NO_VALUE, NOT_LOGGED})


def _numbered(settings: pd.DataFrame) -> IntArray:
    """Return the number of the combination of values of each run, in the order in which they occur."""
    if settings.columns.empty:
        return np.zeros(len(settings), dtype=np.int64)
    return np.asarray(settings.groupby([*settings], sort=False).ngroup(), dtype=np.int64)


def _differs_in_groups(group: pd.Series, values: pd.Series) -> bool:
    """Return whether runs of one group always have different values, and some group has several runs."""
    return bool(group.duplicated().any() and not pd.concat([group, values], axis=1).duplicated().any())


def _splits(group: IntArray, scheme: pd.Series) -> bool:
    """Return whether a naming scheme distinguishes runs within groups, and each of its kinds has two runs or more."""
    sizes = scheme.groupby([group, scheme.to_numpy()]).size()
    kinds = sizes.groupby(level=0).transform("size")
    return bool(scheme.notna().all() and (kinds > 1).any() and (sizes[kinds > 1] > 1).all())


def _labels(settings: pd.DataFrame) -> Iterator[str]:
    """Yield what distinguishes each group: of settings that always change together the first."""
    if settings.columns.empty:
        yield "all runs"
        return
    varying = [name.split(JOINED)[0] for name in varying_settings(settings)[0]] or [*settings][:1]
    for row in settings[varying].itertuples(index=False, name=None):
        parts = [f"{short_name(name)}={shorten(value, 40)}" for name, value in zip(varying, row, strict=True)]
        is_plain = all(re.fullmatch(r"[-+.e\d]+", value) for value in row)
        yield ", ".join(parts if is_plain else map(public_text, parts))


def short_name(column: str) -> str:
    """Return the name of a parameter or tag without what it is."""
    return column.removeprefix("params.").removeprefix("tags.")


def short_names(columns: Iterable[str]) -> dict[str, str]:
    """Return the short name of each column, and its own if two would be alike."""
    names = {each: short_name(each) for each in columns}
    return {each: short if [*names.values()].count(short) == 1 else each for each, short in names.items()}
