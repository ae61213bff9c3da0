"""The decorator, and estimators of scikit-learn: what decides a result is in the key, or a factor."""

import hashlib
import importlib
import linecache
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mlflow_l3d import training
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.functions.approach import FunctionApproach
from mlflow_l3d.approaches.functions.estimator import Estimator, random_states
from mlflow_l3d.approaches.functions.versions import OwnChanges, content_texts
from mlflow_l3d.approaches.hyperparameters import Hyperparameter
from mlflow_l3d.errors import ParameterError
from mlflow_l3d.execution.processes import pickled
from mlflow_l3d.tasks.settings import SplitSettings
from mlflow_l3d.tasks.sources.packaged import generate
from mlflow_l3d.testing import one_cell

MODULE = """
from mlflow_l3d import training

LIMIT = 3
UNUSED = 1

class Model:
    def fit(self):
        return helper()

@training(factors=["data_order"], hyperparameters={"rate": 0.5})
def mine(task, split, seeds, hyperparameters):
    return [Model().fit() for _ in split.test]

def helper():
    return (lambda: LIMIT)() % 2
"""


def small_task():
    return replace(generate(60, 2), settings=SplitSettings(num_labelled=16, test_size=10))


def outcome(approach, task=None, **moved):
    session = approach.prepare(
        task or small_task(), resolve_hyperparameters(approach, {}), model="", device="cpu", cache=None
    )
    cell = one_cell(approach.factors)
    (found,) = session.run([replace(cell, seeds={**cell.seeds, **moved})])
    assert found.error is None
    return found


@pytest.fixture
def source_of(tmp_path, monkeypatch):
    """Import the module with something else in it, and return the approach and what its key has."""
    monkeypatch.syspath_prepend(tmp_path)
    count = iter(range(100))

    def made(old="", new=""):
        name = f"mine_{next(count)}"
        assert old in MODULE
        (tmp_path / f"{name}.py").write_text(MODULE.replace(old, new, 1))
        importlib.invalidate_caches()
        approach = importlib.import_module(name).mine
        return approach, approach.dependencies({}, "")

    return made


def test_the_key_has_the_source_and_all_that_it_names(source_of):
    approach, before = source_of()
    assert (approach.name, approach.version) == ("mine", "1")
    assert approach.factors == ("label_selection", "data_split", "data_order")
    assert approach.hyperparameters["rate"] == Hyperparameter(0.5, "rate")
    assert source_of("UNUSED = 1", "UNUSED = 2")[1] == before
    for old, new in (("LIMIT = 3", "LIMIT = 4"), ("% 2", "% 3"), ("return helper()", "return 1 + helper()")):
        assert source_of(old, new)[1] != before
    assert source_of('factors=["data_order"]', 'factors=["data_order"], version="7"')[1] == {}


DATA = """
import argparse, dataclasses, enum, functools, logging, pathlib, random, re, threading
import numpy as np, pandas as pd, pydantic, scipy.sparse, torch
from mlflow_l3d import training

log = logging.getLogger("mine")

@dataclasses.dataclass
class Config:
    rate: float

class Kind(enum.Enum):
    ONE = "one"

class Fields(pydantic.BaseModel):
    rate: float

def scale(x):
    return x * 2

def enclosed(held):
    def inner(x=0):
        return x, held
    return inner

D = PLACE

def helper(by=D):
    return by, D

@training(factors=["data_order"])
def mine(task, split, seeds, hyperparameters):
    log.info("%s", random.shuffle)
    return helper()
"""
LEN = "builtin_function_or_method builtins.len"
FRAME = "pd.DataFrame({'a': [1, 2], 'b': ['x', None]}, index=['r', 's'])"
SPARSE = "scipy.sparse.csr_array(np.eye(3))"


