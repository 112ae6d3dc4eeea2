"""Models in memory: what holds no network is refused with the way to get a network from it."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import load_network


def test_objects_that_hold_no_network_are_refused_by_type():
    with pytest.raises(FairmendError, match=r"from dict; give the path .* nn\.Module"):
        load_network({})


def test_a_classifier_without_probabilities_is_a_network_of_one_layer_for_its_decisions():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = RidgeClassifier().fit(X, X[:, 0] > 0.3)
    with pytest.raises(FairmendError) as caught:
        load_network(model)
    written = str(caught.value).split("one layer: ")[1]
    network = eval(written, {"fairmend": fairmend, "numpy": np, "model": model})
    assert (network.predict(X) == model.predict(X)).all()
