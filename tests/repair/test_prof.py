"""ProF end to end: after a repair no neighbourhood of a repair input gets two answers."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairmend
from fairmend import FairmendError, Feature, Spec
from fairmend.audit.unequal import find_unequal, sample_unequal
from fairmend.network import Affine, Network
from fairmend.prove.proof import prove_regions
from support.repair_cases import sampled
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import specs

AGE = Feature("age", "integer", range=(0, 5), protected=True, scale={"min": 0, "max": 5})
RACE = Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True)
HOURS = Feature("hours", "integer", range=(0, 9), tolerance=1, scale={"min": 0, "max": 9})
SCORE = Feature("score", "continuous", range=(-2, 2))
WEIGHT = Feature("weight", "continuous", range=(0, 1), protected=True)
NEAR = Feature("near", "continuous", range=(-2, 2), tolerance=0.1)

SPECS = {
    "ordinal": Spec([AGE, SCORE]),
    "one-hot": Spec([RACE, SCORE]),
    "tolerance": Spec([AGE, HOURS, SCORE]),
    "several": Spec([AGE, RACE, HOURS, SCORE]),
}
CONTINUOUS = Spec([WEIGHT, NEAR, SCORE])


def case(spec, seed=0, hidden=(6, 4), outputs=1, activation="relu", dtype=np.float32, rows=60, repairs=10):
    """A network around whose decision the inputs lie, repair inputs, and a calibration set with its own answers."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, spec.width, hidden, outputs, activation, dtype)
    X = spec.sample_inputs(rows, rng, dtype)
    middle = np.median(network.logits(X).reshape(rows, -1), axis=0)
    head = Affine(network.head.weight, (network.head.bias - middle).astype(dtype))
    network = network.with_affines([*network.affines[:-1], head])
    return network, spec, X[:repairs], X, network.predict(X)


def repair(*arguments, **options):
    """The public function, with the paper's method unless another is named."""
    return fairmend.repair(*arguments, **{"method": "prof", **options})


def check(before, result, spec, X):
    """What holds for every repair of finite neighbourhoods."""
    assert find_unequal(result.network, spec, X).count == 0
    assert result.network.predict(spec.as_inputs(X, before.dtype)).tolist() == result.classes
    assert result.regions == len(X)
    assert result.proof.holds.all()
    assert result.proof.covers_inference.all()
    assert result.network.dtype == before.dtype
    assert result.network.activations == before.activations
    assert (result.network.closing, result.network.names) == (before.closing, before.names)
    assert 0 <= result.gap <= 1
    assert set(result.seconds) == {"calibrate", "solve", "check", "total"}
    assert all(seconds >= 0 for seconds in result.seconds.values())


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(("outputs", "dtype"), [(1, np.float32), (3, np.float32), (1, np.float64)])
def test_no_repaired_neighbourhood_gets_two_answers(name, outputs, dtype):
    network, spec, X, X_cal, y_cal = case(SPECS[name], outputs=outputs, dtype=dtype)
    assert find_unequal(network, spec, X).count > 0
    bits = network.astype(dtype)
    result = repair(network, spec, X, X_cal, y_cal, steps=20)
    check(network, result, spec, X)
    assert network == bits
    assert result.method == "prof"
    assert len(result.history) == 20


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize(
    "options", [{"method": "prof-concrete"}, {"features": "points"}, {"bounds": "interval"}], ids=str
)
def test_every_variant_and_activation_is_proven(activation, options):
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=1, activation=activation)
    result = repair(network, spec, X, X_cal, y_cal, steps=10, **options)
    check(network, result, spec, X)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("search", ["branch", "milp"])
def test_continuous_neighbourhoods_are_proven_too(outputs, search):
    network, spec, X, X_cal, y_cal = case(CONTINUOUS, seed=2, outputs=outputs)
    assert sample_unequal(network, spec, X).count > 0
    result = repair(network, spec, X, X_cal, y_cal, steps=10, search=search)
    assert sample_unequal(result.network, spec, X, per_row=500).count == 0
    points, owner = sampled(spec.regions(X), np.random.default_rng(0), per_piece=200)
    assert (result.network.predict(points.astype(np.float32)) == np.array(result.classes)[owner]).all()


@pytest.mark.parametrize("features", ["linear", "box", "points"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_model_without_hidden_layers_is_repaired_by_its_head_alone(features, outputs):
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=3, hidden=(), outputs=outputs)
    result = repair(network, spec, X, X_cal, y_cal, features=features)
    check(network, result, spec, X)
    assert len(result.history) == 0
    assert result.changed_weights > 0


@settings(max_examples=60, deadline=None)
@given(specs(finite=True), st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from(ACTIVATIONS), st.booleans())
def test_any_finite_spec_is_repaired(spec, seed, outputs, activation, exact):
    sizes = spec.neighbourhood_sizes(spec.sample_inputs(1, np.random.default_rng(seed)))
    if sizes[0] > 500:
        return
    network, spec, X, X_cal, y_cal = case(spec, seed, (4,), outputs, activation, rows=8, repairs=4)
    result = repair(network, spec, X, X_cal, y_cal, steps=3, features="points" if exact else None)
    check(network, result, spec, X)


def test_points_cost_no_more_than_linear_and_linear_no_more_than_box():
    costs = []
    for features in ("points", "linear", "box"):
        network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=4)
        costs.append(
            repair(network, spec, X, X_cal, y_cal, steps=0, features=features, cover_inference=False).objective
        )
    assert costs[0] <= costs[1] + 1e-6
    assert costs[1] <= costs[2] + 1e-6
    assert costs[0] > 0


