"""Audits, verdicts and certificates at a threshold, compared with brute force in NumPy and in ONNX Runtime."""

import json
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

import fairmend
from fairmend import FairmendError
from fairmend.network.decision import closing_gaps, reaches
from fairmend.prove.certificate import certificate_of_fair
from fairmend.prove.fit import network_of_spec
from fairmend.prove.kernel_bounds import exact_classes
from fairmend.prove.result import Verdict
from fairmend.spec import Spec
from support.examples import examples
from support.strategies import random_network
from support.threshold_cases import FEATURES, SPEC, all_points, probabilities, threshold_cases


@examples(30)
@given(threshold_cases())
def test_an_audit_counts_what_enumeration_of_probabilities_finds(case):
    net, X, threshold = case
    found = fairmend.audit(net, SPEC.at_threshold(threshold), X)
    unequal = np.zeros(len(X), dtype=bool)
    settled = np.ones(len(X), dtype=bool)
    for row, points in enumerate(all_points(X)):
        logits = net.astype(np.float64).logits(points)
        lead = logits if net.outputs == 1 else logits[:, 1] - logits[:, 0]
        probability = 1 / (1 + np.exp(-lead))
        unequal[row] = len(set((probability >= threshold).tolist())) > 1
        settled[row] = (np.abs(probability - threshold) > 1e-6 * probability * (1 - probability) + 1e-12).all()
    if settled.all():
        assert found.exact
        assert found.count == unequal.sum()
        assert {pair.row for pair in found.pairs} <= set(np.flatnonzero(unequal).tolist())
    for pair in found.pairs:
        assert pair.answers[0] != pair.answers[1]


@examples(12)
@given(threshold_cases())
def test_every_verdict_holds_in_exact_arithmetic(case):
    net, X, threshold = case
    at, spec = net.at_threshold(threshold), SPEC.at_threshold(threshold)
    engines = ["enumerate", "branch", *(["milp"] if net.activations[0].name == "relu" else [])]
    results = [fairmend.certify(net, spec, X, engine=engine) for engine in engines]
    for row, points in enumerate(all_points(X)):
        if net.activations[0].name == "relu":
            classes = exact_classes(at, points)
        else:
            classes = np.array([reaches(lead, threshold) for lead in leads_in_float64(net, points)])
        for result in results:
            if result.verdicts[row] is Verdict.FAIR:
                assert len(set(classes.tolist())) == 1
            if result.verdicts[row] is Verdict.UNFAIR:
                assert len(set(classes.tolist())) == 2
                witness = result.witnesses[row]
                assert at.predict(np.stack([witness.x, witness.other])).tolist() == [
                    witness.answer,
                    witness.other_answer,
                ]
    assert not {Verdict.FAIR, Verdict.UNFAIR} <= {result.verdicts[0] for result in results}


def leads_in_float64(net, points):
    logits = net.astype(np.float64).logits(points).reshape(len(points), -1)
    return [Fraction(float(row[-1] - (row[0] if len(row) == 2 else 0))) for row in logits]


@examples(15)
@given(case=threshold_cases())
def test_a_certified_input_gets_one_decision_in_onnx_runtime(case, tmp_path_factory):
    net, X, threshold = case
    folder, spec = tmp_path_factory.mktemp("at"), SPEC.at_threshold(threshold)
    certificate, covered = certificate_of_fair(net.at_threshold(threshold), spec, X)
    if certificate is None or certificate.real_only:
        return
    points = np.stack(all_points(X))
    everyone = probabilities(net, folder / "model.onnx", points.reshape(-1, SPEC.width)).reshape(len(X), -1)
    for row, computed in enumerate(everyone):
        own = net.probabilities(points[row])
        for p in (computed, own if own.ndim == 1 else own[:, 1]):
            decisions = {*(p.astype(np.float64) >= threshold).tolist(), *(p >= np.float32(threshold)).tolist()}
            assert not covered[row] or len(decisions) == 1
    certificate.save(folder / "certificate.json", folder / "model.onnx")
    checked = fairmend.check(folder / "certificate.json", folder / "model.onnx")
    assert checked.valid, checked.reasons
    if threshold != 0.5:
        assert f"at the threshold {threshold!r}" in checked.claim
        assert f"is at least {threshold!r}" in checked.condition


