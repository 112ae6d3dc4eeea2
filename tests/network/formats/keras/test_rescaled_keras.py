"""Keras models that rescale the sigmoid at their end: Rescaling layers, and pairs."""

from pathlib import Path

import numpy as np
import pytest

import fairmend
from fairmend.network import Affine
from fairmend_check.readers.read_model import read_model
from support.keras_files import import_keras, quiet

keras = import_keras()


def saved(path: Path, close) -> tuple[np.ndarray, np.ndarray]:
    keras.utils.set_random_seed(0)
    given = keras.Input((3,))
    p = keras.layers.Dense(1, activation="sigmoid")(keras.layers.Dense(5, activation="relu")(given))
    model = keras.Model(given, close(p))
    model.save(path)
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    return X, model.predict(X, verbose=0)


def points(p):
    return keras.layers.Rescaling(550.0, 300.0)(p)


def falling(p):
    return keras.layers.Rescaling(-550.0, 850.0)(p)


def pair(p):
    return keras.layers.Concatenate()([keras.layers.Rescaling(-1.0, 1.0)(p), p])


@quiet
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("close", [points, falling, pair])
def test_both_readers_read_what_keras_computes(tmp_path, close, suffix):
    path = tmp_path / f"model{suffix}"
    X, given = saved(path, close)
    network, (model, _) = fairmend.load_network(path), read_model(path)
    assert network.scores(X).reshape(given.shape) == pytest.approx(given, rel=1e-6)
    assert model.rescaling.ends == network.rescaling.ends
    assert model.rescaling.both is network.rescaling.both is (close is pair)
    assert np.array_equal(model.layers[-1].weight, network.head.weight)
    head = Affine(np.ones_like(network.head.weight), network.head.bias)
    changed = network.with_affines([*network.affines[:-1], head])
    changed.save(tmp_path / f"changed{suffix}")
    again = keras.models.load_model(tmp_path / f"changed{suffix}", compile=False)
    assert again.predict(X, verbose=0).reshape(-1) == pytest.approx(changed.scores(X).reshape(-1), rel=1e-6)
