"""A network goes back into the form that it came in, or is written as others are, with a warning."""

import json
import logging

import h5py
import numpy as np
import pytest

from fairmend.network import Affine, Network, load_network
from fairmend.network.form import FormError
from support.keras_files import dense, sequential, write_h5


class Cramped:
    """A form that has no place for any network."""

    suffixes = (".onnx",)

    def to_bytes(self, network, suffix):
        raise FormError("the model has no layer 'a'")


def test_a_network_that_does_not_fit_its_form_is_written_as_others_are(tmp_path, caplog):
    network = Network([Affine(np.ones((1, 3), np.float32), np.ones(1, np.float32))], [], form=Cramped())
    with caplog.at_level(logging.WARNING):
        network.save(tmp_path / "m.onnx")
    assert "the model has no layer 'a'; the file keeps the weights" in caplog.text
    assert load_network(tmp_path / "m.onnx") == network


@pytest.mark.parametrize("suffix", [".onnx", ".pth"])
def test_another_dtype_or_format_has_no_form(suffix, tmp_path):
    kernel = np.random.default_rng(0).normal(size=(3, 1)).astype(np.float32)
    config = sequential(dense("a", 1, use_bias=False, batch_input_shape=[None, 3]))
    network = load_network(write_h5(tmp_path / "m.h5", config, {"a": {"kernel": kernel}}))
    assert network.astype(np.float64).form is None
    network.save(tmp_path / f"m{suffix}")
    assert load_network(tmp_path / f"m{suffix}") == network


def test_a_network_can_be_saved_without_its_form(tmp_path):
    kernel = np.random.default_rng(0).normal(size=(3, 1)).astype(np.float32)
    path = write_h5(
        tmp_path / "m.h5",
        sequential(dense("a", 1, batch_input_shape=[None, 3])),
        {"a": {"kernel": kernel, "bias": np.float32([1])}},
    )
    network = load_network(path)
    network.save(tmp_path / "same.h5")
    network.save(tmp_path / "own.h5", keep_form=False)
    names = [
        json.loads(h5py.File(tmp_path / name).attrs["model_config"])["config"].get("name")
        for name in ("same.h5", "own.h5")
    ]
    assert names[0] != "fairmend"
    assert names[1] == "fairmend"
    assert load_network(tmp_path / "own.h5") == network
