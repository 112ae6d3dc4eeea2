"""Keras .h5 files: whole models of Keras 2 and 3, read without Keras."""

import h5py
import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import weights_digest
from fairmend_check.readers.read_model import read_model
from support.keras_files import (
    FUNCTIONAL_WEIGHTS,
    dense,
    functional,
    import_keras,
    kernel_and_bias,
    quiet,
    sequential,
    write_h5,
)

X = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)


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


@pytest.mark.parametrize("old", [{"output_dim": 1}, {"units": 1, "bias": False}], ids=str)
def test_a_model_of_keras_1_is_refused_with_what_to_do_by_loader_and_checker(old, tmp_path):
    layer = {"class_name": "Dense", "config": {"name": "d", "activation": "linear", **old}}
    weights = {"d": {"d_W": np.zeros((4, 1), np.float32), "d_b": np.zeros(1, np.float32)}}
    path = write_h5(tmp_path / "m.h5", {"class_name": "Sequential", "config": [layer]}, weights)
    way_out = r"of Keras 1; load the file with Keras 2\.0 to 2\.3 and save it again"
    with pytest.raises(FairmendError, match=way_out):
        load_network(path)
    with pytest.raises(CheckError, match=way_out):
        read_model(path)


def test_a_sequential_as_keras_wrote_it_before_2_2_3(tmp_path):
    layers = [dense("dense_1", 3, "relu", batch_input_shape=[None, 4]), dense("dense_2", 1, "sigmoid")]
    weights = {"dense_1": kernel_and_bias("dense_1", 4, 3), "dense_2": kernel_and_bias("dense_2", 3, 1, 1)}
    path = write_h5(tmp_path / "m.h5", {"class_name": "Sequential", "config": layers}, weights)
    network = load_network(path)
    assert repr(network) == "Network(4 → 3 relu → 1 logit + sigmoid, float32)"
    assert weights_digest(read_model(path)[0]) == digest_of_network(network)


def test_a_functional_model_of_keras_2(tmp_path):
    network = load_network(write_h5(tmp_path / "m.h5", functional(), FUNCTIONAL_WEIGHTS))
    assert repr(network) == "Network(4 → 3 relu → 1 logit, float32)"


def test_weights_alone_say_what_to_save_instead(tmp_path):
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file.create_group("dense")
    with pytest.raises(FairmendError, match=r"save the whole model: model\.save"):
        load_network(tmp_path / "w.h5")


def nested(keras, outer, inner, *parts):
    """A model of a base with these layers, and a head; S is a Sequential, F a functional model."""
    start, value = keras.Input((2,)), None
    if inner == "S":
        base = keras.Sequential([keras.Input((2,)), *parts], name="base")
    else:
        value = start
        for part in parts:
            value = part(value)
        base = keras.Model(start, value, name="base")
    head = keras.layers.Dense(1, name="head")
    if outer == "S":
        return keras.Sequential([keras.Input((2,)), base, head])
    start = keras.Input((2,))
    return keras.Model(start, head(base(start)))


def unfreeze_last(base):
    base.trainable = False
    base.layers[-1].trainable = True


def freeze_all(base):
    base.trainable = False


def freeze_one(base):
    base.layers[0].trainable = False


def only_the_model(base):
    base.trainable = False
    for layer in base.layers:
        layer.trainable = True


FREEZE = (unfreeze_last, freeze_all, freeze_one, only_the_model, lambda base: None)
READ_OTHERWISE = {("S", unfreeze_last), ("S", only_the_model)}  # by Keras, than it was saved


