"""The device of float64 work."""

import numpy as np
import pytest
import torch

from fairmend.base.device import choose_wide_device, compute_on, current_device
from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU
from fairmend.prove.proof import prove_regions
from support.graph_cases import residual_network
from support.repair_cases import random_regions
from support.strategies import random_network


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


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_tensors_prove_what_arrays_prove_up_to_rounding(outputs, activation):
    rng = np.random.default_rng(outputs)
    net = random_network(rng, 4, [9, 7, 5], outputs, activation=activation)
    regions = random_regions(rng, 4, 2, 12, pieces=2, dtype=np.float32)
    expected = prove_regions(net, regions)
    with compute_on(CPU):
        found, again = prove_regions(net, regions), prove_regions(net, regions)
    assert found.margin.tobytes() == again.margin.tobytes()
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_allclose(found.margin, expected.margin, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.error, expected.error, rtol=1e-9)


def test_tensors_prove_graphs_too():
    rng = np.random.default_rng(3)
    net = residual_network(rng)
    regions = random_regions(rng, net.inputs, 2, 5, dtype=np.float32, width=0.1)
    expected = prove_regions(net, regions)
    with compute_on(CPU):
        np.testing.assert_allclose(prove_regions(net, regions).margin, expected.margin, rtol=0, atol=1e-12)


def test_proofs_go_on_with_smaller_parts_when_memory_is_full(monkeypatch, caplog):
    import fairmend.bounds.substitution as substitution

    real = substitution.over_box

    def small(rows, lower, upper):
        if isinstance(rows.A, torch.Tensor) and rows.A.shape[1] > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(rows, lower, upper)

    rng = np.random.default_rng(0)
    net, regions = random_network(rng, 4, [9, 7], 1), random_regions(rng, 4, 2, 3, dtype=np.float32)
    expected = prove_regions(net, regions)
    monkeypatch.setattr(substitution, "over_box", small)
    with compute_on(CPU):
        np.testing.assert_allclose(prove_regions(net, regions).margin, expected.margin, rtol=0, atol=1e-12)
    assert "the memory of the GPU is full" in caplog.text
