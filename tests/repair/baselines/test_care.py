"""care changes hidden neurons, and never for the worse."""

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError
from fairmend.network import Affine, Network
from fairmend.repair.baselines.care import care
from fairmend.repair.options import HeadOptions
from fairmend.repair.task import prepare_task
from support.baseline_cases import arguments


def test_care_needs_hidden_neurons():
    linear = Network([Affine(np.ones((1, 3), np.float32), np.zeros(1, np.float32))], [])
    with pytest.raises(FairmendError, match="hidden neurons"):
        fairmend.repair(linear, *arguments("one")[1:], method="care")


def test_the_best_particle_never_gets_worse():
    task = prepare_task(*arguments("one"), HeadOptions(), 0)
    _, history = care(task, steps=15, fairness_weight=0.5)
    cost = 0.5 * np.array(history.fair) + 0.5 * np.array(history.task)
    assert len(cost) > 1
    assert (np.diff(cost) <= 1e-9).all()


def test_the_share_of_unfairness_is_at_most_1():
    with pytest.raises(FairmendError, match=r"fairness_weight is 1\.5; for method care, give a number from 0 to 1"):
        fairmend.repair(*arguments("one"), method="care", fairness_weight=1.5)
