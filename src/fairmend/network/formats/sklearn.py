"""Fitted models of scikit-learn: read as networks, and copied with repaired weights.

An MLPClassifier or MLPRegressor is a network, and a linear model is one of a single layer. A Pipeline or a search is
read as the model in it: what comes before that model belongs into the spec (`Spec.from_sklearn`). A calibration by a
sigmoid adds one affine map.

scikit-learn predicts the second class where its probability is above 0.5, fairmend where the logit is at least 0. The
two differ only on an exact tie. A certificate proves positive margins, so it covers no input on a tie.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line
from fairmend.network import Activation, Affine, Network
from fairmend.network.formats.build import GraphBuilder, unsupported
from fairmend.network.model import scores_of

_NETWORKS = ("MLPClassifier", "MLPRegressor")
_LOGISTIC = ("LogisticRegression", "LogisticRegressionCV", "SGDClassifier")
_REGRESSIONS = ("LinearRegression", "Ridge", "Lasso", "ElasticNet", "SGDRegressor")
_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
_ENSEMBLES = ("VotingClassifier", "VotingRegressor", "BaggingClassifier", "BaggingRegressor", "StackingClassifier")
_CALIBRATION = "CalibratedClassifierCV"
_SUPPORTED = (
    *_NETWORKS,
    *_LOGISTIC,
    *_REGRESSIONS,
    *_SEARCHES,
    *_ENSEMBLES,
    "Pipeline",
    "FrozenEstimator",
    _CALIBRATION,
)

_ACTIVATIONS = {"relu": "relu", "tanh": "tanh", "logistic": "sigmoid", "identity": "identity"}
_CLOSINGS = ("logistic", "softmax", "identity")
_COMPARED = 16  # rows for which a model and the network that was read of it are compared


def is_estimator(source: Any) -> bool:
    """Return whether `read_model` knows the class of an object; a subclass may compute something else."""
    return _kind(source) in _SUPPORTED


def is_net(source: Any) -> bool:
    """Return whether an object is a net of skorch, fitted or not."""
    return any(base.__module__.startswith("skorch") and base.__name__ == "NeuralNet" for base in type(source).__mro__)


def read_model(model: Any) -> Network:
    """Return the network in a fitted model of scikit-learn, or in a net of skorch inside of one."""
    kind = _kind(model)
    if is_net(model):
        from fairmend.network.formats.torch.module import read_net  # PyTorch is imported, as the net exists

        return read_net(model)
    if kind in _NETWORKS:
        return _as_it_predicts(read_estimator(model), model)
    if kind in (*_LOGISTIC, *_REGRESSIONS):
        return _as_it_predicts(_read_linear(model), model)
    if kind == _CALIBRATION:
        network = _read_calibrated(model)
        return network if steps_before(model) else _as_it_predicts(network, model)
    return read_model(_inside(model))


def _as_it_predicts(network: Network, model: Any) -> Network:
    """Return a network; refuse a model that gives other numbers for random rows than the network that was read of it.

    A file can hold a model whose attributes contradict each other, or say something else to this scikit-learn.
    """
    rows = np.random.default_rng(0).normal(size=(_COMPARED, network.inputs)).astype(network.dtype)
    classes = getattr(model, "classes_", None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names of columns that rows without names do not have
            given = np.asarray(model.predict(rows) if classes is None else model.predict_proba(rows), np.float64)
    except Exception as error:  # whatever scikit-learn has against the model
        raise FairmendError(
            f"{type(model).__name__} cannot predict ({type(error).__name__}: {first_line(error)}); fit it again"
        ) from error
    found = scores_of(network.logits(rows), "output" if classes is None else "probability").astype(np.float64)
    given = given.reshape(_COMPARED, -1)
    given = given[:, 1:] if found.shape[1] == 1 and given.shape[1] == 2 else given
    close = 1e-3 if network.dtype == np.float32 else 1e-6
    if found.shape != given.shape or not np.allclose(found, given, rtol=close, atol=close):
        raise FairmendError(
            f"{type(model).__name__} predicts something else than its weights say: it was changed after it was fitted, "
            "or fitted with another version of scikit-learn. Fit it again"
        )
    return network


def steps_before(model: Any) -> list[Any]:
    """Return the fitted steps through which rows go before the network that `read_model` reads, in order."""
    kind = _kind(model)
    if is_net(model) or kind in (*_NETWORKS, *_LOGISTIC, *_REGRESSIONS):
        return []
    if kind == _CALIBRATION:
        return steps_before(model.calibrated_classifiers_[0].estimator)
    own = [step for _, step in model.steps[:-1]] if kind == "Pipeline" else []
    return [*own, *steps_before(_inside(model))]


def _kind(model: Any) -> str:
    """Return the name of a class of scikit-learn; "" for any other object."""
    kind = type(model)
    return kind.__name__ if kind.__module__.partition(".")[0] == "sklearn" else ""


def _inside(model: Any) -> Any:
    """Return the model in a Pipeline, a search or a FrozenEstimator; raise an error if there is not just one."""
    kind = _kind(model)
    if kind == "Pipeline":
        last = model.steps[-1][1]
        if not is_estimator(last) and not is_net(last):
            raise FairmendError(f"the Pipeline ends in {type(last).__name__}; {_WAY_OUT}")
        return last
    if kind in _SEARCHES:
        if not hasattr(model, "best_estimator_"):
            raise FairmendError(f"{kind}: has no best_estimator_; fit it with refit=True")
        return model.best_estimator_
    if kind == "FrozenEstimator":
        return model.estimator
    if kind in _ENSEMBLES:
        raise FairmendError(
            f"{kind} combines several models, so there is no one network to repair. Give one of them, such as "
            "load_network(ensemble.estimators_[0]), or train one network in their place"
        )
    raise FairmendError(f"cannot read a network from {type(model).__name__}; {_WAY_OUT}")


_WAY_OUT = (
    "fairmend reads a fitted MLPClassifier, MLPRegressor, LogisticRegression or SGDClassifier(loss='log_loss'), alone, "
    "at the end of a Pipeline, in a search, or in a CalibratedClassifierCV(method='sigmoid') of one model"
)


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
    if estimator.activation not in _ACTIVATIONS:
        raise unsupported(source, "a hidden layer", f"has the activation {estimator.activation!r}")
    hidden = Activation(_ACTIVATIONS[estimator.activation])
    builder = GraphBuilder(source)
    value = builder.input(len(estimator.coefs_[0]))
    for i, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        where = f"layer {i}"
        value = builder.function(value, where, hidden) if i else value
        value = builder.linear(value, where, np.asarray(weight).T, np.asarray(bias), f"layers.{i}")
    if closing == "softmax":
        value = builder.softmax(value, "the output")
    elif closing == "logistic":
        value = builder.function(value, "the output", Activation("sigmoid"))
    return builder.network(value)


def _read_linear(model: Any) -> Network:
    """Return a linear model as a network of one layer, with the probabilities that the model gives."""
    source = type(model).__name__
    if not hasattr(model, "coef_"):
        raise FairmendError(f"{source}: is not fitted; call fit first")
    weight = np.atleast_2d(np.asarray(model.coef_))
    bias = np.broadcast_to(np.asarray(model.intercept_, weight.dtype).reshape(-1), (len(weight),))
    stored = bool(getattr(model, "fit_intercept", True) or bias.any())  # without an intercept, it stays without
    if source in _REGRESSIONS:
        return Network([Affine(weight, bias, stores_bias=stored)], [])
    if source == "SGDClassifier" and model.loss != "log_loss":
        raise FairmendError(
            f"SGDClassifier with loss={model.loss!r} gives no probabilities; train it with loss='log_loss'. "
            "For its decisions alone: fairmend.network.Network([fairmend.network.Affine(model.coef_, "
            "model.intercept_)], [])"
        )
    classes = len(model.classes_)
    one_by_one = source == "SGDClassifier" or getattr(model, "multi_class", "auto") == "ovr"
    if classes > 2 and (one_by_one or getattr(model, "solver", "") == "liblinear"):
        raise FairmendError(
            f"{source} gives the probability of each of its {classes} classes against all others, which is no softmax; "
            "use LogisticRegression with its default solver, or an MLPClassifier"
        )
    if classes == 2 and getattr(model, "multi_class", "auto") == "multinomial":
        weight, bias = 2 * weight, 2 * bias  # the softmax of (−f, f), as scikit-learn before 1.8 gives it
    return Network([Affine(weight, bias, stores_bias=stored)], [], "sigmoid" if classes == 2 else "softmax")


def _read_calibrated(model: Any) -> Network:
    """Return a model with the sigmoid that calibrates it: 1 / (1 + exp(a s + b)) of its score s.

    scikit-learn takes decision_function for the score, the logit itself, of which this is an affine map. A model
    without one, such as MLPClassifier, gives its probability instead: then its sigmoid stays, as a layer of its own.
    """
    if not hasattr(model, "calibrated_classifiers_"):
        raise FairmendError("CalibratedClassifierCV: is not fitted; call fit first")
    parts = model.calibrated_classifiers_
    if len(parts) != 1:
        raise FairmendError(
            f"CalibratedClassifierCV averages the probabilities of {len(parts)} models, so there is no one network. "
            "Calibrate with ensemble=False, or give it a FrozenEstimator"
        )
    if model.method != "sigmoid" or len(model.classes_) != 2:
        raise FairmendError(
            f"CalibratedClassifierCV with method={model.method!r} and {len(model.classes_)} classes is no affine map "
            "of a logit; use method='sigmoid' and two classes"
        )
    inner, calibrator = parts[0].estimator, parts[0].calibrators[0]
    network = read_model(inner)
    factor, shift = -float(calibrator.a_), -float(calibrator.b_)
    if hasattr(inner, "decision_function"):
        head = network.head.astype(np.float64)
        last = Affine(factor * head.weight, factor * head.bias + shift)
        return Network([*network.affines[:-1], last.astype(network.dtype)], network.activations, "sigmoid")
    last = Affine(np.array([[factor]], network.dtype), np.array([shift], network.dtype))
    return Network([*network.affines, last], [*network.activations, Activation("sigmoid")], "sigmoid")


def to_estimator(network: Network, like: Any) -> Any:
    """Return a copy of a fitted model of scikit-learn with the weights of `network`.

    `like` is the model that the network was read from: an MLPClassifier, MLPRegressor, linear model or net of skorch,
    or a Pipeline, search or FrozenEstimator with one inside, of which the Pipeline or the model itself is copied. The
    training record of the copy (loss_curve_, n_iter_, …) is that of `like`, which does not change.

    A network in float32, such as one from an ONNX file, goes into a model in float64: its weights stay exactly what
    they are, but what is proven about inference in float32 is not proven about the copy. The network must read what the
    model at the end of the Pipeline reads, not what the Pipeline does.
    """
    kind = _kind(like)
    if kind == _CALIBRATION:
        raise FairmendError("a CalibratedClassifierCV is not copied; save the network, network.save('model.onnx')")
    if kind == "Pipeline":
        replaced = copy.copy(like)
        replaced.steps = [*like.steps[:-1], (like.steps[-1][0], to_estimator(network, _inside(like)))]
        return replaced
    if is_net(like):
        from fairmend.network.formats.torch.module import to_net

        return to_net(network, like)
    if kind not in (*_NETWORKS, *_LOGISTIC, *_REGRESSIONS):
        return to_estimator(network, _inside(like))
    before = read_model(like)
    shapes = [[affine.weight.shape for affine in net.affines] for net in (before, network)]
    holds = np.can_cast(network.dtype, before.dtype)  # every float32 is a float64
    same = network.is_chain and shapes[0] == shapes[1] and before.activations == network.activations and holds
    if not same or network.closing not in ("none", before.closing):
        raise FairmendError(
            f"{network} does not fit the estimator, which is {before}; pass the estimator it was read from"
        )
    network = network if network.dtype == before.dtype else network.astype(before.dtype)
    estimator = copy.deepcopy(like)
    if kind in _NETWORKS:
        estimator.coefs_ = [np.array(affine.weight.T, order="C") for affine in network.affines]
        estimator.intercepts_ = [np.array(affine.bias) for affine in network.affines]
    else:
        factor = 2 if before.outputs == 1 and getattr(like, "multi_class", "auto") == "multinomial" else 1
        flat = np.ndim(like.coef_) == 1
        weight, bias = network.head.weight / factor, network.head.bias / factor
        estimator.coef_ = np.array(weight[0] if flat else weight)
        estimator.intercept_ = bias[0] if np.ndim(like.intercept_) == 0 else np.array(bias)
    return estimator
