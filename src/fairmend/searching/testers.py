"""The testers: what is particular to ADF, EIDIG, NeuronFair and GRFT, and the papers that they come from.

Testers share two phases, each for all rows in one batch. In the global phase every seed takes steps until it reaches an
IDI; in the local phase every IDI takes random steps, one feature at a time. Zhang et al., White-box fairness testing
through adversarial sampling, ICSE 2020, Algorithms 1 and 2, and their variants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Floats
from fairmend.network import Activation, Network
from fairmend.network.gradients import backward, forward
from fairmend.searching.oracle import Choices, Mask, Oracle, Partners, Values, ValueSpace
from fairmend.searching.result import DiscoveredInstances

Gradient = Callable[[Oracle, Values], Floats]
StepProgress = Callable[[int, int], None]

Moves = Callable[[Choices, Values, Values], Values]
"""Returns the next moves of some seeds, from their numbers, their present values and their partners."""


def follow_gradients(
    oracle: Oracle,
    seeds: Values,
    steps: int,
    moves: Moves,
    discovered: DiscoveredInstances,
    progress: StepProgress | None = None,
) -> tuple[Values, Choices]:
    """Take up to this many steps from each seed; return the IDIs reached, at most one per seed, and their partners."""
    V, partners = seeds.copy(), np.zeros(len(seeds), np.int64)
    reached = np.zeros(len(seeds), np.bool_)
    for done in range(steps + 1):
        rows = np.flatnonzero(~reached)
        if len(rows) == 0:
            break
        found = oracle.find_partners(V[rows])
        partners[rows], reached[rows] = found.partner, found.unequal
        discovered.add(V[rows[found.unequal]], found.partner[found.unequal])
        rows = np.flatnonzero(~reached)
        if progress is not None:
            progress(min(done + 1, steps), steps)
        if done < steps and len(rows):
            others = oracle.neighbours(V[rows], partners[rows])
            V[rows] = oracle.space.clip(V[rows] + moves(rows, V[rows], others))
    return V[reached], partners[reached]


def agreed_moves(space: ValueSpace, V: Values, up: Values, theirs: Values, rng: np.random.Generator) -> Values:
    """Return the moves (rows, features) on which both ends of a pair agree.

    A row whose pair agrees on nothing follows its own gradient. If that vanishes, it takes a random step: the published
    algorithm makes a random choice there, too.
    """
    moves = np.where(up == theirs, up, 0.0)
    none = np.flatnonzero(~moves.any(axis=1))
    moves[none] = up[none]
    lost = np.flatnonzero(~moves.any(axis=1))
    if len(lost) and space.free.any():
        moves[lost] = space.take_random_step(V[lost], rng.choice(np.flatnonzero(space.free), len(lost)), rng) - V[lost]
    return moves


# Keeps the probabilities of features without influence finite, as in the published code of EIDIG.
_LEAST = 1e-6


@dataclass(frozen=True)
class LocalRule:
    """The settings of one tester's local phase.

    Attributes
    ----------
    gradient : a feature is chosen with probability inverse to the size of this gradient at both ends of the pair; None
        gives all features the same probability
    reuse : for how many steps a gradient is used
    on_failure : where to continue after a step that found no IDI: "hop" (before the step, or with probability 1/e
        after it), "origin" (at the start) or "stay" (before the step)
    """

    gradient: Gradient | None
    reuse: int = 1
    on_failure: str = "stay"


def run_local_phase(
    oracle: Oracle,
    starts: Values,
    partners: Choices,
    steps: int,
    rule: LocalRule,
    discovered: DiscoveredInstances,
    rng: np.random.Generator,
    progress: StepProgress | None = None,
) -> None:
    """Take this many steps from each of the starts (rows, features), and add every IDI to `discovered`."""
    space = oracle.space
    if len(starts) == 0 or not space.free.any():
        return
    V, partner = starts.copy(), partners.copy()
    unequal = np.ones(len(V), np.bool_)  # the rows that are at an IDI
    weights = _weights(oracle, V, partner, rule)
    first, age = weights.copy(), np.zeros(len(V), np.int64)
    for done in range(1, steps + 1):
        due = np.flatnonzero(age >= rule.reuse)
        if rule.gradient is not None and len(due):
            weights[due] = _weights(oracle, V[due], partner[due], rule)
            age[due] = 0
        age += 1
        moved = space.take_random_step(V, _pick(weights, rng), rng)
        hit, other = _find_unequal(oracle, moved, partner)
        discovered.add(moved[hit], other[hit])
        go = hit.copy()
        if rule.on_failure == "hop":
            # Basin hopping at temperature 1, as in ADF, on a function that is 0 at an IDI and 1 elsewhere.
            go |= ~unequal | (rng.random(len(V)) < np.exp(-1))
        V[go], partner[go], unequal[go] = moved[go], other[go], hit[go]
        if rule.on_failure == "origin":
            V[~hit], partner[~hit], age[~hit] = starts[~hit], partners[~hit], 0
            weights[~hit] = first[~hit]
        elif rule.reuse == 1:
            age[~go] = 0  # a row that has not moved keeps its gradient
        if progress is not None:
            progress(done, steps)


def _find_unequal(oracle: Oracle, V: Values, partner: Choices) -> tuple[Mask, Choices]:
    """Return which rows are IDIs (rows,), and to which neighbour; the neighbour of the last step is tried first."""
    other = partner.copy()
    hit = oracle.predict(V) != oracle.predict(oracle.neighbours(V, partner))
    rest = np.flatnonzero(~hit)
    if len(rest) and not oracle.single_neighbour:
        found = oracle.find_partners(V[rest])
        hit[rest], other[rest] = found.unequal, found.partner
    return hit, other


def _weights(oracle: Oracle, V: Values, partner: Choices, rule: LocalRule) -> Floats:
    """Return the probability that each feature is changed (rows, features)."""
    free = np.broadcast_to(oracle.space.free, V.shape)
    if rule.gradient is None:
        weights = free.astype(np.float64)
    else:
        others = oracle.neighbours(V, partner)
        size = sum(oracle.space.influence(side, rule.gradient(oracle, side)) for side in (V, others))
        weights = np.where(free, 1 / (size + _LEAST * np.max(size, axis=1, keepdims=True) + 1e-300), 0.0)
        weights /= weights.max(axis=1, keepdims=True)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _pick(weights: Floats, rng: np.random.Generator) -> Choices:
    """Draw one feature for each row, with its probabilities."""
    limits = np.cumsum(weights, axis=1)
    drawn = rng.random((len(weights), 1)) * limits[:, -1:]
    return np.asarray((limits > drawn).argmax(axis=1), dtype=np.int64)


def layer_nodes(net: Network) -> list[int]:
    """Return the nodes of the layers: each function, each affine layer that no function follows, the logits last."""
    followed = {net.nodes[i].sources[0] for i in net.functions}
    return [i for i in sorted((*net.affine_nodes, *net.functions)) if i not in followed]


def loss_gradient(oracle: Oracle, V: Values) -> Floats:
    """Return the gradient (rows, width) of the cross-entropy between the output and the predicted class."""
    values, probabilities, predicted = _outputs(oracle, V)
    return backward(oracle.network, values, {len(values) - 1: probabilities - predicted})


def output_gradient(oracle: Oracle, V: Values) -> Floats:
    """Return the gradient (rows, width) of the probability of the predicted class."""
    values, probabilities, predicted = _outputs(oracle, V)
    if oracle.network.outputs == 1:
        slope = probabilities * (1 - probabilities) * (2 * predicted - 1)
    else:
        slope = (probabilities * predicted).sum(axis=1, keepdims=True) * (predicted - probabilities)
    return backward(oracle.network, values, {len(values) - 1: slope})


def _outputs(oracle: Oracle, V: Values) -> tuple[list[Floats], Floats, Floats]:
    """Return the results of all nodes, the probabilities, and the predicted class as 0 and 1, both (rows, outputs)."""
    values = forward(oracle.network, oracle.space.encode(V))
    oracle.calls += len(V)
    logits = values[-1]
    predictions = oracle.network.decide(logits)
    if oracle.network.outputs == 1:
        probabilities = logits.copy()
        Activation("sigmoid").apply(probabilities)
        return values, probabilities, predictions[:, None].astype(np.float64)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return values, probabilities, np.eye(oracle.network.outputs)[predictions]


def _adf_moves(oracle: Oracle, _: Values, rng: np.random.Generator) -> Moves:
    """ADF: follow gradients of the loss from seeds to the decision boundary, then take random steps around each IDI.

    P. Zhang, J. Wang, J. Sun, G. Dong, X. Wang, X. Wang, J. S. Dong, T. Dai: White-box fairness testing through
    adversarial sampling, ICSE 2020.

    Global phase: a seed that is treated equally takes one step in every feature for which the sign of the loss gradient
    is the same at the seed and at its most different neighbour. Local phase: `local_steps` perturbations of each IDI,
    as in the published code, which calls SciPy's basin hopping with that many iterations.
    """

    def moves(_: Choices, V: Values, others: Values) -> Values:
        # The loss of the predicted class grows towards the decision boundary.
        up, theirs = (oracle.space.ascent(side, loss_gradient(oracle, side)) for side in (V, others))
        return agreed_moves(oracle.space, V, up, theirs, rng)

    return moves


DECAY = 0.5


def _eidig_moves(oracle: Oracle, seeds: Values, rng: np.random.Generator) -> Moves:
    """EIDIG: like ADF, with gradients of the output, momentum, and gradients that are reused for several local steps.

    L. Zhang, Y. Zhang, M. Zhang: Efficient white-box fairness testing through gradient search, ISSTA 2021.

    After a local step that finds no IDI, the search returns to its start, as in the published code.
    """
    momentum = np.zeros((2, len(seeds), oracle.spec.width))

    def moves(rows: Choices, V: Values, others: Values) -> Values:
        down = []
        for k, side in enumerate((V, others)):
            momentum[k, rows] = DECAY * momentum[k, rows] + output_gradient(oracle, side)
            # Against the gradient: the probability of the predicted class falls towards the decision boundary.
            down.append(oracle.space.ascent(side, -momentum[k, rows]))
        return agreed_moves(oracle.space, V, down[0], down[1], rng)

    return moves


SHARE = 0.1  # of all hidden neurons

_VANISHED = 1e-9


def _neuronfair_moves(oracle: Oracle, seeds: Values, rng: np.random.Generator) -> Moves:
    """NeuronFair: follow gradients of the neurons that react most to protected features.

    H. Zheng, Z. Chen, T. Du, X. Zhang, Y. Cheng, S. Ji, J. Wang, Y. Yu, J. Chen: NeuronFair: interpretable white-box
    fairness testing through biased neuron identification, ICSE 2022.

    The biased neurons are those whose activation differs most, on average, between the seeds and their most different
    neighbours. In a network without hidden neurons, the outputs take their place.
    """
    space = oracle.space
    biased = biased_neurons(oracle, seeds)
    momentum = np.zeros((len(seeds), oracle.spec.width))

    def moves(rows: Choices, V: Values, others: Values) -> Values:
        gradient = difference_gradient(oracle, biased, V, others)
        momentum[rows] = DECAY * momentum[rows] + gradient
        step = space.ascent(V, momentum[rows])
        lost = np.flatnonzero((np.abs(gradient).max(axis=1) < _VANISHED) | ~step.any(axis=1))
        if len(lost):
            # The gradient vanishes: restart from another seed with half of its features drawn at random.
            restart = seeds[rng.integers(len(seeds), size=len(lost))]
            restart = space.redraw(restart, space.free & (rng.random(restart.shape) < 0.5), rng)
            step[lost] = restart - V[lost]
            momentum[rows[lost]] = 0
        return step

    return moves


def biased_neurons(oracle: Oracle, V: Values) -> list[npt.NDArray[np.bool_]]:
    """Return for each layer which neurons (units,) are among the most biased, over the rows V."""
    here, there = _both_sides(oracle, V, _partners(oracle, V))
    differences = [np.abs(here[node] - there[node]).mean(axis=0) for node in layer_nodes(oracle.network)]
    hidden = differences[:-1] or differences
    # Neurons of different layers are compared without scaling: their scale is what reaches the output.
    every = np.sort(np.concatenate(hidden))[::-1]
    least = every[max(1, round(SHARE * len(every))) - 1]
    none = [np.zeros(len(d), np.bool_) for d in differences[len(hidden) :]]
    return [(d >= least) & (d > 0) for d in hidden] + none


def difference_gradient(oracle: Oracle, biased: list[npt.NDArray[np.bool_]], V: Values, others: Values) -> Floats:
    """Return the gradient (rows, width) of the sum of |a - a'| over biased neurons, as both move together."""
    here, there = _both_sides(oracle, V, others)
    slopes = {
        node: np.sign(here[node] - there[node]) * mask
        for node, mask in zip(layer_nodes(oracle.network), biased, strict=True)
    }
    mine = backward(oracle.network, here, slopes)
    return mine + backward(oracle.network, there, {node: -slope for node, slope in slopes.items()})


