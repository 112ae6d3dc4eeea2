"""Backward substitution: what paths that meet add up to, and what rounding may take."""

from fractions import Fraction

import numpy as np

from fairmend.bounds.substitution import Known, Rows, both_signs, lower_bounds, over_box
from fairmend.network import Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Sum


def test_coefficients_of_paths_that_meet_are_added():
    """x0 - x1 by way of a choice of columns that repeats x0 three times, and a sum that takes it twice."""
    nodes = [
        Node(Input(2)),
        Node(Columns((0, 0, 0, 1)), (0,)),
        Node(Sum(), (1, 1)),
        Node(Affine(np.ones((1, 4)), np.zeros(1)), (2,), "head"),
    ]
    lower, upper = np.array([[-1.0, -2.0]]), np.array([[3.0, 5.0]])
    known = Known(Network.from_nodes(nodes), (lower, upper))
    wide = lower[:, [0, 0, 0, 1]], upper[:, [0, 0, 0, 1]]
    known.intervals = [(lower, upper), wide, (2 * wide[0], 2 * wide[1])]
    rows = Rows(np.array([[[1.0, -2.0, 1.5, -0.5]]]), np.zeros((1, 1)), np.zeros((1, 1)))  # 2 (0.5 x0 - 0.5 x1)
    assert -6 - 1e-13 < lower_bounds(rows, 2, known)[0, 0] <= -6
    assert over_box(rows, *known.intervals[2])[0, 0] < -20


def test_the_sum_of_coefficients_is_rounded_and_the_slack_says_so():
    """a + b - a by three paths: what is left of b has lost digits; the same where a choice of columns repeats one."""
    rng = np.random.default_rng(0)
    head = Affine(np.ones((1, 3)), np.zeros(1))
    for repeated in (Node(Concatenate(), (0, 0, 0)), Node(Columns((0, 0, 0)), (0,))):
        for _ in range(100):
            a, b, x = rng.uniform(0.5, 2, size=3) * 10.0 ** rng.integers(-6, 7, size=3)
            box = (np.array([[x]]), np.array([[x]]))
            known = Known(Network.from_nodes([Node(Input(1)), repeated, Node(head, (1,), "head")]), box)
            known.intervals = [box, (np.full((1, 3), -1e30), np.full((1, 3), 1e30))]
            low, high = lower_bounds(both_signs(np.array([[a, b, -a]]), np.zeros(1)), 1, known)[0]
            assert Fraction(low) <= Fraction(b) * Fraction(x) <= Fraction(-high)
