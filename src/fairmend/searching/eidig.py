"""EIDIG: like ADF, with gradients of the output, momentum, and gradients that are reused for several local steps.

L. Zhang, Y. Zhang, M. Zhang: Efficient white-box fairness testing through gradient search, ISSTA 2021.

After a local step that finds no IDI, the search returns to its start, as in the published code.
"""

from __future__ import annotations

import numpy as np

from fairmend.searching.discovered import DiscoveredInstances
from fairmend.searching.global_phase import agreed_moves, follow_gradients
from fairmend.searching.gradients import output_gradient
from fairmend.searching.local_phase import LocalRule, StepProgress
from fairmend.searching.oracle import Oracle
from fairmend.searching.value_space import Choices, Values

DECAY = 0.5
RULE = LocalRule(output_gradient, reuse=5, on_failure="origin")


def find_starts(
    oracle: Oracle,
    seeds: Values,
    steps: int,
    discovered: DiscoveredInstances,
    rng: np.random.Generator,
    progress: StepProgress | None,
) -> tuple[Values, Choices]:
    """Run the global phase."""
    momentum = np.zeros((2, len(seeds), oracle.spec.width))

    def moves(rows: Choices, V: Values, others: Values) -> Values:
        down = []
        for k, side in enumerate((V, others)):
            momentum[k, rows] = DECAY * momentum[k, rows] + output_gradient(oracle, side)
            # Against the gradient: the probability of the predicted class falls towards the decision boundary.
            down.append(oracle.space.ascent(side, -momentum[k, rows]))
        return agreed_moves(oracle.space, V, down[0], down[1], rng)

    return follow_gradients(oracle, seeds, steps, moves, discovered, progress)
