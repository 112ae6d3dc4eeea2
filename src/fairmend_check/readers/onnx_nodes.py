"""Nodes of ONNX graphs: operators that are known, functions of several nodes, and the decision after a classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Activation, Model
from fairmend_check.readers.axes import Dims, Rows
from fairmend_check.readers.protobuf import Message

if TYPE_CHECKING:
    from fairmend_check.readers.onnx_graph import OnnxGraph


ML = "ai.onnx.ml"  # the domain of operators for classical machine learning
# Of each type: the field with the value, and the Python type of a default.
_ATTRIBUTE_TYPES = {
    1: ("f", float), 2: ("i", int), 3: ("s", str), 4: ("t", dict),
    6: ("floats", tuple), 7: ("ints", list), 8: ("strings", list),
}  # fmt: skip
# Operators: how many inputs they may have, and their attributes with the values that count if a file does not set them.
_MANY = tuple(range(1, 1001))
_INFINITY = float("inf")
_OPERATORS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    **dict.fromkeys((
        "Abs", "Cos", "Erf", "Exp", "HardSwish", "Identity", "IsNaN", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu",
        "Sigmoid", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh",
    ), ((1,), {})),
    **dict.fromkeys((
        "Add", "ArrayFeatureExtractor", "Div", "Equal", "Expand", "Greater", "MatMul", "Mul", "PRelu", "Pow",
        "Sub", "Tile",
    ), ((2,), {})),
    **dict.fromkeys((
        "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
        "ReduceSum", "ReduceSumSquare",
    ), ((1, 2), {"axes": [], "keepdims": 1, "noop_with_empty_axes": 0})),
    **dict.fromkeys(("Celu", "Elu"), ((1,), {"alpha": 1.0})),
    **dict.fromkeys(("LogSoftmax", "Softmax"), ((1,), {"axis": -1})),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), (_MANY, {})),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), ((1, 2), {"axes": []})),
    "ArgMax": ((1,), {"axis": 0, "keepdims": 1, "select_last_index": 0}),
    "BatchNormalization": (
        (5,),
        {"epsilon": float(np.float32(1e-5)), "momentum": float(np.float32(0.9)), "training_mode": 0},
    ),
    "Cast": ((1,), {"to": 0}),
    "Clip": ((1, 2, 3), {"min": -_INFINITY, "max": _INFINITY}),
    "Concat": (_MANY, {"axis": 0}),
    "Constant": ((0,), {"value": {}, "value_float": 0.0, "value_floats": (), "value_int": 0, "value_ints": []}),
    "Dropout": ((1, 2, 3), {"ratio": 0.5, "seed": 0}),
    "ConstantOfShape": ((1,), {"value": {}}),
    "Einsum": ((2, 3), {"equation": ""}),
    "Flatten": ((1,), {"axis": 1}),
    "Gather": ((2,), {"axis": 0}),
    "GatherND": ((2,), {"batch_dims": 0}),
    "Gelu": ((1,), {"approximate": "none"}),
    "Gemm": ((2, 3), {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}),
    "GroupNormalization": ((3,), {"epsilon": float(np.float32(1e-5)), "num_groups": 0, "stash_type": 1}),
    "HardSigmoid": ((1,), {"alpha": float(np.float32(0.2)), "beta": 0.5}),
    "InstanceNormalization": ((3,), {"epsilon": float(np.float32(1e-5))}),
    "LayerNormalization": ((2, 3), {"axis": -1, "epsilon": float(np.float32(1e-5)), "stash_type": 1}),
    "LeakyRelu": ((1,), {"alpha": float(np.float32(0.01))}),
    "Mod": ((2,), {"fmod": 0}),
    "OneHot": ((3,), {"axis": -1}),
    "RMSNormalization": ((2,), {"axis": -1, "epsilon": float(np.float32(1e-5)), "stash_type": 1}),
    "Reshape": ((2,), {"allowzero": 0}),
    "Scaler": ((1,), {"offset": (), "scale": ()}),
    "Selu": ((1,), {"alpha": float(np.float32(1.6732631921768188)), "gamma": float(np.float32(1.0507010221481323))}),
    "Shape": ((1,), {"start": 0, "end": 0}),
    "Slice": ((3, 4, 5), {}),
    "Split": ((1, 2), {"axis": 0, "num_outputs": 0}),
    "Transpose": ((1,), {"perm": []}),
    "Trilu": ((1, 2), {"upper": 1}),
    "Where": ((3,), {}),
    "ZipMap": ((1,), {"classlabels_int64s": [], "classlabels_strings": []}),
}  # fmt: skip
_DOMAINS = {"ArrayFeatureExtractor": ML, "Scaler": ML, "ZipMap": ML}  # of all other operators: ""


@dataclass(frozen=True)
class Node:
    """One node, with the values of all its attributes; ``given`` are those that the file sets.

    ``output`` is the first of its ``outputs``; only Split has several.
    """

    kind: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any]
    given: frozenset[str]
    outputs: tuple[str, ...] = ()

    def expect(self, name: str, *allowed: float) -> None:
        """Refuse an attribute that has none of the allowed values."""
        if self.attributes[name] not in allowed:
            raise CheckError(f"node {self.kind} has {name} = {self.attributes[name]:g}, which cannot be checked")


def read_node(message: Message) -> Node:
    """Return a node, if its operator is known and has inputs and attributes of the known kinds."""
    kind, inputs, outputs = message.get("op_type", ""), message.get("input", []), message.get("output", [])
    if kind not in _OPERATORS or message.get("domain", "") != _DOMAINS.get(kind, ""):
        raise CheckError(f"node {kind[:40]!r} cannot be checked")
    counts, attributes = _OPERATORS[kind]
    if len(outputs) < 1 or (len(outputs) > 1 and kind != "Split") or len(inputs) not in counts:
        raise CheckError(f"node {kind} has {len(inputs)} inputs and {len(outputs)} outputs")
    given: dict[str, Any] = {}
    for attribute in message.get("attribute", []):
        name = attribute.get("name", "")
        field, kind_of_value = _ATTRIBUTE_TYPES.get(attribute.get("type", 0), ("", None))
        fields = set(attribute) - {"doc_string"}
        if type(attributes.get(name)) is not kind_of_value or fields != {"name", "type", field} or name in given:
            raise CheckError(f"node {kind} has the attribute {name[:40]!r}, which cannot be checked")
        value = attribute[field]
        given[name] = tuple(value) if kind_of_value is tuple else value
    return Node(kind, inputs, outputs[0], {**attributes, **given}, frozenset(given), tuple(outputs))


# Functions that exporters write as several ONNX nodes: SiLU as x · sigmoid(x), GELU with Erf, and so on.
#
# The constants in them must be the right ones up to rounding in the type of the model: the error bounds of these
# functions cover that (docs/certificate.md).

_MAX_FACTORS = 8
_LINEAR = 20.0  # from here on, the bound of softplus's error covers the identity


def find_function(node: Node, graph: OnnxGraph) -> tuple[str, Activation] | None:
    """Return the name of x, and f, if the node computes f(x) together with nodes before it."""
    if node.kind == "Where":
        return _softplus(node, graph)
    if node.kind not in ("Mul", "Div"):
        return None
    plus = _sum_with_number(node.inputs[1], graph) if node.kind == "Div" else None
    if plus is not None and plus[1] == 1 and read_by(plus[0], "Abs", graph) == node.inputs[0]:
        return node.inputs[0], Activation("softsign")
    for x in _values_in(node.output, graph):
        scale, factors = _product(node.output, graph, x)
        if len(factors) == 2 and x in factors:
            name = _gate(scale, x, factors[1] if factors[0] == x else factors[0], graph)
            if name:
                return x, Activation(name)
    return None


def find_normalisation(node: Node, graph: OnnxGraph) -> tuple[str, float, bool] | None:
    """Return the name of x, ε and whether x is centred, if nodes compute x / sqrt(mean(x²) + ε) along the last axis.

    Exporters write layer normalisation so, and runtimes fuse it. Centred is x - mean(x).
    """
    pairs = [tuple(node.inputs)]
    if node.kind == "Mul":
        pairs = [(one, read_by(other, "Reciprocal", graph) or "") for one, other in (node.inputs, node.inputs[::-1])]
    for apart, below in pairs if node.kind in ("Mul", "Div") else ():
        spread = spread_of(below, graph)
        if spread is not None and spread[0] == apart:
            centred = centred_of(apart, graph)
            return (apart, spread[1], False) if centred is None else (centred, spread[1], True)
    return None


def spread_of(name: str, graph: OnnxGraph) -> tuple[str, float] | None:
    """Return x and ε if a value is sqrt(mean(x²) + ε), with the mean along the last axis."""
    inside = read_by(name, "Sqrt", graph)
    plus = _sum_with_number(inside, graph) if inside else None
    squares = _mean_along_last(plus[0], graph) if plus else None
    square = graph.nodes.get(squares) if squares else None
    if plus is None or square is None:
        return None
    power = square.kind == "Pow" and graph.number(square.inputs[1]) == 2
    product = square.kind == "Mul" and square.inputs[0] == square.inputs[1]
    return (square.inputs[0], plus[1]) if power or product else None


def centred_of(name: str, graph: OnnxGraph) -> str | None:
    """Return x if a value is x - mean(x), with the mean along the last axis."""
    node = graph.nodes.get(name)
    if node is None or node.kind != "Sub" or _mean_along_last(node.inputs[1], graph) != node.inputs[0]:
        return None
    return node.inputs[0]


def _mean_along_last(name: str, graph: OnnxGraph) -> str | None:
    """Return what a node averages along its last axis, which stays."""
    node = graph.nodes.get(name)
    if node is None or node.kind != "ReduceMean" or node.attributes["keepdims"] != 1:
        return None
    listed = graph.tensors.get(node.inputs[1]) if len(node.inputs) == 2 else np.array(node.attributes["axes"])
    entry = graph.entries.get(node.inputs[0])
    if listed is None or isinstance(entry, CheckError | None):
        return None
    return node.inputs[0] if listed.reshape(-1).tolist() in ([-1], [entry.axes - 1]) else None


def _values_in(name: str, graph: OnnxGraph) -> list[str]:
    """Return the first values that are multiplied into a product, from its end on: x may be a product itself."""
    found, waiting = list[str](), [name]
    while waiting and len(found) < _MAX_FACTORS:
        node = graph.nodes.get(waiting.pop(0))
        if node is not None and node.kind in ("Mul", "Div"):
            new = dict.fromkeys(each for each in node.inputs if graph.number(each) is None and each not in found)
            found += new
            waiting += new
    return found


def _softplus(node: Node, graph: OnnxGraph) -> tuple[str, Activation] | None:
    """Find softplus as PyTorch computes it: x where x is above 20, or above more, and softplus elsewhere."""
    condition, x, other = node.inputs
    greater = graph.nodes.get(condition)
    if greater is None or greater.kind != "Greater" or greater.inputs[0] != x or read_by(other, "Softplus", graph) != x:
        return None
    limit = graph.number(greater.inputs[1])
    return (x, Activation("softplus", 0.0, (1.0,))) if limit is not None and limit >= _LINEAR else None


def _gate(scale: float, x: str, other: str, graph: OnnxGraph) -> str:
    """Return the function scale · x · other, where other is computed from x; "" if it is none of those known."""
    if scale == 1 and read_by(other, "Sigmoid", graph) == x:
        return "silu"
    softplus = read_by(other, "Tanh", graph)
    if scale == 1 and softplus is not None and read_by(softplus, "Softplus", graph) == x:
        return "mish"
    if _is_hardswish(scale, x, other, graph):
        return "hardswish"
    plus = _sum_with_number(other, graph)
    if plus is None or plus[1] != 1 or scale != 0.5:
        return ""
    inner = read_by(plus[0], "Erf", graph)
    if inner is not None:
        factor, rest = _product(inner, graph, x)
        return "gelu" if rest == [x] and are_equal(factor, math.sqrt(0.5), graph) else ""
    inner = read_by(plus[0], "Tanh", graph)
    return "gelu_tanh" if inner is not None and _is_cubic(inner, x, graph) else ""


def _is_hardswish(scale: float, x: str, other: str, graph: OnnxGraph) -> bool:
    node = graph.nodes.get(other)
    if node is None:
        return False
    if node.kind == "HardSigmoid" and scale == 1 and node.inputs[0] == x:
        given = node.attributes["beta"] == 0.5 and node.attributes["alpha"] == float(np.float32(1 / 6))
        return bool(given and graph.element == ELEMENTS["float32"])
    if node.kind != "Clip" or len(node.inputs) != 3 or not are_equal(scale, 1 / 6, graph):
        return False
    limits = [graph.number(name) for name in node.inputs[1:]]
    return limits == [0, 6] and _sum_with_number(node.inputs[0], graph) == (x, 3.0)


def _is_cubic(name: str, x: str, graph: OnnxGraph) -> bool:
    """Return whether a value is √(2/π) (x + 0.044715 x³)."""
    factor, rest = _product(name, graph, x)
    node = graph.nodes.get(rest[0]) if len(rest) == 1 else None
    if (
        node is None
        or node.kind != "Add"
        or x not in node.inputs
        or not are_equal(factor, math.sqrt(2 / math.pi), graph)
    ):
        return False
    small, cube = _product(node.inputs[1] if node.inputs[0] == x else node.inputs[0], graph, x)
    power = graph.nodes.get(cube[0]) if len(cube) == 1 else None
    is_power = power is not None and power.kind == "Pow" and power.inputs[0] == x and graph.number(power.inputs[1]) == 3
    return are_equal(small, 0.044715, graph) and (cube == [x, x, x] or is_power)


def _product(name: str, graph: OnnxGraph, x: str) -> tuple[float, list[str]]:
    """Return a value as a number times factors; x, and one that no Mul or Div computes, is its own factor.

    The number is nan if there is more than one: 2^-149 times 2^148 is 0.5, but rounds x to whole numbers on the way.
    """
    number, factors, waiting, seen = 1.0, list[str](), [name], 0
    while waiting:
        value = waiting.pop(0)
        node = graph.nodes.get(value)
        many = len(factors) + len(waiting) > _MAX_FACTORS
        if node is None or node.kind not in ("Mul", "Div") or many or value == x:
            factors.append(value)
            continue
        numbers = [graph.number(each) for each in node.inputs]
        if node.kind == "Div":
            if numbers[1] is None or numbers[1] == 0 or numbers[0] is not None:
                factors.append(value)
                continue
            number, seen = number / numbers[1], seen + 1
            waiting.insert(0, node.inputs[0])
            continue
        for constant in numbers:
            if constant is not None:
                number, seen = number * constant, seen + 1
        waiting[:0] = [each for each, constant in zip(node.inputs, numbers, strict=True) if constant is None]
    return number if seen < 2 else math.nan, factors


def _sum_with_number(name: str, graph: OnnxGraph) -> tuple[str, float] | None:
    """Return a value and a number that a node adds up."""
    node = graph.nodes.get(name)
    if node is None or node.kind != "Add":
        return None
    for value, number in (node.inputs, node.inputs[::-1]):
        constant = graph.number(number)
        if constant is not None:
            return value, constant
    return None


def read_by(name: str, kind: str, graph: OnnxGraph) -> str | None:
    """Return what the node of this kind reads that computes a value."""
    node = graph.nodes.get(name)
    return node.inputs[0] if node is not None and node.kind == kind else None


def are_equal(number: float, exact: float, graph: OnnxGraph) -> bool:
    """Return whether two numbers are equal up to rounding in the type of the model."""
    unit = 2.0**-24 if graph.element == ELEMENTS["float32"] else 2.0**-53
    return abs(number - exact) <= 4 * unit * exact


# The decision after a classifier's probabilities, as skl2onnx writes it: the label of the largest probability.
#
# Every node is known by what it reads, so that labels and probabilities depend on the logits of the model alone, and
# equal classes have equal labels. The claim is about the sign of a single logit, and its margin keeps p away from 0.5
# (docs/certificate.md, rule 3). Rounding 1 - p cannot undo that, because 0.5 is a float: 1 - p is rounded to at most
# 0.5 if p > 0.5, and to at least 0.5 if p < 0.5. So ArgMax gives the claimed class, and never chooses between equals.

ValueType = tuple[int, Dims | None] | Message  # elements and axes of a tensor, if these are known, or a message

ELEMENTS = {
    "float32": 1,
    "int32": 6,
    "int64": 7,
    "object": 8,
    "bool": 9,
    "float64": 11,
}  # types of tensors; object: texts
# What a node computes, by its operator and by what it reads. Each may occur once.
_STEPS: dict[tuple[str, ...], str] = {
    ("Sub", "one", "p"): "1 - p",
    ("Concat", "1 - p", "p"): "probabilities",
    ("ZipMap", "probabilities"): "map",
    ("ArgMax", "probabilities"): "numbers",
    ("ArrayFeatureExtractor", "classes", "numbers"): "row of labels",
    ("Reshape", "row of labels", "[-1]"): "labels",
    ("Identity", "labels"): "labels",
    ("Cast", "labels"): "int64 labels",
    ("Cast", "int64 labels"): "int64 labels",
    ("Identity", "int64 labels"): "int64 labels",
}
_LABELS = ("labels", "int64 labels")
_ATTRIBUTES = {
    "ArgMax": {"axis": 1, "keepdims": 1, "select_last_index": 0},
    "Cast": {"to": ELEMENTS["int64"]},
    "Concat": {"axis": 1},
}


def decision_nodes(nodes: list[Node]) -> set[str]:
    """Return the outputs of the nodes that decide: ArgMax and ZipMap, what comes after, and (1 - p, p) before them."""
    made = {node.output: node for node in nodes}
    found: set[str] = set()
    for node in nodes:
        if node.kind in ("ArgMax", "ZipMap") or found & set(node.inputs):
            found.add(node.output)
    for node in nodes:
        row = made.get(node.inputs[0]) if node.kind in ("ArgMax", "ZipMap") else None
        rest = made.get(row.inputs[0]) if row is not None and row.kind == "Concat" and len(row.inputs) == 2 else None
        if row is not None and rest is not None and rest.kind == "Sub" and rest.inputs[1] == row.inputs[1]:
            found |= {row.output, rest.output}
    return found


def decision_source(nodes: list[Node], decision: set[str]) -> str:
    """Return the one value that the nodes that decide read, constants aside: what the model computes."""
    made = {name for node in nodes for name in node.outputs if node.kind != "Constant"}
    read = {name for node in nodes if node.output in decision for name in node.inputs if name in made - decision}
    if len(read) != 1:
        raise CheckError("the label depends on several values of the model")
    return read.pop()


def read_decision(
    nodes: list[Node], outputs: list[str], tensors: dict[str, NDArray[Any]], probability: str, model: Model
) -> dict[str, ValueType]:
    """Return the types of what the nodes compute from the probability (of one logit) or probabilities of a model."""
    classes = max(model.outputs, 2)
    values = {name: _constant(tensor, classes, model.dtype) for name, tensor in tensors.items()}
    values[probability] = "probabilities" if model.outputs > 1 else "p"
    _follow(nodes, values)
    _check_outputs(nodes, outputs, values)
    by_kind = {node.kind: node for node in nodes}
    labels = tensors[by_kind["ArrayFeatureExtractor"].inputs[0]]
    _check_labels(labels, by_kind)
    element, label = ELEMENTS[model.dtype], ELEMENTS[labels.dtype.name]
    map_type = {"key_type": 8 if label == 8 else 7, "value_type": {"tensor_type": {"elem_type": 1}}}
    types: dict[str, ValueType] = {
        "1 - p": (element, (Rows(), 1)),
        "probabilities": (element, (Rows(), classes)),
        "map": {"sequence_type": {"elem_type": {"map_type": map_type}}},
        "numbers": (ELEMENTS["int64"], (Rows(), 1)),
        "labels": (label, (Rows(),)),
        "int64 labels": (ELEMENTS["int64"], (Rows(),)),
    }
    return {node.output: types[values[node.output]] for node in nodes if values[node.output] in types}


def _constant(tensor: NDArray[Any], classes: int, dtype: str) -> str:
    """Return what a constant can be used for."""
    kind = tensor.dtype.name
    if kind == dtype and tensor.shape in ((), (1,), (1, 1)) and tensor.reshape(()) == 1:
        return "one"
    if kind == "int64" and tensor.shape == (1,) and tensor[0] == -1:
        return "[-1]"
    whole = kind in ("int32", "int64", "object") and tensor.shape == (classes,)
    return "classes" if whole and len(set(tensor.tolist())) == classes else ""


def _follow(nodes: list[Node], values: dict[str, str]) -> None:
    """Add what each node computes to the known values."""
    steps = dict(_STEPS)
    for node in nodes:
        found = steps.pop((node.kind, *(values.get(name, "") for name in node.inputs)), "")
        if not found:
            raise CheckError(f"node {node.kind} cannot be checked at this place")
        for name, value in _ATTRIBUTES.get(node.kind, {}).items():
            node.expect(name, value)
        values[node.output] = found


def _check_outputs(nodes: list[Node], outputs: list[str], values: dict[str, str]) -> None:
    found = [values.get(name, "") for name in outputs]
    if found not in [[labels, scores] for labels in _LABELS for scores in ("probabilities", "map")]:
        raise CheckError("the outputs must be the labels of the largest probabilities, then the probabilities")
    if not {node.output for node in nodes} <= {*outputs, *(name for node in nodes for name in node.inputs)}:
        raise CheckError("a node computes a value that is not used")


def _check_labels(labels: NDArray[Any], nodes: dict[str, Node]) -> None:
    """Refuse texts that are cast to numbers, and a map whose keys are not the labels."""
    names, texts = labels.tolist(), labels.dtype.name == "object"
    if texts and "Cast" in nodes:
        raise CheckError("node Cast cannot be checked after labels that are texts")
    keys = {"classlabels_int64s": [] if texts else names, "classlabels_strings": names if texts else []}
    if "ZipMap" in nodes and nodes["ZipMap"].attributes != keys:
        raise CheckError("node ZipMap has other classes than the labels")
