"""The names of devices: "cpu", "cuda" or "cuda:1" (a GPU), and "auto". This module does not import PyTorch."""

from __future__ import annotations

import re

from fairmend.errors import FairmendError

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
