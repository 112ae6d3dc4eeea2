"""Fitted MLPClassifiers and MLPRegressors of scikit-learn: read as networks, and copied with repaired weights.

scikit-learn predicts the second class where its probability is above 0.5, fairmend where the logit is at least 0. The
two differ only on an exact tie. A certificate proves positive margins, so it covers no input on a tie.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from fairmend.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.formats.chain import Linear, Nonlinear, Softmax, Step, build_network, unsupported

_ACTIVATIONS = {"relu": "relu", "tanh": "tanh", "logistic": "sigmoid", "identity": "identity"}
_CLOSINGS: dict[str, list[Step]] = {
    "logistic": [Nonlinear("the output", Activation("sigmoid"))],
    "softmax": [Softmax("the output")],
    "identity": [],
}


def read_estimator(estimator: Any) -> Network:
    """Return the network in a fitted MLPClassifier or MLPRegressor.

    It has the estimator's own precision: float64 unless it was fitted on float32.
    """
    source = type(estimator).__name__
    if not hasattr(estimator, "coefs_"):
        raise FairmendError(f"{source}: is not fitted; call fit first")
    closing, outputs = estimator.out_activation_, int(estimator.n_outputs_)
    if closing == "logistic" and outputs > 1:
        raise unsupported(source, "the output layer", f"gives {outputs} labels at once")
    if closing not in _CLOSINGS:
        raise unsupported(source, "the output layer", f"ends in {closing}, as with loss={estimator.loss!r}")
    hidden = Activation(_ACTIVATIONS[estimator.activation])
    steps: list[Step] = []
    for i, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        where = f"layer {i}"
        if i and hidden.name != "identity":
            steps.append(Nonlinear(where, hidden))
        steps.append(Linear(where, np.asarray(weight).T, np.asarray(bias), f"layers.{i}"))
    return build_network([*steps, *_CLOSINGS[closing]], source)


def to_estimator(network: Network, like: Any) -> Any:
    """Return a copy of the fitted MLPClassifier or MLPRegressor `like` with the weights of `network`.

    The training record of the copy (loss_curve_, n_iter_, …) is that of `like`, which does not change.
    """
    before = read_estimator(like)
    shapes = [[affine.weight.shape for affine in net.affines] for net in (before, network)]
    same = shapes[0] == shapes[1] and before.activations == network.activations and before.dtype == network.dtype
    if not same or network.closing not in ("none", before.closing):
        raise FairmendError(
            f"{network} does not fit the estimator, which is {before}; pass the estimator it was read from"
        )
    estimator = copy.deepcopy(like)
    estimator.coefs_ = [np.array(affine.weight.T, order="C") for affine in network.affines]
    estimator.intercepts_ = [np.array(affine.bias) for affine in network.affines]
    return estimator
