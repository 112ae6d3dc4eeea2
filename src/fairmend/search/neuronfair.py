"""NeuronFair: the neurons that react most to protected features lead seeds to unequal treatment.

H. Zheng, Z. Chen, T. Du, X. Zhang, Y. Cheng, S. Ji, J. Wang, Y. Yu, J. Chen: NeuronFair: interpretable white-box
fairness testing through biased neuron identification, ICSE 2022.

A neuron is biased whose activation differs most, on average, between the seeds and their most different neighbours.
Of a network without hidden neurons, the outputs take their place.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairmend.arrays import Floats
from fairmend.search.climb import climb
from fairmend.search.found import Found
from fairmend.search.gradients import backward, forward, loss_gradient
from fairmend.search.oracle import Oracle
from fairmend.search.values import Choices, Values
from fairmend.search.walk import Rule, Steps

DECAY = 0.5
SHARE = 0.1  # of all hidden neurons
RULE = Rule(loss_gradient, reuse=1, on_failure="hop")

_VANISHED = 1e-9


def find(
    oracle: Oracle, seeds: Values, steps: int, found: Found, rng: np.random.Generator, progress: Steps | None
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
            # Nothing leads away from here: start again, half at another seed and half anywhere.
            again = seeds[rng.integers(len(seeds), size=len(lost))]
            again = space.drawn(again, space.free & (rng.random(again.shape) < 0.5), rng)
            step[lost] = again - V[lost]
            momentum[rows[lost]] = 0
        return step

    return climb(oracle, seeds, steps, moves, found, progress)


def biased_neurons(oracle: Oracle, V: Values) -> list[npt.NDArray[np.bool_]]:
    """Return for each layer which neurons (units,) are among the most biased, over the rows V."""
    differences = [np.abs(here - there).mean(axis=0) for here, there in _both(oracle, V, _partners(oracle, V))]
    hidden = differences[:-1] or differences
    # Neurons of different layers are compared as they are: their scale is what reaches the output.
    every = np.sort(np.concatenate(hidden))[::-1]
    least = every[max(1, round(SHARE * len(every))) - 1]
    none = [np.zeros(len(d), np.bool_) for d in differences[len(hidden) :]]
    return [(d >= least) & (d > 0) for d in hidden] + none


def difference_gradient(oracle: Oracle, biased: list[npt.NDArray[np.bool_]], V: Values, others: Values) -> Floats:
    """Return the gradient (rows, width) of the sum of |a - a'| over biased neurons, as both move together."""
    pairs = _both(oracle, V, others)
    slopes = [np.sign(here - there) * mask for (here, there), mask in zip(pairs, biased, strict=True)]
    mine = backward(oracle.net, [here for here, _ in pairs], slopes)
    theirs = backward(oracle.net, [there for _, there in pairs], [-slope for slope in slopes])
    return mine + theirs


def _partners(oracle: Oracle, V: Values) -> Values:
    return oracle.neighbours(V, oracle.look(V).partner)


def _both(oracle: Oracle, V: Values, others: Values) -> list[tuple[Floats, Floats]]:
    """Return what each layer makes of V and of others, after its activation."""
    oracle.calls += 2 * len(V)
    sides = (forward(oracle.net, oracle.space.encode(side)) for side in (V, others))
    return list(zip(*sides, strict=True))
