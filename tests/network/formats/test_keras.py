"""Keras files: what Keras saves is read without it, what is saved Keras loads, and what cannot be read is named."""

import json
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest

from fairmend.errors import FairmendError
from fairmend.network import Activation, load_network
from support.keras_files import dense, import_keras, kernel_and_bias, predictions, quiet, sequential, write_h5
from support.strategies import ACTIVATIONS, random_network

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


@quiet
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("activation", [*ACTIVATIONS, Activation("leaky_relu", 0.0)], ids=str)
def test_keras_loads_what_is_saved(suffix, activation, tmp_path):
    keras = import_keras()
    for dtype, outputs, closing in (("float32", 1, "sigmoid"), ("float32", 3, "softmax"), ("float64", 2, "none")):
        network = random_network(np.random.default_rng(0), 4, [5, 3], outputs, activation, dtype, closing)
        network.save(tmp_path / f"m{suffix}")
        model = keras.models.load_model(tmp_path / f"m{suffix}")
        expected = network.logits(X) if closing == "none" else network.probabilities(X)
        # predict rounds its inputs to float32, which these are, so double precision is not lost.
        assert np.allclose(predictions(model, X), expected, atol=1e-6)
        stored = [np.asarray(w) for w in model.get_weights()]
        for affine, kernel, bias in zip(network.affines, stored[::2], stored[1::2], strict=True):
            assert kernel.dtype == network.dtype
            assert kernel.T.tobytes() == affine.weight.tobytes()
            assert bias.tobytes() == affine.bias.tobytes()


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


@pytest.mark.parametrize("name", ["AC-1", "GC-3", "compas-2"])
def test_the_same_model_as_h5_and_nnet_gives_the_same_logits(shared, name):
    """The .nnet files are the .h5 files with every weight rounded to 6 digits, a relative 5e-6.

    What that can do to a logit is propagated through the layers. It is a worst case, 0.08 for the deepest network; the
    roundings cancel, and on the data the logits differ by less than 1e-4.
    """
    data = {"AC-1": "adult", "GC-3": "german", "compas-2": "compas"}[name]
    rows = np.load(shared / "reference" / "processed" / f"{data}.npz", allow_pickle=True)["X_test"].astype(np.float64)
    keras, nnet = (load_network(shared / "models" / f"{name}{suffix}") for suffix in (".h5", ".nnet"))
    assert keras.closing == "sigmoid"
    assert keras.activations == nnet.activations
    values, error = rows, np.zeros_like(rows)
    for i, affine in enumerate(keras.affines):
        weight, bias = np.abs(affine.weight.astype(np.float64)), affine.bias.astype(np.float64)
        error = error @ weight.T + 5.1e-6 * ((np.abs(values) + error) @ weight.T + np.abs(bias))
        values = values @ affine.weight.astype(np.float64).T + bias
        values = np.maximum(values, 0) if i < len(keras.activations) else values
    difference = np.abs(keras.logits(rows) - nnet.logits(rows))
    assert (difference <= error[:, 0]).all()
    assert difference.max() < 1e-4
    assert difference.max() > 0  # else the bound would be about something else


def test_a_model_of_keras_1(tmp_path):
    layers = [
        {
            "class_name": "Dense",
            "config": {
                "name": "dense_1",
                "output_dim": 3,
                "activation": "relu",
                "bias": True,
                "batch_input_shape": [None, 4],
            },
        },
        {"class_name": "Dropout", "config": {"name": "dropout_1", "p": 0.5}},
        {
            "class_name": "Dense",
            "config": {"name": "dense_2", "output_dim": 1, "activation": "sigmoid", "bias": False},
        },
    ]
    first, second = kernel_and_bias("dense_1", 4, 3), kernel_and_bias("dense_2", 3, 1, 1)
    weights = {
        "dense_1": {"dense_1_W": first["dense_1/kernel:0"], "dense_1_b": first["dense_1/bias:0"]},
        "dropout_1": {},
        "dense_2": {"dense_2_W": second["dense_2/kernel:0"]},
    }
    network = load_network(write_h5(tmp_path / "m.h5", {"class_name": "Sequential", "config": layers}, weights))
    assert str(network.activations[0]) == "relu"
    hidden = np.maximum(X @ first["dense_1/kernel:0"] + first["dense_1/bias:0"], 0)
    assert np.allclose(network.logits(X), (hidden @ second["dense_2/kernel:0"])[:, 0], atol=1e-6)
    assert network.names == ("dense_1", "dense_2")


def functional(**changed) -> dict:
    """A functional model as Keras 2 describes it."""
    layers = [
        {"class_name": "InputLayer", "config": {"name": "in", "batch_input_shape": [None, 4]}, "inbound_nodes": []},
        dense("a", 3, "relu") | {"inbound_nodes": [[["in", 0, 0, {}]]]},
        dense("aside", 7) | {"inbound_nodes": [[["in", 0, 0, {}]]]},
        dense("b", 1) | {"inbound_nodes": changed.pop("b", [[["a", 0, 0, {}]]])},
    ]
    for layer in layers:
        layer["name"] = layer["config"]["name"]
    content = {"name": "m", "layers": layers, "input_layers": [["in", 0, 0]], "output_layers": [["b", 0, 0]]}
    return {"class_name": "Model", "config": content | changed}


FUNCTIONAL_WEIGHTS = {"a": kernel_and_bias("a", 4, 3), "b": kernel_and_bias("b", 3, 1), "aside": {}, "in": {}}


