"""The nodes of ONNX graphs: which operators this checker knows, with which inputs and attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.readers.protobuf import Message

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
    "Abs": ((1,), {}),
    "Add": ((2,), {}),
    "ArgMax": ((1,), {"axis": 0, "keepdims": 1, "select_last_index": 0}),
    "ArrayFeatureExtractor": ((2,), {}),
    "BatchNormalization": (
        (5,),
        {"epsilon": float(np.float32(1e-5)), "momentum": float(np.float32(0.9)), "training_mode": 0},
    ),
    "Cast": ((1,), {"to": 0}),
    "Celu": ((1,), {"alpha": 1.0}),
    "Clip": ((1, 2, 3), {"min": -_INFINITY, "max": _INFINITY}),
    "Concat": (_MANY, {"axis": 0}),
    "Constant": ((0,), {"value": {}, "value_float": 0.0, "value_floats": (), "value_int": 0, "value_ints": []}),
    "Div": ((2,), {}),
    "Dropout": ((1, 2, 3), {"ratio": 0.5, "seed": 0}),
    "Elu": ((1,), {"alpha": 1.0}),
    "Erf": ((1,), {}),
    "Flatten": ((1,), {"axis": 1}),
    "Gather": ((2,), {"axis": 0}),
    "Gelu": ((1,), {"approximate": "none"}),
    "Gemm": ((2, 3), {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}),
    "Greater": ((2,), {}),
    "HardSigmoid": ((1,), {"alpha": float(np.float32(0.2)), "beta": 0.5}),
    "HardSwish": ((1,), {}),
    "Identity": ((1,), {}),
    "LeakyRelu": ((1,), {"alpha": float(np.float32(0.01))}),
    "LogSoftmax": ((1,), {"axis": -1}),
    "MatMul": ((2,), {}),
    "Mean": (_MANY, {}),
    "Mish": ((1,), {}),
    "Mul": ((2,), {}),
    "Neg": ((1,), {}),
    "OneHot": ((3,), {"axis": -1}),
    "PRelu": ((2,), {}),
    "Pow": ((2,), {}),
    "ReduceMean": ((1, 2), {"axes": [], "keepdims": 1, "noop_with_empty_axes": 0}),
    "ReduceSum": ((1, 2), {"axes": [], "keepdims": 1, "noop_with_empty_axes": 0}),
    "Relu": ((1,), {}),
    "Reshape": ((2,), {"allowzero": 0}),
    "Scaler": ((1,), {"offset": (), "scale": ()}),
    "Selu": ((1,), {"alpha": float(np.float32(1.6732631921768188)), "gamma": float(np.float32(1.0507010221481323))}),
    "Sigmoid": ((1,), {}),
    "Slice": ((3, 4, 5), {}),
    "Softmax": ((1,), {"axis": -1}),
    "Softplus": ((1,), {}),
    "Softsign": ((1,), {}),
    "Split": ((2,), {"axis": 0}),
    "Squeeze": ((1, 2), {"axes": []}),
    "Sub": ((2,), {}),
    "Sum": (_MANY, {}),
    "Tanh": ((1,), {}),
    "Transpose": ((1,), {"perm": []}),
    "Unsqueeze": ((1, 2), {"axes": []}),
    "Where": ((3,), {}),
    "ZipMap": ((1,), {"classlabels_int64s": [], "classlabels_strings": []}),
}
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
