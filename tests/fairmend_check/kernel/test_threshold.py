"""The checker at a threshold: its enclosure of the log-odds, and certificates with a forged threshold."""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import fairmend
from fairmend.network import Affine
from fairmend.network.decision import closing_gaps, enclose_log_odds, log_odds
from fairmend.prove.certificate import certificate_of_fair
from fairmend_check.kernel import claim as checked_threshold
from fairmend_check.kernel.claim import Threshold
from support.checker_cases import content_of, write
from support.examples import examples
from support.strategies import random_network
from support.threshold_cases import SPEC, all_points, probabilities

THRESHOLDS = st.floats(1e-300, 1, exclude_max=True)


@examples(100)
@given(THRESHOLDS)
@example(0.5 + 2**-53)
@example(1 - 2**-53)
@example(1e-6)
def test_the_enclosure_contains_the_log_odds(threshold):
    low, high = checked_threshold.enclose_log_odds(Fraction(threshold))
    with localcontext(Context(prec=100)) as context:
        exact = context.ln(Decimal(threshold) / (1 - Decimal(threshold)))
        assert Decimal(low) < exact < Decimal(high)
    assert threshold == 0.5 or high <= math.nextafter(math.nextafter(math.nextafter(low, 1e9), 1e9), 1e9)


def test_a_probability_next_to_one_half_is_enclosed():
    for p in (Fraction(1, 2) + Fraction(2) ** -1022, Fraction(1, 2) - Fraction(2) ** -1022):
        low, high = checked_threshold.enclose_log_odds(p)
        assert low < 0 < high


@examples(100)
@given(THRESHOLDS, st.sampled_from(["float32", "float64"]))
@example(0.3, "float32")
@example(1e-6, "float32")
@example(1 - 1e-6, "float32")
@example(0.5, "float32")
def test_fairmend_and_the_checker_agree_on_what_a_threshold_needs(threshold, dtype):
    ours, theirs = Threshold.of(threshold, dtype), closing_gaps(threshold, dtype)
    assert (ours.below, ours.above) == pytest.approx(theirs, rel=1e-6)
    low, high = enclose_log_odds(threshold)
    assert ours.low <= low <= high <= ours.high


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gap_of_one_half_is_that_of_the_formula(dtype):
    """A logit beyond it has a probability that is 16 u and t above 1/2: a little more than 64 u."""
    kind, gap = np.finfo(dtype), Threshold.of(0.5, dtype)
    unit = Decimal(float(kind.eps)) / 2
    with localcontext(Context(prec=100)) as context:
        p = Decimal("0.5") + 16 * unit + Decimal(float(kind.tiny))
        needed = context.ln(p / (1 - p))
        assert 64 * unit < needed < Decimal(gap.above) < 64 * unit * (1 + Decimal("1e-11"))
    assert (gap.low, gap.high, gap.below) == (0.0, 0.0, gap.above)


def certified(seed, threshold, outputs=1):
    rng = np.random.default_rng(seed)
    net = random_network(rng, SPEC.width, (4,), outputs, closing="sigmoid" if outputs == 1 else "softmax")
    X = SPEC.sample_inputs(20, rng)
    certificate, covered = certificate_of_fair(net.at_threshold(threshold), SPEC.at_threshold(threshold), X)
    if certificate is None:
        return net, X[covered], None
    return net, X[covered], content_of(certificate)


@examples(15)
@given(st.integers(0, 1000), st.sampled_from([1, 2]), st.sampled_from([0.2, 0.5, 0.9]), st.floats(1e-6, 1 - 1e-6))
def test_a_forged_threshold_is_valid_only_where_the_claim_is_true(tmp_path_factory, seed, outputs, written, forged):
    net, X, content = certified(seed, written, outputs)
    assume(content is not None and forged != written)
    folder = tmp_path_factory.mktemp("forged")
    points = all_points(X)
    decisions = probabilities(net, folder / "model.onnx", np.concatenate(points)) >= forged
    content["spec"]["label"]["threshold"] = forged
    result = fairmend.check(write(folder, content), folder / "model.onnx")
    if any(len(set(some.tolist())) == 2 for some in np.split(decisions, np.cumsum([len(each) for each in points]))):
        assert not result.valid
    if result.valid and forged != 0.5:
        assert f"at the threshold {forged!r} stays the same" in result.claim


