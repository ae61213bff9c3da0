"""The plugin of pytest: `pytest --l3d` runs tests marked `luck` with several seeds and controls the error of the suite.

pytest imports this module whenever it starts, so it loads nothing else before a marked test or `--l3d` needs it.
Whoever has imported this package before pytest starts is spared a warning: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from mlflow_l3d.pytest_luck.requirement import Luck

_MARKER: Final = (
    "luck(runs=100, rate=0.8): with --l3d, run this test with up to `runs` seeds (fixture `luck`) until it is known"
    " whether it meets its requirement; without a score, a share `rate` of runs must pass. Without --l3d: one run, with"
    " the first seed"
)
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "": {"action": "store_true", "help": "Run tests marked luck with several seeds; without it, once with the first."},
    "-undecided": {
        "choices": ["skip", "fail"],
        "default": "skip",
        "help": "Outcome of a case that stays undecided, be it by chance.",
    },
    "-alpha": {"type": float, "default": 0.05, "help": "Probability, at most, that a suite fails by chance."},
    "-checks": {"type": float, "default": 1.4, "help": "Passed runs, on average, that end a case known to pass."},
    "-seed": {"type": int, "default": 0, "help": "Root of the seeds; runs with another one are not remembered."},
    "-budget": {"metavar": "TIME", "help": "Time for all cases, such as 90s, 10m or 1h; each runs at least once."},
    "-record": {"metavar": "LABEL", "default": "", "help": "Remember scores for not_worse_than(LABEL)."},
    "-mlflow": {"action": "store_true", "help": "Keep suites, and what is remembered, in the current experiment."},
    "-json": {"metavar": "FILE", "help": "Write verdict, runs and cost of each case to this file."},
    "-markdown": {"metavar": "FILE", "help": "Write the same for people to this file, as a comment."},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("luck", "tests with several seeds (mlflow-l3d)")
    for name, declared in _OPTIONS.items():
        group.addoption(f"--l3d{name}", **declared)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; with ``--l3d`` begin the suite."""
    config.addinivalue_line("markers", _MARKER)
    if config.getoption("l3d"):
        from mlflow_l3d.pytest_luck.suite import Suite

        config.pluginmanager.register(Suite(config), "l3d-suite")


@pytest.fixture(name="luck")
def luck_fixture(request: pytest.FixtureRequest) -> Iterator[Luck]:
    """Give the seed of this run of a test, and take its score.

    ``luck.score(x).at_least(0.8)`` requires a mean score, ``at_most`` a mean loss or time, ``not_worse_than("main",
    by=0.01)`` a mean difference to the scores of the same seeds that ``--l3d-record main`` remembers. A test without
    score passes or fails in each run, and the rate of passed runs is required.

    What is NOT guaranteed:

    * A passed case may have changed. With ``--l3d`` a suite has a false verdict "failed" with probability alpha at
      most; but a case that is known to pass is run once or twice, and one that now fails every second time may pass
      these runs. Errors, and undecided cases that ``--l3d-undecided fail`` makes fail, can be chance.
    * That a requirement is met is shown for the seeds and the code of all remembered runs together, each case at alpha.
    * Scores of 0 and 1 are outcomes, others are taken to be normal, but for a correction before a case passes: rare
      extreme ones, as of a training that diverges once in ten or a hundred runs, can make a case pass or fail wrongly,
      and more runs do not prevent it. A mean says nothing about the worst seed.
    * Equal scores, or differences, are taken to be the mean if twenty runs or more show that fewer than one run in five
      has another. What these would be is not known: a change that breaks one seed in ten may pass.
    * A case each of whose runs misses its requirement fails whatever alpha is, as in plain pytest. If half of all runs
      met it, n runs all missed it with probability 1 / 2^n; of a rarer success, nothing is guaranteed.
    * A first run that skips, skips the case; later ones that skip are left out, though they may be those that fail.
    * Seeds of a label are used again after a failure: suites in a row are not independent.
    * Runs are assumed to be independent. Test data, machines and models that all runs share are not redrawn.
    * A fixture of a wider scope than the function is made once for all runs, and ignores the seed.
    """
    from mlflow_l3d.pytest_luck.requirement import CURRENT, NOTHING, Luck, seed_of

    luck = request.node.stash.get(CURRENT, None)
    if luck is None and request.config.getoption("l3d"):
        pytest.fail("The fixture luck needs the marker with --l3d: write @pytest.mark.luck above this test.", False)
    yield (luck := luck or Luck(seed_of(request.config.getoption("l3d_seed"), 0)))
    if luck.is_plain and luck.value is not None and luck.requirement is None:
        pytest.fail(NOTHING, False)
