"""Models in memory: what holds no network is refused with the way to get a network from it."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

import fairmend
from fairmend.errors import FairmendError
from fairmend.network import load_network
from support.keras_files import import_keras, quiet


def test_objects_that_hold_no_network_are_refused_by_type():
    with pytest.raises(FairmendError, match=r"from dict; give the path .* nn\.Module"):
        load_network({})


@quiet
def test_a_keras_model_is_to_be_saved_first():
    keras = import_keras()
    row = keras.Input((4,))
    for model in (keras.Sequential([row, keras.layers.Dense(1)]), keras.Model(row, keras.layers.Dense(1)(row))):
        with pytest.raises(FairmendError, match=r'Keras model in memory.*model\.save\("model\.keras"\)') as caught:
            load_network(model)
        assert "trace" not in str(caught.value)


def test_a_classifier_without_probabilities_is_a_network_of_one_layer_for_its_decisions():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = RidgeClassifier().fit(X, X[:, 0] > 0.3)
    with pytest.raises(FairmendError) as caught:
        load_network(model)
    written = str(caught.value).split("one layer: ")[1]
    network = eval(written, {"fairmend": fairmend, "numpy": np, "model": model})
    assert (network.predict(X) == model.predict(X)).all()
