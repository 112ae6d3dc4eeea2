"""flip trains on the calibration rows and on copies with other protected values."""

import numpy as np

from fairmend.repairing.baselines.flip import flip
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
