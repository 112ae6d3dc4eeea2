""".onnx files: read as a graph of layers, and written as one file, with new weights in the form that was read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line, listed
from fairmend.network import Activation, Network
from fairmend.network.form import FormError
from fairmend.network.formats.build import SUPPORTED
from fairmend.network.formats.onnx.graph import Graph, LayerNodes, Node
from fairmend.network.formats.onnx.nodes import convert_graph
from fairmend.network.formats.onnx.write import to_bytes

# ONNX weights in a file beside the model ("external data"), as PyTorch's exporter writes them by default.
#
# The model names the file, so it is not trusted: only a plain file in the model's own folder is read, and only as many
# bytes as the tensor's shape needs.


_ITEM_SIZES = {
    TensorProto.FLOAT: 4,
    TensorProto.DOUBLE: 8,
    TensorProto.FLOAT16: 2,
    TensorProto.BFLOAT16: 2,
    TensorProto.INT32: 4,
    TensorProto.INT64: 8,
}
_MOST = 2**31 - 1  # bytes in all: more do not fit into one ONNX file
_SMALL = 16 * 2**20  # bytes that may come from a region of the file that several tensors share
_ONE_FILE = "or export one file: torch.onnx.export(..., external_data=False)"


def load_external_data(model: Any, path: Path) -> None:
    """Move weights that lie in files beside `path` into the tensors of `model`, in place."""
    total = 0
    sizes: dict[str, int] = {}
    for tensor in _tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        where = f"{path}: the tensor {tensor.name[:80]!r}"
        entries = _entries(tensor, where)
        file = _locate(path, entries.get("location", ""), where)
        size = sizes[file.name] = file.stat().st_size
        needed = _needed(tensor, where)
        offset = _whole_number(entries.get("offset", "0"), "offset", where)
        length = _whole_number(entries.get("length", str(max(size - offset, 0))), "length", where)
        if length != needed:
            raise FairmendError(
                f"{where} needs {needed:,} bytes and names {length:,} of {file.name!r}; export the model again"
            )
        if offset + length > size:
            raise FairmendError(
                f"{where} ends at byte {offset + length:,} of {file.name!r}, which has {size:,}; export the model again"
            )
        total += length
        if total > min(_MOST, max(_SMALL, sum(sizes.values()))):
            raise FairmendError(
                f"{where} and those before it need more bytes than the file has; export the model again"
            )
        tensor.raw_data = _read(file, offset, length, where)
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def _tensors(model: Any) -> Iterator[Any]:
    yield from model.graph.initializer
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _entries(tensor: Any, where: str) -> dict[str, str]:
    """Return what the tensor says about its data, by key. Of a repeated key, programs could take either value."""
    pairs = [(entry.key, entry.value) for entry in tensor.external_data]
    if not all(isinstance(text, str) for pair in pairs for text in pair):  # protobuf gives bytes that are no UTF-8
        raise FairmendError(f"{where} describes its data with bytes that are not text; export the model again")
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise FairmendError(f"{where} describes its data with a repeated key; export the model again")
    return entries


def _locate(path: Path, location: str, where: str) -> Path:
    """Return the file that a tensor names, which must lie in the model's own folder."""
    plain = location not in ("", ".", "..") and not set(location) & set("/\\:\0")
    if not plain:
        raise FairmendError(
            f"{where} lies in {location[:80]!r}; only a file in the model's own folder is read. "
            f"Move it there and export the model again, {_ONE_FILE}"
        )
    file = path.parent / location
    try:
        inside = file.resolve().parent == path.parent.resolve()
        exists = file.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise FairmendError(f"{where} lies in {location[:80]!r}, which cannot be opened ({error})") from error
    if not inside:
        raise FairmendError(f"{where} lies in {location[:80]!r}, a link out of the model's folder; copy the file there")
    if not exists:
        raise FairmendError(
            f"{where} lies in {location[:80]!r}, and there is no such file beside the model. "
            f"Put the two into one folder, {_ONE_FILE}"
        )
    return file


def _needed(tensor: Any, where: str) -> int:
    """Return how many bytes the tensor's shape and type need."""
    size = _ITEM_SIZES.get(tensor.data_type)
    if size is None or min(tensor.dims, default=0) < 0:
        kind = "a type that is" if size is None else "a negative dimension, which is"
        raise FairmendError(f"{where} has {kind} not read from another file; export the model again, {_ONE_FILE}")
    return size * int(math.prod(tensor.dims))


