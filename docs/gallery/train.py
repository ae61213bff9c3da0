"""Train a small network on scikit-learn's handwritten digits. One seed sets the weights and the order of the data."""

import argparse

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
seed = parser.parse_args().seed

pixels, digits = load_digits(return_X_y=True)
data = train_test_split(pixels / 16, digits, train_size=100, random_state=0, stratify=digits)
train_pixels, test_pixels, train_digits, test_digits = data

model = MLPClassifier([32], tol=1e-3, max_iter=1000, random_state=seed).fit(train_pixels, train_digits)
print(f"test accuracy: {model.score(test_pixels, test_digits):.4f}")
