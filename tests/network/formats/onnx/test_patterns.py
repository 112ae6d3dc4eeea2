"""Functions that exporters write as several nodes are read as one; near misses are refused."""

import numpy as np
import pytest

from fairmend import FairmendError, load_network
from support.onnx_files import A, X, runtime, save
from support.onnx_functions import NEAR_MISSES, WRITTEN, between_layers, function_of_function

REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_function_of_several_nodes_is_read_as_one(name, tmp_path):
    function, nodes, constants = WRITTEN[name]
    path = save(tmp_path / "m.onnx", between_layers(nodes), outputs=1, **(A | REST | constants))
    network = load_network(path)
    assert [activation.name for activation in network.activations] == [function]
    np.testing.assert_allclose(network.logits(X), runtime(path, X)[:, 0], atol=1e-5)


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_refused(name, tmp_path):
    nodes, constants = NEAR_MISSES[name]
    path = save(tmp_path / "m.onnx", between_layers(nodes), outputs=1, **(A | REST | constants))
    with pytest.raises(FairmendError, match=r"not supported|depend on the input|depends on the input"):
        load_network(path)


@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "gelu_tanh", "hardswish"])
def test_a_function_of_a_product_is_read(name, tmp_path):
    network = function_of_function(name)
    network.save(tmp_path / "m.onnx")
    assert load_network(tmp_path / "m.onnx").nodes == network.nodes
