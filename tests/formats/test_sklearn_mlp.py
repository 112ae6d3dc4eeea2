"""A fitted MLPClassifier and the network made of it compute the same, both ways."""

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier, MLPRegressor

from fairmend.errors import FairmendError
from fairmend.formats.sklearn_mlp import to_estimator, to_network
from fairmend.network import Affine, Network
from strategies import random_network

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fitted(classes=2, activation="relu", hidden=(5, 4), dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).astype(dtype)
    y = np.array(["a", "b", "c", "d"])[rng.integers(0, classes, 60)]
    return MLPClassifier(hidden, activation=activation, max_iter=5, random_state=0).fit(X, y), X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hidden", [(5, 4), (6,)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_network_computes_what_the_classifier_does(classes, activation, hidden, dtype):
    mlp, X = fitted(classes, activation, hidden, dtype)
    net = to_network(mlp)
    assert (net.dtype, net.outputs) == (dtype, 1 if classes == 2 else classes)
    found = net.probabilities(X)
    found = np.column_stack([1 - found, found]) if classes == 2 else found
    np.testing.assert_allclose(found, mlp.predict_proba(X), rtol=0, atol=1e-6)
    assert mlp.classes_[net.predict(X)].tolist() == mlp.predict(X).tolist()


def test_a_network_goes_back_into_a_copy():
    mlp, X = fitted()
    net = to_network(mlp)
    changed = net.with_affines([Affine(a.weight * 2, a.bias + 1) for a in net.affines])
    made = to_estimator(changed, mlp)
    assert to_network(made) == changed
    assert to_network(mlp) == net
    np.testing.assert_allclose(made.predict_proba(X)[:, 1], changed.probabilities(X), atol=1e-12)
    made.coefs_[0][:] = 0  # not a view of the network, which is read-only


def test_what_is_no_such_network_is_refused():
    with pytest.raises(FairmendError, match="not fitted"):
        to_network(MLPClassifier())
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(FairmendError, match="multilabel"):
        to_network(MLPClassifier((3,), max_iter=2).fit(X, (X[:, :2] > 0).astype(int)))
    with pytest.raises(FairmendError, match="no classifier"):
        to_network(MLPRegressor(hidden_layer_sizes=(3,), max_iter=2).fit(X, X[:, 0]))
    mlp, _ = fitted()
    with pytest.raises(FairmendError, match="other layers"):
        to_estimator(random_network(np.random.default_rng(0), 3, [5]), mlp)
    net = to_network(mlp)
    with pytest.raises(FairmendError, match="other layers"):
        to_estimator(Network(net.affines, [type(net.activations[0])("tanh")] * 2), mlp)
