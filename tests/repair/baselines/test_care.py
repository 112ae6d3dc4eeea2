"""care changes hidden neurons, and never for the worse."""

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError
from fairmend.network import Affine, Network
from support.baseline_cases import arguments


def test_care_needs_hidden_neurons():
    linear = Network([Affine(np.ones((1, 3), np.float32), np.zeros(1, np.float32))], [])
    with pytest.raises(FairmendError, match="hidden neurons"):
        fairmend.repair(linear, *arguments("one")[1:], method="care")
