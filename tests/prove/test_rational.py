"""Exact classes are those of fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.network import Activation, Affine, Network
from fairmend.prove.kernel_bounds import exact_classes
from support.certify_cases import RELU, affine
from support.exact import exact_logits
from support.functions import CLIPPED, KINKED
from support.graphs import PIECEWISE_LINEAR, graph_boxes, graphs
from support.strategies import networks
from support.strategies_spec import unhurried


def exact_class(net, x):
    logits = exact_logits(net, x)
    return int(logits[0] >= 0) if len(logits) == 1 else logits.index(max(logits))


@unhurried
@given(
    net=networks(activations=(RELU, Activation("leaky_relu", 0.01), Activation("identity"))),
    seed=st.integers(0, 2**32 - 1),
    coarse=st.booleans(),
)
def test_exact_classes_are_those_of_fractions(net, seed, coarse):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(3, net.inputs)).astype(net.dtype) * net.dtype.type(10.0 ** rng.integers(-30, 30))
    points[rng.random(points.shape) < 0.3] = 0.0
    if coarse:  # small whole numbers make ties
        net = net.with_affines([affine(np.rint(a.weight), np.rint(a.bias), net.dtype) for a in net.affines])
        points = rng.integers(-2, 3, points.shape).astype(net.dtype)
    assert exact_classes(net, points).tolist() == [exact_class(net, x) for x in points]


@unhurried
@given(net=graphs(PIECEWISE_LINEAR), seed=st.integers(0, 2**32 - 1), coarse=st.booleans())
def test_exact_classes_of_graphs_are_those_of_fractions(net, seed, coarse):
    rng = np.random.default_rng(seed)
    if coarse:
        net = net.with_affines([affine(np.rint(a.weight), np.rint(a.bias), net.dtype) for a in net.affines])
    points = graph_boxes(net, rng)[0].astype(net.dtype)
    assert exact_classes(net, points).tolist() == [exact_class(net, x) for x in points]


@pytest.mark.parametrize("activation", [*KINKED, *CLIPPED], ids=str)
def test_a_value_on_the_threshold_is_decided_by_its_last_digit(activation):
    """The bias of the head is the value of the function, rounded to float64; exactly, it is above or below."""
    one = Affine(np.ones((1, 1)), np.zeros(1))
    function = activation.astype(np.float64)
    for z in (-7.3, -2.5, -1.0, -0.1, 0.0, 0.1, 0.3, 1 / 3, 1.4, 5.9, 6.1):
        exact = _in_fractions(function, z)
        net = Network([one, Affine(np.ones((1, 1)), np.array([-float(exact)]))], [function])
        expected = int(exact - Fraction(float(exact)) >= 0)
        assert exact_classes(net, np.array([[z]])) == [expected]


def _in_fractions(activation: Activation, z: float) -> Fraction:
    """The function of z, by its definition."""
    numbers = [Fraction(n) for n in ((activation.slope,) if activation.name == "leaky_relu" else activation.parameters)]
    x = Fraction(z)
    return {
        "relu": lambda: max(x, Fraction(0)),
        "identity": lambda: x,
        "abs": lambda: abs(x),
        "leaky_relu": lambda: x if x >= 0 else numbers[0] * x,
        "prelu": lambda: x if x >= 0 else numbers[0] * x,
        "clip": lambda: min(max(x, numbers[0]), numbers[1]),
        "hardsigmoid": lambda: min(max(numbers[0] * x + numbers[1], Fraction(0)), Fraction(1)),
    }[activation.name]()
