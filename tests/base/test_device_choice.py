"""The device that work runs on."""

import logging

import numpy as np
import pytest
import torch

from fairmend.base.errors import FairmendError
from fairmend.base.gpu import CPU, choose_device, count_gpus, memory_of, repeatable, why_no_gpu
from fairmend.network import Activation, Affine, Network
from fairmend.repairing.calibrate import calibrate
from fairmend.repairing.distil import Student, distil
from support.repair_cases import random_regions

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def network_of(width: int, depth: int = 3) -> Network:
    rng = np.random.default_rng(0)
    shapes = [(width, 4), *[(width, width)] * (depth - 1), (1, width)]
    affines = [Affine(rng.normal(size=s).astype(np.float32) / s[1] ** 0.5, np.zeros(s[0], np.float32)) for s in shapes]
    return Network(affines, [Activation("relu")] * depth)


def without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def with_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "a GPU")


def test_cuda_without_a_gpu_is_refused_in_one_line(monkeypatch):
    without_a_gpu(monkeypatch)
    with pytest.raises(FairmendError, match=r"device is 'cuda', but .*; use device cpu") as caught:
        choose_device("cuda", "training", pays=True)
    assert "\n" not in str(caught.value)
    assert count_gpus() == 0


def test_a_gpu_that_is_not_there_is_refused_with_the_number_of_those_that_are(monkeypatch):
    with_a_gpu(monkeypatch)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert choose_device("cuda:0", "training", pays=False) == torch.device("cuda", 0)
    with pytest.raises(FairmendError, match=r"device is 'cuda:1', but PyTorch finds 1 GPU on this machine, numbered"):
        choose_device("cuda:1", "training", pays=True)
    assert why_no_gpu(0) == "PyTorch finds no GPU on this machine"


def test_auto_without_a_gpu_is_the_cpu_and_logs_it(monkeypatch, caplog):
    without_a_gpu(monkeypatch)
    with caplog.at_level(logging.INFO, "fairmend"):
        assert choose_device("auto", "training", pays=True) == CPU
    assert "training on the CPU" in caplog.text


@pytest.mark.parametrize(
    ("name", "pays", "expected"),
    [("auto", True, "cuda"), ("auto", False, "cpu"), ("cuda", False, "cuda"), ("cpu", True, "cpu")],
)
def test_auto_takes_a_gpu_for_large_work(monkeypatch, caplog, name, pays, expected):
    with_a_gpu(monkeypatch)
    with caplog.at_level(logging.INFO, "fairmend"):
        assert choose_device(name, "training", pays=pays).type == expected
    assert ("training on the GPU, a GPU" in caplog.text) == (expected == "cuda")


def test_the_cpu_needs_no_preparation():
    before = torch.are_deterministic_algorithms_enabled()
    with repeatable(CPU):
        assert torch.are_deterministic_algorithms_enabled() == before
    assert memory_of(CPU) == 2 * 2**30


def trained_on(device: torch.device) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 4)).astype(np.float32), rng.integers(0, 2, 60)
    network = network_of(150)
    regions = random_regions(rng, 4, 2, 10, pieces=2, dtype=np.float32)
    step1 = calibrate(network, regions, X, y, steps=5, device=device).network
    student = distil([Student(network, X, np.eye(2)[y])], [], steps=5, device=device)[0]
    return [affine.weight for trained in (step1, student) for affine in trained.affines]


@needs_gpu
def test_a_gpu_gives_the_same_bytes_twice_and_nearly_those_of_the_cpu():
    cuda = torch.device("cuda", 0)
    first, second, cpu = trained_on(cuda), trained_on(cuda), trained_on(CPU)
    assert [w.tobytes() for w in first] == [w.tobytes() for w in second]
    for found, expected in zip(first, cpu, strict=True):
        np.testing.assert_allclose(found, expected, atol=0.01)
