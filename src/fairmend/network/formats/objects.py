"""Models in memory: of PyTorch, Keras and scikit-learn; for others, how to get a network."""

from __future__ import annotations

import sys
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.thresholds import open_threshold_classifier
from fairmend.network import Network
from fairmend.network.formats.sklearn import is_estimator, read_model
from fairmend.network.formats.suffixes import MODULES
from fairmend.network.formats.torch.skorch import is_net, read_net

_KERAS = ("keras", "tf_keras", "tensorflow")
_LINEAR = ("RidgeClassifier", "RidgeClassifierCV", "Perceptron", "LinearSVC")


def read_object(source: Any) -> Network:
    """Return the network in a PyTorch module, a Keras model or a fitted model of scikit-learn."""
    # An object of a library can only exist once the library is imported, so none is imported here to find out.
    if any(base.__module__.partition(".")[0] in _KERAS for base in type(source).__mro__):
        from fairmend.network.formats.keras.model import read_model as read_keras_model

        return read_keras_model(source)
    torch = sys.modules.get("torch")
    if torch is not None:
        if is_net(source):
            return read_net(source)
        module = getattr(source, "module_", source)  # as wrappers in the manner of skorch keep it
        if isinstance(module, torch.nn.Module):
            from fairmend.network.formats.torch.module import read_module

            return read_module(module)
        if type(source).__name__ == "ExportedProgram" and type(source).__module__.startswith("torch."):
            from fairmend.network.formats.torch.module import read_export

            return read_export(source)
    decided = open_threshold_classifier(source)
    if decided is not None:
        return read_object(decided.estimator).at_threshold(decided.threshold)
    if is_estimator(source):
        return read_model(source)
    raise FairmendError(f"cannot read a network from {type(source).__name__}; {_way_out(source)}")


def _way_out(source: Any) -> str:
    """Say what to give instead of an object that holds no network."""
    kinds = {base.__name__ for base in type(source).__mro__ if base.__module__.partition(".")[0] == "sklearn"}
    if kinds & set(_LINEAR):
        return (
            "it gives no probabilities. For its decisions alone, it is a network of one layer: "
            "fairmend.network.Network([fairmend.network.Affine(numpy.atleast_2d(model.coef_), "
            "numpy.atleast_1d(model.intercept_))], [])"
        )
    return (
        f"give the path of a file ({', '.join(MODULES)}), a PyTorch nn.Module, a Keras model, a fitted MLPClassifier, "
        "MLPRegressor or LogisticRegression of scikit-learn, a Pipeline or search with one of these, or a fairmend "
        "Network"
    )
