"""The device of float64 work."""

import pytest
import torch

from fairmend.base.device import choose_wide_device, compute_on, current_device
from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU


def test_it_is_numpy_outside_of_the_block():
    assert current_device() is None
    with compute_on(CPU):
        assert current_device() == CPU
        with compute_on(None):
            assert current_device() is None
        assert current_device() == CPU
    assert current_device() is None


@pytest.mark.parametrize(("name", "width"), [("cpu", 1000), ("auto", 128)])
def test_narrow_networks_and_the_cpu_do_not_ask_pytorch(monkeypatch, name, width):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: 1 / 0)
    assert choose_wide_device(name, (3, width), "testing") is None


def test_auto_without_a_gpu_is_numpy(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_wide_device("auto", (3, 200), "testing") is None


def test_emulated_float64_proves_nothing(monkeypatch):
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    with pytest.raises(FairmendError, match=r"CUBLAS_EMULATE_DOUBLE_PRECISION .*unset it, or use device cpu"):
        compute_on(torch.device("cuda", 0)).__enter__()