@examples(10)
@given(case=threshold_cases(outputs=(1,), activations=("relu",)))
def test_a_repair_holds_at_the_threshold_and_keeps_its_outputs(case, tmp_path_factory):
    net, X, threshold = case
    folder, spec = tmp_path_factory.mktemp("at"), SPEC.at_threshold(threshold)
    result = fairmend.repair(
        net, spec, X, X, np.arange(len(X)) % 2, method="prof", training=fairmend.TrainingOptions(steps=0)
    )
    assert result.network.threshold == threshold
    assert result.proven == len(X)
    points = np.stack(all_points(X)).reshape(-1, SPEC.width)
    decisions = probabilities(result.network, folder / "model.onnx", points).reshape(len(X), -1) >= threshold
    assert (decisions == decisions[:, :1]).all()
    result.certificate.save(folder / "certificate.json", folder / "model.onnx")
    assert fairmend.check(folder / "certificate.json", folder / "model.onnx").valid
    changed = result.network.head.bias - net.head.bias
    if result.objective == 0:
        assert not changed.any()  # the offset is not baked into the file


def test_a_threshold_of_one_half_gives_the_same_certificate_bit_for_bit(tmp_path):
    rng = np.random.default_rng(3)
    net, X = random_network(rng, SPEC.width, (5,)), SPEC.sample_inputs(20, rng)
    plain, _ = certificate_of_fair(net, SPEC, X)
    same, _ = certificate_of_fair(net.at_threshold(0.5), SPEC.at_threshold(0.5), X)
    assert json.dumps(plain.content) == json.dumps(same.content)
    assert "threshold" not in json.dumps(plain.content)


def test_a_network_and_a_spec_with_other_thresholds_are_refused():
    net = random_network(np.random.default_rng(0), SPEC.width, (3,)).at_threshold(0.3)
    assert network_of_spec(net, SPEC.at_threshold(0.3)) is net
    for other in (0.4, 0.5):
        with pytest.raises(FairmendError, match=f"decides at the threshold 0.3, but the spec at {other:g}"):
            fairmend.audit(net, SPEC.at_threshold(other), samples=10)


def test_several_classes_have_no_threshold():
    net = random_network(np.random.default_rng(0), SPEC.width, (3,), 3)
    with pytest.raises(FairmendError, match="needs two classes, but the network has 3 outputs"):
        fairmend.certify(net, SPEC.at_threshold(0.3), SPEC.sample_inputs(2, np.random.default_rng(0)))


def test_scores_are_claimed_whatever_the_threshold():
    rng = np.random.default_rng(1)
    net, X = random_network(rng, SPEC.width, (4,)), SPEC.sample_inputs(8, rng)
    claimed = Spec(FEATURES, SPEC.label, {"kind": "score", "delta": 0.2, "on": "probability"})
    at = claimed.at_threshold(0.3)
    assert fairmend.certify(net, claimed, X).verdicts == fairmend.certify(net, at, X).verdicts
    assert fairmend.audit(net, claimed, X).count == fairmend.audit(net, at, X).count


def test_a_margin_within_the_gap_does_not_cover_inference():
    """f = log-odds + half a gap everywhere: proven in real arithmetic, but a rounded sigmoid may fall below 0.3."""
    with localcontext(Context(prec=40)) as context:
        centre = float(context.ln(Decimal("0.3") / Decimal("0.7")))
    rng = np.random.default_rng(0)
    constant = random_network(rng, SPEC.width, (2,))
    for share, real_only in ((0.5, True), (1.2, False)):
        bias = np.array([centre + share * closing_gaps(0.3, "float32")[1]], np.float32)
        head = fairmend.network.Affine(np.zeros((1, 2), np.float32), bias)
        net = constant.with_affines([constant.affines[0], head]).at_threshold(0.3)
        certificate, _ = certificate_of_fair(net, SPEC.at_threshold(0.3), SPEC.sample_inputs(2, rng))
        assert certificate.real_only is real_only
