"""An audit counts what enumeration finds, and its pairs are real."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.auditing import plan, slices
from fairmend.auditing.neighbours import find_unequal, sample_unequal
from fairmend.base.errors import FairmendError
from fairmend.base.text import printable
from fairmend.network import Affine, Network
from fairmend.spec import Claim, Feature, Spec
from support.audit_cases import AGE, GENDER, INCOME, SPEC, network, people, without_time
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people as huge_people
from support.probabilities import pair_probability
from support.score_cases import largest_differences, score_spec
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import specs_and_inputs, unhurried
from support.twin_cases import bump_network, person, twin, twin_spec


@unhurried
@given(
    case=specs_and_inputs(finite=True, rows=12),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    hidden=st.lists(st.integers(1, 5), max_size=2),
    activation=st.sampled_from(ACTIVATIONS),
)
def test_the_count_is_that_of_brute_force_and_of_find_unequal(case, seed, outputs, hidden, activation):
    spec, X = case
    net = random_network(np.random.default_rng(seed), spec.width, hidden, outputs, activation, dtype=X.dtype)
    result = fairmend.audit(net, spec, X)
    brute = 0
    for x in X:
        points = np.concatenate([p for _, p in spec.points(x[None], dtype=X.dtype)])
        brute += bool((net.predict(points) != net.predict(x[None])).any())
    assert (result.count, result.total) == (brute, len(X))
    assert result.count == find_unequal(net, spec, X).count
    assert result.exact
    assert not result.sampled
    assert result.interval is None
    check_pairs(net, spec, X, result)


def check_pairs(net, spec, X, result):
    """The pairs are people of X and neighbours of theirs, with other answers; none is worse than those shown."""
    gaps = [pair.gap for pair in result.pairs]
    assert gaps == sorted(gaps, reverse=True)
    assert len({pair.x.tobytes() for pair in result.pairs}) == len(gaps)
    for pair in result.pairs:
        assert np.array_equal(X[pair.row], pair.x)
        assert pair.answers == net.predict(np.stack([pair.x, pair.other])).tolist()
        assert pair.answers[0] != pair.answers[1]
        regions = spec.regions(pair.x[None], X.dtype)
        assert ((regions.lower <= pair.other) & (pair.other <= regions.upper)).all(axis=1).any()
        expected = pair_probability(net, np.stack([pair.x, pair.other]), pair.answers[0])
        assert pair.scores == pytest.approx(expected, abs=1e-6)
        assert pair.on == "probability"
        for shown, decoded in zip(
            (pair.values, pair.other_values),
            spec.decode(np.stack([pair.x, pair.other])).to_dict("records"),
            strict=True,
        ):
            for f in spec.features:
                near = pytest.approx(decoded[f.name], rel=1e-6) if f.kind == "continuous" else decoded[f.name]
                assert shown[f.name] == near
        for name in pair.values:
            if pair.values[name] != pair.other_values[name]:
                assert printable(name) in pair.describe()


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_no_pair_is_worse_than_those_shown(outputs):
    net, X = network(outputs), people(60)
    result = fairmend.audit(net, SPEC, X, pairs=5)
    assert len(result.pairs) == 5
    check_pairs(net, SPEC, X, result)
    worst = []
    for x in X:
        points = np.concatenate([p for _, p in SPEC.points(x[None])])
        mine = int(net.predict(x[None])[0])
        gaps = np.abs(pair_probability(net, points, mine) - pair_probability(net, x[None], mine))
        worst.append(np.where(net.predict(points) != mine, gaps, 0).max())
    assert [p.gap for p in result.pairs] == pytest.approx(sorted(worst, reverse=True)[:5], rel=1e-4)


def test_samples_are_seeded_and_the_interval_holds_the_truth():
    net = network()
    first, again, other = (fairmend.audit(net, SPEC, samples=4_000, seed=seed) for seed in (1, 1, 2))
    assert without_time(first) == without_time(again)
    assert without_time(first) != without_time(other)
    assert first.sampled
    truth = fairmend.audit(net, SPEC, samples=200_000, seed=9).idi_rate
    inside = sum(
        low <= truth <= high
        for low, high in (fairmend.audit(net, SPEC, samples=500, seed=s, pairs=0).interval for s in range(60))
    )
    assert inside >= 51  # 57 are expected; fewer than 51 have a probability of one in a thousand


def test_sampled_continuous_neighbourhoods_give_a_lower_bound_and_that_is_said():
    spec = Spec([Feature("age", "continuous", range=(0.0, 1.0), protected=True), INCOME])
    net = Network([Affine(np.array([[1.0, 0.5]], np.float32), np.array([-1.2], np.float32))], [])
    X = people(300, spec=spec)
    result = fairmend.audit(net, spec, X, seed=4, method="sample")
    assert not result.exact
    assert result.unknown == 300 - result.count
    assert "lower bound" in repr(result)
    assert "at least" in result.describe()
    check_pairs(net, spec, X, result)
    streamed = fairmend.audit(net, spec, iter([X[:100], X[100:]]), seed=4, method="sample")
    assert without_time(result) == without_time(streamed)
    exact = fairmend.audit(net, spec, X, seed=4)
    # With age 0 the score is negative, and with age 1 positive from an income of 0.4 on.
    assert (exact.count, exact.exact) == ((X[:, 1] >= 0.4).sum(), True)


def test_an_exact_count_that_takes_too_long_is_not_made_and_that_is_said(monkeypatch):
    monkeypatch.setattr(plan, "_QUICK", 0)
    monkeypatch.setattr(plan, "EXACT_SECONDS", 0.0)
    monkeypatch.setattr(plan._Costs, "sampling", lambda _: 0.0)
    result = fairmend.audit(network(), SPEC, people(50), per_row=1)
    assert (result.method, result.exact) == ("sample", False)
    assert result.plan.exact_seconds > 0
    assert fairmend.audit(network(), SPEC, people(50), per_row=1, method="exact").exact


def test_a_tolerance_on_money_is_decided_exactly():
    # 20,001 incomes times 58 ages times 2 genders: 2.3 million neighbours of each person.
    money = Feature("income", "integer", range=(0, 100_000), scale={"mean": 50_000, "std": 25_000}, tolerance=10_000)
    spec = Spec([AGE, GENDER, money])
    net, X = network(width=spec.width, seed=8), people(12, spec=spec)
    plans, steps = [], []
    result = fairmend.audit(net, spec, X, on_plan=plans.append, progress=lambda *step: steps.append(step))
    assert (result.method, result.exact, result.unknown) == ("branch", True, 0)
    assert "M neighbours each, by bounds" in plans[0].describe()
    assert steps[-1] == ("audit", 12, 12)
    verdicts = fairmend.certify(net, spec, X, engine="branch").counts
    assert 0 < result.count == verdicts["unfair"] < 12
    assert verdicts["unknown"] == 0
    check_pairs(net, spec, X, result)


def test_what_the_time_limit_leaves_open_is_a_range():
    spec = Spec([AGE, GENDER, *(replace(INCOME, name=f"x{i}", tolerance=0.01) for i in range(8))])
    net = random_network(np.random.default_rng(3), spec.width, [24, 24], 1)
    X = people(2000, spec=spec)  # so many that no machine proves them within the least time, a hundredth of a second
    result = fairmend.audit(net, spec, X, method="branch", time_limit=1e-9, per_row=1, pairs=0)
    assert result.unknown > 0
    assert not result.exact
    assert f"at most {result.count + result.unknown:,}" in result.describe()


def test_scores_at_the_decision_are_left_to_the_network():
    # Half of the people score exactly 0, which counts as positive; the shortcut cannot know the sign of that.
    spec = Spec([Feature("age", "integer", range=(0, 9), protected=True), Feature("n", "integer", range=(0, 1))])
    net = Network([Affine(np.array([[0.0, -1.0]], np.float32), np.array([0.0], np.float32))], [])
    X = people(100, spec=spec)
    assert fairmend.audit(net, spec, X).count == 0
    slanted = Network([Affine(np.array([[1.0, 0.0]], np.float32), np.array([-9.0], np.float32))], [])
    assert fairmend.audit(slanted, spec, X).count == 100  # 9 alone is positive


def test_equal_people_are_shown_once():
    net, X = network(), people(60)
    unequal = int(find_unequal(net, SPEC, X).rows.sum())
    result = fairmend.audit(net, SPEC, np.repeat(X, 50, axis=0), pairs=100)
    assert 0 < len(result.pairs) <= unequal
    assert result.count == 50 * unequal
    assert all(pair.row % 50 == 0 for pair in result.pairs)


def test_every_unequal_input_has_a_witness():
    net, X = network(), people(300)
    seen = []
    result = fairmend.audit(net, SPEC, X, witnesses=lambda *found: seen.append(found))
    rows, mine, others = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    assert np.array_equal(rows, np.flatnonzero(find_unequal(net, SPEC, X).rows))
    assert len(rows) == result.count
    assert np.array_equal(mine, X[rows])
    assert (net.predict(mine) != net.predict(others)).all()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("given", [True, False])
def test_a_random_sample_of_the_inputs_and_their_verdicts_is_kept(monkeypatch, outputs, given):
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 128)
    monkeypatch.setattr(slices, "_EXAMINED_ROWS", 300)
    net = network(outputs)
    result = fairmend.audit(net, SPEC, people(500) if given else None, samples=500, seed=3)
    kept = result.examined
    assert kept.X.shape == (300, SPEC.width)
    assert (np.diff(kept.rows) > 0).all()
    assert 80 < (kept.rows < 250).sum() < 220  # not the first rows
    if given:
        assert np.array_equal(kept.X, people(500)[kept.rows])
    assert np.array_equal(kept.unequal, find_unequal(net, SPEC, kept.X).rows)
    assert 0 < kept.unequal.sum() < result.count
    assert "examined" not in result.as_dict()


@pytest.mark.parametrize("outputs", [1, 3])
def test_something_of_every_input_is_kept(monkeypatch, outputs):
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 128)
    net, X = network(outputs), people(500)
    rows = fairmend.audit(net, SPEC, X).rows
    assert rows.logits == pytest.approx(net.logits(X), abs=1e-5)
    assert np.array_equal(rows.unequal, find_unequal(net, SPEC, X).rows)
    assert list(rows.protected) == [feature.name for feature in SPEC.protected]
    assert all(len(column) == 500 for column in rows.protected.values())


def test_sampled_verdicts_are_kept_with_the_neighbour_that_shows_them():
    spec = Spec([Feature("age", "continuous", range=(0.0, 1.0), protected=True), INCOME])
    net = Network([Affine(np.array([[1.0, 2.0]], np.float32), np.array([-1.5], np.float32))], [])
    kept = fairmend.audit(net, spec, people(300, spec=spec), method="sample").examined
    rows = kept.unequal
    assert 0 < rows.sum() < 300
    assert (net.predict(kept.other[rows]) != net.predict(kept.X[rows])).all()
    assert (kept.other[rows, 1] == kept.X[rows, 1]).all()
    assert np.isnan(kept.other[~rows]).all()


def test_fewer_inputs_are_kept_if_they_are_wide(monkeypatch):
    monkeypatch.setattr(slices, "_EXAMINED_NUMBERS", 10 * SPEC.width + 1)
    assert len(fairmend.audit(network(), SPEC, people(50)).examined.X) == 10


def test_progress_counts_up_to_all():
    seen = []
    fairmend.audit(network(), SPEC, samples=20_000, pairs=0, progress=lambda *step: seen.append(step))
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
    assert seen[-1] == ("audit", 20_000, 20_000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.zeros((0, SPEC.width))}, "X has no rows"),
        ({"X": iter([])}, "X has no rows"),
        ({"X": np.zeros(SPEC.width)}, "X has shape"),
        ({"samples": 0}, "samples is 0"),
        ({"per_row": 0}, "per_row is 0"),
        ({"pairs": -1}, "pairs is -1"),
        ({"time_limit": 0}, "time_limit is 0"),
        ({"method": "bruteforce"}, "unknown method 'bruteforce'"),
    ],
)
def test_what_cannot_be_audited_is_refused(arguments, message):
    with pytest.raises(FairmendError, match=message):
        fairmend.audit(network(), SPEC, **arguments)
    with pytest.raises(FairmendError, match="reads 3 columns, but the spec describes 5"):
        fairmend.audit(network(width=3), SPEC)


def test_the_encoding_of_the_own_value_counts_as_a_neighbour_of_an_input_scaled_elsewhere():
    spec = twin_spec()
    found = fairmend.audit(bump_network(spec, needed=0.5), spec, person(spec))
    assert found.count == 1
    assert found.exact
    assert np.array_equal(found.pairs[0].other, twin(spec)[0])
    assert fairmend.audit(bump_network(spec, needed=1.5), spec, person(spec)).count == 0


@pytest.mark.parametrize("name", HUGE)
def test_neighbourhoods_of_any_size_are_audited(name):
    net, X, _ = huge_people(HUGE[name], 2)
    found = fairmend.audit(net, HUGE[name], X, pairs=1, per_row=8)
    assert found.exact == (found.unknown == 0)
    assert found.total == 2
    assert not HUGE[name].features[0].one_hot or found.method == "sample"
    assert fairmend.audit(net, HUGE[name], samples=3, pairs=0).total == 3


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize(("on", "delta"), [("probability", 0.12), ("logit", 0.6), ("output", 0.6)])
def test_a_claim_about_scores_counts_differences_above_delta(outputs, on, delta):
    spec, net, X = score_spec(delta, on), network(outputs), people(60)
    expected = largest_differences(net, spec, X)
    shown = []
    result = fairmend.audit(net, spec, X, pairs=5, witnesses=lambda rows, *_: shown.extend(rows.tolist()))
    assert 0 < result.count < 60 or outputs > 1
    assert result.count == (expected > delta).sum() == find_unequal(net, spec, X).count == len(shown)
    assert result.exact
    assert result.scores.differences == pytest.approx(expected, abs=1e-5)
    assert result.scores.largest == pytest.approx(expected.max(), abs=1e-5)
    assert [pair.gap for pair in result.pairs] == pytest.approx(np.sort(expected)[::-1][:5], abs=1e-5)
    for pair in result.pairs:
        assert (pair.answers is None) == (on == "output")
        assert (pair.output is None) == (outputs == 1)
        assert pair.scores[0] < pair.scores[1]
        assert expected[pair.row] == pytest.approx(pair.gap, abs=1e-5)
        assert pair.describe().startswith(f"row {pair.row}: ")


def test_differences_at_delta_are_not_above_it():
    spec = Spec([AGE], claim=Claim("score", 1.0, "output"))
    net = Network([Affine(np.ones((1, 1), np.float32), np.zeros(1, np.float32))], [])
    result = fairmend.audit(net, spec, spec.sample_inputs(30, np.random.default_rng(0)))
    assert (result.count, result.scores.largest) == (0, 1.0)
    assert result.pairs[0].scores == [0, 1]
    assert fairmend.audit(net, Spec([AGE], claim=Claim("score", 0.99, "output"))).idi_rate == 1


def test_sampled_differences_are_a_lower_bound():
    wide = replace(INCOME, tolerance=0.3)
    spec, net, X = score_spec(0.3, "logit", (*SPEC.features[:3], wide)), network(), people(50)
    result = fairmend.audit(net, spec, X, seed=1, method="sample")
    exact = largest_differences(net, score_spec(0.3, "logit"), X)
    assert (result.scores.differences >= 0.5 * exact).all()
    assert sample_unequal(net, spec, X).count > 0
    again = sample_unequal(net, spec, X)
    assert np.isfinite(again.other[again.rows]).all()


def test_the_same_differences_come_out_of_any_block_size(monkeypatch):
    spec, net, X = score_spec(0.1, "probability"), network(), people(100)
    whole = without_time(fairmend.audit(net, spec, X))
    monkeypatch.setattr("fairmend.auditing.inputs._ROWS", 7)
    parts = without_time(fairmend.audit(net, spec, X))
    assert parts["count"] == whole["count"]
    assert parts["scores"].keys() == whole["scores"].keys()
    for key, value in whole["scores"].items():
        assert parts["scores"][key] == pytest.approx(value, abs=1e-6)
