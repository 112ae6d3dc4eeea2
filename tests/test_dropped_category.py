"""A one-hot category without a column of its own, through audit, certify, repair, search and the checker."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.network import Affine, Network
from fairmend.prove.certificate import certificate_of_inputs
from fairmend.prove.proof import Proof
from fairmend.repairing.blind import reference_values
from fairmend.searching.oracle import ValueSpace
from fairmend.spec import Feature, Spec
from support.spec_cases import DROPPED_RACE, dropped_spec
from support.strategies_spec import unhurried


@unhurried
@given(st.integers(0, 2), st.booleans(), st.integers(0, 2**16))
def test_unfairness_at_a_dropped_category_is_found_and_repaired(tmp_path_factory, unfair, hidden, seed):
    """One category of three is treated differently; it is found even if it is the dropped one."""
    spec = Spec([DROPPED_RACE, Feature("income", "continuous", range=(-1, 1))])
    corner = DROPPED_RACE.corners[unfair]
    others = np.delete(DROPPED_RACE.corners, unfair, axis=0)
    # A score that is positive at all corners but one: w·x + b with w·corner + b = -1.
    system = np.column_stack([np.vstack([corner, others]), np.ones(3)])
    solution = np.linalg.solve(system, [-1, 1, 1])
    weight, bias = np.array([[*solution[:2], 0.0]], np.float32), solution[2:].astype(np.float32)
    net = Network([Affine(weight, bias)], [])
    X = spec.sample_inputs(4, np.random.default_rng(seed))
    assert fairmend.audit(net, spec, X).count == 4
    for engine in ("enumerate", "branch", "milp") if hidden else ("auto",):
        assert {str(v.name) for v in fairmend.certify(net, spec, X, engine).verdicts} == {"UNFAIR"}
    result = fairmend.repair(
        net, spec, X, X, np.array([0, 1, 0, 1]), method="prof", training=fairmend.TrainingOptions(steps=0)
    )
    folder = tmp_path_factory.mktemp("dropped")
    result.network.save(folder / "model.onnx")
    result.certificate.save(folder / "certificate.json", folder / "model.onnx")
    assert fairmend.check(folder / "certificate.json", folder / "model.onnx").valid
    assert fairmend.audit(result.network, spec, X).count == 0


@pytest.mark.parametrize("other", ["a", "b", "c"])
def test_a_certificate_must_hold_for_every_category(tmp_path, other):
    """Someone whom the model treats unequally in one category alone is not certified, also if it has no column."""
    spec = Spec([DROPPED_RACE, Feature("income", "continuous", range=(-1, 1))])
    corners = DROPPED_RACE.corners
    odd = corners[DROPPED_RACE.categories.index(other)].astype(np.float32)
    others = [corner for corner in corners.astype(np.float32) if (corner != odd).any()]
    weight, bias = np.zeros((1, 3), np.float32), np.ones(1, np.float32)
    solution = np.linalg.solve(np.column_stack([[odd, *others], np.ones(3)]), [-1.0, 1.0, 1.0])
    weight[0, :2], bias[0] = solution[:2], solution[2]
    net = Network([Affine(weight, bias)], [])
    net.save(tmp_path / "model.onnx")
    X = np.array([[*others[0], 0.5]], np.float32)
    nothing = Proof(np.ones(1), np.zeros(1), np.ones(1, np.bool_), np.ones(1, np.bool_))
    certificate_of_inputs(net, spec, X, nothing, method="forged").save(tmp_path / "forged.json")
    report = fairmend.check(tmp_path / "forged.json", tmp_path / "model.onnx")
    assert report.verdict == "invalid"
    assert report.least_margin == pytest.approx(-1)


def test_the_testers_move_to_and_from_a_dropped_category():
    spec = Spec([replace(DROPPED_RACE, protected=False), Feature("s", "integer", range=(0, 1), protected=True)])
    space = ValueSpace(spec, np.float64)
    V = np.array([[0.0, 0], [1, 1], [2, 0]])
    np.testing.assert_array_equal(space.values(space.encode(V)), V)
    np.testing.assert_array_equal(space.encode(V)[:, :2], DROPPED_RACE.corners)
    downhill = np.tile([-1.0, -2.0, 0.0], (3, 1))  # the dropped category, whose slope is 0, is the best there is
    np.testing.assert_array_equal(space.ascent(V, downhill)[:, 0], [1, 0, -1])
    np.testing.assert_array_equal(space.influence(V, downhill)[:, 0], [1, 2, 2])
    moved = space.take_random_step(np.repeat(V, 50, axis=0), np.zeros(150, np.int64), np.random.default_rng(0))
    assert {(int(a), int(b)) for a, b in zip(np.repeat([0, 1, 2], 50), moved[:, 0], strict=True)} == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }


def test_a_dropped_category_can_be_folded_in():
    spec = dropped_spec()
    tried = reference_values(spec, spec.protected, np.zeros((2, 3)))
    np.testing.assert_array_equal(tried[1:], DROPPED_RACE.corners)
