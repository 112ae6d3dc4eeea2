"""scikit-learn: a fitted MLPClassifier is read, and a copy of it gets the repaired weights."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor

from fairmend.errors import FairmendError
from fairmend.network import load_network
from fairmend.network.formats.sklearn import to_estimator
from support.sklearn_models import LABELS, X, both, fitted
from support.strategies import random_network


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_estimator_is_read_in_its_own_precision(labels, activation, dtype):
    rows = X.astype(dtype)
    model = fitted(labels, activation, rows)
    network = load_network(model)
    assert network.dtype == dtype
    assert network.closing == ("softmax" if labels == "three" else "sigmoid")
    tight = 1e-5 if dtype == "float32" else 1e-12
    assert np.allclose(both(network.probabilities(rows)), model.predict_proba(rows), atol=tight)
    assert (model.classes_[network.predict(rows)] == model.predict(rows)).all()


def test_the_repaired_network_goes_back_into_a_copy():
    model = fitted()
    network = load_network(model)
    before = [weight.copy() for weight in model.coefs_]
    changed = network.with_affines([type(a)(a.weight * 2, a.bias + 1) for a in network.affines])
    other = to_estimator(changed, like=model)
    assert load_network(other) == changed
    assert np.allclose(both(changed.probabilities(X)), other.predict_proba(X), atol=1e-12)
    assert all((old == now).all() for old, now in zip(before, model.coefs_, strict=True))
    assert (to_estimator(network, like=model).predict_proba(X) == model.predict_proba(X)).all()
    other.coefs_[0][0, 0] = 99  # the estimator owns its weights, and they may be trained further
    assert load_network(other) != changed


def test_what_does_not_fit_is_refused():
    model = fitted()
    rng = np.random.default_rng(0)
    for network in (
        random_network(rng, 4, [6, 4], 1, dtype="float64"),
        random_network(rng, 4, [6, 5], 1, "tanh", dtype="float64"),
        random_network(rng, 4, [6, 5], 1, dtype="float32"),
        random_network(rng, 4, [6, 5], 3, dtype="float64", closing="softmax"),
    ):
        with pytest.raises(FairmendError, match="does not fit the estimator"):
            to_estimator(network, like=model)
    with pytest.raises(FairmendError, match="is not fitted"):
        load_network(MLPClassifier())
    with pytest.raises(FairmendError, match="fitted MLPClassifier or MLPRegressor"):
        load_network(type("Mine", (MLPClassifier,), {})())
    many = MLPClassifier((3,), max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        many.fit(X, np.stack([X[:, 0] > 0, X[:, 1] > 0], axis=1))
    with pytest.raises(FairmendError, match="2 labels at once"):
        load_network(many)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_regressor_is_read_without_a_closing(outputs):
    y = X[:, :outputs] * 3 if outputs > 1 else X[:, 0] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MLPRegressor(hidden_layer_sizes=(5,), max_iter=30, random_state=0).fit(X, y)
    network = load_network(model)
    assert network.closing == "none"
    assert network.outputs == outputs
    assert np.allclose(network.logits(X), model.predict(X), atol=1e-6)
    copied = to_estimator(network.with_affines(network.affines), model)
    assert np.array_equal(copied.predict(X), model.predict(X))


def test_a_regressor_that_ends_in_an_exponential_is_refused():
    model = MLPRegressor(hidden_layer_sizes=(3,), max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, X[:, 0])
    model.out_activation_, model.loss = "exp", "poisson"
    with pytest.raises(FairmendError, match="ends in exp, as with loss='poisson'"):
        load_network(model)
