"""A task and features that are drawn, for benchmarks of what is trained on features."""

from __future__ import annotations

from typing import Any

import numpy as np

CLASSES = 2


def drawn(inputs: int) -> tuple[Any, Any]:
    """Return a task of 2,400 examples, 800 of them to train on, and features that tell its classes apart a little."""
    from mlflow_l3d.tasks.base import Task
    from mlflow_l3d.tasks.settings import SplitSettings

    generator = np.random.default_rng(0)
    features = generator.standard_normal((2400, inputs), dtype=np.float32)
    labels = (features[:, :8].sum(1) + generator.normal(0, 2, 2400) > 0).astype(np.int64)
    names, texts = tuple(map(str, range(CLASSES))), (tuple(map(str, range(2400))),)
    return Task("drawn", texts, labels, names, np.arange(2400), SplitSettings(test_size=400), "drawn"), features
