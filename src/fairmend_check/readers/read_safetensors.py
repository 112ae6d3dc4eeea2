"""Read .safetensors files: a length, a JSON header and raw little-endian tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Layer, Model
from fairmend_check.readers.named_graph import NamedGraph
from fairmend_check.readers.state_dict import model_of_tensors

_TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
_MAX_HEADER = 64 * 2**20


def read_safetensors(content: bytes, layers: Sequence[Layer] | NamedGraph | None) -> Model:
    """Return the model of a state dict with these layers."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(len(content) - 8, _MAX_HEADER):
        raise CheckError("the header is longer than the file")
    header = _header(content[8 : 8 + length])
    body = memoryview(content)[8 + length :]
    tensors, end = {}, 0
    for name in sorted(header, key=lambda name: header[name]["data_offsets"]):
        tensors[name], end = _tensor(header[name], body, end, name)
    if end != len(body):
        raise CheckError("the file contains bytes that belong to no tensor")
    return model_of_tensors(tensors, layers)


def _header(text: bytes) -> dict[str, Any]:
    """Return the tensors that the header describes; written anew from what was read, it must be the same text."""
    header: dict[str, Any] = json_reader.parse_json(text, "the header")
    if json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8") != text.rstrip(b" "):
        raise CheckError("the header is not JSON as the safetensors library writes it")
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or not all(type(value) is str for value in metadata.values()):
        raise CheckError("the metadata in the header must be texts")
    for name, entry in header.items():
        json_reader.take(entry, "dtype", str, name[:40])
        json_reader.only_keys(entry, ("dtype", "shape", "data_offsets"), name[:40])
        for key in ("shape", "data_offsets"):
            if not all(type(n) is int and n >= 0 for n in json_reader.take(entry, key, list, name[:40])):
                raise CheckError(f"{name[:40]}.{key} contains something that is not a size")
        if len(entry["data_offsets"]) != 2 or len(entry["shape"]) > 2:
            raise CheckError(f"{name[:40]} is not a matrix, a vector or a number")
    return header


def _tensor(entry: dict[str, Any], body: memoryview, start: int, name: str) -> tuple[NDArray[Any], int]:
    """Return a tensor, which must start where the one before it ends, and its own end."""
    kind, shape, (first, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if kind not in _TYPES:
        raise CheckError(f"{name[:40]} is stored as {kind[:20]}; only F32 and F64 can be checked")
    dtype = np.dtype(_TYPES[kind])
    if first != start or not start <= end <= len(body) or end - start != math.prod(shape) * dtype.itemsize:
        raise CheckError(f"{name[:40]} does not fit its position in the file")
    array = np.frombuffer(body[start:end], dtype=dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("=")), end
