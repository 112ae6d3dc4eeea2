"""The JSON form of a network: steps on named tensors, "The network" of docs/certificate.md.

A certificate has both, and its claim can be checked without any model file. Of a state dict, which stores tensors
alone, the certificate has the steps and the file the tensors.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import maybe, numbers, only_keys, or_null, take
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.functions import ACTIVATIONS, Activation
from fairmend_check.kernel.model import MAX_NODES, MAX_WIDTH, Model
from fairmend_check.kernel.operations import KINDS
from fairmend_check.kernel.operations.affine import batch_norm, scaling
from fairmend_check.kernel.operations.base import Operation

Tensors = Mapping[str, NDArray[Any]]

_KEYS = {  # of each kind of step, beside "kind" and "sources"
    "input": ("columns",),
    "affine": ("weight", "bias", "transposed", "blocks", "tokens"),
    "batch_norm": ("mean", "variance", "gain", "shift", "epsilon"),
    "scale": ("mean", "gain", "shift"),
    "function": ("name", "slope", "parameters"),
    "sum": (),
    "concatenate": (),
    "columns": ("indices",),
    "lookup": ("table", "classes"),
    **{kind: tuple(each.name for each in fields(operation)) for kind, operation in KINDS.items()},
}
_SEVERAL = ("sum", "concatenate")  # kinds that read two steps or more
_DTYPES = {"float32": "<f4", "float64": "<f8"}
_MAX_NUMBERS = 2**20  # in all tensors together: a certificate of a larger network has its steps alone
_MAX_CLASSES = 2**12  # of a one-hot code
_MAX_WRITTEN = 2**24  # in the matrix of a layer that repeats its numbers
WHERE = "certificate.model.network"


def described_model(
    steps: Sequence[Any], tensors: Tensors, absent: type[CheckError] = CheckError
) -> tuple[Model, set[str]]:
    """Return the model of these steps, and the tensors that they name; raise ``absent`` if there is no such tensor."""
    if not 2 <= len(steps) <= MAX_NODES:
        raise CheckError(f"{WHERE}.steps has {len(steps)} entries; it must have 2 to {MAX_NODES:,}")
    reader = _Steps(tensors, absent)
    for number, entry in enumerate(steps):
        reader.read(entry, number)
    model = reader.graph.finish(reader.values[-1])
    if model.closing:
        raise CheckError(f"{WHERE} ends with {model.closing}; it must end with the logits")
    return model, reader.used


def contained_tensors(entries: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the tensors that a certificate contains."""
    found, total = {}, 0
    for key, entry in entries.items():
        where = f"{WHERE}.tensors.{key[:40]}"
        if type(entry) is not dict:
            raise CheckError(f"{where} must be an object")
        only_keys(entry, ("dtype", "shape", "values"), where)
        shape, dtype = take(entry, "shape", list, where), take(entry, "dtype", str, where)
        if dtype not in _DTYPES or len(shape) > 4:
            raise CheckError(f"{where} must be float32 or float64, of at most 4 dimensions")
        if not all(type(size) is int and 0 < size <= MAX_WIDTH for size in shape):
            raise CheckError(f"{where}.shape must have numbers from 1 to {MAX_WIDTH:,}")
        total += int(np.prod(shape, dtype=object)) if shape else 1
        if total > _MAX_NUMBERS:
            raise CheckError(f"{WHERE}.tensors have more than {_MAX_NUMBERS:,} numbers")
        found[key] = _unpacked(take(entry, "values", str, where), shape, _DTYPES[dtype], where)
    return found


