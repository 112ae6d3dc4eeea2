"""Forms with symbols give the bounds of backward substitution, and their gradients."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairmend.bounds import Boxes, feature_bounds, linear
from fairmend.bounds.symbols import Symbols
from fairmend.network import Activation, Affine, Network
from support.examples import examples
from support.graphs import graph_boxes, graphs
from support.strategies import ACTIVATIONS


def bounds_and_gradients(network: Network, lower: np.ndarray, upper: np.ndarray) -> list[torch.Tensor]:
    layers = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.astype(np.float64).affines[:-1]]
    tensors = [tensor.requires_grad_() for layer in layers for tensor in layer]
    bounds = feature_bounds(network, layers, Boxes.from_arrays(lower, upper, torch.float64))
    total = (bounds[1] - 2 * bounds[0]).sum()
    if total.requires_grad:
        total.backward()
    return [*(end.detach() for end in bounds), *(t.new_zeros(t.shape) if t.grad is None else t.grad for t in tensors)]


def with_symbols(network: Network, lower: np.ndarray, upper: np.ndarray) -> list[torch.Tensor]:
    """Take symbols wherever they can be taken, whether they pay or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "WIDE", 0)
        patch.setattr(Symbols, "cost", lambda self, root, width: -1)
        return bounds_and_gradients(network, lower, upper)


def agree(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    pairs = zip(found, expected, strict=True)
    return all(torch.allclose(a, b, rtol=1e-8, atol=1e-9 * (1 + float(b.abs().max()))) for a, b in pairs)


def wide_chain(widths: list[int], seed: int, scale: float = 1.0) -> Network:
    rng = np.random.default_rng(seed)
    affines = [
        Affine(scale * rng.normal(size=(n, m)) * np.sqrt(2 / m), rng.normal(size=n) / 2) for m, n in pairwise(widths)
    ]
    return Network(affines, [Activation("relu")] * (len(widths) - 2))


def boxes_around(rng: np.random.Generator, pieces: int, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    lower = rng.normal(size=(pieces, inputs))
    upper = lower.copy()
    upper[:, :2] += rng.uniform(0, 1, size=(pieces, 2))
    return lower, upper


@pytest.mark.parametrize("seed", range(4))
def test_symbols_are_backward_substitution(seed):
    network = wide_chain([5, 20, 30, 10, 12, 1], seed)
    boxes = boxes_around(np.random.default_rng(seed), 6, 5)
    assert agree(with_symbols(network, *boxes), bounds_and_gradients(network, *boxes))


@examples(40)
@given(network=graphs(ACTIVATIONS, lookups=False), seed=st.integers(0, 2**32 - 1))
def test_symbols_are_backward_substitution_in_graphs(network, seed):
    boxes = graph_boxes(network, np.random.default_rng(seed), 3)
    assert agree(with_symbols(network, *boxes)[:2], bounds_and_gradients(network, *boxes)[:2])


def test_a_wide_network_takes_symbols_where_they_pay(monkeypatch):
    network = wide_chain([5, 150, 150, 150, 1], 0)
    taken = []
    forms = Symbols.forms
    monkeypatch.setattr(Symbols, "forms", lambda self, i: taken.append(i) or forms(self, i))
    lower, upper = boxes_around(np.random.default_rng(0), 3, 5)
    bounds_and_gradients(network, lower, lower + 0.02 * (upper - lower))
    assert taken == [5], "the third layer: before that, no backward pass has a product"
    taken.clear()
    bounds_and_gradients(wide_chain([5, 100, 100, 100, 1], 0), lower, upper)
    assert not taken, "narrow networks keep every digit"


def test_symbols_do_not_pay_where_most_units_are_unstable(monkeypatch):
    monkeypatch.setattr(Symbols, "forms", lambda self, i: pytest.fail("a backward pass is cheaper"))
    lower = np.full((2, 5), -5.0)
    bounds_and_gradients(wide_chain([5, 150, 150, 150, 1], 0), lower, -lower)
