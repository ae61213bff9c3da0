"""Two-stage search of hyperparameters (Pecher et al. 2024, appendix D) with Optuna; it does not use MLflow."""
