"""Functions that are not defined for all numbers: bounds inside the domain, and one line that names node and cause."""

import numpy as np
import pytest
import torch

from fairmend import Feature, Spec, certify, repair
from fairmend.base.errors import FairmendError
from fairmend.bounds import METHODS, Boxes, feature_bounds
from fairmend.network import Activation, Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Input

NAMES = ("log", "reciprocal", "sqrt", "rsqrt")
SPEC = Spec(
    features=[
        Feature(name="a", kind="continuous", range=(-1, 1), tolerance=0.2),
        Feature(name="b", kind="continuous", range=(-1, 1)),
        Feature(name="p", kind="integer", range=(0, 1), protected=True),
        Feature(name="c", kind="continuous", range=(-1, 1)),
    ]
)
ROWS = np.random.default_rng(1).uniform(-1, 1, (30, 4)).astype(np.float32)
ROWS[:, 2] = np.arange(30) % 2


def network_of(name: str, offset: float) -> Network:
    rng = np.random.default_rng(0)
    first = Affine(0.2 * rng.normal(size=(6, 4)).astype(np.float32), np.full(6, offset, np.float32))
    return Network(
        [first, Affine(rng.normal(size=(1, 6)).astype(np.float32), np.zeros(1, np.float32))], [Activation(name)]
    )


def bounds_of(network, rows, radius, method):
    layers = [(torch.tensor(a.weight), torch.tensor(a.bias)) for a in network.affines[:-1]]
    return feature_bounds(network, layers, Boxes.from_arrays(rows - radius, rows + radius, torch.float32), method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NAMES)
def test_bounds_hold_in_the_domain_and_are_refused_outside(name, method):
    network = network_of(name, 2.5)
    low, high = bounds_of(network, ROWS, 0.1, method)
    features = torch.tensor(network.features(ROWS))
    assert ((low <= features + 1e-5) & (features <= high + 1e-5)).all()
    with pytest.raises(FairmendError, match=rf"node 2 \({name}\) may read -.* to .* has bounds for numbers .* alone"):
        bounds_of(network, ROWS, 5.0, method)


def test_lines_that_leave_the_domain_are_cut_by_intervals():
    """The tangent of exp is negative at an end of a wide interval, but exp is not."""
    first = Affine(np.eye(2, dtype=np.float32), np.zeros(2, np.float32))
    total = Affine(np.ones((2, 2), np.float32), np.zeros(2, np.float32))
    head = Affine(np.ones((1, 2), np.float32), np.zeros(1, np.float32))
    steps = [(first, "a"), (Activation("exp"), None), (total, "b"), (Activation("log"), None), (head, "head")]
    nodes = [Node(Input(2)), *(Node(step, (i,), name) for i, (step, name) in enumerate(steps))]
    network = Network.from_nodes(nodes)
    low, high = bounds_of(network, np.zeros((1, 2), np.float32), 3.0, "linear")
    assert (low <= np.log(2) - 3 + 1e-5).all()
    assert (high >= np.log(2) + 3 - 1e-5).all()


def test_intervals_that_leave_the_domain_are_cut_by_lines():
    """x - x + 1/2 is in the domain by lines; a ReLU behind asks for intervals, in which x and x do not cancel."""
    twice = Affine(np.ones((2, 1), np.float32), np.zeros(2, np.float32))
    apart = Affine(np.float32([[1, -1]]), np.float32([0.5]))
    one = Affine(np.ones((1, 1), np.float32), np.zeros(1, np.float32))
    steps = [twice, Activation("relu"), apart, Activation("log"), one, Activation("relu"), one]
    nodes = [Node(Input(1)), *(Node(step, (i,), f"{i}" if i % 2 == 0 else None) for i, step in enumerate(steps))]
    network = Network.from_nodes(nodes)
    low, high = bounds_of(network, np.full((1, 1), 2.0, np.float32), 1.0, "linear")
    assert low.item() <= 0 <= high.item()
    with pytest.raises(FairmendError, match=r"node 4 \(log\) may read -1.5 to 2.5"):
        bounds_of(network, np.full((1, 1), 2.0, np.float32), 1.0, "interval")


@pytest.mark.parametrize("name", NAMES)
def test_certify_and_repair_where_it_is_defined(name):
    network = network_of(name, 2.5)
    report = certify(network, SPEC, ROWS)
    assert report.counts["unknown"] == 0
    repaired = repair(network, SPEC, ROWS, ROWS, network.predict(ROWS), method="prof")
    assert certify(repaired.network, SPEC, ROWS).counts["fair"] == 30


@pytest.mark.parametrize("name", ["log", "rsqrt", "sqrt"])
def test_a_row_outside_the_domain_is_named(name):
    with pytest.raises(FairmendError, match=rf"node 2 \({name}\) reads -.*, and is defined for numbers .* alone"):
        network_of(name, -1.0).logits(ROWS)


def test_certify_and_repair_name_the_node_that_may_leave_its_domain():
    network = network_of("reciprocal", 0.3)  # 1 / 0 lies between two numbers, and no point meets it
    report = certify(network, SPEC, ROWS[:4], "branch", time_limit=1)
    unknown = [reason for reason in report.reasons if reason]
    assert all("node 2 (reciprocal) may read -" in reason for reason in unknown)
    with pytest.raises(FairmendError, match=r"node 2 \(reciprocal\) may read -.* for numbers on one side of 0 alone"):
        repair(network, SPEC, ROWS, ROWS, network.predict(ROWS), method="prof")