@pytest.fixture
def version_with(tmp_path, monkeypatch):
    """Return what the key has of a function that refers to an expression."""

    def made(expression):
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "data_of_mine.py").write_text(DATA.replace("PLACE", "0"))
        module = importlib.reload(importlib.import_module("data_of_mine"))
        monkeypatch.setattr(module, "D", eval(expression, vars(module)))
        return module.mine.dependencies({}, "")["source"]

    return made


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("np.arange(5000.0)", "np.where(np.arange(5000.0) == 2500, 0, np.arange(5000.0))"),
        ("np.zeros((2, 3))", "np.zeros((3, 2))"),
        ("np.zeros(2)", "np.zeros(2, dtype=np.int64)"),
        ("np.array([{'a': 1}, 'b'], dtype=object)", "np.array([{'a': 2}, 'b'], dtype=object)"),
        (FRAME, FRAME.replace("2]", "3]")),
        (FRAME, FRAME.replace("'s'", "'t'")),
        (FRAME, FRAME.replace("'b':", "'c':")),
        (FRAME, FRAME + ".astype({'a': 'Int32'})"),
        ("pd.Series([1, 2], name='a')", "pd.Series([1, 2], name='b')"),
        ("pd.Series(pd.Categorical(['x']))", "pd.Series(pd.Categorical(['x'], ['x', 'y']))"),
        (SPARSE, SPARSE + " * 2"),
        ("torch.zeros(2, dtype=torch.bfloat16, requires_grad=True)", "torch.ones(2, dtype=torch.bfloat16)"),
        ("[1, [2]]", "[1, [3]]"),
        ("{'a': {1}}", "{'a': {2}}"),
        ("b'a'", "b'b'"),
        ("pathlib.Path('a')", "pathlib.Path('b')"),
        ("Config(0.1)", "Config(0.2)"),
        ("argparse.Namespace(a=[1])", "argparse.Namespace(a=[2])"),
        ("functools.partial(scale, 2)", "functools.partial(scale, 3)"),
        ("functools.cache(scale)", "functools.cache(enclosed)"),
        ("enclosed([1])", "enclosed([2])"),
        ("{'f': scale}", "{'f': enclosed}"),
        ("Kind.ONE", "'one'"),
        ("Fields(rate=1)", "Fields(rate=2)"),
        ("tuple[int, str]", "tuple[int, int]"),
    ],
)
def test_the_data_of_a_function_are_in_its_key(version_with, one, other):
    assert version_with(one) == version_with(one) != version_with(other)


def test_text_of_data_has_no_order_and_no_address_of_this_process():
    letters = "', '".join("abcdefgh")
    texts = content_texts({(1, frozenset("abcdefgh")): [len, np.zeros(2)]}, "x")
    array = f"ndarray(<f8, (2,), {hashlib.sha256(bytes(16)).hexdigest()})"
    assert texts["x"] == f"{{(1, frozenset('{letters}')): [{LEN}, {array}]}}"


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("threading.Event()", "D, of type Event"),
        ("{'x': [threading.Event()]}", "D['x'][0], of type Event"),
        ("pd.DataFrame({'a': [threading.Lock()]})", "D, of type DataFrame"),
        ("np.random.default_rng(0)", "D, of type Generator"),
        ("functools.partial(scale, open)", ""),
        ("enclosed(threading.Event())", "D.held, of type Event"),
        ("np.ma.masked_array([1, 2], [True, False])", "D, of type MaskedArray"),
        ("torch.nn.Linear(1, 1)", "D, of type Linear"),
    ],
)
def test_of_what_is_not_known_a_version_is_asked_for(version_with, expression, named):
    if not named:
        assert version_with(expression)
        return
    with pytest.raises(ParameterError, match=rf'^function=mine: refers to {re.escape(named)}.*version="1"'):
        version_with(expression)


def test_data_that_change_in_a_notebook_make_another_version(source_of, monkeypatch):
    approach, before = source_of()
    monkeypatch.setitem(approach.function.__globals__, "LIMIT", np.arange(3))
    assert approach.dependencies({}, "") != before


@pytest.mark.parametrize("version", ["", "1"])
def test_a_table_is_read_once_and_not_when_the_job_is_pickled(version, monkeypatch):
    table, read = np.arange(5000.0), []

    def mine(task, split, seeds, hyperparameters):
        return table

    def sha256(content):
        read.append(len(content))
        return hashed(content)

    hashed = hashlib.sha256
    monkeypatch.setattr("mlflow_l3d.approaches.functions.content.hashlib.sha256", sha256)
    approach = training(factors=[], version=version)(mine)
    approach.dependencies({}, "")
    approach.own_changes().note()
    assert len(pickled(approach, "processes")) > 40_000
    assert read.count(40_000) == (not version)


