"""The device that a network is trained on: the CPU, or a GPU. Whatever is proven is computed on the CPU in float64."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fairmend.bounds.linear import WIDE
from fairmend.errors import FairmendError
from fairmend.network import Network

__all__ = ["CPU", "DEVICES", "choose_device", "memory_of", "repeatable"]

_logger = logging.getLogger(__name__)

DEVICES = ("auto", "cpu", "cuda")
CPU = torch.device("cpu")

_CPU_MEMORY = 2 * 2**30
_ELSEWHERE = "step 2 and the proof run on the CPU in float64"


def choose_device(name: str, network: Network) -> torch.device:
    """Return the device to train a network on.

    "auto" takes the GPU, if there is one, for networks with a layer of more than 128 units. Smaller ones are trained as
    fast on the CPU, and so give the same result on every machine.
    """
    found = torch.cuda.is_available()
    if name == "cuda" and not found:
        raise FairmendError(f"device is 'cuda', but {_why_no_gpu()}; use device cpu, or auto to take a GPU if any")
    wide = max(network.widths[:-1]) > WIDE
    if name == "cpu" or not found or (name == "auto" and not wide):
        if name == "auto":
            _logger.info("training on the CPU: %s", "the network is small" if found else _why_no_gpu())
        return CPU
    _logger.info("training on the GPU, %s; %s", torch.cuda.get_device_name(0), _ELSEWHERE)
    return torch.device("cuda", 0)


def _why_no_gpu() -> str:
    if torch.version.cuda is None:
        return "the installed PyTorch has no CUDA support"
    return "PyTorch finds no GPU on this machine"


def memory_of(device: torch.device) -> int:
    """Return the bytes that one chunk of regions may take: a fixed number, so that results do not depend on the load.

    On a GPU, it is half of its memory.
    """
    if device.type == "cpu":
        return _CPU_MEMORY
    return int(torch.cuda.get_device_properties(device).total_memory) // 2


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """Let a GPU give the same bytes each time, and full float32 precision, inside the ``with`` block."""
    if device.type == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    precision = torch.get_float32_matmul_precision()
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.set_float32_matmul_precision(precision)
