"""Keras files that fairmend writes: Keras loads them, with the same weights and names."""

import io
import zipfile
from pathlib import Path

import h5py
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

# Keras files keep all but their weights: layers, names, normalisation, optimizer and settings.


BIASES = np.float32([0.5, -0.25])
CORPUS = Path(__file__).parents[3] / "corpus" / "keras"


def content(path):
    """Return all attributes and arrays of the HDF5 file, and the other members of the archive."""
    data, others = path.read_bytes(), {}
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            others = {name: archive.read(name) for name in archive.namelist()}
        data = others.pop("model.weights.h5")
    with h5py.File(io.BytesIO(data)) as file:
        found = {"": {key: str(value) for key, value in file.attrs.items()}}
        arrays = {}

        def visit(name, item):
            found[name] = {key: str(value) for key, value in item.attrs.items()}
            if isinstance(item, h5py.Dataset):
                arrays[name] = item[()]

        file.visititems(visit)
    return found, arrays, others


@pytest.mark.parametrize("name", ["keras3.15.1*norms.h5", "keras3.15.1*norms.keras", "keras2.8.0*trained.h5"])
def test_only_the_weights_change(name, tmp_path):
    (source,) = CORPUS.glob(name)
    path = tmp_path / f"m{source.suffix}"
    path.write_bytes(source.read_bytes())
    network = load_network(path)
    changed = network.with_affines([Affine(a.weight * 2, a.bias + 0.5) for a in network.affines])
    changed.save(path)
    assert load_network(path) == changed
    (texts, arrays, others), (old_texts, old_arrays, old_others) = content(path), content(source)
    assert texts == old_texts
    assert others == old_others
    assert {key: (array.shape, array.dtype) for key, array in arrays.items()} == {
        key: (array.shape, array.dtype) for key, array in old_arrays.items()
    }
    differ = [key for key, array in arrays.items() if not np.array_equal(array, old_arrays[key])]
    assert 2 <= len(differ) <= 2 * network.depth


@quiet
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_layer_without_a_bias_stays_without(suffix, tmp_path):
    """In a nested model as well; the file stays the model that it was, which Keras loads."""
    keras = import_keras()
    keras.utils.set_random_seed(0)
    inputs, layers = keras.Input((3,)), keras.layers
    inner = keras.Sequential([keras.Input((2,)), layers.Dense(2, use_bias=False), layers.Dense(2)], name="inner")
    hidden = layers.Dense(2, "relu", use_bias=False, name="first")(inputs)
    model = keras.Model(inputs, layers.Dense(2, use_bias=False, name="last")(inner(hidden)), name="mine")
    path = tmp_path / f"m{suffix}"
    model.save(path)
    network = load_network(path)
    changed = network.with_affines([Affine(a.weight * 2, a.bias + BIASES) for a in network.affines])
    assert [affine.bias.any() for affine in changed.affines] == [False, False, True, False]
    changed.save(path)
    assert load_network(path) == changed
    loaded = keras.models.load_model(path)
    assert (loaded.name, [layer.name for layer in loaded.layers]) == ("mine", [layer.name for layer in model.layers])
    assert not loaded.get_layer("last").use_bias
    X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert predictions(loaded, X) == pytest.approx(changed.logits(X), abs=1e-5)


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
