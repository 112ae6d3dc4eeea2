"""Write the average over the members of a class into an ONNX graph: the original runs once, on the rows of all members.

The entry comes first, as for any repair by classes. What follows reads canonical rows alone: it makes the rows of each
member, runs the original on all of them, and averages its scores with the weights of the members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx
from onnx import TensorProto, helper

from fairmend.base.errors import FairmendError
from fairmend.base.text import listed
from fairmend.models.averaging import LEAST_PROBABILITY, Average
from fairmend.models.entry import Entry
from fairmend.models.onnx_entry import NodeWriter, prepend, rename_uses, require_room_for, write_entry
from fairmend.models.onnx_weights import write_weights
from fairmend.models.ports import Port

_PLACE = "fairmend_average"
_OPSET, _OPSET_WITH_TEXT = 13, 19  # from which on an average can be written, and one that compares text


@dataclass(frozen=True)
class ScoredOutputs:
    """The outputs of a graph that hold scores and predicted labels.

    Attributes
    ----------
    score : the name of the value with scores, (rows,) or (rows, outputs); that a ZipMap reads, if there is one
    kind : "logit", "probability" or "number"
    columns : the number of scores for each row
    rank : 1 for scores (rows,), else 2
    label : the name of the output with predicted labels; None if there is none
    labels : the labels of the classes, texts or whole numbers, in the order of the scores
    reversed : whether the first of two scores, or the only one against its sign, is that of class 1
    """

    score: str
    kind: str
    columns: int
    rank: int = 2
    label: str | None = None
    labels: tuple[str | int, ...] = ()
    reversed: bool = False


def average_opset(average: Average, ports: Sequence[Port]) -> int:
    """Return the version of the default operators from which on an average can be written."""
    read = {name for port in ports if port.type == "string" for name in port.features}
    return _OPSET_WITH_TEXT if read & (set(average.weights.tables) | set(average.members.linked)) else _OPSET


def add_average(model: onnx.ModelProto, entry: Entry, average: Average, outputs: ScoredOutputs) -> onnx.ModelProto:
    """Return a copy of a model with an entry, whose scores are averaged; its inputs and outputs stay what they are."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    require_room_for(changed, entry)
    graph = changed.graph
    _require_averageable(changed, entry, outputs)
    element = _element_type(graph, outputs.score)
    del graph.value_info[:]  # the shapes inside are now those of more rows
    before = NodeWriter()
    canonical = write_entry(before, entry)
    weights = write_weights(before, average, entry.ports, canonical, f"{_PLACE}/weights")
    found = _write_members(before, entry, average.entries(entry.ports), canonical)
    rows = {port.name: name for port, name in zip(entry.ports, found, strict=True)}
    rename_uses(graph, rows)
    prepend(graph, before)
    _write_average(graph, average, outputs, weights, element)
    return changed


def _write_members(to: NodeWriter, entry: Entry, members: Sequence[Entry], canonical: Sequence[str]) -> list[str]:
    """Add the nodes that make the rows of all members of canonical ones, one member after the other, for each port.

    What only replaces columns by constants is one Where for all members: for a single person, nodes are what costs.
    """
    found = []
    for i, (port, width) in enumerate(zip(entry.ports, entry.widths, strict=True)):
        place, parts = f"{_PLACE}/{i}", [_of_port(member, i) for member in members]
        if all(part.cuts == _of_port(entry, i).cuts and not part.lookups for part in parts):
            found.append(to.node("Concat", [canonical[i]] * len(parts), f"{place}/rows", axis=0))
        elif any(part.lookups for part in parts):
            each = [
                write_entry(to, part, canonical, f"{_PLACE}/member_{k}/port_{i}/")[i] for k, part in enumerate(parts)
            ]
            found.append(to.node("Concat", each, f"{place}/rows", axis=0))
        else:
            shape = (1,) if port.rank == 1 else (1, width)
            cuts = [part.cuts for part in parts]
            both = to.cut(f"{place}/members", port.type, shape, cuts, canonical[i], "chosen")
            flat = to.constant(f"{place}/shape", [-1, *shape[1:]])
            found.append(to.node("Reshape", [both, flat], f"{place}/rows"))
    return found


