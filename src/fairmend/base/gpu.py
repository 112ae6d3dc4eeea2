"""GPUs: which device some work takes, its memory, parts that fit it, and the same bytes each time."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.deterministic

from fairmend.base.device import CPU_NAME, check_device_name
from fairmend.base.errors import FairmendError

_logger = logging.getLogger(__name__)

CPU = torch.device("cpu")

_settings: Any = torch.utils.deterministic

_CPU_MEMORY = 2 * 2**30


def choose_device(name: str, work: str, *, pays: bool) -> torch.device:
    """Return the device for some work, which the log names ("training").

    "auto" takes a GPU, if there is one and the work is large enough for it (``pays``).
    """
    check_device_name(name)
    found = count_gpus()
    number = int(name.partition(":")[2] or 0)
    if name.startswith("cuda") and number >= found:
        raise FairmendError(
            f"device is {name!r}, but {why_no_gpu(found)}; use device cpu, or auto to take a GPU if any"
        )
    if name == CPU_NAME or not found or (name == "auto" and not pays):
        if name == "auto":
            _logger.info("%s on the CPU: %s", work, "there is too little of it for a GPU" if found else why_no_gpu(0))
        return CPU
    _logger.info("%s on the GPU, %s", work, torch.cuda.get_device_name(number))
    return torch.device("cuda", number)


def count_gpus() -> int:
    """Return how many GPUs PyTorch can use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def why_no_gpu(found: int) -> str:
    """Return why a GPU cannot be used, if PyTorch finds so many."""
    if torch.version.cuda is None:
        return "the installed PyTorch has no CUDA support"
    if found:
        return f"PyTorch finds {found} GPU{'' if found == 1 else 's'} on this machine, numbered from 0"
    return "PyTorch finds no GPU on this machine"


def memory_of(device: torch.device) -> int:
    """Return the bytes that one chunk of work may take: a fixed number, so that results do not depend on the load.

    On a GPU, it is half of its memory.
    """
    if device.type == "cpu":
        return _CPU_MEMORY
    return int(torch.cuda.get_device_properties(device).total_memory) // 2


@contextmanager
def repeatable(device: torch.device, *, tf32: bool = False) -> Iterator[None]:
    """Let a GPU give the same bytes each time inside the ``with`` block.

    Products are in full float32 precision, or in TF32, which is faster and keeps three digits.
    """
    if device.type == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    precision, fills = torch.get_float32_matmul_precision(), _settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    _settings.fill_uninitialized_memory = False  # nothing here reads memory before it is written
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.set_float32_matmul_precision(precision)
        _settings.fill_uninitialized_memory = fills


def run_in_parts(count: int, step: int, work: Callable[[slice], None], what: str) -> int:
    """Call ``work`` with slices of at most ``step`` of ``count`` things, and return the step in the end.

    When the memory of the GPU is full, the step is halved and the slice is done again; ``what`` names the things.
    """
    start, step = 0, max(1, step)
    while start < count:
        part = slice(start, min(start + step, count))
        try:
            work(part)
        except torch.OutOfMemoryError:
            if step == 1:
                raise FairmendError(
                    f"the memory of the GPU is too small for one of the {what}: use device cpu"
                ) from None
            step = max(1, min(step, count - start) // 2)
        else:
            start = part.stop
            continue
        # Out of the handler: until then, the error keeps the tensors of the failed work alive.
        torch.cuda.empty_cache()
        _logger.warning("the memory of the GPU is full: going on with %d %s at a time", step, what)
    return step
