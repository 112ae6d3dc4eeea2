""".safetensors files: a state dict without any pickle."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.formats.torch.state_dict import (
    NOTE,
    StateDictForm,
    form_of,
    from_tensors,
    to_note,
    to_tensors,
)

_HALF = {"F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8", "F8_E5M2": "float8"}


def read(path: Path, activation: Activation | None) -> Network:
    """Return the network in the file, with `activation` unless fairmend's note in the header names others."""
    tensors, metadata = _open(path)
    form = StateDictForm(tensors, metadata=metadata)
    return from_tensors(tensors, metadata.get(NOTE), activation, str(path), form)


def _open(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """Return the tensors, in the order of their numbers, and the texts in the header."""
    tensors: dict[str, npt.NDArray[Any]] = {}
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            # The format sorts keys as text, but layers.10 comes after layers.2.
            for key in sorted(file.keys(), key=_natural):
                dtype = file.get_slice(key).get_dtype()
                if dtype in _HALF:
                    raise FairmendError(
                        f"{path}: {key} is {_HALF[dtype]}; fairmend computes in float32 or float64: "
                        "convert the tensors first (float32 holds the same numbers exactly)"
                    )
                tensors[key] = file.get_tensor(key)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise FairmendError(f"{path}: not a readable safetensors file ({error})") from error
    return tensors, metadata


def to_bytes(network: Network) -> bytes:
    """Return the tensors by key, with fairmend's note in the header beside what it held."""
    content: bytes = save(to_tensors(network), metadata={**(form_of(network).metadata or {}), NOTE: to_note(network)})
    return content


def _natural(key: str) -> list[tuple[int, str]]:
    """Return a sort key that orders numbers by value and the rest as text."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", key)]
