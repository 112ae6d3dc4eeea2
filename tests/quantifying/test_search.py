"""The search proves unequal treatment early, whatever the boxes are worth."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.quantifying import search as search_module
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.run import quantify
from fairmend.quantifying.sample import draw_people
from fairmend.quantifying.search import Part, decide_part, search
from fairmend.spec import Feature, Spec
from support.engines import PickledEngine
from support.strategies import random_network

SPEC = Spec(
    [
        Feature(name="sex", kind="integer", range=(0, 1), protected=True),
        *(Feature(name=f"f{k}", kind="integer", range=(0, 30), scale={"mean": 15, "std": 10}) for k in range(6)),
    ]
)
NET = random_network(np.random.default_rng(2), SPEC.width, [12])
ENOUGH = 0.42


@pytest.fixture
def _small_parts(monkeypatch):
    monkeypatch.setattr(search_module, "_MOST_BOXES", 8)


def content(leaves):
    arrays = (leaves.boxes.first, leaves.boxes.last, leaves.fair, leaves.unfair, leaves.error, leaves.axis)
    return [array.tobytes() for array in arrays]


def run(enough, **options):
    return search(Decider(NET, SPEC), lambda: 0.0, 1.0, enough, 0, **options)


@pytest.mark.usefixtures("_small_parts")
def test_until_a_share_the_boxes_are_the_same_on_workers():
    workers = PickledEngine()
    here = run(ENOUGH)
    assert content(run(ENOUGH, workers=workers)) == content(here)
    assert here.open.sum() <= ENOUGH
    assert max(workers.sent) > workers.window


def test_two_processes_give_the_same_shares():
    one, two = (quantify(NET, SPEC, share=ENOUGH, samples=0, jobs=jobs) for jobs in (1, 2))
    assert (one.fair, one.unfair, one.leaves) == (two.fair, two.unfair, two.leaves)


def test_a_part_is_listed_or_split():
    decider = Decider(NET, SPEC)
    boxes = decider.people.everyone.halved(np.array([0]))
    error, rows = np.full(2, decider.prover.errors(decider.people.everyone)[0]), np.array([0])
    halves = decide_part(decider, Part(rows, boxes, error))
    assert halves.counts.fair.tobytes() == decider.decide(boxes, error).counts.fair.tobytes()
    cell = boxes.__class__(boxes.first, boxes.first)
    for decided in (0.0, 1.0):  # with and without the forms of the boxes
        listed = decide_part(decider, Part(rows, cell, error, np.full(2, decided)))
        assert listed.counts.fair.tobytes() == decider.list_people(cell, error).counts.fair.tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "jobs is 0; it must be at least 1"),
        ({"jobs": 2, "device": "cuda"}, "workers compute on the CPU"),
        ({"cluster": "nowhere"}, "is not known"),
    ],
)
def test_what_does_not_fit_is_one_line(options, message):
    with pytest.raises(FairmendError, match=message):
        quantify(NET, SPEC, **options)


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
    """Return the decider of a network that treats few people unequally."""
    for seed in range(20):
        net = random_network(np.random.default_rng(seed), WIDE.width, [24, 12])
        decider = Decider(net, WIDE)
        cells = draw_people(decider, 1024, 1, 0)
        classes = net.predict(decider.people.inputs(cells, decider.people.values).astype(net.dtype))
        if classes[0] != classes[1]:
            return decider
    raise AssertionError("no network treats anyone unequally")


def test_some_are_proven_to_be_treated_unequally_in_the_first_round():
    leaves = search(unequal_network(), clock(), 1.0, 0.0, 0)
    assert leaves.totals()[1] > 0
    assert leaves.shares.sum() == pytest.approx(1)


def test_the_boxes_of_a_search_hold_everyone_once():
    leaves = search(unequal_network(), clock(), 1.0, 0.0, 0)
    cells = np.random.default_rng(0).integers(0, 31, (200, 12))
    inside = (leaves.boxes.first <= cells[:, None]) & (cells[:, None] <= leaves.boxes.last)
    assert (inside.all(axis=2).sum(axis=1) == 1).all()


def test_a_small_space_is_listed_at_once():
    spec = Spec(WIDE.features[:3])
    net = random_network(np.random.default_rng(0), spec.width, [4])
    leaves = search(Decider(net, spec), clock(), 1.0, 0.0, 0)
    assert leaves.count == 1
    assert leaves.totals()[2] == 0


def test_a_thousand_random_boxes_hold_what_is_proven_of_them():
    spec = Spec(WIDE.features[:7])
    net = random_network(np.random.default_rng(3), spec.width, [6])
    decider, times = Decider(net, spec), iter(range(12))
    leaves = search(decider, lambda: next(times, 1e9), 20.0, 0.0, 0)
    rng = np.random.default_rng(0)
    rows = rng.choice(np.flatnonzero(leaves.fair + leaves.unfair > 0), 1000)
    boxes = leaves.boxes.take(rows)
    cells = rng.integers(boxes.first[:, None], boxes.last[:, None] + 1, (1000, 20, 6)).reshape(-1, 6)
    classes = net.predict(decider.people.inputs(cells, decider.people.values).astype(net.dtype)).reshape(1000, 20, 2)
    unequal = classes[:, :, 0] != classes[:, :, 1]
    assert not unequal[leaves.fair[rows] == 1].any()
    assert unequal[leaves.unfair[rows] == 1].all()
    assert ((leaves.fair[rows] == 1) | (leaves.unfair[rows] == 1)).sum() > 10
    assert leaves.unfair[rows].mean() <= unequal.mean() + 0.02
    assert leaves.fair[rows].mean() <= 1 - unequal.mean() + 0.02
