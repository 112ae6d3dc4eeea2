"""Convert ONNX operators to steps of a chain: one small function per operator, in the table `_OPERATORS`.

To support an operator, add a function and a line in `_OPERATORS`; for an activation, add it to `_ACTIVATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Activation
from fairmend.network.formats.chain import Collapse, Linear, Nonlinear, Norm, Softmax, Step, scaling, unsupported
from fairmend.network.formats.onnx.graph import Graph, LayerNodes, Node, attributes, describe_node

_ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid"}


def convert_graph(graph: Graph) -> list[Step]:
    """Return the chain of the graph, operator by operator; `graph.layers` names the nodes of its affine layers."""
    steps: list[Step] = []
    for node in graph.chain():
        operators = _OPERATORS if node.domain in ("", "ai.onnx") else _ML_OPERATORS if node.domain == _ML else {}
        convert = operators.get(node.op_type)
        if convert is None:
            raise unsupported(graph.source, describe_node(node), "is not supported")
        convert(node, graph, steps)
    return steps


def _constant(node: Node, position: int, graph: Graph) -> npt.NDArray[Any] | None:
    """Return the constant at an input; None where the optional input is absent."""
    if len(node.input) <= position or not node.input[position]:
        return None
    value = graph.constant(node.input[position])
    if value is None:
        raise unsupported(
            graph.source, describe_node(node), f"has input {position} ({node.input[position]!r}) that is not constant"
        )
    return value


def _required(node: Node, position: int, graph: Graph) -> npt.NDArray[Any]:
    value = _constant(node, position, graph)
    if value is None:
        raise unsupported(graph.source, describe_node(node), f"lacks input {position}")
    return value


def _linear(node: Node, position: int, weight: npt.NDArray[Any], bias: npt.NDArray[Any] | None, graph: Graph) -> Linear:
    if weight.ndim != 2:
        raise unsupported(
            graph.source, describe_node(node), f"multiplies by a constant of shape {weight.shape}, not a matrix"
        )
    full = None if bias is None else _row(node, bias, weight.shape[0], graph)
    name, dot, part = node.input[position].rpartition(".")
    return Linear(describe_node(node), weight, full, name if part == "weight" and (dot or not name) else None)


def _row(node: Node, bias: npt.NDArray[Any], width: int, graph: Graph) -> npt.NDArray[Any]:
    """Return a bias, which may be (width,), (1, width) or one number in ONNX, as (width,)."""
    if bias.size not in (1, width) or bias.ndim > 2 or (bias.ndim and bias.shape[-1] != bias.size):
        raise unsupported(
            graph.source, describe_node(node), f"adds a constant of shape {bias.shape} to {width} outputs"
        )
    return np.broadcast_to(bias.reshape(-1), (width,))


def _gemm(node: Node, graph: Graph, steps: list[Step]) -> None:
    given = attributes(node)
    if given.get("transA", 0):
        raise unsupported(graph.source, describe_node(node), "has transA=1")
    weight, bias = _required(node, 1, graph), _constant(node, 2, graph)
    weight = weight if given.get("transB", 0) else weight.T
    alpha, beta = given.get("alpha", 1.0), given.get("beta", 1.0)
    biased = node.output[0] if bias is not None else None
    graph.layers.append(LayerNodes(node.output[0], bool(given.get("transB", 0)), biased))
    if alpha == beta == 1.0:
        steps.append(_linear(node, 1, weight, bias, graph))
        return
    steps.append(_linear(node, 1, weight, None, graph))  # a runtime rounds the product with alpha on its own
    shift = 0.0 if bias is None else _row(node, bias, len(weight), graph).astype(np.float64) * beta
    steps.append(scaling(describe_node(node), alpha, shift))


def _matmul(node: Node, graph: Graph, steps: list[Step]) -> None:
    graph.layers.append(LayerNodes(node.output[0], False, None))
    steps.append(_linear(node, 1, _required(node, 1, graph).T, None, graph))


def _add(node: Node, graph: Graph, steps: list[Step]) -> None:
    """Read an Add as the bias of the MatMul before it; elsewhere as a shift."""
    position = _constant_side(node, graph)
    last = steps[-1] if steps else None
    if not isinstance(last, Linear) or last.bias is not None:
        steps.append(scaling(describe_node(node), 1.0, _per_column(node, position, graph)))
        return
    bias = _row(node, _required(node, position, graph), last.weight.shape[0], graph)
    graph.layers[-1] = replace(graph.layers[-1], bias_node=node.output[0], bias_position=position)
    steps[-1] = Linear(last.where, last.weight, bias, last.name or _prefix(node.input[position]))


def _sub(node: Node, graph: Graph, steps: list[Step]) -> None:
    steps.append(scaling(describe_node(node), 1.0, -_per_column(node, 1, graph)))


def _mul(node: Node, graph: Graph, steps: list[Step]) -> None:
    steps.append(scaling(describe_node(node), _per_column(node, _constant_side(node, graph), graph), 0.0))


def _div(node: Node, graph: Graph, steps: list[Step]) -> None:
    divisor = _per_column(node, 1, graph)
    if not divisor.all():
        raise unsupported(graph.source, describe_node(node), "divides by 0")
    steps.append(scaling(describe_node(node), 1 / divisor, 0.0))


def _scaler(node: Node, graph: Graph, steps: list[Step]) -> None:
    """Read (x − offset)·scale, which skl2onnx makes of scikit-learn's scalers; the result is always float32."""
    given = attributes(node)
    if graph.dtype != np.float32 or not {"offset", "scale"} <= given.keys():
        raise unsupported(graph.source, describe_node(node), "gives float32, or lacks its numbers")
    offset, gain = (np.array(given[key], np.float64) for key in ("offset", "scale"))
    offset, gain = (part.reshape(()) if part.size == 1 else part for part in (offset, gain))
    steps.append(scaling(describe_node(node), gain, 0.0, offset))


