"""Keras layers: what each computes, and which are refused by name."""

import subprocess
import sys

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.keras_files import dense, import_keras, kernel_and_bias, predictions, quiet, sequential, write_h5
from support.strategies import random_network

X = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)
SUFFIXES = (".h5", ".keras")


def models(keras):
    layers = keras.layers
    start = keras.Input((4,))
    inner = layers.Dense(3, activation="leaky_relu")(layers.Rescaling(2.0, offset=[1.0, 0.0, -1.0, 0.5])(start))
    functional = keras.Model(start, layers.Dense(3, activation="softmax")(layers.Dropout(0.5)(inner)))
    adapted = layers.Normalization()
    adapted.adapt(np.random.default_rng(0).normal(3, 2, size=(50, 4)))
    yield functional
    # Made in another order than they are used in: weights are numbered by use.
    last, first = layers.Dense(1, name="made_first"), layers.Dense(4, activation="tanh", name="made_last")
    start = keras.Input((4,))
    yield keras.Model(start, last(first(start)))
    yield keras.Sequential(
        [
            keras.Input((4,)),
            adapted,
            layers.Dense(5, use_bias=False),
            layers.BatchNormalization(),
            layers.LeakyReLU(0.2),
            layers.BatchNormalization(scale=False),
            layers.Dropout(0.5),
            layers.Dense(3, activation="relu"),
            layers.Flatten(),
            layers.Dense(2),
            layers.Activation("tanh"),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    yield keras.Sequential([keras.Input((4,)), layers.Dense(5), layers.ReLU(), layers.Dense(2), layers.Softmax()])
    yield keras.Sequential([keras.Input((4,)), layers.Dense(2), layers.Dense(1)])


@quiet
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_keras_saves_is_read(suffix, tmp_path):
    keras = import_keras()
    keras.utils.set_random_seed(0)
    for model in models(keras):
        for layer in model.layers:  # moving averages other than 0 and 1
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.set_weights([abs(np.random.default_rng(2).normal(size=w.shape)) for w in layer.get_weights()])
        model.save(tmp_path / f"m{suffix}")
        network = load_network(tmp_path / f"m{suffix}")
        got = network.logits(X) if network.closing == "none" else network.probabilities(X)
        assert np.allclose(got, predictions(model, X), atol=2e-6)


def test_keras_is_not_imported(tmp_path):
    for suffix in SUFFIXES:
        random_network(np.random.default_rng(0), 4, [5]).save(tmp_path / f"m{suffix}")
    code = (
        "import sys\nfrom fairmend.network import load_network\n"
        f"for suffix in {SUFFIXES}: load_network({str(tmp_path / 'm')!r} + suffix)\n"
        "print(sorted({'keras', 'tensorflow', 'torch'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


A = dense("a", 3)
LAYERS = {
    "an unknown layer": ({"class_name": "Conv1D", "config": {"name": "c"}}, r"layer 'c' \(Conv1D\) is not supported"),
    "a layer of one's own": (
        {**dense("b", 1), "registered_name": "My>Dense"},
        r"'b' \(Dense\) is My>Dense, not one of Keras's own",
    ),
    "a foreign module": ({**dense("b", 1), "module": "my.layers"}, r"'b' \(Dense\) is my.layers, not one of"),
    "an activation": (dense("b", 1, "squareplus"), r"'b' \(Dense\) has the activation squareplus"),
    "a function": (dense("b", 1, {"class_name": "function", "config": "f"}), "has the activation"),
    "a capped leaky relu": (
        {"class_name": "ReLU", "config": {"name": "r", "max_value": 6, "negative_slope": 0.1}},
        r"'r' \(ReLU\) has a max_value and a negative_slope",
    ),
    "a relu of nothing": ({"class_name": "ReLU", "config": {"name": "r", "max_value": 0}}, "and is then always 0"),
    "a relu that jumps": ({"class_name": "ReLU", "config": {"name": "r", "threshold": 1}}, "has a threshold"),
    "a falling slope": (
        {"class_name": "LeakyReLU", "config": {"name": "r", "alpha": -1}},
        r"'r' \(LeakyReLU\) .*slope",
    ),
    "a hard sigmoid of unknown Keras": (dense("b", 1, "hard_sigmoid"), "Keras 2 and 3 compute differently"),
    "a norm that may be 0": ({"class_name": "UnitNormalization", "config": {"name": "n"}}, "a norm that may be 0"),
    "a lambda": ({"class_name": "Lambda", "config": {"name": "n"}}, r"'n' \(Lambda\) is not supported: it may compute"),
    "a sum of one": (
        {"class_name": "Add", "config": {"name": "n"}},
        "reads the output of one layer instead of several",
    ),
    "a table of hidden units": (
        {"class_name": "Embedding", "config": {"name": "b", "input_dim": 3, "output_dim": 1}},
        r"'b' \(Embedding\) has 2 arrays instead of 1",
    ),
    "another shape": ({"class_name": "Reshape", "config": {"name": "n", "target_shape": [5]}}, r"\[5\] of 3 numbers"),
    "no shape": ({"class_name": "Reshape", "config": {"name": "n", "target_shape": [-1, -1]}}, "makes rows of shape"),
    "no slope": ({"class_name": "LeakyReLU", "config": {"name": "r", "alpha": "x"}}, "alpha=x, which is not a number"),
    "half precision": (dense("b", 1, dtype="mixed_float16"), "computes in mixed_float16"),
    "a double kernel": (dense("b", 1, dtype="float64"), r"'b' \(Dense\) is float64. Keras rounds its inputs"),
    "an int8 kernel": (dense("b", 1, quantization_config={"mode": "int8"}), "computes in .*int8"),
    "another width": (dense("b", 2), r"'b' \(Dense\) has 2 units and a kernel of shape \(3, 1\)"),
    "a missing bias": (dense("b", 1, use_bias=False), r"'b' \(Dense\) has 2 arrays instead of 1"),
    "rows of matrices": (dense("b", 1, batch_input_shape=[None, 2, 3]), "not \\(rows, features\\)"),
    "a norm over rows": ({"class_name": "BatchNormalization", "config": {"name": "n", "axis": 0}}, "over axis 0"),
    "a name twice": (dense("a", 3), "two layers have the same name"),
    "no class": ({"config": {"name": "b"}}, "no usable 'class_name'"),
    "no config": ({"class_name": "Dense"}, "no usable 'config'"),
    "a softmax aside": (
        {"class_name": "Softmax", "config": {"name": "s", "axis": 0}},
        "is over axis 0 of rows of shape",
    ),
    "infinite scales": ({"class_name": "Rescaling", "config": {"name": "s", "scale": 1e400}}, "not finite"),
    "no scales": ({"class_name": "Rescaling", "config": {"name": "s", "scale": {}}}, "not numbers"),
}


@pytest.mark.parametrize("case", LAYERS)
def test_what_is_not_supported_is_named(case, tmp_path):
    layer, words = LAYERS[case]
    weights = {"a": kernel_and_bias("a", 4, 3), "b": kernel_and_bias("b", 3, 1)}
    with pytest.raises(FairmendError, match=words):
        load_network(write_h5(tmp_path / "m.h5", sequential(A, layer), weights))


def test_layers_of_keras_2_within_dense(tmp_path):
    leaky = {"class_name": "LeakyReLU", "config": {"name": "l", "alpha": {"type": "ndarray", "value": 0.25}}}
    model = sequential(dense("a", 3, leaky), dense("b", 1))
    weights = {"a": kernel_and_bias("a", 4, 3), "b": kernel_and_bias("b", 3, 1)}
    assert str(load_network(write_h5(tmp_path / "m.h5", model, weights)).activations[0]) == "leaky_relu(0.25)"