def test_a_forged_threshold_between_the_scores_is_refused(tmp_path):
    net, X, content = certified(0, 0.3)
    scores = np.concatenate([probabilities(net, tmp_path / "model.onnx", points) for points in all_points(X)[:1]])
    content["spec"]["label"]["threshold"] = float(np.median(scores)) + 1e-4
    result = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx")
    assert not result.valid
    assert "that similar people get one prediction is not confirmed" in result.reasons[0]


@pytest.mark.parametrize("threshold", [0.3, 1e-6, 1 - 1e-6])
@pytest.mark.parametrize("label", [0, 1])
def test_a_margin_within_the_gap_does_not_cover_inference(tmp_path, threshold, label):
    """The output is a constant: half a gap from the log-odds is proven in real arithmetic only, two gaps suffice."""
    rng = np.random.default_rng(0)
    net = random_network(rng, SPEC.width, (2,))
    gap = closing_gaps(threshold, "float32")[label]
    for share, valid in ((0.5, False), (2.0, True)):
        bias = np.array([log_odds(threshold) + (share if label else -share) * gap], np.float32)
        constant = net.with_affines([net.affines[0], Affine(np.zeros((1, 2), np.float32), bias)])
        constant.save(tmp_path / "model.onnx")
        spec = SPEC.at_threshold(threshold)
        certificate, _ = certificate_of_fair(constant.at_threshold(threshold), spec, SPEC.sample_inputs(2, rng))
        assert certificate.real_only is not valid
        content = content_of(certificate) | {"arithmetic": "float32"}
        result = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx")
        assert result.valid is valid
        if not valid:
            assert "the margin does not exceed the rounding errors of float32 inference" in result.reasons[0]


def test_the_spec_of_another_threshold_is_not_that_of_the_certificate(tmp_path):
    net, _, content = certified(0, 0.3)
    net.save(tmp_path / "model.onnx")
    write(tmp_path, content)
    for threshold, reasons in ((0.3, ()), (0.5, ("the threshold is 0.5 instead of 0.3",))):
        SPEC.at_threshold(threshold).save(tmp_path / "spec.toml")
        with open(tmp_path / "spec.toml", "a") as file:
            file.write("# not byte for byte what fairmend writes\n")
        result = fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx", tmp_path / "spec.toml")
        assert result.valid is not bool(reasons)
        for found, expected in zip(result.reasons, reasons, strict=True):
            assert expected in found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"threshold": 0}, "above 0 and below 1"),
        ({"threshold": 1.0}, "above 0 and below 1"),
        ({"threshold": "0.3"}, "must be a number"),
        ({"threshold": True}, "must be a number"),
    ],
)
def test_what_is_not_a_threshold_is_refused(tmp_path, change, reason):
    net, _, content = certified(0, 0.3)
    net.save(tmp_path / "model.onnx")
    content["spec"]["label"] |= change
    result = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx")
    assert not result.valid
    assert reason in result.reasons[0]


def test_three_outputs_have_no_threshold(tmp_path):
    _, _, content = certified(0, 0.3)
    net = random_network(np.random.default_rng(0), SPEC.width, (4,), 3)
    net.save(tmp_path / "model.onnx")
    content["model"]["outputs"] = 3
    result = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx")
    assert not result.valid
    assert "certificate.spec has a threshold, but the model has 3 outputs" in result.reasons[0]


def test_a_condition_says_who_decides_at_the_threshold(tmp_path):
    for outputs, words in ((1, "the sigmoid 1 / (1 + exp(-z)) of the output z"), (2, "the softmax of the outputs")):
        net, _, content = certified(0, 0.3, outputs)
        net.save(tmp_path / "model.onnx")
        result = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx")
        assert result.valid, result.reasons
        assert result.condition.startswith("the file does not decide at 0.3.")
        assert words in result.condition
