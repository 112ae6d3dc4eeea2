"""Where work runs: the names of devices, and the device of float64 work, such as bounds, in a ``with`` block.

This module does not import PyTorch; `gpu` does.

What a GPU proves is computed in float64 with the same bounds on rounding as on the CPU: they hold for any order of
summation, with or without fused multiply-add. A setting that lets cuBLAS compute products of float64 from numbers of
fewer bits is refused: its errors are not of that form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    import torch

CPU_NAME = "cpu"

_KNOWN = re.compile(r"auto|cpu|cuda(:\d{1,3})?")


def is_device_name(name: object) -> bool:
    """Return whether a device can have this name."""
    return isinstance(name, str) and _KNOWN.fullmatch(name) is not None


def check_device_name(name: object) -> None:
    """Raise an error if no device can have this name."""
    if not is_device_name(name):
        raise FairmendError(f"device is {name!r}; it must be auto, cpu, cuda, or cuda:1 for the second GPU")


def device_of_workers(name: str) -> str:
    """Return the device that processes and clusters compute on: the CPU; another one must not be asked for."""
    if name not in (CPU_NAME, "auto"):
        raise FairmendError(f"workers compute on the CPU; leave out device {name}, or jobs and cluster")
    return CPU_NAME


WIDE = 128
"""Networks with a wider layer are worth a GPU; the work on others takes as long on the CPU."""

_EMULATION = ("CUBLAS_EMULATE_DOUBLE_PRECISION", "CUBLAS_EMULATION_STRATEGY")

_device: ContextVar[torch.device | None] = ContextVar("current_device", default=None)


def current_device() -> torch.device | None:
    """Return the device to compute on; None is the CPU, with NumPy."""
    return _device.get()


def choose_wide_device(name: str, widths: Sequence[int], work: str) -> torch.device | None:
    """Return the device for work on a network with layers of these widths; None is the CPU, with NumPy.

    "auto" takes a GPU, if there is one, for a layer of more than 128 units.
    """
    if name == CPU_NAME or (name == "auto" and max(widths) <= WIDE):
        return None
    from fairmend.base.gpu import choose_device

    device = choose_device(name, work, pays=True)
    return None if device.type == "cpu" else device


@contextmanager
def compute_on(device: torch.device | None) -> Iterator[None]:
    """Compute on a device inside the ``with`` block, with PyTorch; with NumPy if it is None."""
    if device is not None and device.type != "cpu":
        _refuse_emulation()
    token = _device.set(device)
    try:
        with nullcontext() if device is None else _repeatable(device):
            yield
    finally:
        _device.reset(token)


def _repeatable(device: torch.device) -> AbstractContextManager[None]:
    from fairmend.base.gpu import repeatable

    return repeatable(device)


def _refuse_emulation() -> None:
    emulated = [name for name in _EMULATION if os.environ.get(name, "0") not in ("", "0")]
    if emulated:
        raise FairmendError(
            f"the environment variable {emulated[0]} lets the GPU emulate float64, which proves nothing: unset it, or "
            "use device cpu"
        )
