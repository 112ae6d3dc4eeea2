"""grft closes pairs, found or given."""

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError
from fairmend.repairing.baselines.neighbours import find_different_pairs
from support.baseline_cases import arguments


def test_grft_takes_pairs_that_are_given_and_closes_them():
    network, spec, X_repair, X_cal, y_cal = arguments("several and one-hot")
    rows, others, _ = find_different_pairs(network, spec, X_cal, np.random.default_rng(0), per_row=1)
    pairs = X_cal[rows], others
    result = fairmend.repair(network, spec, X_repair, X_cal, y_cal, method="grft", pairs=pairs)
    before, after = (np.abs(net.logits(pairs[0]) - net.logits(pairs[1])).mean() for net in (network, result.network))
    assert after < before / 2
    with pytest.raises(FairmendError, match="pairs: method flip does not use it; use method grft"):
        fairmend.repair(network, spec, X_repair, X_cal, y_cal, method="flip", pairs=pairs)
    with pytest.raises(FairmendError, match="two arrays of one shape"):
        fairmend.repair(network, spec, X_repair, X_cal, y_cal, method="grft", pairs=(others, others[:-1]))
