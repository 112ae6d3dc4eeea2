"""Slack and constant changes of a head, against the extreme points of its regions."""

import numpy as np
import pytest

from fairmend.repairing.head.problem import (
    TIE,
    Head,
    HeadChange,
    HeadProblem,
    HeadProgram,
    HeadVariables,
    KeptRows,
    SearchLimits,
    pairs_of_outputs,
)
from support.head_cases import problem
from support.repair_cases import KINDS, random_features, slack_of


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("with_rows", [False, True])
def test_a_demand_on_a_direction_is_met_at_the_cost_that_the_change_has(outputs, with_rows):
    rng = np.random.default_rng(outputs)
    weight, bias = rng.normal(size=(outputs, 4)), rng.normal(size=outputs)
    directions = np.ones((1, 1)) if outputs == 1 else pairs_of_outputs(outputs)
    kept = KeptRows(rng.normal(size=(6, 4)), rng.uniform(0.5, 1, (6, outputs))) if with_rows else None
    head = Head(weight, bias, random_features(rng, "box", 2, 4), directions)
    program = HeadProgram(head, 10.0, kept)
    assert program.change(program.program.solve().x).objective == 0
    # The first direction's weights, p - n, shall be 1 everywhere.
    columns = np.column_stack([program.p[0], program.n[0]])
    program.program.add_rows(columns, np.tile([1.0, -1.0], (4, 1)), np.ones(4), np.ones(4))
    solution = program.program.solve()
    change = program.change(solution.x)
    np.testing.assert_allclose(directions[0] @ (weight + change.weight), np.ones(4), atol=1e-9)
    assert solution.objective == pytest.approx(program.cost(change), abs=1e-9)


def test_rows_cost_the_change_of_their_outputs():
    rows = KeptRows(np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[1.0], [10.0]]))
    change = HeadChange(np.array([[1.0, -1.0]]), np.array([0.5]))
    assert rows.cost(change) == pytest.approx(0.5 + 10 * 0.5)
    head = Head(np.ones((1, 2)), np.zeros(1), random_features(np.random.default_rng(0), "box", 2, 2), np.ones((1, 1)))
    assert HeadProgram(head, 1.0, rows).cost(change) == pytest.approx(5.5 + TIE * 2.5)
    assert HeadProgram(head, 1.0).cost(change) == 2.5


def test_the_rows_of_a_head_without_a_bias_are_its_bias_less_its_weights_times_the_shift():
    features, rows = random_features(np.random.default_rng(0), "box", 2, 2), []
    head = Head(np.ones((2, 2)), np.zeros(2), features, pairs_of_outputs(2), np.array([2.0, 3.0]))
    HeadVariables(head).link(lambda *row: rows.append(row))
    columns, values, lower, upper = rows[-1]
    assert lower.tolist() == upper.tolist() == [0, 0]
    assert columns.tolist() == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]
    assert values.tolist() == [[-2, -3, 1, 2, 3, -1]] * 2


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