def _unpacked(text: str, shape: list[int], kind: str, where: str) -> NDArray[Any]:
    """Return the numbers in a text: base64 of exactly as many bytes as the shape needs."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise CheckError(f"{where}.values cannot be decoded ({str(error)[:100]})") from error
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    if len(raw) != size:
        raise CheckError(f"{where}.values does not hold exactly {size:,} bytes")
    found = np.frombuffer(raw, kind).reshape(shape)
    if not np.isfinite(found).all():
        raise CheckError(f"{where}.values contains a number that is not finite")
    return found.astype(found.dtype.newbyteorder("="))


class _Steps:
    """The steps so far, and the value of each in the graph."""

    def __init__(self, tensors: Tensors, absent: type[CheckError]) -> None:
        self.tensors, self.absent = tensors, absent
        self.used: set[str] = set()
        self.values: list[int] = []
        self.graph: Graph

    def read(self, entry: Any, number: int) -> None:
        """Add a step."""
        where = f"{WHERE}.steps[{number}]"
        kind, sources = take(entry, "kind", str, where), take(entry, "sources", list, where)
        if kind not in _KEYS or (kind == "input") != (number == 0):
            raise CheckError(f"{where}.kind is {kind[:40]!r}, which is not allowed there")
        only_keys(entry, ("kind", "sources", *_KEYS[kind]), where)
        if not all(type(source) is int and 0 <= source < number for source in sources):
            raise CheckError(f"{where}.sources must be numbers of steps before it")
        wanted = KINDS[kind].reads if kind in KINDS else int(kind != "input")
        if len(sources) < 2 if kind in _SEVERAL else len(sources) != wanted:
            raise CheckError(f"{where}.sources has {len(sources)} entries, which is not what {kind} reads")
        if kind == "input":
            columns = take(entry, "columns", int, where)
            if not 0 < columns <= MAX_WIDTH:
                raise CheckError(f"{where}.columns is {columns}; it must be 1 to {MAX_WIDTH:,}")
            self.graph = Graph(columns)
            self.values.append(Graph.input)
            return
        self.values.append(self._add(kind, entry, [self.values[source] for source in sources], where))

    def _add(self, kind: str, entry: dict[str, Any], sources: Sequence[int], where: str) -> int:
        graph, source = self.graph, sources[0]
        width = graph.width(source)
        if kind in _SEVERAL:
            return graph.sum(*sources) if kind == "sum" else graph.concatenate(*sources)
        if kind == "affine":
            return self._affine(entry, source, where)
        if kind == "batch_norm":
            mean, variance = self._needed(entry, "mean", where), self._needed(entry, "variance", where)
            gain, shift = self._tensor(entry, "gain", where), self._tensor(entry, "shift", where)
            if any(part.shape != (width,) for part in (mean, variance, gain, shift) if part is not None):
                raise CheckError(f"{where} is not a batch normalisation of {width} units")
            epsilon = take(entry, "epsilon", float, where)
            return graph.norm(source, batch_norm(mean, variance, gain, shift, epsilon))
        if kind == "scale":
            mean, gain, shift = (_row(entry, key, width, float(key == "gain"), where) for key in _KEYS[kind])
            return graph.norm(source, scaling(mean, gain, shift))
        if kind == "columns":
            indices = take(entry, "indices", list, where)
            if not all(type(index) is int for index in indices):
                raise CheckError(f"{where}.indices must be column numbers")
            return graph.columns(source, indices)
        if kind == "lookup":
            return graph.lookup(source, self._table(entry, where))
        if kind in KINDS:
            return graph.apply(_operation(entry, kind, where), *sources)
        name = take(entry, "name", str, where)
        if name not in ACTIVATIONS:
            raise CheckError(f"{where}.name is {name[:40]!r}, which is not the name of a function")
        parameters = self._parameters(entry, width, where)
        return graph.function(source, Activation(name, maybe(entry, "slope", float, where, 0.0), parameters))

    def _affine(self, entry: dict[str, Any], source: int, where: str) -> int:
        """Add an affine layer; its matrix may repeat the tensor, and one without weights gives its bias alone."""
        weight, bias = self._tensor(entry, "weight", where), self._tensor(entry, "bias", where)
        transposed = maybe(entry, "transposed", bool, where, False)
        blocks, tokens = (_count(entry, key, where) if key in entry else 1 for key in ("blocks", "tokens"))
        width = self.graph.width(source)
        if weight is None:
            if bias is None or transposed or (blocks, tokens) != (1, 1):
                raise CheckError(f"{where} has neither weights nor a bias alone")
            bias = bias.reshape(-1)
            return self.graph.affine(source, np.zeros((_small(bias.size, width, where), width), bias.dtype), bias)
        if "blocks" not in entry and "tokens" not in entry:
            return self.graph.affine(source, weight.T if transposed else weight, bias)
        groups = blocks * tokens
        if width % groups or weight.size % (blocks * (width // groups)):
            raise CheckError(f"{where} has weights of shape {weight.shape} for {width} columns in {groups} groups")
        inputs, outputs = width // groups, weight.size // (blocks * (width // groups))
        rows = _small(groups * outputs, width, where)
        # matrix[(b, t), o, (b, t), i] = own[b, o, i] for all blocks b and tokens t, and 0 elsewhere.
        own = weight.reshape(blocks, inputs, outputs).swapaxes(1, 2) if transposed else weight
        matrix = np.zeros((groups, outputs, groups, inputs), weight.dtype)
        each = np.arange(groups)
        matrix[each, :, each] = np.repeat(own.reshape(blocks, outputs, inputs), tokens, axis=0)
        if bias is not None:
            if bias.size not in (rows, blocks * outputs):
                raise CheckError(f"{where} has a bias of {bias.size} numbers for {groups} groups of {outputs}")
            if bias.size != rows:
                bias = np.repeat(bias.reshape(blocks, 1, outputs), tokens, axis=1)
            bias = bias.reshape(-1)
        return self.graph.affine(source, matrix.reshape(rows, width), bias)

    def _parameters(self, entry: dict[str, Any], width: int, where: str) -> tuple[float, ...]:
        """Return the numbers of a function: a list, or a tensor with one for each unit, or one for all."""
        if type(entry.get("parameters")) is str:
            found = self._needed(entry, "parameters", where).reshape(-1).astype(np.float64)
            if found.size not in (1, width):
                raise CheckError(f"{where}.parameters has {found.size} numbers for {width} columns")
            return tuple(np.broadcast_to(found, width).tolist())
        given = maybe(entry, "parameters", list, where, [])
        return tuple(numbers(given, len(given), f"{where}.parameters").tolist())

    def _table(self, entry: dict[str, Any], where: str) -> NDArray[Any]:
        if ("table" in entry) == ("classes" in entry):
            raise CheckError(f"{where} must have either a table or classes")
        if "table" in entry:
            return self._needed(entry, "table", where)
        classes = take(entry, "classes", int, where)
        if not 0 < classes <= _MAX_CLASSES:
            raise CheckError(f"{where}.classes is {classes}; it must be 1 to {_MAX_CLASSES:,}")
        own = next((tensor.dtype for tensor in self.tensors.values() if tensor.dtype.kind == "f"), None)
        return np.eye(classes, dtype=own)

    def _needed(self, entry: dict[str, Any], part: str, where: str) -> NDArray[Any]:
        found = self._tensor(entry, part, where)
        if found is None:
            raise CheckError(f"{where}.{part} must be a text, got null")
        return found

    def _tensor(self, entry: dict[str, Any], part: str, where: str) -> NDArray[Any] | None:
        key = or_null(entry, part, str, where)
        if key is None:
            return None
        if key not in self.tensors:
            raise self.absent(f'{where}.{part} names the tensor "{key[:60]}", which is not there')
        if self.tensors[key].dtype.kind != "f":
            raise CheckError(f'the tensor "{key[:60]}" holds whole numbers')
        self.used.add(key)
        return self.tensors[key]


def _operation(entry: dict[str, Any], kind: str, where: str) -> Operation:
    """Return an operation that has no arrays: its whole numbers count columns."""
    given: dict[str, Any] = {}
    for each in fields(KINDS[kind]):
        own = {"float": float, "bool": bool}.get(str(each.type))
        given[each.name] = _count(entry, each.name, where) if own is None else take(entry, each.name, own, where)
    operation: Operation = KINDS[kind](**given)
    return operation


def _small(rows: int, columns: int, where: str) -> int:
    """Return the rows of a matrix that is written out; refuse one that is too large."""
    if rows > MAX_WIDTH or rows * columns > _MAX_WRITTEN:
        raise CheckError(f"{where} is a matrix of {rows:,} times {columns:,} numbers, which is too large")
    return rows


def _count(entry: dict[str, Any], key: str, where: str) -> int:
    """Return a number of columns."""
    number = take(entry, key, int, where)
    if not 0 < number <= MAX_WIDTH:
        raise CheckError(f"{where}.{key} is {number}; it must be 1 to {MAX_WIDTH:,}")
    return number


def _row(entry: dict[str, Any], key: str, width: int, default: float, where: str) -> NDArray[np.float64]:
    """Return a number for each unit, or one for all, which programs may round by itself."""
    given = maybe(entry, key, list, where, [default])
    if len(given) not in (1, width):
        raise CheckError(f"{where}.{key} has {len(given)} numbers for {width} columns")
    row = numbers(given, len(given), f"{where}.{key}")
    return row.reshape(()) if len(row) == 1 else row
