"""scikit-learn: fitted models are read, alone and in others, and copies of them get the repaired weights."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmend.base.errors import FairmendError
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


def test_a_network_in_float32_goes_into_a_model_in_float64_and_not_the_other_way():
    model = fitted()
    network = load_network(model).astype(np.float32)
    other = to_estimator(network, like=model)
    assert all(weight.dtype == np.float64 for weight in other.coefs_)
    assert load_network(other).astype(np.float32) == network
    narrow = fitted("binary", "relu", X.astype(np.float32))
    with pytest.raises(FairmendError, match="does not fit the estimator"):
        to_estimator(load_network(narrow).astype(np.float64), like=narrow)


def test_what_does_not_fit_is_refused():
    model = fitted()
    rng = np.random.default_rng(0)
    for network in (
        random_network(rng, 4, [6, 4], 1, dtype="float64"),
        random_network(rng, 4, [6, 5], 1, "tanh", dtype="float64"),
        random_network(rng, 4, [6, 5], 3, dtype="float64", closing="softmax"),
    ):
        with pytest.raises(FairmendError, match="does not fit the estimator"):
            to_estimator(network, like=model)
    with pytest.raises(FairmendError, match="is not fitted"):
        load_network(MLPClassifier())
    with pytest.raises(FairmendError, match="fitted MLPClassifier, MLPRegressor or LogisticRegression"):
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


TWO, THREE = (X[:, 0] > 0.2).astype(int), np.digitize(X[:, 0], [-0.5, 0.5])
LINEAR = {
    "binary": (LogisticRegression(), TWO),
    "three classes": (LogisticRegression(), THREE),
    "gradient descent": (SGDClassifier(loss="log_loss", random_state=0), TWO),
    "regression": (LinearRegression(), X[:, 0] * 2 + 1),
}


@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_model_is_a_network_of_one_layer(name):
    model, y = LINEAR[name]
    model = model.fit(X, y)
    network = load_network(model)
    changed = network.with_affines([type(a)(a.weight * 2, a.bias + 1) for a in network.affines])
    for net, estimator in ((network, model), (changed, to_estimator(changed, like=model))):
        if name == "regression":
            assert np.allclose(net.logits(X), estimator.predict(X))
        else:
            assert np.allclose(both(net.probabilities(X)), estimator.predict_proba(X), atol=1e-12)
    assert load_network(to_estimator(changed, like=model)) == changed


def test_a_pipeline_and_a_search_are_read_as_the_model_at_their_end():
    scaler = StandardScaler().fit(X)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, TWO)
    grid = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2)
    for model in (pipeline, grid.fit(X, TWO), FrozenEstimator(pipeline)):
        network = load_network(model)
        assert np.allclose(network.probabilities(scaler.transform(X)), model.predict_proba(X)[:, 1])
    changed = network.with_affines([type(a)(a.weight * 2, a.bias + 1) for a in network.affines])
    copied = to_estimator(changed, like=pipeline)
    assert np.allclose(changed.probabilities(scaler.transform(X)), copied.predict_proba(X)[:, 1])
    assert np.allclose(network.probabilities(scaler.transform(X)), pipeline.predict_proba(X)[:, 1])  # unchanged


@pytest.mark.parametrize("inner", ["mlp", "logistic", "pipeline"])
def test_a_calibration_by_a_sigmoid_is_read_as_what_it_computes(inner):
    made = {"mlp": fitted(), "logistic": LogisticRegression().fit(X, TWO)}
    made["pipeline"] = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, TWO)
    model = CalibratedClassifierCV(FrozenEstimator(made[inner])).fit(X, made[inner].predict(X))
    network = load_network(model)
    rows = StandardScaler().fit_transform(X) if inner == "pipeline" else X
    assert np.allclose(network.probabilities(rows), model.predict_proba(X)[:, 1], atol=1e-12)
    assert (model.classes_[network.predict(rows)] == model.predict(X)).all()
    assert network.depth == {"mlp": load_network(made["mlp"]).depth + 1}.get(inner, 1)


REFUSED = {
    "averages the probabilities of 2 models": lambda: CalibratedClassifierCV(LogisticRegression(), cv=2).fit(X, TWO),
    "method='isotonic'": lambda: CalibratedClassifierCV(FrozenEstimator(fitted()), method="isotonic").fit(X, TWO),
    "VotingClassifier combines": lambda: VotingClassifier([("a", LogisticRegression())]).fit(X, TWO),
    "refit=True": lambda: RandomizedSearchCV(LogisticRegression(), {"C": [1]}, n_iter=1, cv=2, refit=False).fit(X, TWO),
    "ends in StandardScaler": lambda: make_pipeline(StandardScaler(), StandardScaler()),
    "against all others": lambda: SGDClassifier(loss="log_loss", random_state=0).fit(X, THREE),
    "loss='hinge' gives no": lambda: SGDClassifier(random_state=0).fit(X, TWO),
    "is not fitted": lambda: CalibratedClassifierCV(LogisticRegression()),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_one_network_is_refused_with_the_reason(reason):
    with pytest.raises(FairmendError, match=reason):
        load_network(REFUSED[reason]())


def test_a_model_whose_attributes_say_something_else_than_it_predicts_is_refused():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    y = (rows[:, 0] > 0).astype(int)

    def changed(model, **attributes):
        model = copy.deepcopy(model)
        for name, value in attributes.items():
            setattr(model, name, value)
        return model

    net = MLPClassifier((4,), solver="lbfgs", max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.fit(rows, y)
        number = MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=20, random_state=0).fit(rows, y)
    for odd in (
        changed(net, out_activation_="identity"),
        changed(net, n_layers_=2),
        changed(net, coefs_=[*net.coefs_, np.ones((1, 1))], intercepts_=[*net.intercepts_, np.ones(1)]),
        changed(net, predict_proba=lambda given: np.full((len(given), 2), 0.5)),
        changed(number, out_activation_="logistic"),
    ):
        with pytest.raises(FairmendError, match=r"something else than its weights|cannot predict"):
            load_network(odd)
    with pytest.raises(FairmendError, match="activation 'exp'"):
        load_network(changed(net, activation="exp"))
    other = changed(net, activation="tanh")  # which scikit-learn obeys
    assert np.allclose(load_network(other).probabilities(rows), other.predict_proba(rows)[:, 1])