def _of_port(entry: Entry, number: int) -> Entry:
    """Return what an entry does to one port."""
    return replace(
        entry,
        cuts=tuple(cut for cut in entry.cuts if cut.port == number),
        lookups=tuple(lookup for lookup in entry.lookups if lookup.port == number),
    )


def _require_averageable(model: onnx.ModelProto, entry: Entry, outputs: ScoredOutputs) -> None:
    """Raise an error if the graph cannot run on more rows, or gives more than scores and labels."""
    for port in entry.ports:
        given = next(each for each in model.graph.input if each.name == port.name)
        dimensions = given.type.tensor_type.shape.dim
        if dimensions and dimensions[0].HasField("dim_value") and dimensions[0].dim_value > 0:
            raise FairmendError(
                f'input "{port.name}" takes batches of {dimensions[0].dim_value} rows only, and averaging runs the '
                "model on several rows for each person. Export it with an open batch dimension"
            )
    known = {outputs.score, outputs.label} | {
        node.output[0] for node in model.graph.node if node.op_type == "ZipMap" and node.input[0] == outputs.score
    }
    others = [output.name for output in model.graph.output if output.name not in known]
    if others:
        raise FairmendError(f"the model has outputs that cannot be averaged: {listed(others)}. Export its scores alone")


def _element_type(graph: onnx.GraphProto, name: str) -> int:
    """Return the type of a value: double if the graph says so, else float."""
    for each in (*graph.output, *graph.value_info):
        if each.name == name and each.type.HasField("tensor_type") and each.type.tensor_type.elem_type:
            return int(each.type.tensor_type.elem_type)
    return int(TensorProto.FLOAT)


def _write_average(
    graph: onnx.GraphProto, average: Average, outputs: ScoredOutputs, weights: str, element: int
) -> None:
    """Add the nodes behind the original that average its scores, under the names of its outputs."""
    base = f"{_PLACE}/original"
    late = [node for node in graph.node if node.op_type == "ZipMap" and node.input[0] == outputs.score]
    replaced = {outputs.score: f"{base}/score"} | ({outputs.label: f"{base}/label"} if outputs.label else {})
    for node in graph.node:
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                if name in replaced and not (node in late and names is node.input):
                    names[at] = replaced[name]
    to = NodeWriter()
    place, count = _PLACE, average.members.count
    double = to.node("Cast", [f"{base}/score"], f"{place}/double", to=TensorProto.DOUBLE)
    two = outputs.columns <= 2 and outputs.kind != "number"
    sizes = [count, -1] if outputs.columns == 1 else [count, -1, outputs.columns]
    scores = to.node("Reshape", [double, to.constant(f"{place}/shape", sizes)], f"{place}/scores")
    as_given = outputs.kind == "probability" and average.shift == 0
    if two and not as_given:
        scores = _write_positive(to, scores, outputs)
    elif outputs.kind == "logit":
        scores = to.node("Softmax", [scores], f"{place}/probabilities", axis=2)
    flat = outputs.columns == 1 or (two and not as_given)
    if not flat:
        weights = to.node("Unsqueeze", [weights, to.constant(f"{place}/last", [2])], f"{place}/weights/of_scores")
    weighted = to.node("Mul", [scores, weights], f"{place}/weighted")
    found = to.node("ReduceSum", [weighted, to.constant(f"{place}/axes", [0])], f"{place}/mean", keepdims=0)
    if two and not as_given:
        found = _write_closing(to, found, -average.shift if outputs.reversed else average.shift, outputs)
    elif outputs.kind == "logit":
        found = _write_log(to, found, f"{place}/closing/logits")
    if outputs.columns == 1 and outputs.rank == 2:
        found = to.node("Reshape", [found, to.constant(f"{place}/column", [-1, 1])], f"{place}/columns")
    to.node("Cast", [found], outputs.score, to=element)
    if outputs.label is not None:
        _write_labels(to, graph, outputs)
    for node in to.nodes:  # those of outputs could be named as a node of the original
        node.name = node.name if node.name.startswith(_PLACE) else f"{_PLACE}/output/{node.name}"
    kept = [node for node in graph.node if node not in late]
    del graph.node[:]
    graph.node.extend([*kept, *to.nodes, *late])
    graph.initializer.extend(to.constants)


