"""Fine-tuning of all weights, with batches and without hidden layers."""

import numpy as np
import pytest

import fairmend
from fairmend.network import Affine, Network
from support.baseline_cases import arguments


@pytest.mark.parametrize("method", ["flip", "grft"])
def test_mini_batches_and_linear_models_are_trained_too(method):
    network, *rest = arguments("one")
    linear = Network([Affine(np.array([[2.0, 1.0, 0.0]], np.float32), np.zeros(1, np.float32))], [])
    assert fairmend.repair(linear, *rest, method=method).network != linear
    first, second = (fairmend.repair(network, *rest, method=method, batch_size=32, seed=seed) for seed in (0, 1))
    assert first.network != second.network
