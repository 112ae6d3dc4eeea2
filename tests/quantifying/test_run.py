"""`fairmend.quantify`: the true share is always inside what is proven."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.spec import Feature, Spec
from support.examples import examples
from support.quantify_cases import CONTINUOUS, MANY, SMALL, SPECS, linear, people_of, unequal_people
from support.strategies import random_network


@examples(12)
@given(name=st.sampled_from(list(SPECS)), seed=st.integers(0, 2**32 - 1), outputs=st.integers(1, 3))
def test_the_true_share_is_inside(name, seed, outputs):
    rng, spec = np.random.default_rng(seed), SPECS[name]
    net = random_network(rng, spec.width, [4, 3], outputs)
    found = fairmend.quantify(net, spec, seconds=0.2, samples=10)
    unequal = unequal_people(net, spec).mean()
    assert found.unfair <= unequal + 1e-12
    assert found.fair <= 1 - unequal + 1e-12
    assert found.fair + found.unfair + found.undecided == pytest.approx(1)


def test_a_small_space_is_decided_completely():
    net = random_network(np.random.default_rng(1), SMALL.width, [4])
    found = fairmend.quantify(net, SMALL, seconds=30)
    assert found.unfair == pytest.approx(unequal_people(net, SMALL).mean(), abs=1e-5)
    assert found.undecided < 1e-5
    assert found.seconds < 30


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_everyone_of_a_small_space_is_decided_whatever_makes_people_similar(name, outputs, tmp_path):
    """With tolerances, and with more combinations of protected values than there are pieces."""
    net = random_network(np.random.default_rng(2), SPECS[name].width, [6, 5], outputs)
    found = fairmend.quantify(net, SPECS[name], seconds=600, share=1e-9)
    unequal = unequal_people(net, SPECS[name])
    assert (found.fair, found.unfair) == pytest.approx(((~unequal).mean(), unequal.mean()), abs=1e-15)
    assert found.undecided == 0
    net.save(tmp_path / "model.onnx")
    found.certificate.save(tmp_path / "shares.json", tmp_path / "model.onnx")
    checked = fairmend.check(tmp_path / "shares.json", tmp_path / "model.onnx")
    assert checked.valid
    assert checked.fair + checked.unfair == pytest.approx(1)


def test_a_planted_violation_is_found_and_mapped():
    """Class 1 if age and hours together are high: only people with long hours are treated unequally."""
    first = Affine(np.array([[1, 3, 0, 0, 0, 0]], np.float32), np.array([-26.5], np.float32))
    last = Affine(np.array([[1]], np.float32), np.array([-0.25], np.float32))
    net = Network([first, last], [Activation("relu")])
    found = fairmend.quantify(net, SMALL, seconds=10)
    truth = unequal_people(net, SMALL)
    assert 0 < truth.mean() < 0.9
    assert found.unfair == pytest.approx(truth.mean(), abs=1e-6)
    assert sum(box.share for box in found.boxes) == pytest.approx(found.unfair, abs=1e-6)
    assert all(box.decides == ("age",) and box.positive["age"] > box.negative["age"] for box in found.boxes)


def test_a_blind_network_is_fair_at_once():
    found = fairmend.quantify(linear([0, 1, 1, 0, 0, 1], 0), SMALL, seconds=5, X=encoded(SMALL))
    assert (found.fair, found.unfair, found.undecided, found.leaves) == (1, 0, 0, 1)
    assert found.rows.fair == found.rows.total == 120


def encoded(spec):
    return people_of(spec)


def test_rows_are_counted_in_their_cells():
    net = random_network(np.random.default_rng(5), SMALL.width, [4])
    found = fairmend.quantify(net, SMALL, seconds=5, X=encoded(SMALL))
    unequal = unequal_people(net, SMALL)
    assert (found.rows.unfair, found.rows.fair) == (unequal.sum(), (~unequal).sum())
    assert found.rows.undecided == 0
    assert found.as_dict()["rows"]["total"] == 120


def test_the_shares_of_an_unfinished_run_add_up_to_exactly_1():
    undecided = []
    for seed in range(12):
        net = random_network(np.random.default_rng(seed), CONTINUOUS.width, [6, 6])
        found = fairmend.quantify(net, CONTINUOUS, seconds=20, share=0.3, samples=0)
        assert found.fair + found.unfair + found.undecided == 1
        undecided.append(found.undecided)
    assert max(undecided) > 0


def test_it_stops_at_the_share():
    net = random_network(np.random.default_rng(3), MANY.width, [8, 8])
    whole = fairmend.quantify(net, MANY, seconds=20, share=0.5)
    assert whole.undecided <= 0.5
    assert whole.seconds < 20


def test_the_same_seed_gives_the_same_answer():
    net = random_network(np.random.default_rng(1), SMALL.width, [4])
    first, again = (replace(fairmend.quantify(net, SMALL, seconds=30, share=0.01, seed=4), seconds=0) for _ in range(2))
    assert first == again


def test_a_continuous_space_holds_the_sampled_share():
    spec = Spec([SMALL.features[0], *(Feature(name=n, kind="continuous", range=(-1, 2)) for n in "ab")])
    net = random_network(np.random.default_rng(2), spec.width, [5])
    found = fairmend.quantify(net, spec, seconds=1, samples=20_000)
    assert found.unfair - 0.02 <= found.sampled <= 1 - found.fair + 0.02
    assert found.undecided < 0.5


def test_progress_is_the_share_decided():
    seen = []
    net = random_network(np.random.default_rng(1), SMALL.width, [4])
    fairmend.quantify(net, SMALL, seconds=5, progress=lambda *step: seen.append(step))
    assert seen
    assert all(stage == "decided" and done <= total for stage, done, total in seen)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (SMALL, {"seconds": 0}, "seconds must be a number above 0"),
        (SMALL, {"share": 1.5}, "share must be at least 0 and below 1"),
        (SMALL, {"samples": -1}, "samples must not be negative"),
    ],
)
def test_what_it_does_not_take_is_refused(spec, options, message):
    with pytest.raises(FairmendError, match=message):
        fairmend.quantify(linear([1] * SMALL.width, 0), spec, **options)


def test_many_classes_are_decided_completely_in_a_small_space():
    net = random_network(np.random.default_rng(0), SMALL.width, [3], 3)
    found = fairmend.quantify(net, SMALL, seconds=30)
    assert found.unfair == pytest.approx(unequal_people(net, SMALL).mean(), abs=1e-6)
    assert found.undecided < 1e-6
    assert all(box.classes[0] > box.classes[1] for box in found.boxes)
