"""ADF: follow gradients of the loss from seeds to the decision boundary, then take random steps around each IDI.

P. Zhang, J. Wang, J. Sun, G. Dong, X. Wang, X. Wang, J. S. Dong, T. Dai: White-box fairness testing through adversarial
sampling, ICSE 2020.

Global phase: a seed that is treated equally takes one step in every feature for which the sign of the loss gradient is
the same at the seed and at its most different neighbour. Local phase: `local_steps` perturbations of each IDI, as in
the published code, which calls SciPy's basin hopping with that many iterations.
"""

from __future__ import annotations

import numpy as np

from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.global_phase import agreed_moves, follow_gradients
from fairmend.searching.gradients import loss_gradient
from fairmend.searching.local_phase import LocalRule, StepProgress
from fairmend.searching.oracle import Oracle
from fairmend.searching.value_space import Choices, Values

RULE = LocalRule(loss_gradient, reuse=1, on_failure="hop")


def find_starts(
    oracle: Oracle,
    seeds: Values,
    steps: int,
    discovered: DiscoveredInstances,
    rng: np.random.Generator,
    progress: StepProgress | None,
) -> tuple[Values, Choices]:
    """Run the global phase."""

    def moves(_: Choices, V: Values, others: Values) -> Values:
        # The loss of the predicted class grows towards the decision boundary.
        up, theirs = (oracle.space.ascent(side, loss_gradient(oracle, side)) for side in (V, others))
        return agreed_moves(oracle.space, V, up, theirs, rng)

    return follow_gradients(oracle, seeds, steps, moves, discovered, progress)