def _partners(oracle: Oracle, V: Values) -> Values:
    return oracle.neighbours(V, oracle.find_partners(V).partner)


def _both_sides(oracle: Oracle, V: Values, others: Values) -> tuple[list[Floats], list[Floats]]:
    """Return the results of all nodes for V and for others."""
    oracle.calls += 2 * len(V)
    return forward(oracle.network, oracle.space.encode(V)), forward(oracle.network, oracle.space.encode(others))


POPULATION = 10
TOURNAMENT = 2
# The probability that a feature of a child takes one step. Drawing a new value instead would leave the surroundings of
# the seed: then every seed led to an IDI, even on networks that treat hardly anyone unequally.
STEP = 0.2


def _evolve(
    oracle: Oracle,
    seeds: Values,
    steps: int,
    discovered: DiscoveredInstances,
    rng: np.random.Generator,
    progress: StepProgress | None,
) -> tuple[Values, Choices]:
    """GRFT's tester: a genetic search for people whose neighbours get different outputs, then random steps around them.

    Quan et al., Dissecting global search: a simple yet effective method to boost individual discrimination testing and
    repair, ICSE 2025. It uses no gradients.

    Every seed has a population of its own, and a step is a generation. Fitness is the difference in probability between
    a row and its most different neighbour. The search of a seed ends when its population contains an IDI.
    """
    population = np.repeat(seeds[:, None, :], POPULATION, axis=1)  # (seeds, population, features)
    population[:, 1:] = _mutate(oracle, population[:, 1:], rng)
    best, partners = seeds.copy(), np.zeros(len(seeds), np.int64)
    reached = np.zeros(len(seeds), np.bool_)
    for done in range(steps + 1):
        rows = np.flatnonzero(~reached)
        if len(rows) == 0:
            break
        flat = population[rows].reshape(-1, population.shape[2])
        found = oracle.find_partners(flat)
        discovered.add(flat[found.unequal], found.partner[found.unequal])
        fitness = _fitness(found).reshape(len(rows), POPULATION)
        fittest = fitness.argmax(axis=1) + np.arange(len(rows)) * POPULATION
        best[rows], partners[rows], reached[rows] = flat[fittest], found.partner[fittest], found.unequal[fittest]
        if progress is not None:
            progress(min(done + 1, steps), steps)
        left = np.flatnonzero(~reached[rows])
        if done < steps and len(left):
            children = _make_children(population[rows[left]], fitness[left], rng)
            children[:, 1:] = _mutate(oracle, children[:, 1:], rng)
            children[:, 0] = best[rows[left]]  # the fittest survives unchanged
            population[rows[left]] = children
    return best[reached], partners[reached]


