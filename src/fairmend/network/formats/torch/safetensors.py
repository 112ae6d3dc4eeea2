""".safetensors files: a state dict without any pickle."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fairmend.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.formats.torch.state_dict import NOTE, network_of, note_of, tensors_of

_HALF = {"F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8", "F8_E5M2": "float8"}


def read(path: Path, activation: Activation) -> Network:
    """The network in the file; `activation` if fairmend's note in the header does not say otherwise."""
    tensors: dict[str, npt.NDArray[Any]] = {}
    try:
        with safe_open(path, framework="numpy") as file:
            note = (file.metadata() or {}).get(NOTE)
            # The format sorts keys as text; layers are numbered, so layers.10 belongs after layers.2.
            for key in sorted(file.keys(), key=_natural):
                dtype = file.get_slice(key).get_dtype()
                if dtype in _HALF:
                    raise FairmendError(
                        f"{path}: {key} is {_HALF[dtype]}; fairmend computes in float32 or float64: "
                        "convert the tensors first (float32 holds the same numbers exactly)"
                    )
                tensors[key] = file.get_tensor(key)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise FairmendError(f"{path}: is not a readable safetensors file ({error})") from error
    return network_of(tensors, note, activation, str(path))


def to_bytes(network: Network) -> bytes:
    """The weights by key, and fairmend's note in the header."""
    content: bytes = save(tensors_of(network), metadata={NOTE: note_of(network)})
    return content


def _natural(key: str) -> list[tuple[int, str]]:
    """Numbers by value, text as text, and 'weight' beside 'bias' wherever they stand."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", key)]
