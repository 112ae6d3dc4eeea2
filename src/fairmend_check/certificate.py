"""The certificate as typed data, checked against the format in docs/certificate.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import numbers, only_keys, parse_json, read_bytes, take
from fairmend_check.model import ACTIVATIONS, Activation, Layer, Model
from fairmend_check.spec import Feature, Spec, read_spec
from fairmend_check.spec_toml import spec_digest
from fairmend_check.threshold import HALF

Array = NDArray[np.float64]

_KEYS = ("format", "version", "fairmend", "method", "claim", "arithmetic", "model", "spec", "global", "regions")
_MODEL_KEYS = ("weights_sha256", "file_sha256", "inputs", "outputs", "dtype")
_LAYER_KEYS = ("name", "activation", "slope")
_REGION_KEYS = ("input", "proof", "pieces")


@dataclass(frozen=True, eq=False)
class Piece:
    """A box, and for each activation layer the slopes of the lower and the upper lines."""

    lower: Array
    upper: Array
    slopes: list[tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Region:
    """The claim about the neighbourhood of one input; ``pieces`` is None if the proof is by points.

    A claim about scores has bounds ``low`` and ``high`` of them (outputs,) instead of a class ``label`` with a margin.
    """

    x: Array
    label: int
    margin: float
    pieces: list[Piece] | None
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Certificate:
    """The content of a certificate, with the features that it says the model does not depend on, and their columns.

    Its regions are still plain data: reading them needs the widths of the model.
    """

    arithmetic: str
    weights_sha256: str
    file_sha256: str | None
    inputs: int
    outputs: int
    dtype: str
    layers: tuple[Layer, ...] | None
    spec: Spec
    spec_sha256: str
    blind: tuple[tuple[Feature, int], ...]
    regions: list[Any]


def read_certificate(path: Path) -> Certificate:
    """Return the certificate in a file; its regions are not read yet."""
    data = parse_json(read_bytes(path, "certificate"), "certificate")
    where = "certificate"
    only_keys(data, _KEYS, where)
    form, version = take(data, "format", str, where), take(data, "version", int, where)
    if form != "fairmend-certificate" or version not in (1, 2, 3, 4):
        raise CheckError("certificate: not a fairmend certificate of version 1 to 4")
    for key in ("fairmend", "method", "claim"):
        take(data, key, str, where)
    arithmetic = take(data, "arithmetic", str, where)
    if arithmetic not in ("real", "float32", "float64"):
        raise CheckError(f"certificate.arithmetic is {arithmetic[:40]!r}; it must be real, float32 or float64")
    model, spec = take(data, "model", dict, where), take(data, "spec", dict, where)
    only_keys(model, _MODEL_KEYS if version == 1 else (*_MODEL_KEYS, "layers"), "certificate.model")
    only_keys(spec, ("sha256", "content"), "certificate.spec")
    dtype = take(model, "dtype", str, "certificate.model")
    if dtype not in ("float32", "float64"):
        raise CheckError(f"certificate.model.dtype is {dtype[:40]!r}; it must be float32 or float64")
    if "file_sha256" not in model:
        raise CheckError('certificate.model has no "file_sha256"')
    people = read_spec(take(spec, "content", dict, "certificate.spec"), "certificate.spec.content", version)
    found = Certificate(
        arithmetic=arithmetic,
        weights_sha256=_sha256(model, "weights_sha256", "certificate.model"),
        file_sha256=None if model["file_sha256"] is None else _sha256(model, "file_sha256", "certificate.model"),
        inputs=take(model, "inputs", int, "certificate.model"),
        outputs=take(model, "outputs", int, "certificate.model"),
        dtype=dtype,
        layers=None if version == 1 else _layers(model),
        spec=people,
        spec_sha256=_sha256(spec, "sha256", "certificate.spec"),
        blind=_blind(data, people, version),
        regions=take(data, "regions", list, where),
    )
    if spec_digest(found.spec) != found.spec_sha256:
        raise CheckError("certificate.spec: content and sha256 do not belong together; one of them was changed")
    if found.spec.width != found.inputs:
        raise CheckError(
            f"certificate.spec describes {found.spec.width} columns, but the model has {found.inputs} inputs"
        )
    if found.spec.threshold != HALF and found.outputs > 2:
        raise CheckError(f"certificate.spec has a threshold, but the model has {found.outputs} outputs, not 1 or 2")
    if not found.regions and not found.blind:
        raise CheckError("certificate: it has neither regions nor a global claim, so it claims nothing")
    return found


def read_region(entry: Any, number: int, model: Model, scores: bool = False) -> Region:
    """Return region ``number`` of a claim about classes, or scores; refuse lists that do not fit the model."""
    where = f"regions[{number}]"
    proof = take(entry, "proof", str, where)
    only_keys(entry, (*_REGION_KEYS, *(("low", "high") if scores else ("class", "margin"))), where)
    x = numbers(entry.get("input"), model.inputs, f"{where}.input")
    label, margin, low, high = 0, 0.0, np.empty(0), np.empty(0)
    if scores:
        low, high = (numbers(entry.get(key), model.outputs, f"{where}.{key}") for key in ("low", "high"))
    else:
        label, margin = take(entry, "class", int, where), take(entry, "margin", float, where)
        if not 0 <= label < max(2, model.outputs):
            raise CheckError(f"{where}.class is {label}; the model has no such class")
        if not margin > 0:
            raise CheckError(f"{where}.margin is {margin!r}; it must be positive")
    return Region(x, label, margin, _pieces(entry, proof, where, model), low, high)


def _pieces(entry: dict[str, Any], proof: str, where: str, model: Model) -> list[Piece] | None:
    if proof == "points":
        if "pieces" in entry:
            raise CheckError(f"{where} is proven by points, so it has no pieces")
        return None
    if proof != "linear":
        raise CheckError(f"{where}.proof is {proof[:40]!r}; it must be linear or points")
    entries = take(entry, "pieces", list, where)
    if not entries:
        raise CheckError(f"{where} has no pieces")
    return [_piece(piece, f"{where}.pieces[{i}]", model) for i, piece in enumerate(entries)]


def _piece(entry: Any, where: str, model: Model) -> Piece:
    given = take(entry, "slopes", list, where)
    only_keys(entry, ("lower", "upper", "slopes"), where)
    lower = numbers(entry.get("lower"), model.inputs, f"{where}.lower")
    upper = numbers(entry.get("upper"), model.inputs, f"{where}.upper")
    if not (lower <= upper).all():
        raise CheckError(f"{where} is empty: lower is above upper in column {int(np.argmax(lower > upper))}")
    if len(given) != len(model.activations):
        raise CheckError(
            f"{where}.slopes has {len(given)} layers, but the model has {len(model.activations)} activations"
        )
    slopes = []
    for layer, pair in enumerate(given):
        place, width = f"{where}.slopes[{layer}]", len(model.weights[layer])
        if type(pair) is not dict:
            raise CheckError(f"{place} must be an object")
        only_keys(pair, ("lower", "upper"), place)
        below = numbers(pair.get("lower"), width, f"{place}.lower")
        slopes.append((below, numbers(pair.get("upper"), width, f"{place}.upper")))
    return Piece(lower, upper, slopes)


def _layers(model: dict[str, Any]) -> tuple[Layer, ...] | None:
    """Return the layers of the module that a state dict belongs to, in the order in which it computes them."""
    if "layers" not in model:
        raise CheckError('certificate.model has no "layers"')
    if model["layers"] is None:
        return None
    found = []
    entries = take(model, "layers", list, "certificate.model")
    for number, entry in enumerate(entries):
        where = f"certificate.model.layers[{number}]"
        name, activation = take(entry, "name", str, where), take(entry, "activation", str, where)
        only_keys(entry, _LAYER_KEYS, where)
        if not re.fullmatch("[A-Za-z0-9_ .:/+-]{0,200}", name):  # it is printed as a part of the condition
            raise CheckError(f"{where}.name must have at most 200 letters, digits, spaces and the signs _ . : / + -")
        if activation not in (ACTIVATIONS if number < len(entries) - 1 else ("none",)):
            raise CheckError(f"{where}.activation is {activation[:40]!r}, which is not allowed there")
        found.append(Layer(name, Activation(activation, take(entry, "slope", float, where))))
    if len({layer.name for layer in found}) != len(found) or (found and found[-1].activation.slope):
        raise CheckError("certificate.model.layers names a layer twice, or gives a slope for the last one")
    return tuple(found)


def _blind(data: dict[str, Any], spec: Spec, version: int) -> tuple[tuple[Feature, int], ...]:
    """Return the features that the model does not depend on, with their first columns; none without such a claim."""
    if "global" not in data:
        raise CheckError('certificate has no "global"')
    if data["global"] is None:
        return ()
    claim = take(data, "global", dict, "certificate")
    only_keys(claim, ("columns",), "certificate.global")
    columns = take(claim, "columns", list, "certificate.global")
    if not columns or not all(type(column) is int and column >= 0 for column in columns):
        raise CheckError("certificate.global.columns must be a list of column numbers")
    listed = set(columns)
    varying = {feature.name for feature in spec.varying}
    blind = tuple(
        (feature, start)
        for feature, start in spec.columns()
        if feature.protected or (version >= 3 and feature.name in varying and start in listed)
    )
    whole = [column for feature, start in blind for column in range(start, start + feature.width)]
    if sorted(columns) != whole:
        others = "the protected features" if version < 3 else "the protected features and of others that vary"
        raise CheckError(
            f"certificate.global.columns is {sorted(columns)[:20]}; it must hold all columns of {others}, each once: "
            f"here {whole[:20]}"
        )
    return blind


def _sha256(data: dict[str, Any], key: str, where: str) -> str:
    digest = take(data, key, str, where)
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise CheckError(f"{where}.{key} is not a sha256 in lower-case hexadecimal")
    return digest
