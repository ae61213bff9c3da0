"""Two-stage search of hyperparameters (Pecher et al. 2024, appendix D) with Optuna; MLflow has no part in it."""
