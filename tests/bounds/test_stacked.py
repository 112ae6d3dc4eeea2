"""Lower and upper forms at once are those of backward substitution, and so are their gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairmend.bounds import Boxes, feature_bounds, linear
from fairmend.network import Activation, Affine, Network
from support.examples import examples
from support.graphs import graph_boxes, graphs
from support.strategies import ACTIVATIONS


def bounds_and_gradients(network: Network, lower: np.ndarray, upper: np.ndarray, stacks: bool) -> list[torch.Tensor]:
    layers = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.astype(np.float64).affines[:-1]]
    tensors = [tensor.requires_grad_() for layer in layers for tensor in layer]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "_stacks", lambda device: stacks)
        bounds = feature_bounds(network, layers, Boxes.from_arrays(lower, upper, torch.float64))
    total = (bounds[1] - 2 * bounds[0]).sum()
    if total.requires_grad:
        total.backward()
    return [*(end.detach() for end in bounds), *(t.new_zeros(t.shape) if t.grad is None else t.grad for t in tensors)]


def assert_agree(network: Network, lower: np.ndarray, upper: np.ndarray, parts: slice = slice(None)) -> None:
    found, expected = (bounds_and_gradients(network, lower, upper, stacks)[parts] for stacks in (True, False))
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-9 * (1 + float(theirs.abs().max())))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_in_a_deep_chain(activation):
    rng = np.random.default_rng(0)
    shapes = [(7, 4), (6, 7), (8, 6), (5, 8), (1, 5)]
    affines = [Affine(rng.normal(size=shape), rng.normal(size=shape[0])) for shape in shapes]
    network = Network(affines, [Activation(activation)] * 4)
    lower = rng.normal(size=(6, 4))
    assert_agree(network, lower, lower + np.array([0.5, 0.2, 0, 0]))


@examples(30)
@given(network=graphs(ACTIVATIONS), seed=st.integers(0, 2**32 - 1))
def test_in_any_graph(network, seed):
    # Without the gradients, which differ where a coefficient is 0: there, the bounds have a kink.
    assert_agree(network, *graph_boxes(network, np.random.default_rng(seed), 3), slice(2))
