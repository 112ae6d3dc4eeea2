"""The model in a state dict (.pth, .safetensors): tensors of the file in the layers that the certificate names.

A state dict stores weights by name. In which order they are applied, and with which activations between them, is
written in the code of a module, which nobody can read from the file. The certificate names both, and the claim holds on
the condition that the module computes just that.

A .safetensors file is a length, a JSON header and raw little-endian tensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.assemble import Affine, Step, assemble
from fairmend_check.kernel.model import Layer, Model
from fairmend_check.kernel.operations.affine import Norm, batch_norm
from fairmend_check.readers.named_graph import NamedGraph, graph_model

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


Tensors = dict[str, NDArray[Any]]

_COUNTER = "num_batches_tracked"  # of BatchNorm: whole numbers, which inference does not use
_ROUNDED = {"float32": "", "float64": " A module in float32 would round the weights, which the claim does not cover."}


def model_of_tensors(tensors: Tensors, layers: Sequence[Layer] | NamedGraph | None) -> Model:
    """Return the model that applies these layers in this order; every tensor must belong to one of them."""
    if layers is None:
        raise CheckError(
            "a state dict stores weights only, and the certificate does not name the layers of the module "
            "(model.layers is null). Save the certificate with the model file: certificate.save(path, model)"
        )
    if isinstance(layers, NamedGraph):
        return graph_model(tensors, layers)
    left = dict(tensors)
    taken = [_take_affine(layer, left) if layer.epsilon is None else _take_norm(layer, left) for layer in layers]
    steps: list[Step] = []
    for layer, step in zip(layers, taken, strict=True):
        steps += [step] if layer.activation.name in ("identity", "none") else [step, layer.activation]
    if left:
        raise NotConfirmedError(
            f'the file contains the tensor "{next(iter(left))[:40]}", which belongs to no layer of the certificate'
        )
    model = assemble(steps)
    if model.closed:
        raise CheckError("the certificate names an activation after the last affine layer")
    return replace(model, condition=_condition(model, layers, taken))


def _take(layer: Layer, part: str, left: Tensors) -> NDArray[np.floating] | None:
    """Take a tensor of a layer out of those that are left; None if there is none."""
    key = f"{layer.name}.{part}" if layer.name else part
    tensor = left.pop(key, None)
    if tensor is not None and tensor.dtype.kind != "f":
        raise CheckError(f'the tensor "{key[:40]}" holds whole numbers')
    return tensor


def _needed(layer: Layer, part: str, left: Tensors) -> NDArray[np.floating]:
    tensor = _take(layer, part, left)
    if tensor is None:
        raise NotConfirmedError(f'the file has no tensor "{layer.name[:40]}.{part}", or the certificate names it twice')
    return tensor


def _take_affine(layer: Layer, left: Tensors) -> Affine:
    return Affine(_needed(layer, "weight", left), _take(layer, "bias", left))


def _take_norm(layer: Layer, left: Tensors) -> Norm:
    counter = left.pop(f"{layer.name}.{_COUNTER}", None)
    if counter is not None and (counter.shape != () or counter.dtype.kind != "i"):
        raise CheckError(f'the tensor "{layer.name[:40]}.{_COUNTER}" is not one whole number')
    mean, variance = (_needed(layer, part, left) for part in ("running_mean", "running_var"))
    gain, shift = (_take(layer, part, left) for part in ("weight", "bias"))
    parts = [part for part in (mean, variance, gain, shift) if part is not None]
    if any(part.shape != mean.shape or part.ndim != 1 for part in parts) or (gain is None) != (shift is None):
        raise CheckError(f'layer "{layer.name[:40]}" is not the batch normalisation of PyTorch')
    if len({part.dtype for part in parts}) != 1:
        raise CheckError(f'layer "{layer.name[:40]}" has numbers of several types')
    return batch_norm(mean, variance, gain, shift, layer.epsilon or 0.0)


def _condition(model: Model, layers: Sequence[Layer], taken: Sequence[Affine | Norm]) -> str:
    steps, without_bias = [], []
    for number, (layer, step) in enumerate(zip(layers, taken, strict=True)):
        if isinstance(step, Norm):
            steps.append(f'"{layer.name}" (torch.nn.BatchNorm1d with eps = {layer.epsilon!r})')
        else:
            steps.append(f'"{layer.name}" ({step.weight.shape[1]} to {step.weight.shape[0]})')
            without_bias += [f'"{layer.name}"'] if step.bias is None else []
        name = layer.activation.name
        beside_norm = any(isinstance(one, Norm) for one in taken[number : number + 2])
        if name != "none" and not (name == "identity" and beside_norm):
            slope = np.dtype(model.dtype).type(layer.activation.slope)
            numbers = (
                f" with {', '.join(map(repr, layer.activation.parameters))}" if layer.activation.parameters else ""
            )
            steps.append(f"{name}{f' with slope {slope!s}' if name == 'leaky_relu' else numbers}")
    bias = f" Without a bias: {', '.join(without_bias)}." if without_bias else ""
    norms = " The module must be in evaluation mode." if any(layer.fold for layer in model.layers) else ""
    return (
        "the file stores weights only. The claim is about a module that computes in "
        f"{model.dtype}, in this order: {', '.join(steps)}. Each layer computes W x + b, as torch.nn.Linear does with "
        f"W = weight (out, in) and b = bias.{bias}{norms} Nothing else may come before or between them, and only a "
        f"{'sigmoid' if model.outputs == 1 else 'softmax'} after them.{_ROUNDED[model.dtype]}"
    )
