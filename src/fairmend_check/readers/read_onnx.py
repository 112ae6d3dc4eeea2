"""Read .onnx files: a graph of layers, activations and norms (`onnx_graph`), and perhaps a decision after it.

Whoever writes a model could also write its certificate, so a file is read only if every program that follows the
standard runs it as the same network: what programs could read differently is refused. Weights that are inputs too can
be replaced by a caller, so the claim is then about callers that do not.

Weights may be stored in a file beside the model, as PyTorch writes them by default. A model names such files freely, so
a name is trusted only if it is a plain file name in the folder of the model, and a tensor only if its bytes lie within
that file.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Model
from fairmend_check.readers import protobuf
from fairmend_check.readers.axes import Dims, Rows
from fairmend_check.readers.onnx_fusions import refuse_other_gelu
from fairmend_check.readers.onnx_graph import OnnxGraph
from fairmend_check.readers.onnx_nodes import (
    ELEMENTS,
    ML,
    Node,
    ValueType,
    decision_nodes,
    decision_source,
    read_decision,
    read_node,
)
from fairmend_check.readers.protobuf import Message

_MAX_BYTES = 2**30
_KEYS = ("location", "offset", "length")


class ExternalData:
    """The files beside a model. Each file is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, memoryview] = {}
        self._left = _MAX_BYTES  # of all tensors together: many tensors could share the same bytes

    def read(self, entries: list[Message], size: int, where: str) -> memoryview:
        """Return the ``size`` bytes of a tensor that its ``external_data`` entries describe."""
        described = {entry.get("key", ""): entry.get("value", "") for entry in entries}
        if len(described) != len(entries) or not set(described) <= set(_KEYS):
            raise CheckError(f"{where} describes its external data with an unknown or repeated key")
        if "location" not in described:
            raise CheckError(f"{where} does not name the file of its external data")
        location = described["location"]
        content = self._file(location, where)
        offset = _whole_number(described.get("offset", "0"), f"{where}: the offset of its external data")
        rest = len(content) - offset
        length = _whole_number(described.get("length", str(max(rest, 0))), f"{where}: the length of its external data")
        if length != size:
            raise CheckError(f"{where} has {length:,} bytes of external data, and its shape needs {size:,}")
        if length > rest:
            raise CheckError(f"{where}: its external data ends after the end of {location[:80]}; the file is truncated")
        self._left -= length
        if self._left < 0:
            raise CheckError(f"the external data of all tensors has more than {_MAX_BYTES:,} bytes")
        return content[offset : offset + length]

    def _file(self, location: str, where: str) -> memoryview:
        if location not in self._files:
            path = self.resolve(location, where)
            room = _MAX_BYTES - sum(map(len, self._files.values()))
            self._files[location] = memoryview(json_reader.read_bytes(path, "external data", room))
        return self._files[location]

    def resolve(self, location: str, where: str) -> Path:
        """Return the path of a file beside the model; refuse every name that could lead out of its folder."""
        if location in ("", ".", "..") or re.search(r"[/\\:\0]", location):
            raise CheckError(
                f"{where} is stored in {location[:80]!r}; external data must be a file in the folder of the model, "
                "named without a path"
            )
        path = self._folder / location
        try:
            resolved = path.resolve(strict=True)
            inside = resolved.parent == self._folder.resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise CheckError(
                f"{where} is stored in {location[:80]}, which is missing; put the file into the folder of the model"
            ) from error
        if not inside:
            raise CheckError(f"{where} is stored in {location[:80]}, a link that leads out of the folder of the model")
        return resolved


def _whole_number(text: str, what: str) -> int:
    if not re.fullmatch("0|[1-9][0-9]{0,17}", text):
        raise CheckError(f"{what} is {text[:40]!r}; it must be a whole number without leading zeros")
    return int(text)


Tensor = NDArray[Any]

# Where the elements of a tensor are stored unless raw, and how; O are texts, b1 truth values.
_STORED = {
    1: ("float_data", "<f4"),
    6: ("int32_data", "<i4"),
    7: ("int64_data", "<i8"),
    8: ("string_data", "O"),
    9: ("raw_data", "|b1"),
    11: ("double_data", "<f8"),
}
# The standard of today. Gemm and Add had other meanings before 7, and files other fields before 3; later is unknown.
_OPSETS, _ML_OPSETS, _IR_VERSIONS = range(7, 29), range(1, 6), range(3, 15)
_ALL_INPUTS = 3  # the last version of the format in which all weights are inputs too
_MAX_NODES = 10_000
_REPLACEABLE = (
    "the file lists weights as inputs too. The claim is about callers that give a value to the other input only."
)