def test_a_data_frame_is_encoded_as_the_array_would_be():
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=5)
    frames = spec.decode(X), spec.decode(X_cal)
    as_frames = repair(network, spec, *frames, pd.Series(y_cal), steps=5)
    as_arrays = repair(network, spec, spec.encode(frames[0]), spec.encode(frames[1]), y_cal, steps=5)
    assert as_frames.network == as_arrays.network
    check(network, as_frames, spec, frames[0])


def test_a_fair_network_without_steps_is_left_as_it_is():
    spec = SPECS["ordinal"]
    network = Network([Affine(np.array([[0.0, 1.0]], np.float32), np.array([0.25], np.float32))], [])
    X = np.array([[0.2, 1.0], [0.4, -1.0]], np.float32)
    result = repair(network, spec, X, X, [1, 0], steps=0)
    assert result.network == network
    assert result.objective == result.gap == result.changed_weights == 0
    assert result.blind
    assert result.attempts == 0  # nothing depends on the protected feature, so there was nothing to repair
    assert result.warnings == ()
    assert result.classes == [1, 0]


@pytest.mark.parametrize("options", [{}, {"batch_size": 16}])
def test_the_same_seed_gives_the_same_bits(options):
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=5)
    first, second = (repair(network, spec, X, X_cal, y_cal, steps=8, seed=3, **options) for _ in range(2))
    assert first.network == second.network
    assert first.classes == second.classes
    other = repair(network, spec, X, X_cal, y_cal, steps=8, seed=4, **options)
    assert (other.network != first.network) == ("batch_size" in options)


def test_the_arrays_given_are_left_alone():
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=7)
    for array in (X, X_cal, y_cal):
        array.setflags(write=False)
    repair(network, spec, X, X_cal, y_cal, steps=2)


def test_progress_sees_every_stage():
    seen = []
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=1)
    assert find_unequal(network, spec, X).count > 5
    repair(network, spec, X, X_cal, y_cal, steps=4, progress=lambda *what: seen.append(what))
    assert {stage for stage, _, _ in seen} == {"calibrate", "solve", "check"}
    assert all(0 <= done <= total for _, done, total in seen)
    assert seen[0] == ("calibrate", 1, 4)
    assert seen[-1] == ("check", len(X), len(X))


def test_the_repr_says_what_was_proven():
    network, spec, X, X_cal, y_cal = case(SPECS["ordinal"], seed=9)
    result = repair(network, spec, X, X_cal, y_cal, steps=2)
    assert repr(result).startswith("RepairResult(prof: 10 neighbourhoods proven")
    assert "inference" in repr(result)
    assert len(repr(result)) < 250
    assert "array" not in repr(result)


def test_a_margin_that_was_asked_for_is_kept():
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=10)
    result = repair(network, spec, X, X_cal, y_cal, steps=5, margin=0.1)
    assert (result.proof.margin > 0.0999).all()
    assert result.margin >= 0.1
    proof = prove_regions(result.network, spec.regions(X))
    np.testing.assert_array_equal(proof.margin, result.proof.margin)
    np.testing.assert_array_equal(proof.classes, result.classes)


@pytest.mark.parametrize("features", ["linear", "points"])
def test_margins_grow_where_float32_needs_them_to(features):
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=11)
    first, factor = network.affines[0], np.float32(1e5)
    rest = [Affine(affine.weight, affine.bias * factor) for affine in network.affines[1:]]
    large = network.with_affines([Affine(first.weight * factor, first.bias * factor), *rest])
    result = repair(large, spec, X, X_cal, y_cal, steps=0, features=features)
    check(large, result, spec, X)
    assert result.attempts > 1
    assert result.margin > 1e-6


def test_real_arithmetic_alone_costs_no_more():
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=12)
    covering = repair(network, spec, X, X_cal, y_cal, steps=0)
    real = repair(network, spec, X, X_cal, y_cal, steps=0, cover_inference=False, margin=1e-9)
    assert real.proof.holds.all()
    assert real.objective <= covering.objective + 1e-6


