"""The kernel's model of a network is the one that the checker reads from its file: in structure, and in every bound."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Columns, Lookup, Network, Sum, load_network
from fairmend.network.graph import Node
from fairmend.network.operations import Input
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import form_bounds
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import network_digest, weights_digest
from fairmend_check.readers.read_model import read_model
from support.checker_graphs import FUNCTIONS, checker_model, exact_outputs
from support.examples import examples
from support.graph_files import with_names
from support.graphs import graphs, hard_graphs

CORPUS = Path(__file__).parents[1] / "corpus"


def assert_same(ours, theirs):
    assert structure(ours) == structure(theirs)
    assert weights_digest(ours) == weights_digest(theirs)
    for one, other in zip(bounds(ours), bounds(theirs), strict=True):
        np.testing.assert_array_equal(one, other)


def structure(model):
    return [(type(node.operation), node.sources) for node in model.nodes]


def bounds(model):
    """Linear bounds of the outputs, and of the error of inference, over boxes whose ends are rows of tables."""
    rng = np.random.default_rng(0)
    lower = rng.integers(0, 2, (3, model.inputs)).astype(float)
    upper = lower + rng.integers(0, 2, lower.shape)
    forms = np.concatenate([np.eye(model.outputs), -np.eye(model.outputs)])
    forms = np.broadcast_to(forms, (len(lower), *forms.shape))
    found, nodes = form_bounds(model, forms, lower, upper)
    return found, *(output_errors(model, lower, upper, nodes, forms, thorough=thorough) for thorough in (False, True))


def test_the_checker_reads_the_same_model_from_the_files_of_the_corpus():
    suffixes = {".onnx", ".h5", ".keras", ".nnet"}
    compared = dict.fromkeys(suffixes, 0)
    for path in sorted(path for path in CORPUS.rglob("*") if path.suffix in suffixes):
        try:
            theirs, _ = read_model(path)
        except CheckError:  # a file that is refused
            continue
        ours = kernel_model(load_network(path))
        assert_same(ours, theirs)
        assert ours.closed == theirs.closed
        compared[path.suffix] += 1
    assert min(compared.values()) >= 4


@examples(60)
@given(st.one_of(graphs(FUNCTIONS), hard_graphs(FUNCTIONS)))
def test_the_model_computes_what_the_network_computes(network):
    """The kernel reads steps and tensors; the network runs its nodes."""
    rows = [len(node.operation.table) for node in network.nodes if isinstance(node.operation, Lookup)]
    X = np.random.default_rng(0).integers(0, min([2, *rows]), (4, network.inputs)).astype(network.dtype)
    model, logits = kernel_model(network), network.astype(np.float64).logits(X.astype(np.float64)).reshape(4, -1)
    for x, expected in zip(X, logits, strict=True):
        found = np.array([float(value.mid()) for value in exact_outputs(model, x)])
        size = 1 + np.abs(expected).max()
        assert np.isfinite(size)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * size)


@pytest.mark.parametrize("suffix", [".onnx", ".keras", ".h5"])
def test_a_sum_of_three_parts_stays_one_in_every_format(suffix, tmp_path):
    rng = np.random.default_rng(0)
    layers = [Affine(rng.normal(size=(3, 3)), rng.normal(size=3)).astype(np.float32) for _ in range(3)]
    last = Affine(rng.normal(size=(1, 3)), rng.normal(size=1)).astype(np.float32)
    parts = [Node(layer, (0,), f"part{number}") for number, layer in enumerate(layers)]
    network = Network.from_nodes([Node(Input(3)), *parts, Node(Sum(), (1, 2, 3)), Node(last, (4,), "last")])
    network.save(tmp_path / f"model{suffix}")
    assert network_digest(read_model(tmp_path / f"model{suffix}")[0]) == network_digest(kernel_model(network))


def test_a_column_that_is_chosen_twice_becomes_two_choices():
    head = Affine(np.ones((1, 3)), np.zeros(1))
    nodes = [Node(Input(2)), Node(Columns((0, 1, 0)), (0,)), Node(Activation("relu"), (1,)), Node(head, (2,), "head")]
    network = with_names(Network.from_nodes(nodes))
    assert_same(kernel_model(network), checker_model(network))


def test_a_network_that_is_too_large_for_the_kernel_is_refused():
    square = Affine(np.ones((1, 1)), np.zeros(1))
    network = Network([square] * 1001, [Activation("relu")] * 1000)
    with pytest.raises(FairmendError, match=r"nothing can be proven about this network: .* 2 to 2,000"):
        kernel_model(network)
