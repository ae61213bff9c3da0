"""Changing one factor alone leaves everything that it does not feed bit-identical, in a training of all weights.

Seen from inside the model: which examples stand in each batch, all weights as the training starts, which units every
dropout layer keeps at every step, and the generator's state before each (attention drops inside a fused function). All
texts have one length in tokens, so that the number of draws of a batch does not depend on its examples.
"""

import numpy as np
import pytest
import torch
from finetuning_helpers import cell
from finetuning_models import session_of, tiny_bert

from mlflow_l3d.approaches.finetuning import Finetuning
from mlflow_l3d.tasks.base import Task
from mlflow_l3d.tasks.settings import SplitSettings

LENGTH = 8
LABELS = np.arange(90, dtype=np.int64) % 2
TEXTS = tuple(f"{('good', 'bad')[label]} film number {i} is a work of some kind" for i, label in enumerate(LABELS))
OF_DATA = {"labelled", "train", "validation", "test"}


class Watched:
    """Tokens that remember which examples a model in training asks for."""

    def __init__(self, tokens, model):
        self.tokens, self.model, self.visits = tokens, model, []

    def __getattr__(self, name):
        return getattr(self.tokens, name)

    def batch(self, positions, device):
        if self.model.training:
            self.visits.append(np.array(positions))
        return self.tokens.batch(positions, device)


def make_task(**settings):
    return Task(
        "leak", (TEXTS,), LABELS, ("good", "bad"), np.arange(90), SplitSettings(num_labelled=20, **settings), "leak"
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    given = {"epochs": 2, "max_length": LENGTH, "early_stopping_patience": 0, "batch_size": 10}
    opened = session_of(make_task(test_size=12), tiny_bert(folder / "bert"), folder, **given)
    yield opened
    opened.close()


def observed(session, chosen):
    """Run a cell; return name -> bytes of what was drawn, and the scores."""
    masks, weights, lengths = [], [], set()

    def keep(module, given, result):
        if module.training:
            masks.append((result != 0).numpy().tobytes())

    def start(module, _, options):
        if module.training:
            lengths.add(options["input_ids"].shape[1])
            masks.append(torch.get_rng_state().numpy().tobytes())
            if not weights:
                # The word vectors are those of the cell's own texts.
                state = module.state_dict()
                own = (tensor for name, tensor in state.items() if not name.endswith("word_embeddings.weight"))
                weights.extend(tensor.detach().numpy().tobytes() for tensor in own)

    dropouts = [module for module in session.model.modules() if isinstance(module, torch.nn.Dropout)]
    handles = [module.register_forward_hook(keep) for module in dropouts]
    handles.append(session.model.register_forward_pre_hook(start, with_kwargs=True))
    tokens = session.inputs
    session.inputs = Watched(tokens, session.model)
    try:
        (outcome,) = session.run([chosen])
        visits = session.inputs.visits
    finally:
        session.inputs = tokens
        for handle in handles:
            handle.remove()
    assert outcome.error is None, outcome.traceback
    assert lengths == {LENGTH}
    split = session.task.split(chosen.seeds)
    place = {int(position): number for number, position in enumerate(split.train)}
    order = [[place[int(position)] for position in batch] for batch in visits]
    assert sorted(number for batch in order for number in batch) == sorted(2 * list(range(len(split.train))))
    assert len(masks) >= len(order) * (1 + len(dropouts) // 2)
    seen = {
        "labelled": np.sort(np.r_[split.train, split.validation]).tobytes(),
        "train": split.train.tobytes(),
        "validation": split.validation.tobytes(),
        "test": split.test.tobytes(),
        "order": repr(order).encode(),
        "initial weights": b"".join(weights),
        "dropout": b"".join(masks),
    }
    assert outcome.example_ids.tobytes() == session.task.example_ids[split.test].tobytes()
    return seen, outcome.scores.tobytes()


FEEDS = {
    "label_selection": OF_DATA,
    "data_split": OF_DATA,
    "data_order": {"order"},
    "model_initialisation": {"initial weights"},
    "model_randomness": {"dropout"},
}


@pytest.fixture(scope="module")
def before(session):
    return observed(session, cell())


@pytest.mark.parametrize("factor", FEEDS)
def test_one_factor_alone(session, before, factor):
    assert set(FEEDS) == set(Finetuning.factors)
    after, scores = observed(session, cell(**{factor: 3}))
    assert {name for name in after if after[name] != before[0][name]} == FEEDS[factor]
    assert scores != before[1]


def test_nothing_changes_where_nothing_does(session, before):
    """Last, after cells of all other kinds."""
    assert observed(session, cell()) == before


def test_a_fixed_test_set_is_fed_by_no_factor():
    task = make_task(test_size=12, test_selection="fixed")
    tests = {task.split(cell(**{factor: 3}).seeds).test.tobytes() for factor in FEEDS}
    assert tests == {task.split(cell().seeds).test.tobytes()}
