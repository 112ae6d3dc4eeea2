"""Save small Keras models as .h5 and .keras with the installed Keras and h5py; the versions are in the file names.

    python tests/corpus/make_keras.py FOLDER

Runs with Keras 2 (part of TensorFlow) and with Keras 3 (set KERAS_BACKEND); see README.md for the versions used.
"""

import sys
from importlib import metadata
from pathlib import Path

import h5py
import numpy as np

try:
    from tensorflow import keras  # Keras 2 up to TensorFlow 2.15
except ImportError:
    import keras
VERSION = getattr(keras, "__version__", None) or metadata.version("keras")


def first():
    """Return the input layer, whose argument has another name in Keras 2."""
    name = "shape" if VERSION.startswith("3") else "input_shape"
    return keras.layers.InputLayer(**{name: (3,)})


def plain():
    """A binary classifier that was never compiled."""
    return keras.Sequential(
        [first(), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
    )


def trained():
    """Layers of many classes, with the state of an optimizer."""
    layers = keras.layers
    model = keras.Sequential(
        [
            first(),
            layers.Flatten(),
            layers.Dense(4, kernel_regularizer="l2"),
            layers.LeakyReLU(),
            layers.Dropout(0.1),
            layers.Dense(3),
            layers.ReLU(),
            layers.Dense(2),
            layers.Softmax(),
        ]
    )
    optimizer = keras.optimizers.SGD(momentum=0.9)
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=(8, 3)).astype("float32"), rng.integers(0, 2, 8), epochs=1, verbose=0)
    return model


def norms():
    """A functional model with normalisation, scaling and what is random in training only."""
    layers = keras.layers
    rows = keras.Input((3,), name="people")
    scale = layers.Normalization(mean=[0.5, -0.25, 1.0], variance=[2.0, 0.5, 1.0])
    value = layers.Rescaling(0.5, offset=0.25)(scale(rows))
    value = layers.BatchNormalization()(layers.Dense(3, use_bias=False)(value))
    value = layers.Dropout(0.1)(layers.Activation("relu")(value))
    value = layers.Dense(3, activation="tanh")(layers.BatchNormalization(scale=False)(value))
    model = keras.Model(rows, layers.Dense(1, activation="sigmoid", name="risk")(value))
    rng = np.random.default_rng(0)
    model.set_weights([np.abs(rng.normal(size=w.shape)) + 0.1 for w in model.get_weights()])
    return model


def graph():
    """A functional model with a skip, a nested model, and several kernels of one shape."""
    layers = keras.layers
    rows = keras.Input((3,), name="people")
    value = layers.Dense(3, activation="relu", name="first")(rows)
    inner = [
        first(),
        layers.Dense(3, name="within"),
        layers.BatchNormalization(name="norm"),
        layers.PReLU(name="slopes"),
    ]
    deep = layers.Dense(3, activation="gelu", name="deep")(keras.Sequential(inner, name="inner")(value))
    total = layers.Add(name="sum")([deep, layers.Dense(3, name="wide")(rows), value])
    both = layers.Concatenate(name="both")([total, rows])
    model = keras.Model(rows, layers.Dense(1, activation="sigmoid", name="risk")(both))
    rng = np.random.default_rng(0)
    model.set_weights([np.abs(rng.normal(size=w.shape)) / 2 for w in model.get_weights()])
    return model


def frozen():
    """Nested models as fine-tuning leaves them: two frozen as a whole, and one with a frozen layer."""
    layers = keras.layers

    def base(name):
        return [part for i in range(2) for part in (layers.Dense(3, name=f"{name}_{i}"), norm(f"{name}_norm_{i}"))]

    def norm(name):
        return layers.BatchNormalization(name=name)

    start = value = keras.Input((3,))
    for layer in base("functional"):
        value = layer(value)
    bases = [
        keras.Model(start, value, name="functional"),
        keras.Sequential([first(), *base("sequential")], name="sequential"),
        keras.Sequential([first(), *base("partly")], name="partly"),
    ]
    model = keras.Sequential([first(), *bases, layers.Dense(1, activation="sigmoid", name="risk")])
    rng = np.random.default_rng(0)
    model.set_weights([np.abs(rng.normal(size=w.shape)) / 2 for w in model.get_weights()])
    bases[0].trainable = bases[1].trainable = bases[2].layers[0].trainable = False
    return model


def main(folder: Path) -> None:
    """Write five models in two formats; before Keras 2.13 a .keras file is an .h5 file of that name."""
    major, minor = map(int, VERSION.split(".")[:2])
    versions = f"keras{VERSION}-h5py{h5py.__version__}"
    for build in (plain, trained, norms, graph, frozen):
        model = build()
        for suffix in (".h5", ".keras") if (major, minor) >= (2, 13) else (".h5",):
            model.save(str(folder / f"{versions}-{build.__name__}{suffix}"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
