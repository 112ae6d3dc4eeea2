"""The graph of a network: nodes in topological order, each an operation on earlier nodes.

Node 0 is the input, and the last node is the head, an affine layer. A chain is the simplest graph: each node reads the
one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairmend.base.arrays import Bools
from fairmend.base.errors import FairmendError
from fairmend.network.operations import Activation, Affine, Input, Operation


@dataclass(frozen=True)
class Node:
    """An operation, and the numbers of the nodes that it reads.

    ``name`` is that of the layer in the file or module that the network came from: the key prefix of an affine layer.
    """

    operation: Operation
    sources: tuple[int, ...] = ()
    name: str = field(default="", compare=False)


def chain_nodes(affines: Sequence[Affine], activations: Sequence[Activation], names: Sequence[str]) -> tuple[Node, ...]:
    """Return the nodes of affine, activation, affine, …, affine."""
    if not affines:
        raise FairmendError("a network needs at least one affine layer")
    if len(activations) != len(affines) - 1:
        raise FairmendError(
            f"{len(affines)} affine layers need {len(affines) - 1} activations between them, not "
            f'{len(activations)}; use Activation("identity") where there is none'
        )
    if len(names) != len(affines):
        raise FairmendError(f"the names must be {len(affines)} different ones, one per affine layer: {tuple(names)}")
    nodes = [Node(Input(int(affines[0].weight.shape[1])))]
    for i, (name, affine) in enumerate(zip(names, affines, strict=True)):
        nodes.append(Node(affine, (len(nodes) - 1,), name))
        if i < len(activations):
            nodes.append(Node(activations[i], (len(nodes) - 1,)))
    return tuple(nodes)


def is_chain(nodes: Sequence[Node]) -> bool:
    """Return whether the network is affine, activation, affine, …, affine."""
    for i, node in enumerate(nodes[1:]):
        wanted = Affine if i % 2 == 0 else Activation
        if not isinstance(node.operation, wanted) or node.sources != (i,):
            return False
    return True


def node_widths(nodes: Sequence[Node]) -> list[int]:
    """Return how many numbers each node gives; refuse what is not a graph of one input that ends in an affine layer."""
    if not nodes or not isinstance(nodes[0].operation, Input):
        raise FairmendError("the first node of a network must be its input")
    if not isinstance(nodes[-1].operation, Affine):
        raise FairmendError("the last node of a network must be an affine layer, its head")
    widths: list[int] = []
    for i, node in enumerate(nodes):
        if i > 0 and isinstance(node.operation, Input):
            raise FairmendError(f"node {i} is a second input; a network has one row of inputs")
        if not all(0 <= source < i for source in node.sources):
            raise FairmendError(
                f"{describe(nodes, i)} reads node {max(node.sources)}: nodes may read earlier nodes only"
            )
        try:
            widths.append(node.operation.width([widths[source] for source in node.sources]))
        except FairmendError as error:
            raise FairmendError(f"{describe(nodes, i)} {error}") from error
    used = {source for node in nodes for source in node.sources}
    idle = [i for i in range(len(nodes) - 1) if i not in used]
    if idle:
        raise FairmendError(f"{describe(nodes, idle[0])} is not read by any other node")
    return widths


def describe(nodes: Sequence[Node], i: int) -> str:
    """Return the words for a node in messages."""
    node = nodes[i]
    return f"layer {node.name!r}" if node.name else f"node {i} ({node.operation.kind})"


def read_columns(nodes: Sequence[Node]) -> Bools:
    """Return which input columns the output can depend on, bool (inputs,): those that reach it by weights not 0."""
    return np.asarray(reached_columns(nodes)[-1].any(axis=0))


def reached_columns(nodes: Sequence[Node]) -> list[Bools]:
    """Return for each node which of its numbers depend on which input column, bool (width, inputs)."""
    found: list[Bools] = []
    for node in nodes:
        found.append(node.operation.reached([found[source] for source in node.sources]))
    return found
