"""Slack and constant changes of a head, against the extreme points of its regions."""

import numpy as np
import pytest

from fairmend.repairing.head.problem import HeadChange, HeadProblem, SearchLimits
from support.head_cases import problem
from support.repair_cases import KINDS, slack_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_slack_of_a_change_is_that_of_the_extreme_points(kind, outputs):
    weight, bias, features = problem(1, kind, outputs)
    head, rng = HeadProblem(weight, bias, features, 1e-3), np.random.default_rng(0)
    for _ in range(5):
        change = HeadChange(rng.normal(size=weight.shape), rng.normal(size=bias.shape))
        expected = slack_of(weight + change.weight, bias + change.bias, features)
        np.testing.assert_allclose(head.slack(change), expected, atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_constant_change_gives_every_region_the_same_class_with_the_margin(outputs):
    weight, bias, features = problem(2, "box", outputs)
    head = HeadProblem(weight, bias, features, 0.1)
    change = head.constant_change(SearchLimits())
    assert not (weight + change.weight).any()
    slack = head.slack(change)
    assert len(set(slack.argmax(axis=1))) == 1
    assert (slack.max(axis=1) >= 0.1 - 1e-12).all()


def test_there_is_no_constant_change_beyond_the_limit():
    weight, bias, features = problem(2)
    head = HeadProblem(weight, bias, features, 0.1)
    assert head.constant_change(SearchLimits(delta=np.abs(weight).max() / 2)) is None


@pytest.mark.parametrize(("gap", "closed"), [(0.0, False), (0.2, False), (0.25, True)])
def test_a_search_is_closed_at_its_gap(gap, closed):
    assert SearchLimits(gap=gap).closed(objective=4.0, bound=3.0) == closed


@pytest.mark.parametrize(("bias", "constant"), [(0.0, False), (0.2, True), (-0.2, True)])
def test_without_a_bias_to_change_a_constant_head_needs_a_constant_beyond_the_margin(bias, constant):
    """As the threshold gives, or a norm after the head."""
    weight, _, features = problem(2)
    shift = np.array([0.5, 0.0, -1.0])
    head = HeadProblem(weight, weight @ shift + bias, features, 0.1, shift)
    change = head.constant_change(SearchLimits())
    assert (change is not None) == constant
    if change is not None:
        assert not (weight + change.weight).any()
        np.testing.assert_allclose(head.bias + change.bias, [bias], atol=1e-12)
