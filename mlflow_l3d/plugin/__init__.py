"""What MLflow loads by itself: an evaluator, a data set constructor and a data set source."""
