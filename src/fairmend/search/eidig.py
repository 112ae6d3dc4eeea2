"""EIDIG: as ADF, with gradients of the output, momentum on the way, and gradients that serve several local steps.

L. Zhang, Y. Zhang, M. Zhang: Efficient white-box fairness testing through gradient search, ISSTA 2021.

A local step that ends at nobody unequal leads back to where the walk started, as in the published code.
"""

from __future__ import annotations

import numpy as np

from fairmend.search.climb import agreed, climb
from fairmend.search.found import Found
from fairmend.search.gradients import output_gradient
from fairmend.search.oracle import Oracle
from fairmend.search.values import Choices, Values
from fairmend.search.walk import Rule, Steps

DECAY = 0.5
RULE = Rule(output_gradient, reuse=5, on_failure="origin")


def find(
    oracle: Oracle, seeds: Values, steps: int, found: Found, rng: np.random.Generator, progress: Steps | None
) -> tuple[Values, Choices]:
    """Run the global phase."""
    momentum = np.zeros((2, len(seeds), oracle.spec.width))

    def moves(rows: Choices, V: Values, others: Values) -> Values:
        down = []
        for k, side in enumerate((V, others)):
            momentum[k, rows] = DECAY * momentum[k, rows] + output_gradient(oracle, side)
            # Against the gradient: the probability of the class that was chosen falls towards the decision.
            down.append(oracle.space.ascent(side, -momentum[k, rows]))
        return agreed(oracle.space, V, down[0], down[1], rng)

    return climb(oracle, seeds, steps, moves, found, progress)
