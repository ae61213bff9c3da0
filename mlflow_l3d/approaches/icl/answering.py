"""From scores or generated text to predictions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mlflow_l3d.cells.factors import stream

FloatArray = npt.NDArray[np.float64]


def probabilities(scores: FloatArray) -> FloatArray:
    """Return class probabilities, shape (n, C), from log-likelihoods of the class words: a softmax over classes."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: FloatArray = shifted / shifted.sum(axis=1, keepdims=True)
    return shares


def calibrated(scores: FloatArray, inputs: FloatArray) -> FloatArray:
    """Return scores without the leaning of the prompt itself: contextual or batch calibration.

    Contextual (Zhao et al. 2021): the leaning is that of inputs without content. Batch (Zhou et al. 2024, Batch
    Calibration): it is that of the texts themselves, whose classes need not be known.

    Parameters
    ----------
    scores
        Shape (n, C): log-likelihoods.
    inputs
        Shape (k, C): those of the inputs that show the leaning, in the same prompt.

    Returns
    -------
    ndarray
        Shape (n, C): log of the class probabilities over the mean probabilities of the inputs.
    """
    leaning = probabilities(inputs).mean(axis=0)
    tiny = np.finfo(np.float64).tiny
    corrected: FloatArray = np.log(np.maximum(probabilities(scores), tiny)) - np.log(np.maximum(leaning, tiny))
    return corrected


def token_draws(seed: int, texts: int, tokens: int) -> FloatArray:
    """Return a number in [0, 1) for each token of each generated answer, (texts, tokens), from ``model_randomness``."""
    return stream(seed, "tokens").random((texts, tokens))


def chosen(scores: FloatArray, temperature: float, seed: int) -> npt.NDArray[np.int64]:
    """Return the place of the chosen class for every example, shape (n,).

    Parameters
    ----------
    scores
        Shape (n, C).
    temperature
        0 takes the highest score, the first of equals; above, classes are drawn from softmax(scores / temperature).
    seed
        That of ``model_randomness``; one number is drawn for each example.
    """
    if temperature == 0:
        best: npt.NDArray[np.int64] = scores.argmax(axis=1).astype(np.int64)
        return best
    shares = probabilities(scores / temperature).cumsum(axis=1)
    draws = stream(seed, "answers").random(len(scores))
    places: npt.NDArray[np.int64] = (draws[:, np.newaxis] >= shares).sum(axis=1).astype(np.int64)
    last: npt.NDArray[np.int64] = np.minimum(places, scores.shape[1] - 1)
    return last
