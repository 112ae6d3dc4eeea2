"""Networks as users of Keras write them, saved as .keras and .h5."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo.data import People

ACTIVATIONS = {
    "relu": "A", "tanh": "A", "sigmoid": "A", "relu6": "B", "leaky_relu": "A", "elu": "C", "selu": "C", "celu": "C",
    "softplus": "C", "softsign": "C", "hard_sigmoid": "C", "gelu": "D", "silu": "D", "mish": "D", "hard_silu": "D",
}  # fmt: skip


def _plain(activation: str, inner_bias: bool = True, head_bias: bool = True) -> Callable[[Any], Any]:
    def make(keras: Any) -> Any:
        layers, inner = keras.layers, {"activation": activation, "use_bias": inner_bias}
        return keras.Sequential(
            [keras.Input((6,)), layers.Dense(12, **inner), layers.Dense(8, **inner),
             layers.Dense(1, activation="sigmoid", use_bias=head_bias)]
        )  # fmt: skip

    return make


def _functional(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((6,), name="people")
    h = layers.Dense(12, activation="relu")(x)
    h = layers.Add()([h, layers.Dense(12, activation="relu")(layers.BatchNormalization()(h))])
    return keras.Model(x, layers.Dense(1, activation="sigmoid", name="decision")(h))


def _wide_and_deep(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((6,))
    deep = layers.Dense(8, activation="gelu")(layers.Dense(12, activation="relu")(x))
    return keras.Model(x, layers.Dense(1, activation="sigmoid")(layers.Concatenate()([x, deep])))


def _average(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((6,))
    heads = [layers.Dense(1)(layers.Dense(8, activation="relu")(x)) for _ in range(3)]
    return keras.Model(x, layers.Average()(heads))


def _nested(keras: Any) -> Any:
    layers = keras.layers
    inner = keras.Sequential([keras.Input((12,)), layers.Dense(8), layers.LeakyReLU(negative_slope=0.2)])
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(12, activation="relu"), layers.Dropout(0.2), inner, layers.Dense(2),
         layers.Softmax()]
    )  # fmt: skip


def _normalised(keras: Any) -> Any:
    layers = keras.layers
    normal = layers.Normalization(mean=[0.5, 1.5, 44, 30, 3, 0.5], variance=[0.25, 1.2, 225, 300, 4, 0.1])
    return keras.Sequential([keras.Input((6,)), normal, layers.Dense(12, activation="relu"), layers.Dense(1)])


def _prelu(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential([keras.Input((6,)), layers.Dense(12), layers.PReLU(), layers.Dense(1)])


def _embedded(keras: Any) -> Any:
    layers = keras.layers
    codes = {name: keras.Input((1,), name=name) for name in ("sex", "job")}
    numbers = keras.Input((4,), name="numbers")
    parts = [layers.Flatten()(layers.Embedding(size, 2)(codes[name])) for name, size in (("sex", 2), ("job", 4))]
    h = layers.Concatenate()([*parts, layers.BatchNormalization()(numbers)])
    out = layers.Dense(1, activation="sigmoid")(layers.Dense(12, activation="relu")(h))
    return keras.Model([*codes.values(), numbers], out)


def _normalised_layers(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((6,))
    h = layers.LayerNormalization()(layers.Dense(8, activation="relu")(x))
    return keras.Model(x, layers.Dense(1, activation="sigmoid")(h))


def _multiplied(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((6,))
    h = layers.Dense(8, activation="relu")(x)
    h = layers.Multiply()([h, layers.Dense(8, activation="sigmoid")(x)])
    return keras.Model(x, layers.Dense(1, activation="sigmoid")(h))


def _normalised_groups(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((6,))
    tokens = layers.Dense(4)(layers.Reshape((3, 2))(x))
    h = layers.Flatten()(layers.GroupNormalization(2)(tokens))
    return keras.Model(x, layers.Dense(1, activation="sigmoid")(layers.Dense(8, activation="relu")(h)))


def _shared_head(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((6,))
    tokens = layers.Dense(8, activation="relu")(layers.Reshape((3, 2))(x))
    gates = layers.Reshape((3, 1))(layers.Dense(3, activation="sigmoid")(x))
    logits = layers.Multiply()([layers.Dense(1)(tokens), gates])
    return keras.Model(x, layers.Activation("sigmoid")(layers.GlobalAveragePooling1D()(logits)))


def _product_along(keras: Any) -> Any:
    layers = keras.layers
    x = keras.Input((6,))
    parts = layers.Reshape((6, 3))(layers.Dense(18, activation="sigmoid")(x))
    return keras.Model(x, layers.Dense(1, activation="sigmoid")(keras.ops.prod(parts, axis=2)))


# name: (class, whether it reads raw columns, how it is made)
MODELS: dict[str, tuple[str, bool, Callable[[Any], Any]]] = {
    **{name: (kind, False, _plain(name)) for name, kind in ACTIVATIONS.items()},
    "head without a bias": ("A", False, _plain("relu", head_bias=False)),
    "no bias at all": ("A", False, _plain("tanh", inner_bias=False, head_bias=False)),
    "functional with a skip": ("B", False, _functional),
    "wide & deep": ("B", False, _wide_and_deep),
    "mean of three": ("B", False, _average),
    "nested": ("A", False, _nested),
    "Normalization": ("A", True, _normalised),
    "PReLU": ("B", False, _prelu),
    "embeddings, three inputs": ("B", True, _embedded),
    "LayerNormalization": ("E", False, _normalised_layers),
    "Multiply": ("E", False, _multiplied),
    "GroupNormalization": ("E", False, _normalised_groups),
    "shared head": ("E", False, _shared_head),
    "product along an axis": ("E", False, _product_along),
}
OLD = [  # saved as .h5 as well
    "relu", "elu", "gelu", "functional with a skip", "nested", "head without a bias", "no bias at all",
]  # fmt: skip


def cases(case: type) -> Iterator[Any]:
    for name, (kind, raw, make) in MODELS.items():
        for suffix in (".keras", ".h5") if name in OLD else (".keras",):
            yield case(
                name, kind, f"Keras ({suffix})", raw, suffix,
                lambda people, folder, make=make, suffix=suffix: train(make, people, folder / f"model{suffix}"),
                lambda path: path,
                lambda network, model, path: (network.save(path), path)[1],
                _decide,
            )  # fmt: skip


def train(make: Callable[[Any], Any], people: People, path: Path) -> Path:
    import keras

    keras.utils.set_random_seed(0)
    model = make(keras)
    X, y = people.training
    loss = "sparse_categorical_crossentropy" if model.output_shape[-1] == 2 else "mse"
    model.compile(keras.optimizers.Adam(0.01), loss=loss)
    model.fit(_inputs(model, X), y, epochs=4, batch_size=128, verbose=0)
    model.save(path)
    return path


def _inputs(model: Any, X: np.ndarray) -> Any:
    """Return rows as the model reads them: one array, or one for each input."""
    widths = [given.shape[-1] for given in model.inputs]
    parts = np.split(X, np.cumsum(widths)[:-1], axis=1)
    return parts[0] if len(parts) == 1 else parts


def _decide(path: Path, X: np.ndarray) -> np.ndarray:
    import keras

    model = keras.models.load_model(path, compile=False)
    outputs = np.asarray(model.predict(_inputs(model, X), verbose=0, batch_size=1000))
    if outputs.shape[1] == 2:
        return outputs.argmax(axis=1)
    closed = getattr(model.layers[-1], "activation", None)
    probability = closed is not None and closed.__name__ == "sigmoid"
    return (outputs[:, 0] >= (0.5 if probability else 0)).astype(np.int64)