def test_a_functional_model_of_keras_2(tmp_path):
    network = load_network(write_h5(tmp_path / "m.h5", functional(), FUNCTIONAL_WEIGHTS))
    assert repr(network) == "Network(4 → 3 relu → 1 logit, float32)"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"b": [[["a", 0, 0, {}], ["in", 0, 0, {}]]]}, r"'b' \(Dense\) does not read the output of exactly one layer"),
        ({"b": [[["a", 0, 0, {}]], [["in", 0, 0, {}]]]}, r"'b' \(Dense\) is not used exactly once"),
        ({"b": [[["a", 0, 0, {"training": True}]]]}, r"'b' \(Dense\) is called with options \(training\)"),
        ({"b": [[["b", 0, 0, {}]]]}, "form a circle"),
        ({"b": [[["x", 0, 0, {}]]]}, "names no layer 'x'"),
        ({"b": []}, "not used exactly once"),
        ({"b": 3}, "not used exactly once"),
        ({"output_layers": [["b", 0, 0], ["a", 0, 0]]}, "several outputs"),
        ({"input_layers": 3}, "no usable 'input_layers'"),
        ({"layers": {}}, "no usable 'layers'"),
    ],
)
def test_functional_models_that_are_no_chain(changed, words, tmp_path):
    with pytest.raises(FairmendError, match=words):
        load_network(write_h5(tmp_path / "m.h5", functional(**changed), FUNCTIONAL_WEIGHTS))


A = dense("a", 3)
LAYERS = {
    "an unknown layer": ({"class_name": "Conv1D", "config": {"name": "c"}}, r"layer 'c' \(Conv1D\) is not supported"),
    "a layer of one's own": (
        {**dense("b", 1), "registered_name": "My>Dense"},
        r"'b' \(Dense\) is My>Dense, not one of Keras's own",
    ),
    "a foreign module": ({**dense("b", 1), "module": "my.layers"}, r"'b' \(Dense\) is my.layers, not one of"),
    "an activation": (dense("b", 1, "swish"), r"'b' \(Dense\) has the activation swish"),
    "a function": (dense("b", 1, {"class_name": "function", "config": "f"}), "has the activation"),
    "a capped relu": ({"class_name": "ReLU", "config": {"name": "r", "max_value": 6}}, r"'r' \(ReLU\) has a max_value"),
    "a steep slope": ({"class_name": "LeakyReLU", "config": {"name": "r", "alpha": 1.5}}, r"'r' \(LeakyReLU\) .*slope"),
    "no slope": ({"class_name": "LeakyReLU", "config": {"name": "r", "alpha": "x"}}, "alpha=x, which is no number"),
    "half precision": (dense("b", 1, dtype="mixed_float16"), "computes in mixed_float16"),
    "a double kernel": (dense("b", 1, dtype="float64"), "computes in float64 with weights stored as float32"),
    "an int8 kernel": (dense("b", 1, quantization_config={"mode": "int8"}), "computes in .*int8"),
    "another width": (dense("b", 2), r"'b' \(Dense\) has 2 units and a kernel of shape \(3, 1\)"),
    "a missing bias": (dense("b", 1, use_bias=False), r"'b' \(Dense\) has 2 arrays instead of 1"),
    "rows of matrices": (dense("b", 1, batch_input_shape=[None, 2, 3]), "not \\(rows, features\\)"),
    "a norm over rows": ({"class_name": "BatchNormalization", "config": {"name": "n", "axis": 0}}, "over axis 0"),
    "a name twice": (dense("a", 3), "two layers have one name"),
    "no class": ({"config": {"name": "b"}}, "no usable 'class_name'"),
    "no config": ({"class_name": "Dense"}, "no usable 'config'"),
    "a softmax aside": ({"class_name": "Softmax", "config": {"name": "s", "axis": 0}}, "not over the last axis"),
    "infinite scales": ({"class_name": "Rescaling", "config": {"name": "s", "scale": 1e400}}, "not finite"),
    "no scales": ({"class_name": "Rescaling", "config": {"name": "s", "scale": {}}}, "no numbers"),
}


@pytest.mark.parametrize("case", LAYERS)
def test_what_is_not_supported_is_named(case, tmp_path):
    layer, words = LAYERS[case]
    weights = {"a": kernel_and_bias("a", 4, 3), "b": kernel_and_bias("b", 3, 1)}
    with pytest.raises(FairmendError, match=words):
        load_network(write_h5(tmp_path / "m.h5", sequential(A, layer), weights))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"class_name": "MyModel", "config": {}}, "the model is a MyModel, .* export it to ONNX"),
        ("{", "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
        ("[]", "no usable 'class_name'"),
        (sequential(), "holds no affine layer"),
    ],
)
def test_configs_that_are_none(model, words, tmp_path):
    with pytest.raises(FairmendError, match=words):
        load_network(write_h5(tmp_path / "m.h5", model, {}))


def test_weights_alone_say_what_to_save_instead(tmp_path):
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file.create_group("dense")
    with pytest.raises(FairmendError, match=r"save the whole model: model\.save"):
        load_network(tmp_path / "w.h5")


def test_layers_of_keras_2_within_dense(tmp_path):
    leaky = {"class_name": "LeakyReLU", "config": {"name": "l", "alpha": {"type": "ndarray", "value": 0.25}}}
    model = sequential(dense("a", 3, leaky), dense("b", 1))
    weights = {"a": kernel_and_bias("a", 4, 3), "b": kernel_and_bias("b", 3, 1)}
    assert str(load_network(write_h5(tmp_path / "m.h5", model, weights)).activations[0]) == "leaky_relu(0.25)"


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
