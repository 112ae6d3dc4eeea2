""".safetensors files: layers in the order of their numbers, float32 and float64 only."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.strategies import random_network


def test_safetensors_of_others_are_read_in_numbered_order(tmp_path):
    network = random_network(np.random.default_rng(0), 4, [4] * 11, 1)
    tensors = {}
    for i, layer in enumerate(network.affines):
        tensors |= {f"layers.{i}.weight": layer.weight, f"layers.{i}.bias": layer.bias}
    save_file(tensors, tmp_path / "m.safetensors")
    assert load_network(tmp_path / "m.safetensors", "relu") == network


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
def test_safetensors_of_other_dtypes_are_refused(tmp_path, dtype):
    save_file({"a.weight": np.ones((1, 2), dtype)}, tmp_path / "m.safetensors")
    with pytest.raises(FairmendError, match=np.dtype(dtype).name):
        load_network(tmp_path / "m.safetensors")
