"""The forms enclose the lead of every network, graphs among them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairmend.bounds import rigorous_point_logits
from fairmend.quantifying.forms import lead_forms, leads
from support.graphs import graph_boxes, graphs, points_of
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import unhurried


def check(net, lower, upper, X, rows):
    forms = lead_forms(net, lower, upper)
    low, high = rigorous_point_logits(net, X)
    if net.outputs == 1:
        low, high = np.hstack([-high, low]), np.hstack([-low, high])  # classes 0 and 1 around a logit of half the lead
        low, high = low / 2, high / 2
    for row, (own, other) in enumerate(leads(net)):
        most = high[:, own] - low[:, other]
        slack = 1e-9 * (1 + np.abs(most))
        assert ((forms.A[rows, row] * X).sum(1) + forms.c[rows, row] <= most + slack).all()
        assert (forms.least[rows, row] <= most + slack).all()
    assert forms.looseness.shape == lower.shape
    assert (forms.looseness >= 0).all()


@unhurried
@given(seed=st.integers(0, 2**32 - 1), outputs=st.integers(1, 3), activation=st.sampled_from(ACTIVATIONS))
def test_the_forms_enclose_the_lead(seed, outputs, activation):
    rng = np.random.default_rng(seed)
    net = random_network(rng, 3, [4, 3], outputs, activation)
    lower = rng.normal(size=(4, 3)).astype(np.float32).astype(np.float64)
    upper = lower + rng.random((4, 3)) * rng.choice([0, 1, 5])
    rows = np.repeat(np.arange(4), 20)
    X = lower[rows] + rng.random((80, 3)) * (upper - lower)[rows]
    check(net, lower, upper, np.clip(X, lower[rows], upper[rows]), rows)


@unhurried
@given(net=graphs(max_outputs=3), seed=st.integers(0, 2**32 - 1))
def test_the_forms_enclose_the_lead_of_graphs(net, seed):
    rng = np.random.default_rng(seed)
    lower, upper = graph_boxes(net, rng)
    points = [points_of(net, low, high, rng) for low, high in zip(lower, upper, strict=True)]
    rows = np.repeat(np.arange(len(lower)), [len(each) for each in points])
    check(net, lower, upper, np.concatenate(points), rows)
