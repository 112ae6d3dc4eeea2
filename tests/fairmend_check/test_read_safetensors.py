"""The .safetensors reader."""

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.read_model import read_model


def test_safetensors_without_activations(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a.weight": np.ones((2, 2), np.float32)}, tmp_path / "bare.safetensors")
    with pytest.raises(CheckError, match="does not name its activations"):
        read_model(tmp_path / "bare.safetensors")