def test_a_variable_of_a_module_is_not_read_when_the_job_is_pickled(source_of, monkeypatch):
    approach, _ = source_of()
    monkeypatch.setitem(approach.function.__globals__, "LIMIT", np.arange(5000.0))
    monkeypatch.setattr("mlflow_l3d.approaches.functions.content.hashlib.sha256", None)
    assert [value.size for value in approach.__getstate__()["carried"].values()] == [5000]


def test_a_worker_needs_no_source(source_of, tmp_path):
    import pickle

    approach, before = source_of()
    for file in tmp_path.glob("mine_*.py"):
        file.unlink()
    copy = pickle.loads(pickled(approach, "processes"))
    assert copy.dependencies({}, "") == before
    assert outcome(copy).predictions.tolist() == [1] * 10
    assert copy(None, replace(small_task().split(one_cell(copy.factors).seeds), test=np.arange(2)), {}, {}) == [1, 1]


def test_a_function_without_source_needs_a_version():
    names = {"__name__": "nowhere"}
    exec(compile("def typed(task, split, seeds, hyperparameters):\n    return 0", "<nowhere>", "exec"), names)
    with pytest.raises(ParameterError, match=r"^function=typed: has no source.*Give a version"):
        training(factors=[])(names["typed"]).dependencies({}, "")
    assert training(factors=[], version="1")(names["typed"]).dependencies({}, "") == {}


class Recorded(ClassifierMixin, BaseEstimator):
    """Says what it was fitted with."""

    seen: ClassVar[list[tuple[int, int, list[str]]]] = []

    def __init__(self, random_state=None, inner=None):
        self.random_state, self.inner = random_state, inner

    def fit(self, texts, labels):
        """Note everything that may be drawn."""
        self.seen.append((self.random_state, self.inner.random_state, texts))
        return self

    def predict(self, texts):
        """Name one class."""
        return np.zeros(len(texts), dtype=np.int64)


def test_every_random_state_has_a_stream_of_its_own_and_the_order_another():
    inner = RandomForestClassifier(random_state=7)
    approach = Estimator(Recorded(inner=inner))
    assert random_states(approach.estimator) == ("inner__random_state", "random_state")
    assert (approach.name, approach.self_tested) == ("recorded", True)
    for moved in ({}, {}, {"model_initialisation": 5}, {"data_order": 5}):
        outcome(approach, **moved)
    first, again, drawn, ordered = Recorded.seen
    assert first == again
    assert first[0] != first[1] != 7
    assert {first[0], first[1]}.isdisjoint(drawn[:2])
    assert first[2] == drawn[2]
    assert first[:2] == ordered[:2]
    assert first[2] != ordered[2]
    assert sorted(first[2]) == sorted(ordered[2])
    assert inner.random_state == 7


def test_what_an_estimator_says_is_in_the_key():
    keys = {
        Estimator(make_pipeline(CountVectorizer(), RandomForestClassifier(trees))).dependencies({}, "")["estimator"]
        for trees in (3, 3, 4)
    }
    assert len(keys) == 2


def test_functions_and_arrays_of_an_estimator_are_in_the_key():
    given = [len, small_task, outcome, np.arange(5000.0), np.arange(5000.0) * (np.arange(5000) != 9)]
    made = [Estimator(Recorded(inner=each), random_state="").dependencies({}, "")["estimator"] for each in given]
    assert len(set(made)) == len(made)


OWN = """
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

def shorter(texts):
    return [text[:9] for text in texts]

class Shorter(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None): return self
    def transform(self, X): return shorter(X)
"""


