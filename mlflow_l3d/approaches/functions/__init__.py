"""Approaches made of functions, and of estimators of scikit-learn."""
