"""The decision after a classifier's probabilities, as skl2onnx writes it: the label of the largest probability.

Every node is known by what it reads, so that labels and probabilities depend on the logits of the model alone, and
equal classes have equal labels. The claim is about the sign of a single logit, and its margin keeps p away from 0.5
(docs/certificate.md, rule 3). Rounding 1 - p cannot undo that, because 0.5 is a float: 1 - p is rounded to at most 0.5
if p > 0.5, and to at least 0.5 if p < 0.5. So ArgMax gives the claimed class, and never has to choose between equals.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Model
from fairmend_check.readers.onnx_nodes import Node
from fairmend_check.readers.protobuf import Message

ValueType = tuple[int, list[int]] | Message  # elements and columns of a tensor with one row per person, or a message

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
        "1 - p": (element, [1]),
        "probabilities": (element, [classes]),
        "map": {"sequence_type": {"elem_type": {"map_type": map_type}}},
        "numbers": (ELEMENTS["int64"], [1]),
        "labels": (label, []),
        "int64 labels": (ELEMENTS["int64"], []),
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
