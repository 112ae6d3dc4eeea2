"""The outputs of converted classifiers: a label, a map of probabilities, the column 1 − p beside p.

skl2onnx gives an MLPClassifier two outputs, label and probabilities. fairmend reads the network that computes the
probabilities. The label must be the largest of them, because that is fairmend's decision rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onnx import TensorProto

from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    from fairmend.network.formats.onnx.graph import Graph, Node

_LABELS = (TensorProto.INT64, TensorProto.STRING)
_KEEP_VALUES = ("Cast", "Reshape", "Identity", "ArrayFeatureExtractor")
_ML = "ai.onnx.ml"
_INSTEAD = "convert it with one output of scores, or with skl2onnx's options={'zipmap': False}"
_LINEAR = (
    "a linear model in one node. Give the estimator itself; in Python: "
    'fairmend.load_network(estimator).save("model.onnx")'
)
_OTHER = "not a neural network; fairmend reads neural networks, such as scikit-learn's MLPClassifier"


def find_scores(graph: Graph, outputs: Sequence[Any]) -> tuple[str, bool]:
    """Return the name of the value that the network computes: the one output, or the probabilities beside a label.

    And whether a label is the largest of this very value, which must then have a number for each class.
    """
    labels = [value for value in outputs if value.type.tensor_type.elem_type in _LABELS]
    others = [value for value in outputs if value not in labels]
    if len(labels) > 1 or len(others) != 1:
        raise FairmendError(f"{graph.source}: the graph has {len(outputs)} outputs; {_INSTEAD}")
    given = _before(graph, others[0].name, ("Identity", "ZipMap"))
    for label in labels:
        chosen = graph.producer(_before(graph, label.name, _KEEP_VALUES))
        _refuse_other_models(graph, chosen)
        largest = chosen if chosen is not None and chosen.op_type == "ArgMax" else None
        of = None if largest is None else _before(graph, largest.input[0], ("Identity",))
        if of != given or _attribute(largest, "axis", 0) not in (1, -1):
            raise FairmendError(
                f"{graph.source}: the output {label.name!r} is not the class of the largest score; "
                "convert the model with one output of scores"
            )
    scores = _second_of_two(graph, given)
    return scores, bool(labels) and scores == given


def _refuse_other_models(graph: Graph, node: Node | None) -> None:
    """Refuse a classifier that is one node: a linear model, a tree ensemble, a support vector machine."""
    if node is not None and node.domain == _ML and node.op_type.endswith("Classifier"):
        what = _LINEAR if node.op_type == "LinearClassifier" else _OTHER
        raise FairmendError(f"{graph.source}: node {(node.name or node.op_type)!r} ({node.op_type}) is {what}")


def _before(graph: Graph, value: str, passing: Sequence[str]) -> str:
    """Return the value before the nodes that only pass it on or rename it."""
    node = graph.producer(value)
    while node is not None and node.op_type in passing:
        # An ArrayFeatureExtractor picks from a constant, the classes, by its second input.
        data = [name for name in node.input if name and graph.constant(name) is None]
        if len(data) != 1:
            break
        value = data[0]
        node = graph.producer(value)
    return value


def _second_of_two(graph: Graph, value: str) -> str:
    """Return p if the value is the row (1 − p, p) of a binary classifier; else the value."""
    node = graph.producer(value)
    if node is None or node.op_type != "Concat" or len(node.input) != 2 or _attribute(node, "axis", 0) not in (1, -1):
        return value
    rest, second = node.input
    difference = graph.producer(rest)
    if difference is None or difference.op_type != "Sub" or list(difference.input[1:]) != [second]:
        return value
    one = graph.constant(difference.input[0])
    if one is None or one.size != 1 or not (one == 1).all():
        return value
    # Only of a probability is the label p > 0.5 the sign of a logit.
    source = graph.producer(_before(graph, second, ("Cast", "Reshape", "Identity")))
    return second if source is not None and source.op_type == "Sigmoid" else value


def _attribute(node: Node, name: str, default: int) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), default)
