""".keras archives: compressed ones, and those of the first release that wrote them."""

import json
import zipfile

import h5py
import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import Affine, load_network
from support.keras_files import import_keras, quiet
from support.keras_models import keras_predictions, make_model, network_predictions, rows_for
from support.strategies import random_network

# Keras models in memory are read, and come back as models of their own class with other weights.


@quiet
def test_a_model_in_memory_comes_back_with_other_weights(tmp_path):
    keras = import_keras()
    model = make_model(keras, "embeddings")
    model.compile("adam", "binary_crossentropy")
    before = model.get_weights()
    network = load_network(model)
    X = rows_for(network)
    assert np.allclose(network.probabilities(X), keras_predictions(model, network, X), atol=1e-6)
    changed = network.with_affines([Affine(a.weight * 0.5, a.bias + 0.25) for a in network.affines])
    copy = changed.to_module()
    assert type(copy) is type(model)
    assert [layer.name for layer in copy.layers] == [layer.name for layer in model.layers]
    assert copy.loss == "binary_crossentropy"
    assert np.allclose(network_predictions(changed, X, "embeddings"), keras_predictions(copy, network, X), atol=1e-6)
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    for suffix in (".keras", ".h5"):
        changed.save(tmp_path / f"m{suffix}")
        assert load_network(tmp_path / f"m{suffix}").nodes == changed.nodes


@quiet
def test_what_has_no_weights_or_is_no_model_is_refused():
    keras = import_keras()
    dense = keras.layers.Dense(1)
    with pytest.raises(FairmendError, match=r"has no weights yet: begin it with keras\.Input"):
        load_network(keras.Sequential([dense], name="late"))
    with pytest.raises(FairmendError, match="Dense is a part of Keras, not a model"):
        load_network(dense)

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return self.dense(x) ** 2

    own = Own()
    own(np.zeros((1, 4), np.float32))
    with pytest.raises(FairmendError, match=r"the Keras model 'own\w*': the model is a Own, which may compute"):
        load_network(own)


def test_a_compressed_keras_file_is_read(tmp_path):
    network = random_network(np.random.default_rng(0), 4, [5])
    network.save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as old, zipfile.ZipFile(tmp_path / "z.keras", "w", 8) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert load_network(tmp_path / "z.keras").affines == network.affines


def test_the_first_keras_files_of_tensorflow_are_read(tmp_path):
    """TensorFlow 2.12 kept the weights below another name."""
    network = random_network(np.random.default_rng(0), 4, [5])
    network.save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as archive:
        config = json.loads(archive.read("config.json"))
    with h5py.File(tmp_path / "w.h5", "w") as file:
        for place, affine in zip(("dense", "dense_1"), network.affines, strict=True):
            group = file.create_group(f"_layer_checkpoint_dependencies/{place}/vars")
            group["0"], group["1"] = affine.weight.T, affine.bias
    with zipfile.ZipFile(tmp_path / "old.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.write(tmp_path / "w.h5", "model.weights.h5")
    assert load_network(tmp_path / "old.keras").affines == network.affines
