"""The paper's MILP, verbatim, has the optimum of the closed form."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.milp import Status
from fairmend.repairing.head.dual import Dual
from fairmend.repairing.head.features import Linear
from fairmend.repairing.head.solve import repair_head
from support.repair_cases import random_regions
from support.strategies import random_network


@pytest.mark.parametrize("seed", range(4))
def test_the_papers_dual_has_the_same_optimum(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 4, [5, 4], dtype=np.float64)
    regions = random_regions(rng, 4, 2, 6, width=1.0)
    linear, dual = Linear.from_network(network, regions), Dual.from_network(network, regions)
    head = network.head
    found = repair_head(head.weight, head.bias, linear, margin=1e-4, delta_limit=3.0)
    solution, _, _ = dual.solve(head.weight, head.bias, margin=1e-4, delta_limit=3.0)
    assert solution.status is Status.OPTIMAL
    assert found.objective == pytest.approx(solution.objective, abs=1e-5)


def test_the_dual_refuses_unions_of_boxes():
    rng = np.random.default_rng(0)
    with pytest.raises(FairmendError, match="one box for each input"):
        Dual.from_network(random_network(rng, 3, [2]), random_regions(rng, 3, 1, 2, pieces=2))
