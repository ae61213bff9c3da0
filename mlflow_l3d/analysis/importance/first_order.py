"""What the investigated factor brings about by itself, beside its share with all interactions."""

from __future__ import annotations

import math
from dataclasses import replace

from mlflow_l3d.analysis.importance.crossed import crossed_estimate
from mlflow_l3d.analysis.importance.estimate import total_index_of
from mlflow_l3d.analysis.importance.results import Importance


def with_first_order(record: Importance) -> Importance:
    """Return the record of a crossed table with its first-order index (Sobol' 1993).

    Notes
    -----
    ``S_1 = s2_F / sigma2``, from the variances of the record and not below 0, is what the rows leave: 1 - S_T of the
    table turned, whose columns are the configurations of all other factors. So its interval is that of the other one,
    turned, and reaches to S_1 where a variance below 0 is cut in one of the two alone.
    """
    known, found = record.components, crossed_estimate(record.table.T)
    if known is None or not known.total > 0:
        return record
    index, low, high = max(0.0, known.main) / known.total, math.nan, math.nan
    if found is not None:
        low, high = (1 - total_index_of(end) for end in reversed(found.interval(record.level)))
        low, high = min(low, index), max(high, index)
    return replace(record, first_order_index=index, first_order_ci_low=low, first_order_ci_high=high)