def _fitness(found: Partners) -> Floats:
    """Return the difference of probabilities (rows,), with IDIs above all others."""
    own, theirs = (1 / (1 + np.exp(-np.clip(side, -500, 500))) for side in (found.own, found.theirs))
    return np.asarray(np.abs(own - theirs) + 2.0 * found.unequal)


def _make_children(population: Values, fitness: Floats, rng: np.random.Generator) -> Values:
    """Return as many children, with each feature from one of two parents, both winners of a tournament."""
    seeds, size = fitness.shape
    at = np.arange(seeds)[:, None]

    def parents() -> Values:
        drawn = rng.integers(size, size=(seeds, size, TOURNAMENT))
        winner = fitness[at[..., None], drawn].argmax(axis=2)
        return np.asarray(population[at, np.take_along_axis(drawn, winner[..., None], axis=2)[..., 0]])

    first, second = parents(), parents()
    return np.where(rng.random(first.shape) < 0.5, first, second)


def _mutate(oracle: Oracle, population: Values, rng: np.random.Generator) -> Values:
    """Return the population (seeds, size, features) with some features changed, never protected ones."""
    space = oracle.space
    flat = population.reshape(-1, population.shape[2]).copy()
    for feature in np.flatnonzero(space.free):
        who = np.flatnonzero(rng.random(len(flat)) < STEP)
        flat[who] = space.take_random_step(flat[who], np.full(len(who), feature), rng)
    return flat.reshape(population.shape)