def _whole_number(text: str, what: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise FairmendError(f"{where} has the {what} {text[:40]!r}, not a number of bytes; export the model again")
    return int(text)


def _read(file: Path, offset: int, length: int, where: str) -> bytes:
    try:
        with file.open("rb") as stream:
            stream.seek(offset)
            content = stream.read(length)
    except OSError as error:
        raise FairmendError(f"{where} lies in {file.name!r}, which cannot be read ({error.strerror})") from error
    if len(content) != length:
        raise FairmendError(f"{where} lies in {file.name!r}, which changed while it was read; try again")
    return content


# The form of an ONNX file: the model as it was read, in which new weights replace the old ones.
#
# Nodes, names, shapes, further outputs, metadata and versions stay. A constant that only one layer reads is replaced
# where it stands; for all others, the layer gets a constant of its own.


Array = npt.NDArray[Any]
_WEIGHTS_NEED_NOT_BE_INPUTS = 4  # since this version of the format


@dataclass(frozen=True, eq=False)
class OnnxForm:
    """A model with all its weights in one file, the nodes of its affine layers and its tables, each by name.

    The matrices of ``derived`` layers are not in the file: they are what nodes compute of its constants.
    """

    content: bytes
    layers: Mapping[str, LayerNodes]
    tables: Mapping[str, str]
    derived: Mapping[str, tuple[Array, Array | None]]
    source: str
    suffixes = (".onnx",)

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the model with the weights of `network`."""
        model = onnx.load_from_string(self.content)
        editor = _Editor(model, Graph(model, self.source))
        for stored in network.stored_layers:
            weight, bias, norms = stored.weight, stored.bias, stored.norms
            if stored.slot is not None:
                raise FormError(f"the file computes the parts of its output at once, in the layer {stored.name!r}")
            if stored.name in self.derived:
                self._check_same(stored.name, weight, bias)
                continue
            layer = self.layers[stored.name]
            if weight.size:
                matrix = weight.reshape(-1, weight.shape[-1])  # of blocks, one below the other
                editor.set_input(layer.product, layer.position, matrix if layer.transposed else matrix.T)
            if bias is not None:
                if layer.bias_node is None:
                    raise FormError(f"the layer {stored.name!r} has no bias in the original")
                editor.set_input(layer.bias_node, layer.bias_position, bias)
            for norm in norms:
                if norm.name is not None and norm.shift is not None:
                    editor.set_input(norm.name, 2, norm.shift)
        for name, table in network.tables.items():
            editor.set_table(self.tables[name], table)
        _tidy(model)
        onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content

    def _check_same(self, name: str, weight: Array, bias: Array | None) -> None:
        """Refuse other numbers in a layer whose matrix the file does not store."""
        old, shift = self.derived[name]
        given, had = (np.zeros(0) if each is None else each for each in (bias, shift))
        if not np.array_equal(weight, old) or not np.array_equal(given, had):
            raise FormError(
                f"the file stores the layer {name!r} in other axes, and has no place for each of its weights"
            )

    def plain_bytes(self, network: Network) -> bytes:
        """Return a file in fairmend's own form, with the names of the original where the same rows go in and come out.

        A label or other scores need a new name.
        """
        model = onnx.load_from_string(self.content)
        inputs, outputs = _signature(model)
        (given, takes), *more = inputs
        (found, gives), *others = outputs
        made = {name: node.op_type for node in model.graph.node for name in node.output}
        rows = network.dtype.name
        same_input = not more and takes in (_describe_rows(rows, network.inputs), _describe_rows(rows, 0))
        same_output = not others and gives == _describe_rows(rows, network.outputs) and made.get(found) != "LogSoftmax"
        given, found = (given if same_input else "input"), (found if same_output else "output")
        return to_bytes(network, *((given, found) if given != found else ("input", "output")))

    def changes_in(self, content: bytes) -> str:
        """Say what a program that runs the original finds changed in another file; "" if nothing."""
        original = onnx.load_from_string(self.content)
        before, after = (_signature(model) for model in (original, onnx.load_from_string(content)))
        said = []
        for what, old, new in zip(("input", "output"), before, after, strict=True):
            if old != new:
                were, now = (listed([f"{name!r} ({kind})" for name, kind in part], most=None) for part in (old, new))
                said.append(f"the {what}{'s' if len(old) > 1 else ''} {were} became {now}")
        if any(node.op_type == "LogSoftmax" for node in original.graph.node):
            said.append("probabilities took the place of their logarithms")
        return "; ".join(said)


def _signature(model: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return name and type of each input that is no weight, and of each output."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [(value.name, _describe_type(value)) for value in model.graph.input if value.name not in weights]
    return inputs, [(value.name, _describe_type(value)) for value in model.graph.output]


def _describe_type(value: Any) -> str:
    """Return the elements and the columns of a value, such as "float32, 3 columns"."""
    if not value.type.HasField("tensor_type"):
        return "a list of maps"
    kind, names = value.type.tensor_type, {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}
    element = names.get(kind.elem_type, TensorProto.DataType.Name(kind.elem_type).lower())
    dims = kind.shape.dim
    if len(dims) != 2:
        return f"{element}, {len(dims)} axis" if len(dims) == 1 else f"{element}, {len(dims)} axes"
    return _describe_rows(element, dims[1].dim_value)


def _describe_rows(element: str, columns: int) -> str:
    """Return what rows hold; 0 columns are a number that is not stated."""
    return f"{element}, {columns} column{'' if columns == 1 else 's'}" if columns else f"{element}, columns"


def _tidy(model: Any) -> None:
    """Take weights off the list of inputs, where older exporters put them, and leave out unused random masks."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    listed = [value for value in graph.input if value.name in constants]
    for value in listed:
        graph.input.remove(value)
    if listed:
        model.ir_version = max(model.ir_version, _WEIGHTS_NEED_NOT_BE_INPUTS)
    used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    for node in graph.node:
        if node.op_type == "Dropout" and not used & set(node.output[1:]):
            del node.output[1:]


class _Editor:
    """Replaces constants of a model in place."""

    def __init__(self, model: Any, graph: Graph) -> None:
        self._graph, self._constants = model.graph, graph
        self._nodes: dict[str, Node] = {node.output[0]: node for node in model.graph.node}
        self._uses = Counter(name for node in model.graph.node for name in node.input)
        self._uses.update(value.name for value in model.graph.output)
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._tensors[node.output[0]] = node.attribute[0].t

    def set_input(self, output: str, position: int, array: Array) -> None:
        """Make the node with this output read an array where it reads a constant; nothing changes if they are equal."""
        node = self._nodes[output]
        name = node.input[position]
        before = self._constants.constant(name)
        if before is not None and before.size == array.size:
            array = np.ascontiguousarray(array.reshape(before.shape))
            if array.dtype == before.dtype and array.tobytes() == np.ascontiguousarray(before).tobytes():
                return
        tensor = self._tensors.get(name)
        if tensor is None or self._uses[name] > 1:
            node.input[position] = self._add_constant(f"{name}_of_{output}", array)
            return
        told = tensor.name, tensor.doc_string
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array)))
        tensor.name, tensor.doc_string = told
        for field in ("name", "doc_string"):  # a file that does not have it stays without
            if not getattr(tensor, field):
                tensor.ClearField(field)

    def set_table(self, name: str, table: Array) -> None:
        """Replace the table of look-ups; it is a constant of the model."""
        before = self._constants.constant(name)
        if before is None or before.shape != table.shape or before.dtype != table.dtype:
            raise FormError(f"the table {name!r} has another shape in the original")
        if before.tobytes() != table.tobytes():
            self._tensors[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(table), name))

    def _add_constant(self, name: str, array: Array) -> str:
        name = self._free(name)
        self._graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _free(self, name: str) -> str:
        taken = {*self._nodes, *self._uses, *self._tensors, *(value.name for value in self._graph.input)}
        taken |= {tensor.name for tensor in self._graph.initializer}
        while name in taken:
            name += "_"
        return name


def read(path: Path, activation: Activation) -> Network:
    """Return the network in the file; its graph names the activations."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's own errors among them, which carry no types to name
        raise FairmendError(f"{path}: not a readable ONNX file ({error})") from error
    source = str(path)
    load_external_data(model, path)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise FairmendError(f"{path}: not a valid ONNX model: {first_line(error)}") from error
    graph = Graph(model, source)
    builder, output = convert_graph(graph)
    form = OnnxForm(model.SerializeToString(), graph.layers, graph.tables, graph.derived, source)
    network = builder.network(output, form)
    if network.dtype != graph.dtype:
        raise FairmendError(f"{path}: the input is {graph.dtype}, the weights are {network.dtype}; {SUPPORTED}")
    return network
