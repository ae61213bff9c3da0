"""`python -m mlflow_l3d`, which is how MLproject runs us: the package need not be installed."""

from mlflow_l3d.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