def _constant_side(node: Node, graph: Graph) -> int:
    return 1 if graph.constant(node.input[0]) is None else 0


def _per_column(node: Node, position: int, graph: Graph) -> npt.NDArray[np.float64]:
    """Return a constant that ONNX broadcasts over rows: one number, or (width,)."""
    value = _required(node, position, graph)
    if value.dtype != graph.dtype or value.ndim > 2 or (value.size != 1 and value.shape[-1] != value.size):
        raise unsupported(graph.source, describe_node(node), f"combines rows with a constant of shape {value.shape}")
    return value.astype(np.float64).reshape(() if value.size == 1 else -1)


def _prefix(name: str) -> str | None:
    """Return the layer's name from its bias: PyTorch names the bias of an exported MatMul, not its weight."""
    return name.removesuffix(".bias") if name.endswith(".bias") else None


def _activation(node: Node, graph: Graph, steps: list[Step]) -> None:
    steps.append(Nonlinear(describe_node(node), Activation(_ACTIVATIONS[node.op_type])))


def _leaky_relu(node: Node, graph: Graph, steps: list[Step]) -> None:
    _leaky(node, float(attributes(node).get("alpha", np.float32(0.01))), graph, steps)


def _prelu(node: Node, graph: Graph, steps: list[Step]) -> None:
    slopes = np.unique(_required(node, 1, graph))
    if len(slopes) != 1:
        raise unsupported(graph.source, describe_node(node), "has different slopes for different units")
    _leaky(node, float(slopes[0]), graph, steps)


def _leaky(node: Node, slope: float, graph: Graph, steps: list[Step]) -> None:
    try:
        steps.append(Nonlinear(describe_node(node), Activation("leaky_relu", slope)))
    except FairmendError as error:
        raise unsupported(graph.source, describe_node(node), f"is not supported: {error}") from error


def _softmax(node: Node, graph: Graph, steps: list[Step]) -> None:
    if attributes(node).get("axis", -1) not in (1, -1):
        raise unsupported(graph.source, describe_node(node), "is not over the last axis")
    steps.append(Softmax(describe_node(node)))


def _batch_norm(node: Node, graph: Graph, steps: list[Step]) -> None:
    given = attributes(node)
    if given.get("training_mode", 0) or len(node.output) > 1:
        raise unsupported(graph.source, describe_node(node), "is in training mode")
    gain, shift, mean, variance = (_required(node, position, graph) for position in (1, 2, 3, 4))
    epsilon = float(given.get("epsilon", np.float32(1e-5)))
    steps.append(Norm(describe_node(node), mean, variance, gain, shift, epsilon, node.output[0]))


def _dropout(node: Node, graph: Graph, steps: list[Step]) -> None:
    training = _constant(node, 2, graph)
    if training is not None and training.any():
        raise unsupported(graph.source, describe_node(node), "is in training mode")


def _identity(node: Node, graph: Graph, steps: list[Step]) -> None:
    pass


def _cast(node: Node, graph: Graph, steps: list[Step]) -> None:
    if attributes(node)["to"] != graph.element:
        raise unsupported(graph.source, describe_node(node), f"casts to something other than the input's {graph.dtype}")


def _flatten(node: Node, graph: Graph, steps: list[Step]) -> None:
    if attributes(node).get("axis", 1) not in (1, -1):
        raise unsupported(graph.source, describe_node(node), "is not from axis 1")


def _squeeze(node: Node, graph: Graph, steps: list[Step]) -> None:
    given = _constant(node, 1, graph)
    axes = attributes(node).get("axes") if given is None else given.reshape(-1).tolist()
    if axes and list(axes) not in ([1], [-1]):
        raise unsupported(graph.source, describe_node(node), f"is over the axes {list(axes)}, not 1")
    steps.append(Collapse(describe_node(node), single=not axes))


def _reshape(node: Node, graph: Graph, steps: list[Step]) -> None:
    """Read a reshape to (-1,), which drops the axis of outputs, or to (-1 or 0, width), which changes nothing."""
    shape = _required(node, 1, graph).reshape(-1).tolist()
    if shape == [-1]:
        steps.append(Collapse(describe_node(node), single=True))
        return
    linears = [step for step in steps if isinstance(step, Linear)]
    zero_is_zero = attributes(node).get("allowzero", 0) and 0 in shape
    if len(shape) != 2 or shape[0] not in (-1, 0) or shape == [-1, -1] or shape[1] == 0 or zero_is_zero:
        raise unsupported(graph.source, describe_node(node), f"to {shape} is not supported")
    if shape[1] == -1:
        return
    if not linears:
        graph.stated_widths.append(shape[1])
    elif shape[1] != linears[-1].weight.shape[0]:
        raise unsupported(
            graph.source, describe_node(node), f"to {shape} mixes rows of {linears[-1].weight.shape[0]} numbers"
        )


_OPERATORS: dict[str, Callable[[Node, Graph, list[Step]], None]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    **dict.fromkeys(_ACTIVATIONS, _activation),
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "Softmax": _softmax,
    "BatchNormalization": _batch_norm,
    "Dropout": _dropout,
    "Identity": _identity,
    "Cast": _cast,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
}
_ML = "ai.onnx.ml"
_ML_OPERATORS = {"Scaler": _scaler}
