"""Two columns that put few examples into one order are named."""

import pandas as pd

from mlflow_l3d.approaches.shots import equal_orders, shot_order


def test_two_columns_with_one_order_are_named():
    seeds = {}
    seed = 0
    while True:
        order = tuple(shot_order(seed, 4))
        if order in seeds:
            break
        seeds[order] = seed
        seed += 1
    cells = pd.DataFrame(
        {"factor": "data_order", "column": [0, 1, 2] * 2, "seed.data_order": [seeds[order], -1, seed] * 2}
    )
    other = next(each for each in range(100) if tuple(shot_order(each, 4)) != order)
    cells = cells.replace({"seed.data_order": {-1: other}})
    assert equal_orders(cells, 4) == (
        "data_order: columns 1 and 3 drew the same order: 4 examples have only 24 orders.",
    )
    assert equal_orders(cells[cells["column"] < 2], 4) == ()
    assert equal_orders(cells.drop(columns="column"), 4) == ()
    assert equal_orders(cells.assign(factor="sample_choice"), 4) == ()
