"""Keras files keep all but their weights: layers, names, normalisation, optimizer and settings."""

import io
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from fairmend.network import Affine, load_network
from support.keras_files import import_keras, predictions, quiet

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
