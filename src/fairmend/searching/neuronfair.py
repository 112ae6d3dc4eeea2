"""NeuronFair: follow gradients of the neurons that react most to protected features.

H. Zheng, Z. Chen, T. Du, X. Zhang, Y. Cheng, S. Ji, J. Wang, Y. Yu, J. Chen: NeuronFair: interpretable white-box
fairness testing through biased neuron identification, ICSE 2022.

The biased neurons are those whose activation differs most, on average, between the seeds and their most different
neighbours. In a network without hidden neurons, the outputs take their place.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Floats
from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.global_phase import follow_gradients
from fairmend.searching.gradients import backward, forward, layer_nodes, loss_gradient
from fairmend.searching.local_phase import LocalRule, StepProgress
from fairmend.searching.oracle import Oracle
from fairmend.searching.value_space import Choices, Values

DECAY = 0.5
SHARE = 0.1  # of all hidden neurons
RULE = LocalRule(loss_gradient, reuse=1, on_failure="hop")

_VANISHED = 1e-9


def find_starts(
    oracle: Oracle,
    seeds: Values,
    steps: int,
    discovered: DiscoveredInstances,
    rng: np.random.Generator,
    progress: StepProgress | None,
) -> tuple[Values, Choices]:
    """Run the global phase."""
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

    return follow_gradients(oracle, seeds, steps, moves, discovered, progress)


def biased_neurons(oracle: Oracle, V: Values) -> list[npt.NDArray[np.bool_]]:
    """Return for each layer which neurons (units,) are among the most biased, over the rows V."""
    here, there = _both_sides(oracle, V, _partners(oracle, V))
    differences = [np.abs(here[node] - there[node]).mean(axis=0) for node in layer_nodes(oracle.net)]
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
        for node, mask in zip(layer_nodes(oracle.net), biased, strict=True)
    }
    mine = backward(oracle.net, here, slopes)
    return mine + backward(oracle.net, there, {node: -slope for node, slope in slopes.items()})


def _partners(oracle: Oracle, V: Values) -> Values:
    return oracle.neighbours(V, oracle.find_partners(V).partner)


def _both_sides(oracle: Oracle, V: Values, others: Values) -> tuple[list[Floats], list[Floats]]:
    """Return the results of all nodes for V and for others."""
    oracle.calls += 2 * len(V)
    return forward(oracle.net, oracle.space.encode(V)), forward(oracle.net, oracle.space.encode(others))
