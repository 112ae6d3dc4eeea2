"""The parts that testers share, against slow and simple ways to compute the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.search.gradients import backward, forward, loss_gradient, output_gradient
from fairmend.search.oracle import Oracle
from fairmend.search.seeds import draw_seeds
from fairmend.search.value_space import ValueSpace
from support.search_cases import biased, people, spec
from support.strategies import networks

SPECS = {
    "one-hot": spec(),
    "several in order": spec(protected=("age", "sex"), one_hot=False),
    "several": spec(protected=("sex", "job")),
    "tolerance": spec(protected=("age",), tolerance=2),
}


@pytest.fixture(params=SPECS.values(), ids=SPECS)
def case(request):
    return request.param


@settings(deadline=None, max_examples=40)
@given(networks(), st.integers(0, 2**32 - 1))
def test_gradients_are_those_of_autograd(net, seed):
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(seed).normal(size=(5, net.inputs))
    rng = np.random.default_rng(seed + 1)
    layers = forward(net, X)
    slopes = [rng.normal(size=layer.shape) for layer in layers]
    inputs = torch.tensor(X, requires_grad=True)
    values, total = inputs, torch.zeros(())
    for i, affine in enumerate(net.affines):
        values = values @ torch.tensor(affine.weight.T.astype(float)) + torch.tensor(affine.bias.astype(float))
        if i < len(net.activations):
            activation = net.activations[i]
            values = {
                "relu": torch.relu,
                "leaky_relu": lambda v, slope=activation.slope: torch.nn.functional.leaky_relu(v, slope),
                "tanh": torch.tanh,
                "sigmoid": torch.sigmoid,
                "identity": lambda v: v,
            }[activation.name](values)
        total = total + (values * torch.tensor(slopes[i])).sum()
    total.backward()
    assert backward(net, layers, slopes) == pytest.approx(inputs.grad.numpy(), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("outputs", [1, 3])
def test_loss_rises_and_the_probability_falls_towards_the_decision(outputs):
    case = spec()
    oracle = Oracle(biased(case, outputs), case, np.random.default_rng(0))
    V = oracle.space.values(people(case))
    X, net = oracle.space.encode(V).astype(np.float64), oracle.net.astype(np.float64)
    answers, rows = oracle.predict(V), np.arange(len(V))

    def chance(inputs):
        p = net.probabilities(inputs)
        return np.where(answers == 1, p, 1 - p) if outputs == 1 else p[rows, answers]

    for gradient, function in ((output_gradient, chance), (loss_gradient, lambda X: -np.log(chance(X)))):
        G = gradient(oracle, V)
        for column in range(case.width):
            off = np.zeros(case.width)
            off[column] = 1e-6
            slope = (function(X + off) - function(X - off)) / 2e-6
            assert np.median(np.abs(G[:, column] - slope)) < 1e-6


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_most_different_neighbour_is_that_of_enumeration(case, outputs):
    net = biased(case, outputs)
    oracle = Oracle(net, case, np.random.default_rng(0))
    V = oracle.space.values(people(case, rows=40))
    X = oracle.space.encode(V)
    found = oracle.find_partners(V)
    others = oracle.space.encode(oracle.neighbours(V, found.partner))
    assert np.array_equal(found.unequal, net.predict(others) != net.predict(X))
    rows, points = zip(*case.points(X), strict=True)
    rows, points = np.concatenate(rows), np.concatenate(points)
    logits, own = net.logits(points).reshape(len(points), -1), net.predict(X)
    for i in range(len(X)):
        mine = logits[rows == i]
        k = own[i]
        leads = mine[:, 0] * (2 * k - 1) if outputs == 1 else mine[:, k] - np.delete(mine, k, axis=1).max(axis=1)
        assert found.unequal[i] == (net.predict(points[rows == i]) != k).any()
        deepest = leads.min() if found.unequal[i] else leads[np.abs(leads - found.own[i]).argmax()]
        assert found.theirs[i] == pytest.approx(deepest, abs=1e-4)


def test_values_and_encoding_are_inverse_and_every_move_is_valid(case):
    space, rng = ValueSpace(case, np.float32), np.random.default_rng(0)
    V = space.values(people(case))
    assert space.values(space.encode(V)) == pytest.approx(V, abs=1e-5)
    free = np.flatnonzero(space.free)
    for moved in (
        space.take_random_step(V, rng.choice(free, len(V)), rng),
        space.redraw(V, np.broadcast_to(space.free, V.shape), rng),
        space.clip(V + space.ascent(V, rng.normal(size=(len(V), case.width)))),
    ):
        case.as_inputs(space.encode(moved))
        assert np.array_equal(moved[:, ~space.free], V[:, ~space.free])
        assert (moved != V).any()
    steps = np.abs(space.take_random_step(V, rng.choice(free, len(V)), rng) - V)
    plain = [i for i in free if case.features[i].kind == "integer"]
    assert set(np.unique(steps[:, plain])) <= {0.0, 1.0}


def test_a_one_hot_group_moves_to_the_category_with_the_largest_derivative():
    case = spec()
    space = ValueSpace(case, np.float32)
    V = np.zeros((2, 6))
    V[1, 2] = 2
    G = np.zeros((2, case.width))
    G[:, case.columns("job")] = [0.1, 0.3, 0.2]
    assert (V + space.ascent(V, G))[:, 2].tolist() == [1.0, 1.0]
    assert space.influence(V, G)[:, 2] == pytest.approx([0.2, 0.1])


def test_keys_tell_apart_what_is_not_protected_and_nothing_else():
    case = spec()
    space = ValueSpace(case, np.float32)
    V = space.values(people(case, rows=3000))
    kept = np.delete(V, 1, axis=1)
    assert len(np.unique(space.keys(V))) == len(np.unique(kept, axis=0))
    flipped = V.copy()
    flipped[:, 1] = 1 - flipped[:, 1]
    assert np.array_equal(space.keys(V), space.keys(flipped))


def test_whole_numbers_have_keys_of_their_own():
    case = spec(one_hot=False)
    space = ValueSpace(case, np.float32)
    grid = np.array(np.meshgrid(*[np.arange(20.0)] * 3)).reshape(3, -1).T
    V = np.zeros((len(grid), 6))
    V[:, [0, 2, 3]] = grid
    assert len(np.unique(space.keys(V))) == len(V)


def test_seeds_come_from_all_clusters_in_turn():
    centres = np.array([[0, 0], [50, 0], [0, 50], [50, 50]], dtype=np.float32)
    sizes = (400, 30, 20, 10)
    X = np.repeat(centres, sizes, axis=0) + np.random.default_rng(0).normal(size=(sum(sizes), 2)).astype(np.float32)
    seeds = draw_seeds(X, 40, np.random.default_rng(0))
    near = np.linalg.norm(seeds[:, None] - centres, axis=2).argmin(axis=1)
    assert np.bincount(near).tolist() == [10, 10, 10, 10]
    assert len(draw_seeds(X, 10_000, np.random.default_rng(0))) == len(X)
