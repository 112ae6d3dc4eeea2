"""Read .safetensors files: a length, a JSON header and raw little-endian tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.model import Model, make_model
from fairmend_check.read_model import read_note

_TYPES = {"F32": "<f4", "F64": "<f8"}
_MAX_HEADER = 64 * 2**20


def read_safetensors(content: bytes) -> Model:
    """Return the model, if the file holds fairmend's note on the activations."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(len(content) - 8, _MAX_HEADER):
        raise CheckError("the header is longer than the file")
    header = json_reader.parse_json(content[8 : 8 + length], "the header")
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or type(metadata.get("fairmend")) is not str:
        raise CheckError("the file does not name its activations; load the model with fairmend and save it again")
    names, activations = read_note(metadata["fairmend"])
    body = memoryview(content)[8 + length :]
    layers = []
    for name in names:
        weight = _tensor(header.pop(f"{name}.weight", None), body, f"{name}.weight")
        bias = header.pop(f"{name}.bias", None)
        layers.append((weight, None if bias is None else _tensor(bias, body, f"{name}.bias")))
    if header:
        raise CheckError(f'the file contains the tensor "{next(iter(header))[:40]}" which belongs to no layer')
    return make_model(layers, activations)


def _tensor(entry: Any, body: memoryview, name: str) -> NDArray[np.floating]:
    kind = json_reader.take(entry, "dtype", str, name)
    if kind not in _TYPES:
        raise CheckError(f"{name} is stored as {kind[:20]}; only F32 and F64 can be checked")
    shape = json_reader.take(entry, "shape", list, name)
    offsets = json_reader.take(entry, "data_offsets", list, name)
    whole = all(type(number) is int and number >= 0 for number in [*shape, *offsets])
    if not whole or len(offsets) != 2 or not 1 <= len(shape) <= 2:
        raise CheckError(f"{name} has an unusable shape or position")
    start, end = offsets
    dtype = np.dtype(_TYPES[kind])
    if not start <= end <= len(body) or end - start != math.prod(shape) * dtype.itemsize:
        raise CheckError(f"{name} does not fit its position in the file")
    array = np.frombuffer(body[start:end], dtype=dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="))
