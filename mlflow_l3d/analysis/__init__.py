"""Numbers about tables of scores and predictions: pure numpy and pandas, without torch and MLflow.

* `importance/`: the score of a factor, its interval and components, claims about several factors, checks;
* `stability/`: agreement of single predictions, of classes and (`agreement/`) of anything else;
* `seeds/`: the random-seeds study of one task, and what holds over tasks;
* `planning/`: runs needed, when there are enough, and what fewer would have found;
* `sweep/`: several investigations side by side.

Each imports those before it in this order only: `typing`, `jackknife` (errors and intervals from leaving one unit out),
`importance/`, `stability/`, `seeds/`, `planning/`, and at last `results`, `search` and
`sweep/`.
"""
