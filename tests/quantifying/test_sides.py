"""A lead is above what it needs for everyone above the threshold, by enumeration."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairmend.quantifying.sides import best_threshold, common_threshold, make_side
from fairmend.quantifying.space import make_space
from support.quantify_cases import SPECS, people_of, random_boxes
from support.strategies import random_network
from support.strategies_spec import unhurried


@unhurried
@given(name=st.sampled_from(list(SPECS)), seed=st.integers(0, 2**32 - 1))
def test_forms_are_above_what_they_need(name, seed):
    rng, spec = np.random.default_rng(seed), SPECS[name]
    space = make_space(random_network(rng, spec.width, [3]), spec)
    boxes = random_boxes(space, rng, 3)
    A, c = rng.normal(size=(3 * space.pieces, spec.width)), rng.normal(size=3 * space.pieces)
    need = rng.normal(size=3)
    side = make_side(space, boxes, (A, c, np.full(len(c), -np.inf)), need, space.cases(boxes))
    everyone = common_threshold(space, boxes, side)
    single = side.piece(np.zeros(3, np.int64))
    someone = best_threshold(space, boxes, single, everyone.g)
    for row in range(3):
        X = people_of(space, boxes, row, np.float64)
        X[:, space.columns] = 0
        above = X @ everyone.g[row]
        for piece in range(space.pieces):
            form = space.pieces * row + piece
            lead = X @ A[form] + c[form]
            protected = A[form] @ most_and_least(space, A[form], piece)
            assert (lead[above > everyone.value[row]] + protected[0] > need[row] - 1e-9).all()
            if side.sure[row, piece]:
                assert (lead + protected[0] > need[row]).all()
            if piece == 0 and not any(axis.reach for axis in space.axes):
                assert (lead[above > someone[row]] + protected[1] > need[row] - 1e-9).all()


def most_and_least(space, A, piece):
    """Return columns with the least and the most of the protected part of a form in a piece: (width, 2)."""
    ends = np.zeros((len(A), 2))
    for axis, first, last in zip(space.protected, space.first[piece], space.last[piece], strict=True):
        values = axis.low[first : last + 1]
        terms = values @ A[axis.columns]
        ends[axis.columns] = values[[terms.argmin(), terms.argmax()]].T
    return ends
