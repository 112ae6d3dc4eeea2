"""Parts of a round are decided the same on workers, so that a quantification has the same boxes anywhere."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.quantifying import search as search_module
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.listing import Listing
from fairmend.quantifying.parts import Part, decide_part
from fairmend.quantifying.run import quantify
from fairmend.quantifying.search import search
from fairmend.quantifying.space import make_space
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
    return search(Decider(NET, make_space(NET, SPEC)), lambda: 0.0, 1.0, enough, 0, **options)


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
    decider = Decider(NET, make_space(NET, SPEC))
    boxes = decider.space.root().split(np.array([0]))
    error, rows = np.full(2, decider.root_error()), np.array([0])
    halves = decide_part(decider, Part(rows, boxes, error, listed=False))
    assert halves.fair.tobytes() == decider.decide(boxes, error).fair.tobytes()
    cell = boxes.__class__(boxes.first, boxes.first)
    listed = decide_part(decider, Part(rows, cell, error, listed=True))
    assert listed.fair.tobytes() == Listing(decider).decide(cell, error).fair.tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"jobs": 2, "device": "cuda"}, "workers compute on the CPU"),
        ({"cluster": "nowhere"}, "is not known"),
    ],
)
def test_what_does_not_fit_is_one_line(options, message):
    with pytest.raises(FairmendError, match=message):
        quantify(NET, SPEC, **options)
