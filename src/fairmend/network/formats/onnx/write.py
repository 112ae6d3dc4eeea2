"""Write a network as an ONNX model: one operator for each node, and a few for functions that ONNX does not have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from fairmend.base.errors import FairmendError
from fairmend.network import (
    Activation,
    Affine,
    Columns,
    Concatenate,
    Lookup,
    Network,
    Node,
    Normalise,
    Product,
    Scale,
    Softmax,
    Sum,
)
from fairmend.network.formats.torch.state_dict import tensor_key
from fairmend.network.rescaling import REST, Clip, Rescaling

# Old enough for every recent runtime, new enough for double precision in every operator.
_OPSET, _IR_VERSION = 17, 8
_ELEMENT = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE}
_PLAIN = "Relu Tanh Sigmoid Softmax Selu Softsign Abs Exp Log Reciprocal Sqrt Sin Cos"
_OPERATORS = {operator.lower(): operator for operator in _PLAIN.split()}


def to_bytes(network: Network, given: str = "input", found: str = "output") -> bytes:
    """Return a graph from input (batch, inputs) to output (batch, outputs): Gemm nodes, activations, the closing."""
    writer = _Writer(network, given, found)
    value = writer.write_nodes()
    if network.closing != "none":
        operator = _OPERATORS[network.closing]
        attributes = {"axis": -1} if network.closing == "softmax" else {}
        writer.nodes.append(helper.make_node(operator, [value], [found], f"/{operator}", **attributes))
        if network.rescaling is not None:
            writer.nodes[-1].output[0] = f"/{operator}/p"
            writer.rescale(f"/{operator}/p", network.rescaling)
    writer.nodes[-1].output[0] = found
    columns = 2 if network.closing != "none" and network.rescaling and network.rescaling.both else network.outputs
    element = _ELEMENT[network.dtype]
    graph = helper.make_graph(
        writer.nodes,
        "fairmend",
        [helper.make_tensor_value_info(given, element, ["batch", network.inputs])],
        [helper.make_tensor_value_info(found, element, ["batch", columns])],
        writer.initializers,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="fairmend",
    )
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


class _Writer:
    def __init__(self, network: Network, given: str, found: str) -> None:
        self.network, self.dtype, self.given = network, network.dtype, given
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.prefix, self.width = "", network.inputs
        self._taken = {given, found}

    def write_nodes(self) -> str:
        """Write all nodes, and return the name of the logits."""
        names = [self.given]
        layer = -1
        for i, node in enumerate(self.network.nodes[1:], 1):
            layer += isinstance(node.operation, Affine)
            simple = isinstance(node.operation, Affine | Activation) and self.network.is_chain
            self.prefix = f"/{layer}" if simple else f"/node{i}"
            self.width, sources = self.network.widths[i], [names[source] for source in node.sources]
            names.append(_WRITERS[type(node.operation)](self, node, sources))
        return names[-1]

    def rescale(self, x: str, rescaling: Rescaling) -> None:
        """Write what makes scores of the probability x."""
        self.prefix = "/score"
        for step in rescaling.steps:
            if isinstance(step, Clip):
                most = [] if math.isinf(step.most) else [self.number(step.most)]
                x = self.operator("Clip", [x, self.number(step.least), *most])
            elif step == REST:
                x = self.operator("Sub", [self.number(1.0), x])
            else:
                x = x if step.factor == 1 else self.operator("Mul", [x, self.number(step.factor)])
                x = x if step.shift == 0 else self.operator("Add", [x, self.number(step.shift)])
        if rescaling.both:
            self.operator("Concat", [self.operator("Sub", [self.number(1.0), x]), x], axis=1)

    def operator(self, operator: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = self._free(f"{self.prefix}/{output or operator.lower()}")
        node = helper.make_node(operator, list(inputs), [output], self._free(f"{self.prefix}/{operator}"), **attributes)
        self.nodes.append(node)
        return output

    def constant(self, name: str, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> str:
        """Add a constant, in the dtype of the network by default, and return its name."""
        values = np.ascontiguousarray(np.asarray(array, self.dtype if dtype is None else dtype))
        self.initializers.append(numpy_helper.from_array(values, self._free(name)))
        return str(self.initializers[-1].name)

    def reshaped(self, x: str, shape: Sequence[int]) -> str:
        """Add a reshape of each row."""
        return self.operator("Reshape", [x, self.constant(f"{self.prefix}/shape", [0, *shape], np.int64)])

    def number(self, value: float) -> str:
        return self.constant(f"{self.prefix}/{value:.6g}", np.array(value))

    def _free(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _affine(to: _Writer, node: Node, sources: Sequence[str]) -> str:
    affine = node.operation
    assert isinstance(affine, Affine)
    if affine.is_fixed:
        return sources[0]
    weight = to.constant(tensor_key(node.name, "weight"), affine.weight)
    bias = to.constant(tensor_key(node.name, "bias"), affine.bias)
    return to.operator("Gemm", [*sources, weight, bias], "affine", transB=1)


def _scale(to: _Writer, node: Node, sources: Sequence[str]) -> str:
    scale = node.operation
    assert isinstance(scale, Scale)
    product = to.operator("Mul", [*sources, to.constant(f"{to.prefix}/factor", scale.factor)])
    return to.operator("Add", [product, to.constant(f"{to.prefix}/shift", scale.shift)])


def _columns(to: _Writer, node: Node, sources: Sequence[str]) -> str:
    assert isinstance(node.operation, Columns)
    return to.operator(
        "Gather", [*sources, to.constant(f"{to.prefix}/columns", node.operation.indices, np.int64)], axis=1
    )


def _lookup(to: _Writer, node: Node, sources: Sequence[str]) -> str:
    assert isinstance(node.operation, Lookup)
    index = to.operator("Cast", sources, to=TensorProto.INT64)
    index = to.operator("Squeeze", [index, to.constant(f"{to.prefix}/axes", [1], np.int64)])
    table = to.constant(tensor_key(node.name or f"{to.prefix}/table", "weight"), node.operation.table)
    return to.operator("Gather", [table, index], axis=0)


def _product(to: _Writer, node: Node, sources: Sequence[str]) -> str:
    product = node.operation
    assert isinstance(product, Product)
    if (product.rows, product.columns, product.length) == (1, 1, 1):
        return to.operator("Mul", sources)
    a = to.reshaped(sources[0], (product.groups, product.rows, product.length))
    b = to.reshaped(sources[1], (product.groups, product.columns, product.length))
    b = to.operator("Transpose", [b], perm=[0, 1, 3, 2])
    return to.reshaped(to.operator("MatMul", [a, b]), (product.groups * product.rows * product.columns,))


def _softmax(to: _Writer, node: Node, sources: Sequence[str]) -> str:
    assert isinstance(node.operation, Softmax)
    return _in_groups(to, node.operation.group, sources[0], lambda x: to.operator("Softmax", [x], axis=-1))


def _normalise(to: _Writer, node: Node, sources: Sequence[str]) -> str:
    norm = node.operation
    assert isinstance(norm, Normalise)
    epsilon = float(to.dtype.type(norm.epsilon))
    if norm.centred and float(np.float32(epsilon)) == epsilon:
        one = to.constant(f"{to.prefix}/gain", np.ones(norm.group))
        stash = 1 if to.dtype == np.float32 else 11  # in float32 by default, whatever the network is

        def whole(x: str) -> str:
            return to.operator("LayerNormalization", [x, one], axis=-1, epsilon=epsilon, stash_type=stash)

        return _in_groups(to, norm.group, sources[0], whole)

    def by_steps(x: str) -> str:
        apart = to.operator("Sub", [x, to.operator("ReduceMean", [x], axes=[-1])]) if norm.centred else x
        square = to.operator("ReduceMean", [to.operator("Mul", [apart, apart])], axes=[-1])
        root = to.operator("Sqrt", [to.operator("Add", [square, to.number(epsilon)])])
        if to.dtype == np.float32:
            return to.operator("Div", [apart, root])
        # Of a quotient in float64, ONNX Runtime makes a normalisation with another epsilon.
        return to.operator("Mul", [apart, to.operator("Reciprocal", [root])])

    return _in_groups(to, norm.group, sources[0], by_steps)


def _in_groups(to: _Writer, size: int, x: str, write: Callable[[str], str]) -> str:
    """Write an operator over groups of so many columns."""
    return write(x) if to.width == size else to.reshaped(write(to.reshaped(x, (to.width // size, size))), (to.width,))


def _function(to: _Writer, node: Node, sources: Sequence[str]) -> str:
    activation, (x,) = node.operation, sources
    assert isinstance(activation, Activation)
    if activation.name == "identity":
        return x
    write = _FUNCTIONS.get(activation.name)
    if write is not None:
        return write(to, activation, x)
    return to.operator(_OPERATORS[activation.name], [x], "activation")


def _leaky_relu(to: _Writer, activation: Activation, x: str) -> str:
    if float(np.float32(activation.slope)) == activation.slope:
        return to.operator("LeakyRelu", [x], "activation", alpha=activation.slope)
    # LeakyRelu's alpha is a float32 whatever the tensors are; PRelu's slope is a tensor.
    return to.operator("PRelu", [x, to.constant(f"{to.prefix}/slope", [activation.slope])], "activation")


def _with_attributes(operator: str, *names: str) -> Callable[[_Writer, Activation, str], str]:
    def write(to: _Writer, activation: Activation, x: str) -> str:
        given = dict(zip(names, activation.parameters, strict=True))
        if any(float(np.float32(value)) != value for value in given.values()):
            raise FairmendError(f"{activation} has a number that ONNX's {operator} would round to float32")
        return to.operator(operator, [x], "activation", **given)

    return write


def _softplus(to: _Writer, activation: Activation, x: str) -> str:
    (beta,) = activation.parameters
    if beta == 1:
        return to.operator("Softplus", [x], "activation")
    raise FairmendError(f"{activation} cannot be written to ONNX, whose Softplus has beta 1")


def _hardswish(to: _Writer, activation: Activation, x: str) -> str:
    if to.dtype == np.float32:
        return to.operator("HardSwish", [x], "activation")
    # HardSwish has 1/6 in float32 whatever the tensors are.
    inside = to.operator("Clip", [to.operator("Add", [x, to.number(3.0)]), to.number(0.0), to.number(6.0)])
    return to.operator("Div", [to.operator("Mul", [x, inside]), to.number(6.0)], "activation")


def _gelu(to: _Writer, activation: Activation, x: str) -> str:
    if activation.name == "gelu":
        inner = to.operator("Erf", [to.operator("Mul", [x, to.number(math.sqrt(0.5))])])
    else:
        cube = to.operator("Mul", [to.operator("Mul", [to.operator("Mul", [x, x]), x]), to.number(0.044715)])
        inside = to.operator("Mul", [to.operator("Add", [x, cube]), to.number(math.sqrt(2 / math.pi))])
        inner = to.operator("Tanh", [inside])
    half = to.operator("Mul", [x, to.operator("Add", [inner, to.number(1.0)])])
    return to.operator("Mul", [half, to.number(0.5)], "activation")


_FUNCTIONS: dict[str, Callable[[_Writer, Activation, str], str]] = {
    "leaky_relu": _leaky_relu,
    "prelu": lambda to, f, x: to.operator("PRelu", [x, to.constant(f"{to.prefix}/slope", f.parameters)], "activation"),
    "clip": lambda to, f, x: to.operator("Clip", [x, *map(to.number, f.parameters)], "activation"),
    "hardswish": _hardswish,
    "elu": _with_attributes("Elu", "alpha"),
    "celu": _with_attributes("Celu", "alpha"),
    "hardsigmoid": _with_attributes("HardSigmoid", "alpha", "beta"),
    "softplus": _softplus,
    "silu": lambda to, f, x: to.operator("Mul", [x, to.operator("Sigmoid", [x])], "activation"),
    "mish": lambda to, f, x: to.operator("Mul", [x, to.operator("Tanh", [to.operator("Softplus", [x])])], "activation"),
    "gelu": _gelu,
    "gelu_tanh": _gelu,
    "square": lambda to, f, x: to.operator("Mul", [x, x], "activation"),
    "rsqrt": lambda to, f, x: to.operator("Pow", [x, to.number(-0.5)], "activation"),
}
_WRITERS: dict[type, Callable[[_Writer, Node, Sequence[str]], str]] = {
    Affine: _affine,
    Activation: _function,
    Scale: _scale,
    Sum: lambda to, node, sources: to.operator("Add" if len(sources) == 2 else "Sum", sources),  # the checker reads one
    Concatenate: lambda to, node, sources: to.operator("Concat", sources, axis=1),
    Columns: _columns,
    Lookup: _lookup,
    Product: _product,
    Softmax: _softmax,
    Normalise: _normalise,
}
