"""The decision rule at a threshold, compared with exact arithmetic of the probabilities."""

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairmend import FairmendError, Network
from fairmend.network import Affine, predicted_classes
from fairmend.network.decision import as_threshold, closing_gaps, enclose_log_odds, log_odds
from support.examples import examples

THRESHOLDS = st.floats(1e-300, 1, exclude_max=True)


def surely_at_least(logit: float, threshold: float) -> bool:
    """Return whether sigmoid(logit) >= threshold, with 80 digits: exp(-logit) <= 1 / t - 1."""
    if threshold == 0.5:
        return logit >= 0
    with localcontext(Context(prec=80)):
        return Decimal(-logit).exp() <= (1 - Decimal(threshold)) / Decimal(threshold)


@examples(100)
@given(THRESHOLDS)
@example(0.3)
@example(1e-6)
@example(1 - 1e-6)
@example(0.5 + 2**-53)
@example(0.5 - 2**-54)
@example(1 - 2**-53)
def test_the_log_odds_lie_between_adjacent_numbers(threshold):
    low, high = enclose_log_odds(threshold)
    if threshold == 0.5:
        assert (low, high) == (0.0, 0.0)
        return
    assert math.nextafter(low, math.inf) == high
    assert surely_at_least(high, threshold)
    assert not surely_at_least(low, threshold)
    assert log_odds(threshold) in (low, high)


@examples(100)
@given(THRESHOLDS, st.sampled_from([np.float32, np.float64]), st.integers(-3, 3))
@example(0.3, np.float32, 0)
@example(1 - 1e-6, np.float32, 0)
def test_the_prediction_is_that_of_the_exact_probability(threshold, dtype, steps):
    logit = dtype(log_odds(threshold))
    for _ in range(abs(steps)):
        logit = np.nextafter(logit, dtype(math.copysign(math.inf, steps)))
    expected = surely_at_least(float(logit), threshold)
    assert predicted_classes(np.array([logit]), threshold).tolist() == [expected]
    assert predicted_classes(np.array([[logit]]), threshold).tolist() == [expected]
    if threshold != 0.5:  # at 0.5, equal logits are class 0
        assert predicted_classes(np.array([[0, logit], [-logit, 0]]), threshold).tolist() == [expected] * 2


def test_two_logits_at_one_half_are_decided_as_ever():
    logits = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert predicted_classes(logits, 0.5).tolist() == predicted_classes(logits).tolist() == [0, 1, 0]


@examples(100)
@given(THRESHOLDS, st.sampled_from(["float32", "float64"]))
@example(0.3, "float32")
@example(1e-6, "float32")
@example(1 - 1e-6, "float32")
def test_a_logit_beyond_the_gap_has_a_probability_beyond_what_a_sigmoid_may_be_off_by(threshold, dtype):
    down, up = closing_gaps(threshold, dtype)
    unit = np.finfo(dtype).eps / 2
    if threshold == 0.5:
        assert down == up == 64 * unit
        return
    rounded = float(np.dtype(dtype).type(threshold))
    with localcontext(Context(prec=80)) as context:
        least = min(Decimal(threshold), Decimal(rounded)) - 16 * Decimal(float(unit))
        most = max(Decimal(threshold), Decimal(rounded)) + 16 * Decimal(float(unit))
        centre = context.ln(Decimal(threshold) / (1 - Decimal(threshold)))
        if least <= 0:
            assert down == math.inf
        else:
            assert 1 / (1 + (-(centre - Decimal(down))).exp()) <= least
        if most >= 1:
            assert up == math.inf
        else:
            assert 1 / (1 + (-(centre + Decimal(up))).exp()) >= most


def test_the_gaps_are_about_sixteen_units_over_the_slope():
    unit = 2.0**-24
    for gap in closing_gaps(0.3, "float32"):
        assert gap == pytest.approx(16 * unit / (0.3 * 0.7), rel=0.02)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, math.nan, "0.3", True, None])
def test_what_is_not_a_probability_is_refused(value):
    with pytest.raises(FairmendError, match="the threshold must be a probability above 0 and below 1"):
        as_threshold(value)


def line(outputs: int = 1) -> Network:
    return Network([Affine(np.ones((outputs, 1), np.float32), np.zeros(outputs, np.float32))], [])


def test_a_network_at_a_threshold_predicts_by_it_and_keeps_its_outputs(tmp_path):
    net = Network(line().affines, [], "sigmoid")
    X = np.linspace(-2, 2, 401, dtype=np.float32)[:, None]
    at = net.at_threshold(0.3)
    assert at.predict(X).tolist() == (net.probabilities(X) >= 0.3).astype(int).tolist()
    assert (at.logits(X) == net.logits(X)).all()
    assert at.threshold == at.with_affines(at.affines).threshold == at.astype(np.float64).threshold == 0.3
    assert "threshold 0.3" in repr(at)
    assert at.at_threshold(0.5) == net
    for number, each in enumerate((net, at)):
        each.save(tmp_path / f"{number}.onnx")
    assert (tmp_path / "0.onnx").read_bytes() == (tmp_path / "1.onnx").read_bytes()


def test_more_than_two_classes_have_no_threshold():
    assert line(2).at_threshold(0.3).predict([[1.0]]).tolist() == [1]
    with pytest.raises(FairmendError, match="needs two classes, but the network has 3 outputs"):
        line(3).at_threshold(0.3)
    with pytest.raises(FairmendError, match="needs two classes"):
        predicted_classes(np.zeros((1, 3)), 0.3)
