"""Fitted networks of scikit-learn, alone or in a pipeline."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4))
LABELS = {
    "binary": (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int),
    "words": np.where(X[:, 0] > 0, "yes", "no"),
    "three": np.digitize(X[:, 1], [-0.5, 0.5]),
}


def fitted(labels="binary", activation="relu", rows=X, first=None):
    model = MLPClassifier((6, 5), activation=activation, max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(*first, model).fit(rows, LABELS[labels]) if first else model.fit(rows, LABELS[labels])


def both(probabilities: np.ndarray) -> np.ndarray:
    return np.stack([1 - probabilities, probabilities], axis=1) if probabilities.ndim == 1 else probabilities
