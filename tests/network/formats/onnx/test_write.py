"""Networks of every operation as ONNX files that fairmend wrote."""

import numpy as np
import pytest

from fairmend import FairmendError, load_network
from fairmend.network import (
    Activation,
    Affine,
    Columns,
    Concatenate,
    Input,
    Lookup,
    Network,
    Node,
    Normalise,
    Scale,
    Sum,
)
from fairmend.network.folding import Norm
from fairmend_check.readers.read_model import read_model
from support.onnx_files import runtime

RNG = np.random.default_rng(1)


def affine(out, width):
    return Affine(RNG.normal(size=(out, width)).astype(np.float32), RNG.normal(size=out).astype(np.float32))


def every_operation():
    norm = Norm("bn", np.ones(4, np.float32), np.full(4, 2, np.float32), None, None, 1e-5)
    return Network.from_nodes(
        [
            Node(Input(3)),
            Node(Columns((0,)), (0,)),
            Node(Lookup(RNG.normal(size=(5, 2)).astype(np.float32)), (1,), "emb"),
            Node(Columns((2, 1)), (0,)),
            Node(Concatenate(), (2, 3)),
            Node(Activation("relu"), (4,)),
            Node(Scale((norm,), 4, np.dtype(np.float32)), (5,)),
            Node(affine(4, 4), (6,), "a"),
            Node(Sum(), (7, 4, 6)),
            Node(Activation("tanh"), (8,)),
            Node(affine(2, 4), (9,), "head"),
        ],
        "softmax",
    )


def test_what_is_written_is_what_onnx_runtime_and_fairmend_read(tmp_path):
    network = every_operation()
    network.save(tmp_path / "m.onnx")
    X = np.column_stack([RNG.integers(0, 5, 50), RNG.normal(size=(50, 2))]).astype(np.float32)
    np.testing.assert_allclose(runtime(tmp_path / "m.onnx", X), network.probabilities(X), atol=1e-6)
    found = load_network(tmp_path / "m.onnx")
    np.testing.assert_allclose(found.logits(X), network.logits(X), rtol=1e-5)
    assert found.names == ("a", "head")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hardswish_is_written_in_the_precision_of_the_network(dtype, tmp_path):
    """ONNX's HardSwish has 1/6 in float32: in float64 it is another function, which the checker refuses."""
    network = Network([affine(4, 3), affine(1, 4)], [Activation("hardswish")]).astype(dtype)
    network.save(tmp_path / "m.onnx")
    assert load_network(tmp_path / "m.onnx") == network
    assert read_model(tmp_path / "m.onnx")[0].dtype == np.dtype(dtype).name
    X = RNG.normal(size=(50, 3)).astype(dtype)
    expected = network.logits(X)
    np.testing.assert_allclose(runtime(tmp_path / "m.onnx", X).ravel(), expected, atol=16 * np.finfo(dtype).eps)


def test_layer_normalisation_is_written_in_the_precision_of_the_network(tmp_path):
    """Without a stash_type, the standard computes mean and deviation in float32."""
    nodes = [Node(Input(6)), Node(Normalise(3, 2.0**-17), (0,)), Node(affine(1, 6), (1,))]
    network = Network.from_nodes(nodes).astype(np.float64)
    network.save(tmp_path / "m.onnx")
    assert read_model(tmp_path / "m.onnx")[0].dtype == "float64"
    X = RNG.normal(size=(50, 6)) + 100
    np.testing.assert_allclose(runtime(tmp_path / "m.onnx", X).ravel(), network.logits(X), atol=1e-9)
    np.testing.assert_allclose(load_network(tmp_path / "m.onnx").logits(X), network.logits(X), atol=1e-12)


def test_a_graph_is_not_written_to_formats_of_chains(tmp_path):
    with pytest.raises(FairmendError, match=r"is not a chain of layers; a \.nnet file .* Save it as \.onnx"):
        every_operation().save(tmp_path / "m.nnet")
    assert not (tmp_path / "m.nnet").exists()
