"""scikit-learn's MLPClassifier: a fitted one as a network, and a network back as one."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from fairmend.errors import FairmendError
from fairmend.network import Activation, Affine, Network

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier

_ACTIVATIONS = {"relu": "relu", "tanh": "tanh", "logistic": "sigmoid", "identity": "identity"}
_CLOSINGS = {"logistic": "sigmoid", "softmax": "softmax"}


def to_network(mlp: MLPClassifier) -> Network:
    """Return a fitted MLPClassifier as a network: one logit for two classes, one for each of more."""
    if not hasattr(mlp, "coefs_"):
        raise FairmendError("the MLPClassifier is not fitted; call its fit first")
    if mlp.activation not in _ACTIVATIONS:
        raise FairmendError(f"MLPClassifier activation {mlp.activation!r} is not one of {', '.join(_ACTIVATIONS)}")
    if mlp.out_activation_ == "logistic" and mlp.n_outputs_ > 1:
        raise FairmendError("the MLPClassifier answers several yes/no questions at once (multilabel); fit one for each")
    if mlp.out_activation_ not in _CLOSINGS:
        raise FairmendError(f"the network ends in {mlp.out_activation_!r}, so it is no classifier; use MLPClassifier")
    affines = [Affine(weight.T, bias) for weight, bias in zip(mlp.coefs_, mlp.intercepts_, strict=True)]
    between = [Activation(_ACTIVATIONS[mlp.activation])] * (len(affines) - 1)
    return Network(affines, between, _CLOSINGS[mlp.out_activation_])


def to_estimator(network: Network, like: MLPClassifier) -> MLPClassifier:
    """Return a copy of a fitted MLPClassifier that computes what the network does."""
    before = to_network(like)
    shapes = [affine.weight.shape for affine in network.affines]
    if shapes != [affine.weight.shape for affine in before.affines] or network.activations != before.activations:
        raise FairmendError(f"{network} has other layers than the MLPClassifier, {before}")
    made = copy.deepcopy(like)
    made.coefs_ = [np.array(affine.weight.T, order="C") for affine in network.affines]
    made.intercepts_ = [affine.bias.copy() for affine in network.affines]
    return made
