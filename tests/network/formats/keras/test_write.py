"""Keras files that fairmend writes: Keras loads them, with the same weights and names."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Columns, Input, Network, Node, load_network
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend_check.kernel.model import weights_digest
from fairmend_check.readers.read_model import read_model
from support.keras_files import import_keras, predictions, quiet
from support.keras_models import keras_predictions, make_model, rows_for
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


@quiet
@pytest.mark.parametrize(("name", "suffix"), [("functions", ".keras"), ("residual", ".h5")])
def test_a_graph_is_written_as_a_functional_model(name, suffix, tmp_path):
    keras = import_keras()
    make_model(keras, name).save(tmp_path / "m.keras")
    network = load_network(tmp_path / "m.keras")
    network.save(tmp_path / f"m{suffix}", keep_form=False)
    found, rows = load_network(tmp_path / f"m{suffix}"), rows_for(network)
    assert np.array_equal(found.logits(rows), network.logits(rows))
    assert weights_digest(read_model(tmp_path / f"m{suffix}")[0]) == digest_of_network(found)
    model = keras.models.load_model(tmp_path / f"m{suffix}")
    assert np.allclose(keras_predictions(model, found, rows), network.probabilities(rows), atol=1e-6)


def test_a_choice_of_columns_is_refused(tmp_path):
    affine = Affine(np.ones((1, 2), np.float32), np.zeros(1, np.float32))
    network = Network.from_nodes([Node(Input(3), ()), Node(Columns((0, 2)), (0,)), Node(affine, (1,), "d")])
    with pytest.raises(FairmendError, match=r"cannot write a choice of columns \(columns_1\) in a Keras file"):
        network.save(tmp_path / "m.keras")


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
