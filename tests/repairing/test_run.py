"""ProF end to end: after a repair no neighbourhood of a repair input gets two answers."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fairmend
from fairmend.auditing.neighbours import find_unequal, sample_unequal
from fairmend.base.errors import FairmendError
from fairmend.network import Affine, Network
from fairmend.spec import Feature, Label, Spec
from support.blind_cases import SPEC
from support.blind_cases import case as blind_case
from support.examples import examples
from support.huge_cases import ONE_HOT, one_hot
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people as huge_people
from support.prof_cases import CONTINUOUS, SPECS, case, check, repair
from support.repair_cases import sampled
from support.strategies import ACTIVATIONS
from support.strategies_spec import specs


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


@examples(60)
@given(specs(finite=True), st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from(ACTIVATIONS), st.booleans())
def test_any_finite_spec_is_repaired(spec, seed, outputs, activation, exact):
    sizes = spec.neighbourhood_sizes(spec.sample_inputs(1, np.random.default_rng(seed)))
    assume(sizes[0] <= 500)
    network, spec, X, X_cal, y_cal = case(spec, seed, (4,), outputs, activation, rows=8, repairs=4)
    result = repair(network, spec, X, X_cal, y_cal, steps=3, features="points" if exact else None)
    check(network, result, spec, X)


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


@pytest.mark.parametrize("method", ["blind", "prof"])
@pytest.mark.parametrize("other", [0.0, 3.0])
def test_every_method_tells_whether_the_network_collapsed(method, other):
    """A network that decides by group alone has nothing left without it; one that also reads x has."""
    spec = Spec([Feature("group", "integer", range=(0, 1), protected=True), Feature("x", "integer", range=(-9, 9))])
    network = Network([Affine(np.array([[2, other]], np.float32), np.array([-1], np.float32))], [])
    X = np.array([[group, x] for group in (0, 1) for x in range(-9, 10)], np.float32)
    result = fairmend.repair(
        network, spec, X[::6], X, network.predict(X), method=method, training=fairmend.TrainingOptions(steps=0)
    )
    assert result.collapsed == (other == 0)


def test_progress_is_called_for_every_stage():
    seen = []
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=1)
    assert find_unequal(network, spec, X).count > 5
    repair(network, spec, X, X_cal, y_cal, steps=4, progress=lambda *what: seen.append(what))
    assert {stage for stage, _, _ in seen} == {"calibrate", "solve", "check"}
    assert all(0 <= done <= total for _, done, total in seen)
    assert seen[0] == ("calibrate", 1, 4)
    assert seen[-1] == ("check", len(X), len(X))


# Warnings


# Errors


@pytest.mark.parametrize("name", [name for name in HUGE if name != "thirty tolerances"])
@pytest.mark.parametrize("reference", ["mean", "best"])
def test_blinding_needs_no_pieces_whatever_the_size_of_a_neighbourhood(name, reference):
    net, X, y = huge_people(HUGE[name])
    found = fairmend.repair(
        net, HUGE[name], X[:3], X, y, method="blind", training=fairmend.TrainingOptions(steps=2, reference=reference)
    )
    assert found.blind
    assert found.certificate.count == 0


@pytest.mark.parametrize("method", ["prof", "prof-concrete", "flip", "grft", "care"])
def test_other_methods_say_how_many_pieces_there_are_before_they_train(method):
    net, X, y = huge_people(ONE_HOT)
    with pytest.raises(FairmendError, match=r"about 10\^17 pieces.*method blind"):
        fairmend.repair(net, ONE_HOT, X[:3], X, y, method=method)


def test_auto_repairs_neighbourhoods_of_any_number_of_pieces():
    spec = Spec([*(one_hot(f"job{i}", 4) for i in range(40)), Feature("years", "integer", range=(0, 9))])
    net, X, y = huge_people(spec)
    found = fairmend.repair(net, spec, X[:3], X, y, method="auto", guarantee="listed")
    assert found.blind
    assert "about 10^24 pieces" in next(c.problem for c in found.candidates if c.recipe.name == "prof")


def test_points_of_huge_neighbourhoods_are_refused_before_training():
    net, X, y = huge_people(HUGE["a range of 10^12"])
    for method in ("prof", "flip"):
        with pytest.raises(FairmendError, match=r"3,000,000,000,003 points, more than"):
            fairmend.repair(
                net, HUGE["a range of 10^12"], X[:3], X, y, method=method, head=fairmend.HeadOptions(features="points")
            )


@examples(10)
@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 3]),
    st.lists(st.booleans(), min_size=3, max_size=3).filter(lambda biased: not all(biased)),
    st.sampled_from(["blind", "prof"]),
    st.sampled_from([0.5, 0.3]),
)
def test_layers_without_a_bias_have_none_after_a_repair_and_its_proof_holds(seed, outputs, biased, method, threshold):
    network, X, X_cal, y_cal = blind_case(SPEC, seed, outputs, "tanh")
    layers = [a if bias else Affine.without_bias(a.weight) for a, bias in zip(network.affines, biased, strict=True)]
    spec = Spec(SPEC.features, label=Label("good", "yes", threshold=threshold if outputs < 3 else 0.5))
    try:
        result = fairmend.repair(
            Network(layers, network.activations),
            spec,
            X[:6],
            X_cal,
            y_cal,
            method=method,
            training=fairmend.TrainingOptions(steps=5),
        )
    except FairmendError as error:
        assume("which has no bias" not in str(error))
        raise
    assert [affine.stores_bias for affine in result.network.affines] == biased
    assert all(bias or not affine.bias.any() for affine, bias in zip(result.network.affines, biased, strict=True))
    assert result.proof.holds.all()
    assert find_unequal(result.network, spec, X[:6]).count == 0
