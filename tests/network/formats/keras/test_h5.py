"""Keras .h5 files: whole models of Keras 2 and 3, read without Keras."""

import h5py
import numpy as np
import pytest

from fairmend.errors import FairmendError
from fairmend.network import load_network
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend_check.errors import CheckError
from fairmend_check.model import weights_digest
from fairmend_check.read_model import read_model
from support.keras_files import FUNCTIONAL_WEIGHTS, dense, functional, kernel_and_bias, write_h5

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
