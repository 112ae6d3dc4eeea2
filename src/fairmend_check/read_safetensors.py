"""The .safetensors format: a length, a JSON header, raw little-endian tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.model import Model, make_model
from fairmend_check.read_model import described

_TYPES = {"F32": "<f4", "F64": "<f8"}
_MAX_HEADER = 64 * 2**20


def read_safetensors(content: bytes) -> Model:
    """Return the model that fairmend saved with its note on the activations."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(len(content) - 8, _MAX_HEADER):
        raise CheckError("its header is longer than the file")
    header = json_reader.parse_json(content[8 : 8 + length], "its header")
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or type(metadata.get("fairmend")) is not str:
        raise CheckError("it does not say its activations; load it with fairmend and save it again")
    names, activations = described(metadata["fairmend"])
    body = memoryview(content)[8 + length :]
    layers = []
    for name in names:
        weight = _tensor(header.pop(f"{name}.weight", None), body, f"{name}.weight")
        bias = header.pop(f"{name}.bias", None)
        layers.append((weight, None if bias is None else _tensor(bias, body, f"{name}.bias")))
    if header:
        raise CheckError(f'it holds the tensor "{next(iter(header))[:40]}" that belongs to no layer')
    return make_model(layers, activations)


def _tensor(entry: Any, body: memoryview, name: str) -> NDArray[np.floating]:
    kind = json_reader.take(entry, "dtype", str, name)
    if kind not in _TYPES:
        raise CheckError(f"{name} is stored as {kind[:20]}; only F32 and F64 can be checked")
    shape = json_reader.take(entry, "shape", list, name)
    offsets = json_reader.take(entry, "data_offsets", list, name)
    whole = all(type(number) is int and number >= 0 for number in [*shape, *offsets])
    if not whole or len(offsets) != 2 or not 1 <= len(shape) <= 2:
        raise CheckError(f"{name} has an unusable shape or place")
    start, end = offsets
    dtype = np.dtype(_TYPES[kind])
    if not start <= end <= len(body) or end - start != math.prod(shape) * dtype.itemsize:
        raise CheckError(f"{name} does not fit its place in the file")
    array = np.frombuffer(body[start:end], dtype=dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="))
