"""Keras files that fairmend writes: Keras loads them, with the same weights and names."""

import numpy as np
import pytest

from fairmend.network import Activation, load_network
from support.keras_files import import_keras, predictions, quiet
from support.strategies import ACTIVATIONS, random_network

X = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)
SUFFIXES = (".h5", ".keras")


@quiet
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("activation", [*ACTIVATIONS, Activation("leaky_relu", 0.0)], ids=str)
def test_keras_loads_what_is_saved(suffix, activation, tmp_path):
    keras = import_keras()
    for outputs, closing in ((1, "sigmoid"), (3, "softmax"), (2, "none")):
        network = random_network(np.random.default_rng(0), 4, [5, 3], outputs, activation, "float32", closing)
        network.save(tmp_path / f"m{suffix}")
        model = keras.models.load_model(tmp_path / f"m{suffix}")
        expected = network.logits(X) if closing == "none" else network.probabilities(X)
        assert np.allclose(predictions(model, X), expected, atol=1e-6)
        stored = [np.asarray(w) for w in model.get_weights()]
        for affine, kernel, bias in zip(network.affines, stored[::2], stored[1::2], strict=True):
            assert kernel.dtype == network.dtype
            assert kernel.T.tobytes() == affine.weight.tobytes()
            assert bias.tobytes() == affine.bias.tobytes()


def test_names_are_kept_as_far_as_keras_allows_them(tmp_path):
    network = random_network(np.random.default_rng(0), 4, [5])
    for suffix in SUFFIXES:
        network.save(tmp_path / f"m{suffix}")
        assert load_network(tmp_path / f"m{suffix}").names == ("layers_0", "layers_1")


def test_the_same_network_gives_the_same_bytes(tmp_path):
    network = random_network(np.random.default_rng(0), 4, [5], activation="leaky_relu")
    for suffix in SUFFIXES:
        network.save(tmp_path / f"a{suffix}")
        network.save(tmp_path / f"b{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