@quiet
@pytest.mark.parametrize("freeze", FREEZE, ids=["last unfrozen", "all", "one", "the model alone", "none"])
@pytest.mark.parametrize("norms", [False, True], ids=["dense", "norms"])
@pytest.mark.parametrize("inner", ["S", "F"])
@pytest.mark.parametrize("outer", ["S", "F"])
def test_a_nested_model_is_read_as_keras_loads_it_or_refused(outer, inner, norms, freeze, tmp_path):
    """Keras saves weights in an order that depends on what is frozen, and may load them in another one."""
    keras = import_keras()
    keras.utils.set_random_seed(1)
    parts = [keras.layers.Dense(2, activation="tanh", name=name) for name in "abc"]
    parts = [part for dense in parts for part in (dense, keras.layers.BatchNormalization(name=f"{dense.name}_n"))]
    model = nested(keras, outer, inner, *(parts if norms else parts[::2]))
    rng = np.random.default_rng(2)
    model.set_weights([np.abs(rng.normal(size=weight.shape)) + 0.2 for weight in model.get_weights()])
    freeze(model.get_layer("base"))
    path, rows = tmp_path / "m.h5", np.array([[-1, 1], [1, -1], [0.5, 0.25]], np.float32)
    expected = model.predict(rows, verbose=0)[:, 0]
    model.save(path)
    if (inner, freeze) in READ_OTHERWISE and (norms or freeze is unfreeze_last):
        if not norms:  # others have weights of other shapes, and Keras says so
            assert np.abs(keras.models.load_model(path).predict(rows, verbose=0)[:, 0] - expected).max() > 0.01
        for read, error in ((load_network, FairmendError), (read_model, CheckError)):
            with pytest.raises(error, match=r"\.keras, or set model\.trainable = True before you save it as \.h5"):
                read(path)
        model.trainable = True  # what the message says
        model.save(path)
    network = load_network(path)
    np.testing.assert_allclose(keras.models.load_model(path).predict(rows, verbose=0)[:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(network.logits(rows), expected, rtol=1e-5)
    assert weights_digest(read_model(path)[0]) == digest_of_network(network)


@pytest.mark.parametrize("frozen", [False, True])
def test_keras_2_and_3_must_take_the_weights_in_the_same_order(frozen, tmp_path):
    """Keras 2 ignores that a functional model is frozen, but not that its layers are; Keras 3 does not ignore it."""
    base = functional()
    names = ["a", "b"]
    base["config"]["trainable"] = False
    for layer in base["config"]["layers"]:
        layer["config"]["trainable"] = layer["name"] == "b" and not frozen
    base["config"]["layers"] = [layer for layer in base["config"]["layers"] if layer["name"] != "aside"]
    base["name"] = base["config"]["name"]
    weights = {"m": {**kernel_and_bias("a", 4, 3), **kernel_and_bias("b", 3, 1)}}
    path = write_h5(tmp_path / "m.h5", sequential(base), weights)
    if frozen:
        assert [affine.weight.shape for affine in load_network(path).affines] == [(3, 4), (1, 3)]
        assert weights_digest(read_model(path)[0]) == digest_of_network(load_network(path))
        return
    for listed in (names, names[::-1]):
        arrays = {"m": {key: weights["m"][key] for name in listed for key in weights["m"] if key.startswith(name)}}
        path = write_h5(tmp_path / "m.h5", sequential(base), arrays)
        for read, error in ((load_network, FairmendError), (read_model, CheckError)):
            with pytest.raises(error, match=r"Keras 2 and 3 take .*in different orders.* set model\.trainable = True"):
                read(path)


@quiet
@pytest.mark.parametrize("inner", ["S", "F"])
def test_an_adapted_normalization_in_a_nested_model_is_read_from_keras_files_only(inner, tmp_path):
    """Keras 3 goes on with mean 0 and variance 1 after an .h5 file, on TensorFlow and JAX."""
    keras = import_keras()
    rows = np.array([[-1, 4], [2, -1], [0.5, 0.25]], np.float32)
    adapted = keras.layers.Normalization(name="n")
    adapted.adapt(rows)
    given = keras.layers.Normalization(mean=[1.0, 2.0], variance=[4.0, 0.25], name="n")
    for layer, suffix in ((adapted, ".h5"), (adapted, ".keras"), (given, ".h5"), (given, ".keras")):
        path = tmp_path / f"m{suffix}"
        model = nested(keras, "S", inner, layer)
        model.save(path)
        if layer is adapted and suffix == ".h5":
            for read, error in ((load_network, FairmendError), (read_model, CheckError)):
                with pytest.raises(error, match=r"as \.keras, or give the layer mean and variance as arguments"):
                    read(path)
            continue
        network = load_network(path)
        np.testing.assert_allclose(network.logits(rows), model.predict(rows, verbose=0)[:, 0], rtol=1e-5, atol=1e-6)
        assert weights_digest(read_model(path)[0]) == digest_of_network(network)
        assert read_model(path)[0].condition == ""


@quiet
def test_versions_of_keras_that_ignore_an_adapted_normalization_are_excluded(tmp_path):
    """Keras 3.0 to 3.5 do, on TensorFlow and JAX, in .h5 files."""
    keras = import_keras()
    layer = keras.layers.Normalization()
    layer.adapt(np.array([[-1, 4], [2, -1]], np.float32))
    model = keras.Sequential([keras.Input((2,)), layer, keras.layers.Dense(1)])
    for suffix, words in ((".h5", "Keras 2, or by Keras 3.6 or later"), (".keras", "")):
        model.save(tmp_path / f"m{suffix}")
        condition = read_model(tmp_path / f"m{suffix}")[0].condition
        assert words in condition
        assert bool(condition) == bool(words)
