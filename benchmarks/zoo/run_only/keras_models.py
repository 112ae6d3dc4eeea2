"""Models of Keras with preprocessing layers, attention, gates and products: in memory, and exported to ONNX."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo.data import JOBS
from benchmarks.zoo.run_only.models import CONVERTED, KERAS, Model, Rows, installed, keras_inputs
from benchmarks.zoo.run_only.people import CODED, NUMBERS, ONE_HOT, RACES, RAW, SEXES, SIZES, Reading

VALUES = {"sex": SEXES, "race": RACES, "job": JOBS}
ONE_HOT_COLUMNS = sum(SIZES) + len(NUMBERS)


def _deep(layers: Any, x: Any) -> Any:
    return layers.Dense(1, activation="sigmoid")(layers.Dense(16, activation="relu")(x))


def _table(encode: Callable[[Any, str, Any], Any], normalise: Callable[[Any, str, Any, Any], Any]) -> Any:
    """Return how a model with one input for each column of the table is made, from how each kind is encoded."""

    def make(keras: Any, frame: Any) -> Any:
        inputs = {name: keras.Input((1,), name=name, dtype="string") for name in VALUES}
        inputs |= {name: keras.Input((1,), name=name) for name in NUMBERS}
        parts = [encode(keras.layers, name, inputs[name]) for name in VALUES]
        parts += [normalise(keras.layers, name, inputs[name], frame[name].to_numpy(np.float32)) for name in NUMBERS]
        return keras.Model(inputs, _deep(keras.layers, keras.layers.Concatenate()(parts)))

    return make


def _one_hot(layers: Any, name: str, x: Any) -> Any:
    return layers.StringLookup(vocabulary=list(VALUES[name]), output_mode="one_hot")(x)


def _encoded(layers: Any, name: str, x: Any) -> Any:
    codes = layers.StringLookup(vocabulary=list(VALUES[name]))(x)
    return layers.CategoryEncoding(num_tokens=len(VALUES[name]) + 1, output_mode="multi_hot")(codes)


def _embedded(layers: Any, name: str, x: Any) -> Any:
    codes = layers.StringLookup(vocabulary=list(VALUES[name]))(x)
    return layers.Flatten()(layers.Embedding(len(VALUES[name]) + 1, 3)(codes))


def _hashed(layers: Any, name: str, x: Any) -> Any:
    return layers.Hashing(num_bins=16, output_mode="one_hot")(x)


def _normalised(layers: Any, name: str, x: Any, values: Any) -> Any:
    normal = layers.Normalization(axis=None)
    normal.adapt(values)
    return normal(x)


def _binned(layers: Any, name: str, x: Any, values: Any) -> Any:
    edges = np.quantile(values, [0.2, 0.4, 0.6, 0.8]).astype(float).tolist()
    return layers.Discretization(bin_boundaries=edges, output_mode="one_hot")(x)


def _integers(keras: Any, X: Any) -> Any:
    """Return a model of one matrix, whose first columns are codes that are looked up."""
    layers = keras.layers
    x = keras.Input((len(VALUES) + len(NUMBERS),))
    parts = []
    for place, size in enumerate(SIZES):
        lookup = layers.IntegerLookup(vocabulary=list(range(size)), output_mode="one_hot")
        parts.append(lookup(keras.ops.cast(x[:, place : place + 1], "int64")))
    parts = [keras.ops.cast(part, "float32") for part in parts]
    return keras.Model(x, _deep(layers, layers.Concatenate()([*parts, x[:, len(SIZES) :]])))


def _attention(keras: Any, X: Any) -> Any:
    layers = keras.layers
    x = keras.Input((ONE_HOT_COLUMNS,))
    tokens = layers.Dense(8)(layers.Reshape((ONE_HOT_COLUMNS, 1))(x))
    tokens = layers.Multiply()([tokens, _positions(keras, x)])
    mixed = layers.LayerNormalization()(layers.Add()([tokens, layers.MultiHeadAttention(2, 4)(tokens, tokens)]))
    return keras.Model(x, _deep(layers, layers.Flatten()(mixed)))


def _positions(keras: Any, x: Any) -> Any:
    """Return a vector of eight numbers for each of the columns, learnt from a constant."""
    layers = keras.layers
    ones = keras.ops.ones_like(x)
    return layers.Reshape((ONE_HOT_COLUMNS, 8))(layers.Dense(ONE_HOT_COLUMNS * 8)(ones))


def _dot_attention(keras: Any, X: Any) -> Any:
    layers = keras.layers
    x = keras.Input((ONE_HOT_COLUMNS,))
    tokens = layers.Reshape((4, 8))(layers.Dense(32)(x))
    return keras.Model(x, _deep(layers, layers.Flatten()(layers.Attention()([tokens, tokens]))))


def _layer_norm(keras: Any, X: Any) -> Any:
    layers = keras.layers
    x = keras.Input((ONE_HOT_COLUMNS,))
    return keras.Model(x, _deep(layers, layers.LayerNormalization()(layers.Dense(16, activation="silu")(x))))


def _gated(keras: Any, X: Any) -> Any:
    layers = keras.layers
    x = keras.Input((ONE_HOT_COLUMNS,))
    gate = layers.Multiply()([layers.Dense(16)(x), layers.Dense(16, activation="sigmoid")(x)])
    return keras.Model(x, _deep(layers, gate))


def _cross(keras: Any, X: Any) -> Any:
    layers = keras.layers
    x = keras.Input((ONE_HOT_COLUMNS,))
    crossed = x
    for _ in range(2):
        crossed = layers.Add()([layers.Multiply()([x, layers.Dense(ONE_HOT_COLUMNS)(crossed)]), crossed])
    return keras.Model(x, _deep(layers, crossed))


def _excitation(keras: Any, X: Any) -> Any:
    layers = keras.layers
    x = keras.Input((ONE_HOT_COLUMNS,))
    squeezed = layers.Dense(4, activation="relu")(x)
    excited = layers.Multiply()([x, layers.Dense(ONE_HOT_COLUMNS, activation="sigmoid")(squeezed)])
    return keras.Model(x, _deep(layers, excited))


def _convolution(keras: Any, X: Any) -> Any:
    layers = keras.layers
    x = keras.Input((ONE_HOT_COLUMNS,))
    h = layers.Conv1D(4, 3, activation="relu")(layers.Reshape((ONE_HOT_COLUMNS, 1))(x))
    return keras.Model(x, _deep(layers, layers.Flatten()(h)))


def _recurrent(keras: Any, X: Any) -> Any:
    layers = keras.layers
    x = keras.Input((ONE_HOT_COLUMNS,))
    return keras.Model(x, _deep(layers, layers.GRU(8, unroll=True)(layers.Reshape((ONE_HOT_COLUMNS, 1))(x))))


def _unit_norm(keras: Any, X: Any) -> Any:
    layers = keras.layers
    x = keras.Input((ONE_HOT_COLUMNS,))
    return keras.Model(x, _deep(layers, layers.UnitNormalization()(layers.Dense(16)(x))))


MODELS: dict[str, tuple[Reading, Callable[[Any, Any], Any]]] = {
    "StringLookup one-hot, Normalization": (RAW, _table(_one_hot, _normalised)),
    "StringLookup, CategoryEncoding": (RAW, _table(_encoded, _normalised)),
    "StringLookup, Embedding": (RAW, _table(_embedded, _normalised)),
    "Hashing": (RAW, _table(_hashed, _normalised)),
    "Discretization": (RAW, _table(_one_hot, _binned)),
    "IntegerLookup": (CODED, _integers),
    "MultiHeadAttention": (ONE_HOT, _attention),
    "Attention": (ONE_HOT, _dot_attention),
    "LayerNormalization": (ONE_HOT, _layer_norm),
    "UnitNormalization": (ONE_HOT, _unit_norm),
    "gate": (ONE_HOT, _gated),
    "cross layers": (ONE_HOT, _cross),
    "squeeze and excitation": (ONE_HOT, _excitation),
    "Conv1D": (ONE_HOT, _convolution),
    "GRU": (ONE_HOT, _recurrent),
}
# tf2onnx writes no valid file for CategoryEncoding, Hashing, Discretization, IntegerLookup and the erf of GELU.
EXPORTED = ["StringLookup one-hot, Normalization", "StringLookup, Embedding", "MultiHeadAttention",
            "LayerNormalization", "gate", "cross layers", "squeeze and excitation"]  # fmt: skip


def cases() -> Iterator[Model]:
    """Yield the models if TensorFlow is installed: Keras reads text with no other backend."""
    if not installed("Keras", "keras", "tensorflow"):
        return
    for name, (reading, make) in MODELS.items():
        yield Model(name, "Keras", KERAS, reading, "probability", _maker(reading, make, export=False))
    if installed("Keras's ONNX", "tf2onnx"):
        for name in EXPORTED:
            reading, make = MODELS[name]
            yield Model(name, "Keras", CONVERTED, reading, "probability", _maker(reading, make, export=True))


def _maker(reading: Reading, make: Callable[[Any, Any], Any], export: bool) -> Callable[[Rows, np.ndarray, Path], Any]:
    def build(X: Rows, y: np.ndarray, folder: Path) -> Any:
        import keras

        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(f"Keras runs on {keras.backend.backend()}: set KERAS_BACKEND=tensorflow")
        keras.utils.set_random_seed(0)
        model = make(keras, X)
        model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
        model.fit(keras_inputs(X), y, epochs=6, batch_size=128, verbose=0)
        if export:
            return _export(model, reading, folder)
        return model

    return build


def _export(model: Any, reading: Reading, folder: Path) -> Path:
    """Write a model as ONNX: as Keras does, or with the tables of a lookup, which need the whole of tf2onnx."""
    path = folder / "model.onnx"
    if not reading.raw:
        model.export(path, format="onnx", verbose=False)
        return path
    model.export(folder / "saved", verbose=False)
    convert = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", str(folder / "saved"), "--output", str(path)]
    subprocess.run([*convert, "--opset", "17", "--extra_opset", "ai.onnx.ml:2"], check=True)
    return path
