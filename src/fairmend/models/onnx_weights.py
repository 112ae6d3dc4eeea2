"""Write how much each member of a class counts into an ONNX graph, given canonical rows.

Few nodes on whole matrices, because a small model takes hardly longer than these. A code in one column adds a piecewise
linear function: its slope changes at each of the codes, where it has the value of the table, and it is flat beyond the
first and the last. So nothing but text has to be compared. All numbers of canonical rows are finite: columns that do
not count have weights of 0, and are not left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from fairmend.base.arrays import Floats
from fairmend.models.averaging import Average
from fairmend.models.canonical import hold
from fairmend.models.onnx_entry import NodeWriter
from fairmend.models.ports import Port
from fairmend.spec.features import Feature


def write_weights(to: NodeWriter, average: Average, ports: Sequence[Port], canonical: Sequence[str], place: str) -> str:
    """Add the nodes that compute how much each member counts, and return the result: double (members, rows)."""
    weights = average.weights
    read = {number: _ReadWeights(port, average) for number, port in enumerate(ports)}
    bias = weights.bias - weights.mean / weights.deviation @ weights.slope
    for slope, deviation, name in zip(weights.slope, weights.deviation, weights.numbers, strict=True):
        there = average.canonical.place(average.canonical.spec.feature(name), ports)
        read[there.port].linear[there.columns[0]] += slope / deviation
    for name, table in weights.tables.items():
        feature = average.canonical.spec.feature(name)
        there = average.canonical.place(feature, ports)
        bias = bias + read[there.port].add_table(feature, there.columns, table)
    logits = start = to.constant(f"{place}/bias", bias, "float64")
    for number, each in read.items():
        logits = each.write(to, f"{place}/{number}", canonical[number], logits)
    if logits == start:  # everyone is similar to everyone: the same weights for all
        logits = to.node("Unsqueeze", [logits, to.constant(f"{place}/axes", [0])], f"{place}/row")
    shares = to.node("Softmax", [logits], f"{place}/shares", axis=1)
    return to.node("Transpose", [shares], f"{place}/of_members", perm=[1, 0])


class _ReadWeights:
    """What the columns of a port add to the logits of members."""

    def __init__(self, port: Port, average: Average) -> None:
        self.port, members = port, average.members.count
        self.linear = np.zeros((port.width(average.canonical.spec), members))
        self.bends: list[tuple[int, float, Floats]] = []  # columns, where the slope changes, by how much (members,)
        self.texts: list[tuple[int, str, Floats]] = []  # columns, texts that they may hold, what each adds (members,)

    def add_table(self, feature: Feature, columns: Sequence[int], table: Floats) -> Floats:
        """Add what each category of a feature adds (categories, members), and return what is added to everyone."""
        names = feature.categories or ()
        if self.port.type == "string":
            self.texts += [(columns[0], name, row - table[0]) for name, row in zip(names[1:], table[1:], strict=True)]
            return np.asarray(table[0])
        if feature.one_hot:
            marked = [number for number, name in enumerate(names) if name != feature.dropped]
            none = np.zeros_like(table[0]) if feature.dropped is None else table[names.index(feature.dropped)]
            self.linear[list(columns)] += table[marked] - none
            return np.asarray(none)
        codes = hold(feature, np.arange(len(names), dtype=np.float64), self.port.type)[:, 0].astype(np.float64)
        slopes = np.diff(table, axis=0) / np.diff(codes)[:, None]
        if len(codes) == 2:
            self.linear[columns[0]] += slopes[0]
            return np.asarray(table[0] - codes[0] * slopes[0])
        changes = np.diff(slopes, axis=0, prepend=0.0, append=0.0)
        self.bends += [(columns[0], code, change) for code, change in zip(codes, changes, strict=True)]
        return np.asarray(table[0])

    def write(self, to: NodeWriter, place: str, matrix: str, logits: str) -> str:
        """Add nodes that read canonical rows, and return the name of the logits with what these add."""
        if not (self.linear.any() or self.bends or self.texts):
            return logits
        if self.port.rank == 1:
            matrix = to.node("Reshape", [matrix, to.constant(f"{place}/column", [-1, 1])], f"{place}/matrix")
        added = [(f"{place}/linear", self.linear)] if self.linear.any() else []
        if self.texts:
            places, texts, each = zip(*self.texts, strict=True)
            found = to.node("Gather", [matrix, to.constant(f"{place}/columns", places)], f"{place}/read", axis=1)
            matrix = to.node("Equal", [found, to.constant(f"{place}/with", [texts], "string")], f"{place}/compared")
            added = [(f"{place}/texts", np.array(each))]
        if self.port.type != "float64":
            matrix = to.node("Cast", [matrix], f"{place}/double", to=TensorProto.DOUBLE)
        if self.bends:
            columns, codes, changes = (np.array(part) for part in zip(*self.bends, strict=True))
            held = {"columns": np.eye(len(self.linear))[:, columns], "from": -codes, "changes": changes}
            read, low, added_above = (to.constant(f"{place}/bends/{name}", held[name], "float64") for name in held)
            above = to.node("Gemm", [matrix, read, low], f"{place}/bends/beyond")
            above = to.node("Relu", [above], f"{place}/bends/above")
            logits = to.node("Gemm", [above, added_above, logits], f"{place}/bends/logits")
        for name, rows in added:
            factors = to.constant(f"{name}/added", rows, "float64")
            logits = to.node("Gemm", [matrix, factors, logits], f"{name}/logits")
        return logits
