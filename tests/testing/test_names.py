"""The names of the conformance suite: each is there, and none loads more than it needs."""

import subprocess
import sys

import pytest

from mlflow_l3d import testing


def test_each_name_is_there_and_no_other():
    assert [getattr(testing, name).__name__ for name in testing.__all__] == testing.__all__
    with pytest.raises(AttributeError, match=r"module 'mlflow_l3d\.testing' has no attribute 'check_luck'"):
        testing.check_luck  # noqa: B018


def test_a_worker_with_trouble_loads_no_heavy_library():
    code = "import sys, mlflow_l3d.testing.cells; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
