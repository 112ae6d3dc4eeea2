"""The shortcut gives the scores of the network, within the error it claims."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.auditing import extremes, fast_scores
from fairmend.auditing.fast_scores import FastScores, FirstLayer
from fairmend.spec import Feature, Spec
from support.audit_cases import SPEC, network, people
from support.examples import examples
from support.link_cases import linked_specs_and_inputs
from support.same_scores import assert_same_scores
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import specs_and_inputs, unhurried


@pytest.mark.parametrize("sizes", [(1, 1), (250_000, 65_536), (600, 4_000)])
def test_blocks_of_any_size_give_the_layer_at_inputs_without_what_varies(monkeypatch, sizes):
    monkeypatch.setattr("fairmend.auditing.fast_scores._PRODUCTS", sizes[0])
    monkeypatch.setattr("fairmend.auditing.fast_scores._NUMBERS", sizes[1])
    affine, X = network().affines[0], people(300)
    fixed = X.astype(np.float64)
    for feature in SPEC.protected:
        fixed[:, SPEC.columns(feature.name)] = 0
    expected = affine.weight.astype(np.float64) @ fixed.T + affine.bias.astype(np.float64)[:, None]
    layer = FirstLayer(affine, SPEC)
    assert np.allclose(layer.base(X, None), expected, rtol=1e-6, atol=1e-6)
    own = layer.base(X, None).copy()
    assert np.array_equal(layer.base(X, SPEC.products(X)), own)
    assert np.array_equal(layer.base(X[:50], None), own[:, :50])
    assert layer.base(X, None).dtype == X.dtype


def extremes_by_hand(net, spec, X):
    """Lowest and highest (inputs,) from every point, in float64."""
    wide = net.astype(np.float64)
    points = [np.concatenate([p for _, p in spec.points(x[None], dtype=X.dtype)]) for x in X]
    return np.array([[f(wide.logits(p)) for f in (np.min, np.max)] for p in points]).T


@unhurried
@given(
    case=specs_and_inputs(finite=True, rows=12),
    seed=st.integers(0, 2**32 - 1),
    hidden=st.lists(st.integers(1, 5), max_size=3),
    activation=st.sampled_from(ACTIVATIONS),
    sizes=st.sampled_from([(1, 1, 1), (3, 5, 4), (256, 65_536, 3_000)]),
    line=st.sampled_from([3, 24]),
)
def test_scores_are_those_of_the_network_within_the_claimed_error(case, seed, hidden, activation, sizes, line):
    spec, X = case
    net = random_network(np.random.default_rng(seed), spec.width, hidden, 1, activation, dtype=X.dtype)
    lowest, highest = extremes_by_hand(net, spec, X)
    with pytest.MonkeyPatch.context() as patch:  # blocks and tables of any size, so that seams are seen
        patch.setattr(extremes, "_ROWS", sizes[0])
        patch.setattr(fast_scores, "_TABLE", sizes[1])
        patch.setattr(fast_scores, "_LINE", line)
        fast = FastScores(net, spec)
        fast._later._block = min(fast._later._block, sizes[2])
        found = fast.extremes(X)
    looked = ~found.left_out
    assert found.points == spec.neighbourhood_sizes(X)[looked].sum()
    assert np.isnan(found.lowest[found.left_out]).all()
    for error in (fast.error(X) + found.regrouping, fast.errors(X) + found.regrouping):
        assert (np.abs(found.lowest - lowest)[looked] <= error[looked]).all()
        assert (np.abs(found.highest - highest)[looked] <= error[looked]).all()
    assert (fast.errors(X) <= fast.error(X) * (1 + 1e-6)).all()


@examples(15)
@given(case=linked_specs_and_inputs(), seed=st.integers(0, 2**32 - 1), shared=st.sampled_from([1, 4]))
def test_scores_with_links_are_within_the_claimed_error(case, seed, shared):
    spec, X = case
    X = np.repeat(X, 2, axis=0)
    rng = np.random.default_rng(seed)
    numbers = [spec.columns(f.name).start for f in spec.features if not f.one_hot]
    for column in numbers:  # scaled elsewhere
        X[::2, column] = np.nextafter(X[::2, column], X[::2, column] + rng.choice([-1, 0, 1]).astype(X.dtype))
    net = random_network(rng, spec.width, [4, 3], dtype=X.dtype)
    lowest, highest = extremes_by_hand(net, spec, X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_scores, "_SHARED", shared)
        found = (fast := FastScores(net, spec)).extremes(X)
    looked = ~found.left_out
    assert shared > 1 or looked.all()
    assert np.isnan(found.lowest[found.left_out]).all()
    for error in (fast.error(X) + found.regrouping, fast.errors(X) + found.regrouping):
        assert (np.abs(found.lowest - lowest)[looked] <= error[looked]).all()
        assert (np.abs(found.highest - highest)[looked] <= error[looked]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_input_scaled_elsewhere_is_within_the_error(dtype):
    # The input's own bits are an ulp or two away from our encoding of its value, and the weights are large.
    scale = {"mean": 37.77, "std": 13.13}
    spec = Spec(
        [
            Feature("age", "integer", range=(17, 90), scale=scale, protected=True),
            Feature("hours", "integer", range=(1, 100), scale=scale, tolerance=3),
        ]
    )
    rng = np.random.default_rng(0)
    X = spec.sample_inputs(100, rng, dtype)
    X = np.nextafter(X, rng.choice([-np.inf, np.inf], X.shape).astype(dtype))
    for seed in range(20):
        net = random_network(np.random.default_rng(seed), 2, [8, 4], dtype=dtype)
        found, error = (fast := FastScores(net, spec)).extremes(X), fast.errors(X)
        looked, error = ~found.left_out, error + found.regrouping
        lowest, highest = extremes_by_hand(net, spec, X)
        assert looked.sum() > 80
        assert (np.abs(found.lowest - lowest)[looked] <= error[looked]).all()
        assert (np.abs(found.highest - highest)[looked] <= error[looked]).all()


def test_an_overflow_is_no_verdict():
    spec = Spec([Feature("age", "integer", range=(0, 9), protected=True)])
    net = random_network(np.random.default_rng(0), 1, [4])
    huge = net.with_affines(
        [type(a)(a.weight * np.float32(1e30), a.bias) if i == 0 else a for i, a in enumerate(net.affines)]
    ).with_affines([type(a)(a.weight * np.float32(1e30), a.bias) for a in net.affines])
    assert FastScores(huge, spec).error(np.ones((1, 1), np.float32)) == np.inf


def test_tables_in_place_of_biases_are_not_used_where_they_would_cost_precision():
    ends = ((0, 9), (10**6, 10**6 + 9))
    small, large = (Spec([Feature("age", "integer", range=range_, protected=True)]) for range_ in ends)
    net = random_network(np.random.default_rng(0), 1, [4, 4])
    for spec in (small, large):
        X = spec.sample_inputs(50, np.random.default_rng(0))
        found, fast = FastScores(net, spec).extremes(X), FastScores(net, spec)
        assert found.regrouping.max() <= 10 * fast.error(X)


@pytest.mark.parametrize("hidden", [(16,), (32, 16), (12, 8, 6)])
@pytest.mark.parametrize("protected", [("age",), ("age", "race"), ("age", "hours")])
def test_scores_spared_along_lines_change_no_bit(hidden, protected):
    features = [
        Feature("race", "categorical", categories=("a", "b", "c"), protected="race" in protected),
        Feature("age", "integer", range=(18, 80), scale={"mean": 49.0, "std": 18.0}, protected=True),
        Feature("hours", "integer", range=(1, 30), scale={"min": 1, "max": 30}, protected="hours" in protected),
        Feature("debt", "continuous", range=(-1.0, 1.0)),
    ]
    spec = Spec(features)
    X = spec.sample_inputs(700, np.random.default_rng(1))
    net = random_network(np.random.default_rng(2), spec.width, hidden)
    found = FastScores(net, spec).extremes(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_scores, "_LINE", 10**9)
        everything = FastScores(net, spec).extremes(X)
    assert_same_scores(found.lowest, everything.lowest)
    assert_same_scores(found.highest, everything.highest)
    assert found.points == everything.points