def test_a_network_that_float32_cannot_tell_apart_is_an_error_not_a_proof():
    spec = Spec([Feature("a", "integer", range=(0, 1), protected=True), Feature("x", "continuous", range=(0, 1))])
    rng = np.random.default_rng(0)
    network = random_network(rng, 2, [3, 3])
    huge = [Affine(affine.weight * np.float32(1e30), affine.bias) for affine in network.affines[:-1]]
    X = spec.sample_inputs(4, rng)
    with pytest.raises(FairmendError, match=r"could not be proven.*scale the inputs"):
        repair(network.with_affines([*huge, network.head]), spec, X, X * 0, [0, 1, 0, 1], steps=0)


# Warnings


def test_one_class_of_labels_is_warned_about():
    network, spec, X, X_cal, _ = case(SPECS["ordinal"], seed=13)
    result = repair(network, spec, X, X_cal, np.ones(len(X_cal)), steps=1)
    assert any("every calibration row has the label 1" in warning for warning in result.warnings)


def test_equal_rows_are_warned_about():
    network, spec, X, _, _ = case(SPECS["ordinal"], seed=14)
    result = repair(network, spec, X, np.repeat(X[:1], 4, axis=0), [0, 1, 0, 1], steps=1)
    assert any("all 4 calibration rows are equal" in warning for warning in result.warnings)


def test_a_collapse_is_warned_about():
    """Only the protected feature decides: whatever is fair is constant."""
    spec = Spec([AGE])
    network = Network([Affine(np.ones((1, 1), np.float32), np.array([-0.5], np.float32))], [])
    X = np.linspace(0, 1, 6, dtype=np.float32)[:, None]
    result = repair(network, spec, X, X, network.predict(X))
    assert len(set(result.classes)) == 1
    assert any("collapsed to a constant" in warning for warning in result.warnings)
    assert any(
        "balanced accuracy on the calibration rows fell by 50.0 points" in warning for warning in result.warnings
    )


def test_a_repair_that_ran_out_of_time_says_so_and_is_proven(monkeypatch):
    from fairmend.milp import LinearProgram, Status
    from fairmend.milp.lp import LpSolution

    monkeypatch.setattr(LinearProgram, "solve", lambda self, limit: LpSolution(Status.LIMIT, math.inf, None))
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=15)
    result = repair(network, spec, X, X_cal, y_cal, steps=0, time_limit=0.01)
    check(network, result, spec, X)
    assert result.gap > 0
    assert any("stopped before it proved its optimum" in warning for warning in result.warnings)


def test_a_tiny_time_limit_still_ends_in_a_proof():
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=16, repairs=40)
    check(network, repair(network, spec, X, X_cal, y_cal, steps=0, time_limit=1e-6), spec, X)


# Errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"features": "cones"}, "features is 'cones'"),
        ({"solver": "abacus"}, "unknown solver 'abacus'"),
        ({"bounds": "none"}, "bounds is 'none'"),
        ({"search": "guess"}, "search 'guess'"),
        ({"margin": 0.0}, "margin is 0.0"),
        ({"margin": math.nan}, "a finite number above 0"),
        ({"steps": -1}, "steps is -1"),
        ({"y_cal": [0, 1]}, r"y_cal has shape \(2,\); it must be \(60,\)"),
        ({"y_cal": np.zeros((60, 1))}, r"it must be \(60,\)"),
        ({"y_cal": [0] * 59 + [2]}, "y_cal, row 59: .*2.* is not a class"),
        ({"y_cal": [0.5] * 60}, "is not a class"),
        ({"y_cal": [math.nan] * 60}, "is not a class"),
        ({"X_repair": np.zeros((0, 2))}, "no rows"),
        ({"X_cal": np.zeros((0, 2))}, "no rows"),
        ({"X_repair": [[math.nan, 0.0]]}, "not a finite number"),
        ({"X_repair": [[0.0, math.inf]]}, "not a finite number"),
        ({"X_repair": [[0.0, 9.0]]}, "outside its range"),
        ({"X_repair": [[0.1, 0.0]]}, "not the encoding of a whole number"),
        ({"X_repair": [[0.0, 0.0, 0.0]]}, r"shape \(1, 3\)"),
        ({"X_repair": [0.0, 0.0]}, "shape"),
        ({"delta_limit": 1e-9}, "delta_limit"),
    ],
    ids=str,
)
def test_bad_arguments_say_what_is_wrong(change, message):
    network, spec, X, X_cal, y_cal = case(SPECS["ordinal"], seed=17)
    arguments = {"X_repair": X, "X_cal": X_cal, "y_cal": y_cal, "steps": 1, **change}
    with pytest.raises(FairmendError, match=message):
        repair(network, spec, **arguments)


def test_a_spec_of_another_width_is_refused():
    network = case(SPECS["ordinal"])[0]
    with pytest.raises(FairmendError, match=r"network reads 2 columns, but the spec describes 4"):
        repair(network, SPECS["one-hot"], np.eye(4), np.eye(4), [0, 1, 0, 1])


def test_points_of_a_continuous_neighbourhood_are_refused():
    network, spec, X, X_cal, y_cal = case(CONTINUOUS)
    with pytest.raises(FairmendError, match="continuous"):
        repair(network, spec, X, X_cal, y_cal, features="points", steps=1)
