"""Rows of the data are counted from 1 wherever a person reads them."""

import pandas as pd
import pytest

from mlflow_l3d.report.html import MOST_EXAMPLES, fragile_examples


@pytest.mark.parametrize(("are_rows", "head", "shown"), [(True, "row of the data, from 1", 8), (False, "example", 7)])
def test_rows_are_counted_from_1(are_rows: bool, head: str, shown: int) -> None:
    worst = {"example_id": 7, "label": 0, "votes": [2, 1], "unparsed": 0, "share_right": 0.5, "entropy": 0.6}
    page = fragile_examples(pd.DataFrame([worst]), are_rows=are_rows).__html__()
    assert f">{head}</th>" in page
    assert f">{shown}</th>" in page
    assert "<title>right: 2</title>" in page
    assert "true class" not in page  # texts have none: of each example 0 is right
    every = pd.DataFrame([worst | {"votes": [1] * 8, "unparsed": 1}, worst | {"label": 1, "entropy": 0.0}])
    page = fragile_examples(every).__html__()
    assert '<i class="c0"></i>0 or no class</span><span><i class="c1"></i>1</span>' in page
    assert "true class" in page  # labels of examples on which all agree count
    assert "colours repeat" in fragile_examples(every, classes=[*map(str, range(21))]).__html__()
    assert "Show all 1<" in page
    assert f"Show the first {MOST_EXAMPLES}<" in fragile_examples(pd.DataFrame([worst] * 99)).__html__()
