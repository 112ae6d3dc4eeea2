"""PyTorch computes what NumPy computes."""

import numpy as np
import torch
from hypothesis import given

from fairmend.bounds.forward import forward, forward_nodes
from support.examples import examples
from support.graphs import graph_boxes, graphs


@examples(50)
@given(graphs(dtypes=(np.float64,)))
def test_a_graph_in_torch_is_the_one_in_numpy(network):
    X = graph_boxes(network, np.random.default_rng(0), pieces=5)[0]
    expected = network.logits(X).reshape(5, -1)
    layers = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.affines]
    found = forward(network, layers, torch.tensor(X))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)
    stacked = [(torch.stack([w, 2 * w]), torch.stack([b, b])) for w, b in layers]
    both = forward(network, stacked, torch.tensor(X).expand(2, -1, -1))
    np.testing.assert_allclose(both[0].numpy(), expected, rtol=1e-9, atol=1e-9)


@examples(20)
@given(graphs(dtypes=(np.float64,)))
def test_given_nodes_are_not_computed(network):
    X = torch.tensor(graph_boxes(network, np.random.default_rng(0), pieces=5)[0])
    layers = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.affines]
    values = forward_nodes(network, layers, {0: X})
    half = {i: value for i, value in values.items() if i <= len(values) // 2}
    again = forward_nodes(network, layers, half)
    assert all(torch.equal(values[i], again[i]) for i in values)