def _write_positive(to: NodeWriter, scores: str, outputs: ScoredOutputs) -> str:
    """Add the nodes that give the probability of the second of two classes (members, rows), without an axis of 1."""
    place, logit = f"{_PLACE}/positive", outputs.kind == "logit"
    if outputs.columns == 2:
        read = [
            to.node("Gather", [scores, to.constant(f"{place}/{which}", which)], f"{place}/score_{which}", axis=2)
            for which in ((1, 0) if logit else (1,))
        ]
        scores = to.node("Sub", read, f"{place}/odds") if logit else read[0]
    return to.node("Sigmoid", [scores], f"{place}/probability") if logit else scores


def _write_closing(to: NodeWriter, positive: str, shift: float, outputs: ScoredOutputs) -> str:
    """Add the nodes that shift the log-odds of averaged probabilities (rows,), and give what the original gives."""
    place = f"{_PLACE}/closing"
    one = to.constant(f"{place}/one", 1.0, "float64")
    other = to.node("Sub", [one, positive], f"{place}/negative")
    least = to.constant(f"{place}/least", LEAST_PROBABILITY, "float64")
    parts = [to.node("Max", [each, least], f"{place}/{name}") for each, name in ((positive, "for"), (other, "against"))]
    odds = to.node("Log", [to.node("Div", parts, f"{place}/ratio")], f"{place}/odds")
    shifted = to.node("Add", [odds, to.constant(f"{place}/shift", shift, "float64")], f"{place}/shifted")
    found = shifted if outputs.kind == "logit" else to.node("Sigmoid", [shifted], f"{place}/probability")
    if outputs.columns == 1:
        return found
    rest = to.node("Sub", [shifted, shifted] if outputs.kind == "logit" else [one, found], f"{place}/rest")
    columns = to.constant(f"{place}/column", [1])
    pair = [to.node("Unsqueeze", [each, columns], f"{each}_column") for each in (rest, found)]
    return to.node("Concat", pair, f"{place}/both", axis=1)


def _write_log(to: NodeWriter, share: str, name: str) -> str:
    least = to.constant(f"{name}/least", LEAST_PROBABILITY, "float64")
    return to.node("Log", [to.node("Max", [share, least], f"{name}/share")], name)


def _write_labels(to: NodeWriter, graph: onnx.GraphProto, outputs: ScoredOutputs) -> None:
    """Add the nodes that give the label of the most probable class; of two that are equal, the second."""
    place = f"{_PLACE}/label"
    kind = "string" if isinstance(outputs.labels[0], str) else "int64"
    labels = to.constant(f"{place}/labels", list(outputs.labels), kind)
    if outputs.columns == 2:
        pair = [
            to.node("Gather", [outputs.score, to.constant(f"{place}/{which}", which)], f"{place}/score_{which}", axis=1)
            for which in (0, 1)
        ]
        index = to.node(
            "Cast", [to.node("GreaterOrEqual", pair[::-1], f"{place}/positive")], f"{place}/index", to=TensorProto.INT64
        )
    elif outputs.columns == 1:
        half = helper.make_tensor(
            f"{place}/half", _element_type(graph, outputs.score), (), [0.0 if outputs.kind == "logit" else 0.5]
        )
        to.constants.append(half)
        flat = to.node("Reshape", [outputs.score, to.constant(f"{place}/flat", [-1])], f"{place}/score")
        index = to.node(
            "Cast",
            [to.node("GreaterOrEqual", [flat, half.name], f"{place}/positive")],
            f"{place}/index",
            to=TensorProto.INT64,
        )
    else:
        index = to.node("ArgMax", [outputs.score], f"{place}/index", axis=1, keepdims=0)
    to.node("Gather", [labels, index], str(outputs.label), axis=0)
