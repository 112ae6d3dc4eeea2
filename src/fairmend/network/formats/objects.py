"""Models in memory: PyTorch modules, fitted MLPClassifiers and MLPRegressors; for others, how to get a network."""

from __future__ import annotations

import sys
from typing import Any

from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.network.formats.suffixes import MODULES
from fairmend.thresholds import open_threshold_classifier

__all__ = ["read_object"]

_KERAS = ("keras", "tf_keras", "tensorflow")
_REPAIR = "To repair the whole of it, use fairmend.sklearn.FairRepairClassifier"
_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
_LINEAR = ("LogisticRegression", "LogisticRegressionCV", "SGDClassifier", "RidgeClassifier", "Perceptron", "LinearSVC")


def read_object(source: Any) -> Network:
    """Return the network in a PyTorch module, a fitted MLPClassifier or a fitted MLPRegressor."""
    # An object of a library can only exist once the library is imported, so none is imported here to find out.
    if any(base.__module__.partition(".")[0] in _KERAS for base in type(source).__mro__):
        raise FairmendError(
            f"{type(source).__name__} is a Keras model in memory, and fairmend reads Keras models from files: "
            'call model.save("model.keras"), then fairmend.load_network("model.keras")'
        )
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.nn.Module):
        from fairmend.network.formats.torch.module import read_module

        return read_module(source)
    sklearn = sys.modules.get("sklearn.neural_network")
    # A subclass may compute something else.
    if sklearn is not None and type(source) in (sklearn.MLPClassifier, sklearn.MLPRegressor):
        from fairmend.network.formats.sklearn import read_estimator

        return read_estimator(source)
    decided = open_threshold_classifier(source)
    if decided is not None:
        return read_object(decided.estimator).at_threshold(decided.threshold)
    raise FairmendError(f"cannot read a network from {type(source).__name__}; {_way_out(source)}")


def _way_out(source: Any) -> str:
    """Say what to give instead of an object that holds no network, or holds more than one."""
    kinds = {base.__name__ for base in type(source).__mro__ if base.__module__.partition(".")[0] == "sklearn"}
    if kinds & set(_SEARCHES):
        return (
            "give the estimator it selected: load_network(search.best_estimator_) where that is an MLPClassifier or "
            "MLPRegressor, "
            f"load_network(search.best_estimator_[-1]) where it is a pipeline that ends in one. {_REPAIR}"
        )
    if "Pipeline" in kinds:
        return (
            "give its fitted MLPClassifier or MLPRegressor, load_network(pipeline[-1]), with a spec that describes "
            f"what that step reads (fairmend.Spec.from_sklearn). {_REPAIR}"
        )
    if kinds & set(_LINEAR):
        return (
            "a linear classifier is a network of one layer: "
            "fairmend.network.Network([fairmend.network.Affine(model.coef_, model.intercept_)], [])"
        )
    return (
        f"give the path of a file ({', '.join(MODULES)}), a PyTorch nn.Module, a fitted MLPClassifier or "
        "MLPRegressor of scikit-learn, or a fairmend Network"
    )
