"""The model in a state dict (.pth, .safetensors): tensors of the file in the steps that the certificate names.

A state dict stores weights by name. In which order they are applied, and with which activations between them, is
written in the code of a module, which nobody can read from the file. The certificate names both, and the claim holds on
the condition that the module computes just that.

A .safetensors file is a length, a JSON header and raw little-endian tensors.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.condition import state_dict_condition
from fairmend_check.kernel.description import described_model
from fairmend_check.kernel.model import Model

_TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "BOOL": "|b1"}
MOST_AXES = 4  # of a tensor, such as a class token (1, 1, width)
_MAX_HEADER = 64 * 2**20


def read_safetensors(content: bytes, network: Mapping[str, Any] | None) -> Model:
    """Return the model of a state dict with the steps of a certificate (`certificate.model.network`)."""
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
    return model_of_tensors(tensors, network)


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
        if len(entry["data_offsets"]) != 2 or len(entry["shape"]) > MOST_AXES:
            raise CheckError(f"{name[:40]} has more than {MOST_AXES} axes, or no place in the file")
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


_COUNTER = "num_batches_tracked"  # of BatchNorm: whole numbers, which inference does not use
_NAME = "[A-Za-z0-9_ .:/+-]{0,200}"  # of a tensor, which is printed as a part of the condition


def model_of_tensors(tensors: dict[str, NDArray[Any]], network: Mapping[str, Any] | None) -> Model:
    """Return the model of the steps in a certificate; every tensor must belong to one of them, or be named as unused.

    A tensor may belong to several steps.
    """
    if network is None:
        raise CheckError("a state dict stores weights only; a certificate names the steps of the module")
    steps, unused = network["steps"], network["unused"]
    try:
        model, used = described_model(steps, tensors, NotConfirmedError)
    except NotConfirmedError as error:
        way_out = "Save the certificate with this file: certificate.save(path, model)"
        raise NotConfirmedError(f"{error}: the certificate is about a module with other tensors. {way_out}") from error
    for key in (*used, *unused):
        if type(key) is not str or not re.fullmatch(_NAME, key):
            raise CheckError(
                f"the certificate names the tensor {str(key)[:40]!r}; a name must have at most 200 letters, digits, "
                "spaces and the signs _ . : / + -"
            )
    counters = {step["mean"].removesuffix("running_mean") + _COUNTER for step in steps if step["kind"] == "batch_norm"}
    left = [key for key in tensors if key not in used and key not in unused and key not in counters]
    if left:
        raise NotConfirmedError(f'the file contains the tensor "{left[0][:60]}", which belongs to no step')
    return replace(model, condition=state_dict_condition(steps, tensors, unused, model.dtype, model.outputs))
