"""The search proves unequal treatment early, whatever the boxes are worth."""

import numpy as np
import pytest
import torch

from fairmend.base.device import compute_on
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.sample import draw_people
from fairmend.quantifying.search import _boxes_in_a_round, search
from fairmend.quantifying.space import make_space
from fairmend.spec import Feature, Spec
from support.strategies import random_network

WIDE = Spec(
    [
        Feature(name="sex", kind="integer", range=(0, 1), protected=True),
        *(Feature(name=f"f{k}", kind="integer", range=(0, 30), scale={"mean": 15, "std": 10}) for k in range(12)),
    ]
)


def clock():
    """Return a clock that says 0 once, and is over then."""
    times = iter([0.0])
    return lambda: next(times, 1e9)


def unequal_network():
    """Return a network that treats few people unequally."""
    for seed in range(20):
        net = random_network(np.random.default_rng(seed), WIDE.width, [24, 12])
        space = make_space(net, WIDE)
        cells = draw_people(net, space, 1024, 1, 0)
        classes = net.predict(space.people(cells, space.values, net.dtype))
        if classes[0] != classes[1]:
            return net, space
    raise AssertionError("no network treats anyone unequally")


def test_some_are_proven_to_be_treated_unequally_in_the_first_round():
    net, space = unequal_network()
    leaves = search(Decider(net, space), clock(), 1.0, 0.0, 0)
    assert leaves.totals()[1] > 0
    assert leaves.shares.sum() == pytest.approx(1)


def test_the_boxes_of_a_search_hold_everyone_once():
    net, space = unequal_network()
    leaves = search(Decider(net, space), clock(), 1.0, 0.0, 0)
    cells = np.random.default_rng(0).integers(0, 31, (200, 12))
    inside = (leaves.boxes.first <= cells[:, None]) & (cells[:, None] <= leaves.boxes.last)
    assert (inside.all(axis=2).sum(axis=1) == 1).all()


def test_a_small_space_is_listed_at_once():
    spec = Spec(WIDE.features[:3])
    net = random_network(np.random.default_rng(0), spec.width, [4])
    leaves = search(Decider(net, make_space(net, spec)), clock(), 1.0, 0.0, 0)
    assert leaves.count == 1
    assert sum(leaves.totals()) == pytest.approx(1)


def test_a_gpu_splits_more_boxes_in_a_round_if_the_network_is_wide():
    with compute_on(torch.device("cpu")):
        on_a_device = [_boxes_in_a_round(width, 2, 1) for width in (10, 100, 1000)]
    assert on_a_device == [256, 209, 4], "the memory of a CPU is taken as 2 GB"
    assert [_boxes_in_a_round(width, 2, 1) for width in (10, 100, 1000)] == [256, 78, 7]


def test_a_thousand_random_boxes_hold_what_is_proven_of_them():
    spec = Spec(WIDE.features[:7])
    net = random_network(np.random.default_rng(3), spec.width, [6])
    space, times = make_space(net, spec), iter(range(12))
    leaves = search(Decider(net, space), lambda: next(times, 1e9), 20.0, 0.0, 0)
    rng = np.random.default_rng(0)
    rows = rng.choice(np.flatnonzero(leaves.fair + leaves.unfair > 0), 1000)
    boxes = leaves.boxes.take(rows)
    cells = rng.integers(boxes.first[:, None], boxes.last[:, None] + 1, (1000, 20, 6)).reshape(-1, 6)
    classes = net.predict(space.people(cells, space.values, net.dtype)).reshape(1000, 20, 2)
    unequal = classes[:, :, 0] != classes[:, :, 1]
    assert not unequal[leaves.fair[rows] == 1].any()
    assert unequal[leaves.unfair[rows] == 1].all()
    assert ((leaves.fair[rows] == 1) | (leaves.unfair[rows] == 1)).sum() > 10
    assert leaves.unfair[rows].mean() <= unequal.mean() + 0.02
    assert leaves.fair[rows].mean() <= 1 - unequal.mean() + 0.02
