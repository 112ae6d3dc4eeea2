"""Trained nets of skorch: the module inside, and the rule by which the net decides."""

from __future__ import annotations

import copy
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.network import Network


def is_net(source: Any) -> bool:
    """Return whether an object is a net of skorch, fitted or not."""
    return "NeuralNet" in _kinds(source)


def read_net(net: Any) -> Network:
    """Return the network in a net, with its threshold; refuse a net that decides by other numbers."""
    source = type(net).__name__
    if not hasattr(net, "module_"):
        raise FairmendError(f"{source}: is not fitted; call fit first")
    from fairmend.network.formats.torch.module import read_module  # torch is imported, as the net exists

    network = read_module(net.module_)
    kinds = _kinds(net)
    if "NeuralNetBinaryClassifier" in kinds:
        if network.outputs != 1 or not _gives_the_sigmoid(net, network):
            raise FairmendError(
                f"{source}: does not decide by the sigmoid of one logit: module, criterion and predict_nonlinearity "
                "do not fit together. Give the module itself, net.module_, whose positive logits are class 1"
            )
        return network.at_threshold(float(net.threshold))
    if "NeuralNetClassifier" in kinds and network.outputs == 1:
        raise FairmendError(
            f"{source}: has 1 output, so that it always predicts class 0; use NeuralNetBinaryClassifier, or give the "
            "module itself, net.module_, whose positive logits are class 1"
        )
    return network


def to_net(network: Network, like: Any) -> Any:
    """Return a copy of a net with the weights of `network`, which was read from it; `like` does not change."""
    net = copy.deepcopy(like)
    net.module_ = network.to_module()
    return net


def _kinds(source: Any) -> set[str]:
    return {base.__name__ for base in type(source).__mro__ if base.__module__.partition(".")[0] == "skorch"}


def _gives_the_sigmoid(net: Any, network: Network) -> bool:
    """Return whether the probability of the net is the sigmoid of the logit.

    skorch adds the sigmoid that its criterion BCEWithLogitsLoss has; with any other, the module must end in one.
    """
    criterion = getattr(net.criterion_, "_orig_mod", net.criterion_)
    added = any(base.__name__ == "BCEWithLogitsLoss" for base in type(criterion).__mro__)
    return net.predict_nonlinearity == "auto" and added == (network.closing == "none")
