"""The checker finds the functions that exporters write as several nodes, and refuses near misses."""

import numpy as np
import pytest

from fairmend.network import load_network
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Activation, weights_digest
from fairmend_check.readers.read_model import read_model
from support.onnx_files import A, save
from support.onnx_functions import NEAR_MISSES, WRITTEN, between_layers, function_of_function

REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_function_of_several_nodes_is_one_for_the_checker_too(name, tmp_path):
    _, nodes, constants = WRITTEN[name]
    path = save(tmp_path / "m.onnx", between_layers(nodes), outputs=1, **(A | REST | constants))
    assert weights_digest(read_model(path)[0]) == digest_of_network(load_network(path))


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_refused(name, tmp_path):
    nodes, constants = NEAR_MISSES[name]
    path = save(tmp_path / "m.onnx", between_layers(nodes), outputs=1, **(A | REST | constants))
    with pytest.raises(CheckError):
        read_model(path)


@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "gelu_tanh", "hardswish"])
def test_a_function_of_a_product_is_read(name, tmp_path):
    function_of_function(name).save(tmp_path / "m.onnx")
    model, _ = read_model(tmp_path / "m.onnx")
    functions = [node.operation.name for node in model.nodes if isinstance(node.operation, Activation)]
    assert functions == [name, name]
