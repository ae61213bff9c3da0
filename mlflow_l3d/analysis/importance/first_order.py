"""What the investigated factor brings about by itself, beside its share with all interactions."""

from __future__ import annotations

from dataclasses import replace

from mlflow_l3d.analysis.importance.crossed import crossed_estimate
from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.results import Importance


def with_first_order(record: Importance) -> Importance:
    """Return the record of a crossed table with its first-order index (Sobol' 1993).

    Notes
    -----
    ``S_1 = s2_F / (s2_F + s2_RF + s2_e + s2_R)`` is what the rows leave: 1 - S_T of the table turned, whose columns are
    the configurations of all other factors. So its interval is that of the other one, turned.
    """
    found = crossed_estimate(record.table.T)
    if found is None or not found.components.total > 0:
        return record
    low, high = (1 - total_index_of(end) for end in reversed(found.interval(record.level)))
    index = 1 - found.components.total_index
    return replace(record, first_order_index=index, first_order_ci_low=low, first_order_ci_high=high)
