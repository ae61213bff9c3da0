"""Numbers about tables of scores and predictions: pure numpy and pandas, without torch and MLflow."""