FindStarts = Callable[
    [Oracle, Values, int, DiscoveredInstances, np.random.Generator, StepProgress | None], tuple[Values, Choices]
]
"""Runs the global phase: returns the IDIs that some seeds lead to within so many steps, and their partners."""


@dataclass(frozen=True)
class Tester:
    """How a tester finds IDIs from seeds (the global phase), and the rule of its local phase."""

    find_starts: FindStarts
    rule: LocalRule

    @property
    def follows_gradients(self) -> bool:
        """Whether it needs a network; otherwise it runs any model."""
        return self.rule.gradient is not None


def _follow(
    make_moves: Callable[[Oracle, Values, np.random.Generator], Moves],
) -> FindStarts:
    """Return the global phase of a tester that follows gradients."""

    def find_starts(
        oracle: Oracle,
        seeds: Values,
        steps: int,
        discovered: DiscoveredInstances,
        rng: np.random.Generator,
        progress: StepProgress | None,
    ) -> tuple[Values, Choices]:
        return follow_gradients(oracle, seeds, steps, make_moves(oracle, seeds, rng), discovered, progress)

    return find_starts


METHODS = {
    "adf": Tester(_follow(_adf_moves), LocalRule(loss_gradient, reuse=1, on_failure="hop")),
    "eidig": Tester(_follow(_eidig_moves), LocalRule(output_gradient, reuse=5, on_failure="origin")),
    "neuronfair": Tester(_follow(_neuronfair_moves), LocalRule(loss_gradient, reuse=1, on_failure="hop")),
    "grft": Tester(_evolve, LocalRule(None, on_failure="stay")),
}
