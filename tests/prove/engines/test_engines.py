"""The engines agree with brute force and with each other, and what they call a witness is one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairmend
from fairmend.audit.neighbours import sample_unequal
from fairmend.bounds.inference import inference_error
from fairmend.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.prove.certify import certify
from fairmend.prove.engines import boxes, branch
from fairmend.prove.engines import enumerate as points
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec
from support.certify_cases import brute_force, check_witnesses, linear, onnx_answers
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import specs_and_inputs

FAIR, UNFAIR, UNKNOWN = Verdict.FAIR, Verdict.UNFAIR, Verdict.UNKNOWN
KINKED = [a for a in ACTIVATIONS if a.name not in ("tanh", "sigmoid")]

AGE = Feature("age", "integer", range=(18, 75), scale={"min": 18, "max": 75}, protected=True)
GENDER = Feature("gender", "categorical", categories=("f", "m", "x"), encoding="one-hot", protected=True)
RACE = Feature("race", "categorical", categories=("a", "b", "c", "d"), protected=True)
HOURS = Feature("hours", "integer", range=(1, 100), scale={"mean": 40, "std": 12}, tolerance=5)
INCOME = Feature("income", "continuous", range=(0, 100), scale={"mean": 50, "std": 25})


def network(seed, spec, activation, outputs=1, dtype=np.float32, hidden=(6, 5)):
    """A random network whose logits are shifted so that both answers occur."""
    rng = np.random.default_rng(seed)
    net = random_network(rng, spec.width, hidden, outputs, activation, dtype)
    middle = np.median(net.logits(spec.sample_inputs(64, rng, dtype)).reshape(64, outputs), axis=0)
    middle += rng.normal(size=outputs) / 100  # few points have another logit than the middle one: no exact ties here
    head = Affine(net.head.weight, (net.head.bias - middle).astype(dtype))
    return Network([*net.affines[:-1], head], net.activations)


def check_agreement(net, spec, X, report):
    """Every verdict is that of brute force, or UNKNOWN where inference may answer either way.

    What inference answers within its own rounding error depends on the batch a row is in, so there brute force is one
    of two truths.
    """
    for x, verdict, true in zip(X, report.verdicts, brute_force(net, spec, X), strict=True):
        assert verdict is true or (verdict is UNKNOWN and not settled(net, spec, x))


def settled(net, spec, x):
    """Whether every neighbour of x is further from a change of answer than inference can be off."""
    points = np.concatenate([chunk for _, chunk in spec.points(x[None], dtype=x.dtype)])
    logits = np.sort(net.astype(np.float64).logits(points).reshape(len(points), -1), axis=1)
    margin = np.abs(logits[:, 0]) if net.outputs == 1 else logits[:, -1] - logits[:, -2]
    error = inference_error(net, points, points).max(axis=1) * (1 if net.outputs == 1 else 2)
    return bool((margin > error).all())


cases = given(
    case=specs_and_inputs(finite=True),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    data=st.data(),
)


@settings(deadline=None)
@cases
def test_enumeration_agrees_with_brute_force(case, seed, outputs, data):
    spec, X = case
    net = network(seed, spec, data.draw(st.sampled_from(ACTIVATIONS)), outputs, X.dtype)
    report = certify(net, spec, X, "enumerate")
    check_agreement(net, spec, X, report)
    check_witnesses(net, spec, X, report)


@settings(deadline=None)
@cases
def test_branch_and_bound_agrees_with_brute_force_for_every_activation(case, seed, outputs, data):
    spec, X = case
    net = network(seed, spec, data.draw(st.sampled_from(ACTIVATIONS)), outputs, X.dtype)
    leaf = data.draw(st.sampled_from([1, 4, 64]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branch, "_LEAF", leaf)  # at 1, only bounds prove
        report = certify(net, spec, X, "branch")
    check_agreement(net, spec, X, report)
    check_witnesses(net, spec, X, report)


@settings(deadline=None, max_examples=40)
@cases
def test_milp_agrees_with_brute_force(case, seed, outputs, data):
    spec, X = case
    net = network(seed, spec, data.draw(st.sampled_from(KINKED)), outputs, X.dtype)
    report = certify(net, spec, X, "milp")
    for verdict, true in zip(report.verdicts, brute_force(net, spec, X), strict=True):
        assert verdict in (true, UNKNOWN)  # within the solver's tolerance it may not tell
    check_witnesses(net, spec, X, report)


@settings(deadline=None, max_examples=40)
@given(case=specs_and_inputs(), seed=st.integers(0, 2**32 - 1), outputs=st.integers(1, 3), data=st.data())
def test_on_continuous_columns_branch_milp_and_sampling_do_not_contradict_each_other(case, seed, outputs, data):
    spec, X = case
    activation = data.draw(st.sampled_from(ACTIVATIONS))
    net = network(seed, spec, activation, outputs, X.dtype, hidden=(4, 3))
    reports = [certify(net, spec, X, "branch", time_limit=30)]
    reports += [certify(net, spec, X, "milp")] if activation in KINKED else []
    sampled = sample_unequal(net, spec, X, per_row=128, seed=seed)
    for report in reports:
        check_witnesses(net, spec, X, report)
        for unfair, verdict in zip(sampled.rows, report.verdicts, strict=True):
            assert not (unfair and verdict is FAIR)
    for verdicts in zip(*(report.verdicts for report in reports), strict=True):
        assert not {FAIR, UNFAIR} <= set(verdicts)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("features", [(AGE, HOURS, INCOME), (AGE, GENDER, RACE, INCOME), (GENDER, HOURS, INCOME)])
def test_three_engines_agree_on_larger_neighbourhoods(features, outputs):
    spec = Spec(features)
    for seed in range(3):
        net = network(seed, spec, "relu", outputs, hidden=(12, 8))
        X = spec.sample_inputs(25, np.random.default_rng(seed))
        reports = [certify(net, spec, X, engine) for engine in ("enumerate", "branch", "milp")]
        assert len({report.verdicts for report in reports}) == 1
        assert {FAIR, UNFAIR} >= set(reports[0].verdicts)
        for report in reports:
            check_witnesses(net, spec, X, report)


@pytest.mark.parametrize("engine", ["enumerate", "branch", "milp"])
def test_witnesses_hold_in_onnx_runtime_as_well(tmp_path, engine):
    spec = Spec([AGE, GENDER, HOURS, INCOME])
    net = network(5, spec, "relu", hidden=(12, 8))
    X = spec.sample_inputs(40, np.random.default_rng(0))
    found = [w for w in certify(net, spec, X, engine).witnesses if w is not None]
    assert len(found) > 5
    mine = onnx_answers(net, tmp_path / "net.onnx", np.stack([w.x for w in found]))
    theirs = onnx_answers(net, tmp_path / "net.onnx", np.stack([w.other for w in found]))
    assert mine.tolist() == [w.answer for w in found]
    assert theirs.tolist() == [w.other_answer for w in found]


def test_auto_enumerates_small_finite_neighbourhoods_and_branches_elsewhere():
    small, large = Spec([AGE]), Spec([AGE, Feature("zip", "integer", range=(0, 9999), protected=True)])
    continuous = Spec([Feature("age", "continuous", range=(0, 1), protected=True)])
    for spec, engine in ((small, "enumerate"), (large, "branch"), (continuous, "branch")):
        net = linear(*[0.0] * spec.width, bias=1.0)
        report = fairmend.certify(net, spec, spec.sample_inputs(2, np.random.default_rng(0)))
        assert report.engine == engine
        assert report.counts == {"fair": 2, "unfair": 0, "unknown": 0}


@pytest.mark.parametrize("engine", ["enumerate", "branch", "milp"])
def test_the_same_call_gives_the_same_report(engine):
    spec = Spec([AGE, GENDER, HOURS, INCOME])
    net, X = network(5, spec, "relu"), spec.sample_inputs(20, np.random.default_rng(0))
    first, second = (certify(net, spec, X, engine, seed=3) for _ in range(2))
    assert first.verdicts == second.verdicts
    for a, b in zip(first.witnesses, second.witnesses, strict=True):
        assert (a is None) == (b is None)
        assert a is None or (a.other == b.other).all()


def test_what_cannot_be_asked_is_refused_with_what_to_do():
    spec = Spec([AGE, INCOME])
    X = spec.sample_inputs(2, np.random.default_rng(0))
    net = linear(1.0, 1.0, bias=0.0)
    with pytest.raises(FairmendError, match=r'unknown engine \'brunch\' \(did you mean "branch"'):
        certify(net, spec, X, "brunch")
    with pytest.raises(FairmendError, match="time_limit is -1"):
        certify(net, spec, X, time_limit=-1)
    with pytest.raises(FairmendError, match="reads 1 columns, but the spec describes 2"):
        certify(linear(1.0, bias=0.0), spec, X)
    for name in ("tanh", "sigmoid"):
        curved = random_network(np.random.default_rng(0), 2, [3], activation=Activation(name))
        with pytest.raises(FairmendError, match=f"the network has {name}; use engine branch"):
            certify(curved, spec, X, "milp")
    near = Spec([AGE, Feature("income", "continuous", range=(0, 100), tolerance=1)])
    with pytest.raises(FairmendError, match=r"income, which is continuous.*use engine branch"):
        certify(net, near, near.sample_inputs(1, np.random.default_rng(0)), "enumerate")


@pytest.mark.parametrize("engine", ["enumerate", "branch", "milp"])
def test_inputs_in_several_portions_get_the_same_verdicts(monkeypatch, engine):
    spec = Spec([AGE, GENDER, HOURS, INCOME])
    net, X = network(5, spec, "relu"), spec.sample_inputs(23, np.random.default_rng(0))
    whole = certify(net, spec, X, engine)
    monkeypatch.setattr(boxes, "_ENTRIES", 5 * 3 * spec.width)
    monkeypatch.setattr(branch, "_BATCH", 7)
    monkeypatch.setattr(points, "_BATCH", 100)
    portions = certify(net, spec, X, engine)
    assert portions.verdicts == whole.verdicts
    assert set(whole.verdicts) == {FAIR, UNFAIR}
    check_witnesses(net, spec, X, portions)
