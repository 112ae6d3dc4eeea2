"""Chunks of regions: every input once, in order, within the limit."""

import numpy as np
import pytest

from fairmend.network import Activation, Affine, Network
from fairmend.repairing.chunks import chunks_of_inputs, step_entries
from support.repair_cases import random_regions


@pytest.mark.parametrize("pieces", [1, 2, 5, 6, 7, 100])
def test_chunks_hold_every_input_once(pieces):
    regions = random_regions(np.random.default_rng(0), 3, 1, 5, pieces=3)
    chunks = list(chunks_of_inputs(regions, pieces))
    assert [i for chunk in chunks for i in range(chunk.start, chunk.stop)] == list(range(5))
    assert all(chunk.stop - chunk.start == 1 or 3 * (chunk.stop - chunk.start) <= pieces for chunk in chunks)
    assert len(chunks) == -(-5 // max(1, pieces // 3))


def test_linear_bounds_need_a_matrix_for_each_pair_of_layers():
    affines = [Affine(np.zeros((n, m)), np.zeros(n)) for m, n in ((3, 10), (10, 20), (20, 30), (30, 1))]
    network = Network(affines, [Activation("relu")] * 3)
    pairs = 10 * 20 + 10 * 30 + 20 * 30
    assert step_entries(network, "linear") - step_entries(network, "interval") == 8 * pairs
