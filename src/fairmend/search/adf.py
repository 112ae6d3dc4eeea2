"""ADF: gradients of the loss lead seeds to the decision, then random steps around those who are unequal.

P. Zhang, J. Wang, J. Sun, G. Dong, X. Wang, X. Wang, J. S. Dong, T. Dai: White-box fairness testing through adversarial
sampling, ICSE 2020.

Global phase: a seed that is equal to all its neighbours takes one step in every feature on which the sign of the loss
gradient is the same at the seed and at its most different neighbour. Local phase: `local_steps` perturbations of every
one of those found, as in the published code (which calls SciPy's basin hopping with that many iterations for each).
"""

from __future__ import annotations

import numpy as np

from fairmend.search.climb import agreed, climb
from fairmend.search.found import Found
from fairmend.search.gradients import loss_gradient
from fairmend.search.oracle import Oracle
from fairmend.search.values import Choices, Values
from fairmend.search.walk import Rule, Steps

RULE = Rule(loss_gradient, reuse=1, on_failure="hop")


def find(
    oracle: Oracle, seeds: Values, steps: int, found: Found, rng: np.random.Generator, progress: Steps | None
) -> tuple[Values, Choices]:
    """Run the global phase."""

    def moves(_: Choices, V: Values, others: Values) -> Values:
        # The loss of the class that was chosen grows towards the decision.
        up, theirs = (oracle.space.ascent(side, loss_gradient(oracle, side)) for side in (V, others))
        return agreed(oracle.space, V, up, theirs, rng)

    return climb(oracle, seeds, steps, moves, found, progress)
