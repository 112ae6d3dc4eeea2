"""Exact classes are those of fractions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairmend.network import Activation
from fairmend.prove.rational import exact_classes
from support.certify_cases import RELU, affine
from support.exact import exact_logits
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
