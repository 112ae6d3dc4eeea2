"""The arguments of a repair are checked and encoded once, before anything runs."""

import math

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.repairing.task import Deadline, TimeLimitError
from support.prof_cases import CONTINUOUS, SPECS, case, repair


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"features": "cones"}, "features is 'cones'"),
        ({"solver": "abacus"}, "unknown solver 'abacus'"),
        ({"bounds": "none"}, "bounds is 'none'"),
        ({"search": "guess"}, "search 'guess'"),
        ({"margin": 0.0}, "margin is 0.0"),
        ({"margin": math.nan}, "a finite number above 0"),
        ({"steps": -1}, "steps is -1"),
        ({"y_cal": [0, 1]}, r"y_cal has shape \(2,\); it must be \(60,\)"),
        ({"y_cal": np.zeros((60, 1))}, r"it must be \(60,\)"),
        ({"y_cal": [0] * 59 + [2]}, "y_cal, row 59: .*2.* is not a class"),
        ({"y_cal": [0.5] * 60}, "is not a class"),
        ({"y_cal": [math.nan] * 60}, "is not a class"),
        ({"X_repair": np.zeros((0, 2))}, "no rows"),
        ({"X_cal": np.zeros((0, 2))}, "no rows"),
        ({"X_repair": [[math.nan, 0.0]]}, "not a finite number"),
        ({"X_repair": [[0.0, math.inf]]}, "not a finite number"),
        ({"X_repair": [[0.0, 9.0]]}, "above the range"),
        ({"X_repair": [[0.1, 0.0]]}, "not the encoding of a whole number"),
        ({"X_repair": [[0.0, 0.0, 0.0]]}, r"shape \(1, 3\)"),
        ({"X_repair": [0.0, 0.0]}, "shape"),
        ({"delta_limit": 1e-9}, "delta_limit"),
    ],
    ids=str,
)
def test_bad_arguments_say_what_is_wrong(change, message):
    network, spec, X, X_cal, y_cal = case(SPECS["ordinal"], seed=17)
    arguments = {"X_repair": X, "X_cal": X_cal, "y_cal": y_cal, "steps": 1, **change}
    with pytest.raises(FairmendError, match=message):
        repair(network, spec, **arguments)


def test_a_spec_of_another_width_is_refused():
    network = case(SPECS["ordinal"])[0]
    with pytest.raises(FairmendError, match=r"network reads 2 columns, but the spec describes 4"):
        repair(network, SPECS["one-hot"], np.eye(4), np.eye(4), [0, 1, 0, 1])


def test_points_of_a_continuous_neighbourhood_are_refused():
    network, spec, X, X_cal, y_cal = case(CONTINUOUS)
    with pytest.raises(FairmendError, match="continuous"):
        repair(network, spec, X, X_cal, y_cal, features="points", steps=1)


def test_a_deadline_says_what_does_not_go_on_when_the_time_is_up():
    now = [0.0]
    deadline = Deadline(2.0, lambda: now[0])
    deadline.check("too early")
    now[0] = 2.0
    with pytest.raises(TimeLimitError, match="time limit: the 2 s ended in the second training"):
        deadline.check("in the second training")
    Deadline(None).check("never")
