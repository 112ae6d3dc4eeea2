"""Fine-tuning of all weights, with batches and without hidden layers."""

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError
from fairmend.network import Affine, Network
from fairmend.repairing.baselines.finetune import flip
from fairmend.repairing.baselines.neighbours import find_different_pairs
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.task import prepare_task
from support.baseline_cases import arguments


def test_without_steps_the_network_is_unchanged_and_copies_make_a_difference():
    task = prepare_task(*arguments("one"), HeadOptions(), 0)
    network, history = flip(task, steps=0)
    assert network == task.network
    assert len(history) == 0
    none, some = (flip(task, steps=5, copies=copies)[0] for copies in (0, 2))
    assert none != some


def test_copies_bring_the_outputs_of_two_genders_closer():
    task = prepare_task(*arguments("one"), HeadOptions(), 0)
    other = task.X_cal.copy()
    other[:, 0] = 1 - other[:, 0]

    def apart(network):
        return np.abs(network.logits(task.X_cal) - network.logits(other)).mean()

    assert apart(flip(task)[0]) < apart(flip(task, copies=0)[0])


def test_grft_takes_pairs_that_are_given_and_closes_them():
    network, spec, X_repair, X_cal, y_cal = arguments("several and one-hot")
    rows, others, _ = find_different_pairs(network, spec, X_cal, np.random.default_rng(0), per_row=1)
    pairs = X_cal[rows], others
    result = fairmend.repair(
        network, spec, X_repair, X_cal, y_cal, method="grft", training=fairmend.TrainingOptions(pairs=pairs)
    )
    before, after = (np.abs(net.logits(pairs[0]) - net.logits(pairs[1])).mean() for net in (network, result.network))
    assert after < before / 2
    with pytest.raises(FairmendError, match="pairs: method flip does not use it; use method grft"):
        fairmend.repair(
            network, spec, X_repair, X_cal, y_cal, method="flip", training=fairmend.TrainingOptions(pairs=pairs)
        )
    with pytest.raises(FairmendError, match="two arrays of one shape"):
        fairmend.repair(
            network,
            spec,
            X_repair,
            X_cal,
            y_cal,
            method="grft",
            training=fairmend.TrainingOptions(pairs=(others, others[:-1])),
        )


@pytest.mark.parametrize("method", ["flip", "grft"])
def test_mini_batches_and_linear_models_are_trained_too(method):
    network, *rest = arguments("one")
    linear = Network([Affine(np.array([[2.0, 1.0, 0.0]], np.float32), np.zeros(1, np.float32))], [])
    assert fairmend.repair(linear, *rest, method=method).network != linear
    first, second = (
        fairmend.repair(network, *rest, method=method, seed=seed, training=fairmend.TrainingOptions(batch_size=32))
        for seed in (0, 1)
    )
    assert first.network != second.network