def test_methods_of_an_estimator_of_ones_own_are_in_the_key(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for number, source in enumerate((OWN, OWN, OWN.replace("[:9]", "[:8]"))):
        (tmp_path / f"own_{number}.py").write_text(source)
        shorter = importlib.import_module(f"own_{number}").Shorter()
        steps = make_pipeline(shorter, CountVectorizer(), RandomForestClassifier(3))
        keys.append(Estimator(steps).dependencies({}, "")["estimator"])
    assert keys[0] == keys[1] != keys[2]


def test_an_estimator_without_a_random_state():
    steps = make_pipeline(CountVectorizer(preprocessor=small_task), MultinomialNB())
    with pytest.raises(ParameterError, match=r"random_state=model_initialisation: has no effect: MultinomialNB"):
        Estimator(steps)
    assert Estimator(steps, random_state="").factors == ("label_selection", "data_split", "data_order")
    assert " at 0x" not in str(Estimator(steps, random_state="").dependencies({}, ""))


@pytest.mark.parametrize(("last", "classes"), [(MultinomialNB(), 3), (LinearSVC(), 2), (LinearSVC(), 3)])
def test_class_scores_name_the_class_that_is_predicted(last, classes):
    task = replace(generate(90, classes), settings=SplitSettings(num_labelled=20, test_size=18))
    steps = make_pipeline(CountVectorizer(), last)
    found = outcome(Estimator(steps, random_state=""), task)
    assert found.scores.shape == (18, classes)
    split = task.split(one_cell(("label_selection", "data_split")).seeds)
    texts = np.array(task.texts[0])
    told = steps.fit(texts[split.train], task.labels[split.train]).predict(texts[split.test])
    assert found.scores.argmax(axis=1).tolist() == found.predictions.tolist() == told.tolist()


def test_a_regressor_takes_scores():
    task = small_task()
    scores = replace(task, labels=task.labels / 2, kind="regression", class_names=(), metric="pearson")
    approach = Estimator(make_pipeline(CountVectorizer(), GradientBoostingRegressor(n_estimators=2)))
    assert approach.task_kinds == ("regression",)
    assert outcome(approach, scores).predictions.dtype == np.float64


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator:UserWarning")
@pytest.mark.parametrize(
    ("name", "made"),
    [("decorator", "small_network"), ("estimator", "forest"), ("estimator", "linear"), ("trainer", "trainer")],
)
def test_trainings_of_the_page_are_moved_by_every_factor(name, made, tmp_path, monkeypatch):
    """The same cell is the same again, and each factor alone makes it another one."""
    page = (Path(__file__).parents[2] / "docs" / "tutorials" / "function.md").read_text(encoding="utf-8")
    (shown,) = re.findall(rf"<!-- test: {name} -->\n```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / f"page_{made}.py").write_text(shown)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(f"page_{made}")
    if name == "trainer":
        from finetuning_models import tiny_bert

        monkeypatch.setattr(module, "MODEL", tiny_bert(tmp_path / "model", num_hidden_layers=1))
    approach = getattr(module, made)
    first = outcome(approach).scores.tolist()
    assert outcome(approach).scores.tolist() == first
    for factor in approach.factors[2:]:
        assert outcome(approach, **{factor: 5}).scores.tolist() != first, factor


def test_a_class_without_an_example_has_the_lowest_score():
    from mlflow_l3d.approaches.functions.estimator import _scores

    model = make_pipeline(CountVectorizer(), LinearSVC()).fit(["so good", "too bad"], [0, 2])
    assert (_scores(model, ["good", "bad"], 4).argmax(axis=1) == [0, 2]).all()


DECORATED = """
from functools import wraps

LIMIT = 1

def more(function):
    @wraps(function)
    def decorated(*given):
        return function(*given) + {more}

    return decorated

@more
def f(x):
    return x
"""
DISPATCHED = """
from functools import singledispatch

@singledispatch
def f(x):
    return x

@f.register
def _(x: str):
    return {of_text}
"""
METACLASS = "class Kind(type):\n    rate = {rate}\nclass f(metaclass=Kind): ..."
DEFAULT = "from collections import defaultdict\nf = defaultdict("


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from math import sqrt as f", "from math import exp as f"),
        (DECORATED.format(more=1), DECORATED.format(more=2)),
        (DECORATED.format(more="LIMIT"), DECORATED.replace("LIMIT = 1", "LIMIT = 2").format(more="LIMIT")),
        (DISPATCHED.format(of_text=1), DISPATCHED.format(of_text=2)),
        (METACLASS.format(rate=1), METACLASS.format(rate=2)),
        ("def f(): ...\nf.rate = 1", "def f(): ...\nf.rate = 2"),
        ("import re\nf = re.compile('a' * 300 + 'b')", "import re\nf = re.compile('a' * 300 + 'c')"),
        (f"{DEFAULT}lambda: 1)", f"{DEFAULT}lambda: 2)"),
        ("import numpy as np; f = np.tanh", "import numpy as np; f = np.sin"),
        ("from collections import OrderedDict as f", "from collections import Counter as f"),
        ("import json as f", "import pickle as f"),
        ("class f:\n    rate = 1", "class f:\n    rate = 1 + 1"),
    ],
)
def test_what_a_name_stands_for_is_in_the_key(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    texts = []
    for number, line in enumerate((first, second)):
        name = f"aliased_{number}_{len(first)}"
        (tmp_path / f"{name}.py").write_text(f"{line}\ndef train(x):\n    return f\n", encoding="utf-8")
        texts.append(content_texts(importlib.import_module(name).train, "train"))
    assert texts[0] != texts[1]


HELPERS = """
import functools, threading
import numpy as np

class Own:
    rate = 1

K, TABLE, LOCK, CACHE, ARRAY, OBJECT = 1, {"a": 1}, threading.Lock(), dict(a=threading), np.zeros(3), Own()
if K:
    SIZE = 2
else:
    SIZE = 3

def make(depth):
    def inner(x):
        return x * depth
    return inner

def scaled(by):
    def decorator(function):
        @functools.wraps(function)
        def decorated(*given):
            return function(*given) * by
        return decorated
    return decorator

def used(x=K):
    with LOCK:
        return x * K + len(CACHE)
"""
LOCAL = {
    "closure": "f = helpers.make({})",
    "closure in a list": "f = [helpers.make({})]",
    "closure in a partial": "f = functools.partial(helpers.make({}))",
    "closure in a cache": "f = functools.lru_cache(helpers.make({}))",
    "method of data": "f = dict(a={}).get",
    "decorator": "@helpers.scaled(int('{}'))\ndef f(): ...",
    "variable": "helpers.K = {}\ndef f(): return helpers.K",
    "variable of a function there": "helpers.K = {}\nf = helpers.used",
    "variable, imported within": "helpers.K = {}\ndef f():\n    from helpers import K\n    return K",
    "one of two branches": "helpers.SIZE = {}\ndef f(): return helpers.SIZE",
    "entry": "helpers.TABLE['a'] = {}\ndef f(): return helpers.TABLE",
    "function replaced": "def f(): return helpers.make(1)\nhelpers.make = lambda depth: {}",
    "frozenset of a class": "L = [{}]\nclass f:\n    stop = frozenset(L)",
    "partial of a class": "L = {}\nclass f:\n    stop = functools.partial(pow, L)",
    "tensor of a class": "import torch\nL = {}\nclass f:\n    stop = torch.ones(3) * L",
    "array changed in place": "helpers.ARRAY[0] = {}\ndef f(): return helpers.ARRAY",
    "attribute of an object": "helpers.OBJECT.rate = {}\ndef f(): return helpers.OBJECT",
    "attribute of a class": "helpers.Own.rate = {}\ndef f(): return helpers.Own()",
    "object of a class": "class A:\n    def __init__(self, k): self.k = k\nf = A({})",
    "bound method": "class A:\n    def __init__(self, k): self.k = k\n    def g(self): ...\nf = A({}).g",
    "by the name in a text": "helpers.NEW = {}\ndef f(): return getattr(helpers, 'N' + 'EW')",
    "function in a dictionary": "helpers.TABLE['f'] = lambda: {}\ndef f(): return helpers.TABLE",
    "classes of one name": "def made(k):\n    class A:\n        rate = k\n    return A\nf = [made(0), made({})]",
    "one of two lambdas": "a, b = (lambda: 0), (lambda: 1)\nf = (a, b)[{} % 2]",
}


@pytest.fixture
def local_module(tmp_path, monkeypatch):
    """Return a module of this text, whose neighbour is the module `helpers`."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "helpers.py").write_text(HELPERS)

    def made(text):
        for name in ("helpers", "mine_local"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / "mine_local.py").write_text(f"import functools, helpers\n{text}\ndef train(seed):\n    return f\n")
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        importlib.invalidate_caches()
        linecache.clearcache()
        return importlib.import_module("mine_local")

    return made


@pytest.mark.parametrize("kind", LOCAL)
def test_what_local_modules_make_and_what_is_set_in_them_is_in_the_key(local_module, kind):
    texts = [content_texts(local_module(LOCAL[kind].format(number)).train, "train") for number in (2, 2, 3)]
    parted = [{name: text for name, text in each.items() if text.count("\n") < 2 or "@" in text} for each in texts]
    assert parted[0] == parted[1] != parted[2]


def test_a_lock_and_what_a_local_module_computes_need_no_version(local_module):
    texts = [content_texts(local_module("f = helpers.used").train, "train") for _ in range(2)]
    assert texts[0] == texts[1]
    assert texts[0]["helpers.LOCK ="] == "lock"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import numpy as np\nf = np.frompyfunc(len, 1, 1)", "f, of type ufunc"),
        ("X = 1\ndef f(): return globals()['X']", "globals(), of type dict"),
        ("import threading\nhelpers.K = threading.Event()\nf = helpers.used", "helpers.K, of type Event"),
        ("def f(): return eval('helpers.K')", "eval(), of type dict"),
        ("import importlib\ndef f(): return importlib.import_module('other').K", "import_module(), of type dict"),
    ],
)
def test_what_cannot_be_seen_is_refused(local_module, text, named):
    with pytest.raises(ParameterError, match=re.escape(f"refers to {named}, whose content is not known")):
        content_texts(local_module(text).train, "train")


STATE = """
import threading, time

START, CALLS, ALPHA, CACHE, MODEL, SETTINGS = time.time(), 0, 1, {}, None, {"rate": 1}

class Seen:
    keys = []

def used(key):
    global CALLS, MODEL
    CALLS += 1
    MODEL = MODEL or threading.Event()
    SETTINGS["seed"] = key
    Seen.keys.append(key)
    return START, ALPHA, MODEL
"""


@pytest.fixture
def stateful(local_module, tmp_path, monkeypatch):
    """Return a module whose function `train` changes variables of its own and of another module."""
    (tmp_path / "state.py").write_text(STATE)
    monkeypatch.delitem(sys.modules, "state", raising=False)
    return local_module(
        "import state\nOWN = []\ndef f(key):\n    state.CACHE[key] = OWN.append(key)\n    state.used(key)"
    )


def test_what_runs_change_and_clocks_are_not_in_the_key(stateful):
    before = content_texts(stateful.train, "train")
    for key in ("one", "two"):
        with OwnChanges(stateful.train):
            stateful.f(key)
        stateful.state.START += 1.0
        assert content_texts(stateful.train, "train") == before
    assert stateful.state.CACHE.keys() == {"one", "two"} == {*stateful.OWN}


@pytest.mark.parametrize(
    ("name", "changed"),
    [("ALPHA", 2), ("CALLS", 5), ("CACHE", {}), ("SETTINGS", {"rate": 2, "seed": "one"}), ("MODEL", ())],
)
def test_an_edit_of_a_variable_that_runs_change_is_in_the_key(stateful, name, changed):
    stateful.state.CACHE["zero"] = 0
    before = content_texts(stateful.train, "train")
    with OwnChanges(stateful.train):
        stateful.f("one")
    assert content_texts(stateful.train, "train") == before
    setattr(stateful.state, name, changed)
    after = content_texts(stateful.train, "train")
    assert {each for each in after if after[each] != before.get(each)} == {f"state.{name} ="}


def test_a_model_that_someone_else_puts_in_the_place_of_a_loaded_one_is_refused(stateful):
    content_texts(stateful.train, "train")
    with OwnChanges(stateful.train):
        stateful.f("one")
    stateful.state.MODEL = type(stateful.state.MODEL)()
    with pytest.raises(ParameterError, match=r"refers to state\.MODEL, of type Event, whose content is not known"):
        content_texts(stateful.train, "train")


@pytest.mark.parametrize("version", ["", "1"])
def test_workers_see_what_was_set_in_a_local_module(local_module, version, monkeypatch):
    import pickle

    module = local_module("L = 1\ndef f(): return helpers.K, L")
    module.helpers.K, module.L = 7, 8
    approach = FunctionApproach(module.train, name="mine", version="1", factors=[])
    sent = pickled(training(factors=[], version=version)(module.train) if version else approach, "processes")
    for name in ("helpers", "mine_local"):
        monkeypatch.delitem(sys.modules, name)
    assert pickle.loads(sent).function(None)() == (7, 8)
    assert sys.modules["helpers"].CACHE["a"].__name__ == "threading"