def read_onnx(content: bytes, folder: Path) -> Model:
    """Return the model, if it is a graph of known operators with one output; ``folder`` may hold external data.

    After it, nodes may choose a label by its probabilities: then the outputs are labels and probabilities.
    """
    if content[4:8] == b"ORTM":
        raise CheckError("bytes 4 to 7 are ORTM, so ONNX Runtime could read the file in its own format")
    model = protobuf.read_message("Model", content)
    graph = model.get("graph", {})
    listed, outputs, constants, messages = (graph.get(key, []) for key in ("input", "output", "initializer", "node"))
    _check_versions(model, messages)
    weights = {tensor.get("name", "") for tensor in constants}
    inputs = [value for value in listed if value.get("name", "") not in weights]
    if not inputs or len(outputs) not in (1, 2):
        raise CheckError("the model must have an input that is not a weight, and one or two outputs")
    _check_names([value.get("name", "") for value in listed])
    if model["ir_version"] <= _ALL_INPUTS and not weights <= {value.get("name", "") for value in listed}:
        raise CheckError(f"version {_ALL_INPUTS} of ONNX's format lists all weights as inputs, and this file does not")
    if len(messages) > _MAX_NODES:
        raise CheckError(f"the graph has more than {_MAX_NODES:,} nodes")
    nodes = [read_node(message) for message in messages]
    computed = [name for node in nodes for name in node.outputs]
    _check_names([value.get("name", "") for value in inputs + constants] + computed)
    external = ExternalData(folder)
    found = OnnxGraph([(value.get("name", ""), *declared_type(value)) for value in inputs])
    for tensor in constants:
        found.tensors[tensor.get("name", "")] = _tensor(tensor, external)
    found.outputs = frozenset(value.get("name", "") for value in outputs)
    found.opset = next(each.get("version", 0) for each in model["opset_import"] if not each.get("domain", ""))
    decision = decision_nodes(nodes)
    readers = _readers(nodes)
    for value in inputs:
        if value.get("name", "") not in readers:
            raise CheckError(f"the input {value.get('name', '')[:40]!r} is not used")
    computed_nodes = []
    for node in nodes:  # constants first: that of a sum may come after the product before it
        if node.kind == "Constant":
            found.tensors[node.output] = _constant(node, external)
        elif node.output not in decision and not found.pass_constant(node):
            if node.kind == "ConstantOfShape" and node.given:
                node.attributes["value"] = _tensor(node.attributes["value"], external)
            computed_nodes.append(node)
    for node in computed_nodes:
        found.append(node, readers)
    refuse_other_gelu(found)
    names = [value.get("name", "") for value in outputs]
    scores = decision_source(nodes, decision) if decision else names[0]
    last = found.entry(scores)
    if last.axes > 2 or last.dims[0] != Rows() or last.element != found.element:
        raise CheckError("the output is not rows of numbers of the input's type: it is stacked, or cast to others")
    if len(names) > 1 and not decision:
        raise CheckError("the graph has two outputs, and the first is not the label of the second")
    network = found.graph.finish(last.value)
    if ELEMENTS[network.dtype] != found.element:
        raise CheckError(f"the weights are {network.dtype}, but the input is not")
    types: dict[str, ValueType] = dict(found.types)
    if decision:
        closed = network.closed and network.rescaling is None
        if not closed or last.axes != 2 or found.graph.width(last.value) != network.outputs:
            raise CheckError("the label is not chosen by probabilities")
        types |= read_decision(
            [node for node in nodes if node.output in decision], names, found.tensors, scores, network
        )
    for value in listed + outputs:
        _check_value(value, found, types)
    for value in graph.get("value_info", []):
        _check_value(value, found, types, inside=True)
    return replace(network, condition=_condition(inputs, found, replaceable=len(listed) > len(inputs)))


def _condition(inputs: list[Message], graph: OnnxGraph, *, replaceable: bool) -> str:
    """Return what a caller must do: which columns of a row belong to which of several inputs."""
    said = [_REPLACEABLE] if replaceable else []
    if len(inputs) > 1:
        names = [value.get("name", "") for value in inputs]
        widths = [graph.graph.width(graph.entry(name).value) for name in names]
        if not all(re.fullmatch(r"[\w.:/+-]{1,200}", name, re.ASCII) for name in names):
            raise CheckError("the inputs must have names of letters, digits and the signs _ . : / + -")
        listed = ", ".join(f"{name} ({width})" for name, width in zip(names, widths, strict=True))
        said.append(f"the columns of a row are those of the inputs of the model, in this order: {listed}.")
    return " ".join(said)


def _readers(nodes: list[Node]) -> dict[str, list[Node]]:
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    return readers


def _constant(node: Node, external: ExternalData) -> Tensor:
    """Return the value of a Constant node, which has one of five attributes."""
    if len(node.given) != 1:
        raise CheckError("node Constant must have one value")
    (name,) = node.given
    value = node.attributes[name]
    if name == "value":
        return _tensor(value, external)
    return np.array(value, np.float32 if "float" in name else np.int64)


def _check_names(names: list[str]) -> None:
    for name, occurrences in Counter(names).items():
        if occurrences > 1 or not name:
            raise CheckError(f"two values have the name {name[:40]!r}" if name else "a value has no name")


