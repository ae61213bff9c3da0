"""Numbers about tables of scores and predictions: pure numpy and pandas, without torch and MLflow.

* `intervals`: their level and names, and errors from leaving one unit out;
* `importance/`: the score of a factor, its interval and components, claims about several factors, checks;
* `consistency/`: agreement of single predictions, of classes, numbers and anything else;
* `comparison/`: differences of systems, which runs and test examples may share;
* `cure/`: what would reduce the luck, predicted from runs that exist;
* `judged/`: judgements of an application's answers: kinds of luck, agreement of judges, pass^k, differences;
* `planning/`: the runs needed, and when there are enough, however often one looks;
* `results`: what an investigation found.

The numbers that only one study needs are in its folder: ``studies/<name>/numbers``.
"""