def _check_versions(model: Message, nodes: list[Message]) -> None:
    """Refuse versions that this checker does not know, and two versions of the operators."""
    imports = [(entry.get("domain", ""), entry.get("version", 0)) for entry in model.get("opset_import", [])]
    domains, versions = [domain for domain, _ in imports], dict(imports)
    used = {"", *(ML for node in nodes if node.get("domain", "") == ML)}
    if len(versions) != len(imports) or not used <= set(domains) or "ai.onnx" in domains:
        raise CheckError("the model must import one version of ONNX's operators")
    for what, version, known in (
        ("operators", versions[""], _OPSETS),
        (f"operators of {ML}", versions.get(ML, _ML_OPSETS[0]), _ML_OPSETS),
        ("format", model.get("ir_version", 0), _IR_VERSIONS),
    ):
        if version not in known:
            raise CheckError(f"version {version} of ONNX's {what} is not one of {known[0]} to {known[-1]}")


def declared_type(info: Message) -> tuple[int, list[int | str]]:
    """Return the declared type and dimensions of a value: each a number, a name, or "" for neither."""
    kind = info.get("type", {}).get("tensor_type", {})
    dimensions = kind.get("shape", {}).get("dim", [])
    if any(dimension.get("dim_value", 1) < 1 for dimension in dimensions):
        raise CheckError("a dimension must be a number above 0 or a name")
    return kind.get("elem_type", 0), [next(iter(dimension.values()), "") for dimension in dimensions]


def _check_value(info: Message, graph: OnnxGraph, types: dict[str, ValueType], *, inside: bool = False) -> None:
    """Refuse a declaration that does not agree with what the graph computes: runtimes plan their memory by it.

    Of values ``inside``, it may leave sizes open.
    """
    name, (element, shape) = info.get("name", ""), declared_type(info)
    computed = types.get(name)
    if name in graph.tensors:
        tensor = graph.tensors[name]
        known = [size for size, declared in zip(tensor.shape, shape, strict=False) if not inside or declared != ""]
        agrees = element == ELEMENTS[tensor.dtype.name] and len(shape) == tensor.ndim
        agrees = agrees and known == [declared for declared in shape if not inside or declared != ""]
    elif isinstance(computed, tuple):
        agrees = element == computed[0] and (computed[1] is None or _fits(shape, computed[1], graph.rows, inside))
    elif computed is not None:
        agrees = info["type"] == computed
    else:
        raise CheckError(f"the graph declares {name[:40]!r}, a value that it does not compute")
    if not agrees:
        raise CheckError(f"the type or shape of {name[:40]!r} is not what the graph declares")


def _fits(shape: list[int | str], dims: Dims, rows: int | str, inside: bool) -> bool:
    """Return whether a declared shape is that of a value; the axis of the rows has no number unless the input has one.

    ONNX Runtime takes such a number for what Shape gives, whatever the input is.
    """
    if dims[0] != Rows() and not shape:
        return True
    named = len(dims) > 2 or dims[0] != Rows()  # exporters do not compute all sizes of such values, and name them
    for declared, size in zip(shape, dims, strict=False):
        if isinstance(size, Rows):
            fits = isinstance(declared, str) or (isinstance(rows, int) and declared == rows * size.entries)
        else:
            fits = declared == size or (named and isinstance(declared, str)) or (inside and declared == "")
        if not fits:
            return False
    return len(shape) == len(dims)


def _tensor(message: Message, external: ExternalData) -> Tensor:
    shape, where = message.get("dims", []), f"tensor {message.get('name', '')[:40]!r}"
    if message.get("data_type") not in _STORED:
        raise CheckError(f"{where} has elements of a type that cannot be checked")
    typed, stored = _STORED[message["data_type"]]
    is_text = stored == "O"
    size = math.prod(shape) * (1 if is_text else np.dtype(stored).itemsize)
    found = {"raw_data", "external_data", *(field for field, _ in _STORED.values())} & set(message)
    if len(found) != 1 or not found <= ({typed} if is_text else {"raw_data", "external_data", typed}):
        raise CheckError(f"{where} must store its data in one field, the one for its type")
    if message.get("data_location", 0) != (found == {"external_data"}):
        raise CheckError(f"{where} contradicts itself about where its data is stored")
    data = message[found.pop()]
    if "external_data" in message:
        data = external.read(data, size, where)
    elif typed in ("int32_data", "int64_data") and typed in message:
        data = np.array(protobuf.unpack_integers(data, int(typed[3:5])), stored).tobytes()
    if min(shape, default=0) < 0 or len(data) != size:
        raise CheckError(f"{where} does not fit its shape")
    if is_text:
        return np.array(data, object).reshape(shape)
    if stored == "|b1" and not set(bytes(data)) <= {0, 1}:
        raise CheckError(f"{where} has a truth value that is neither 0 nor 1")
    return np.frombuffer(data, stored).reshape(shape).astype(np.dtype(stored).newbyteorder("="))
