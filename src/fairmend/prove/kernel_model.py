"""A network as the kernel's model: the one that the checker reads from the file that the network is saved to.

Everything that fairmend calls proven is decided by `fairmend_check.kernel`, about this model. The readers of files are
written twice, here and in the checker; tests compare what both make of the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Columns, Concatenate, Input, Lookup, Network, Scale, Sum
from fairmend.network.folding import Norm
from fairmend.network.graph import Node
from fairmend_check.errors import CheckError
from fairmend_check.kernel import model as kernel
from fairmend_check.kernel.operations import affine as kernel_norms


def kernel_model(network: Network) -> kernel.Model:
    """Return the model of a network; refuse one that is too large for the kernel."""
    nodes: list[kernel.Node] = []
    places: list[int] = []  # the kernel's node of each node

    def add(operation: kernel.Operation, *sources: int) -> int:
        nodes.append(kernel.Node(operation, sources))
        return len(nodes) - 1

    try:
        for node in network.nodes:
            sources = [places[source] for source in node.sources]
            if isinstance(node.operation, Affine) and node.operation.fold is not None and node.operation.fold.parts:
                read = network.nodes[node.sources[0]].sources
                places.append(_add_parts(add, node.operation, [places[source] for source in read]))
            elif _feeds_parts(network, node):
                places.append(sources[0])
            else:
                places.append(_add_node(add, node, sources))
        model = kernel.make_graph(nodes, network.dtype.name)
    except CheckError as error:
        raise FairmendError(f"nothing can be proven about this network: {error}") from error
    return replace(model, closing="" if network.closing == "none" else network.closing)


_Add = Callable[..., int]


def _add_node(add: _Add, node: Node, sources: Sequence[int]) -> int:
    operation = node.operation
    if isinstance(operation, Affine):
        return add(_dense(operation), *sources)
    if isinstance(operation, Activation):
        return add(kernel.Activation(operation.name, operation.slope, operation.parameters), *sources)
    if isinstance(operation, Scale):
        norm = kernel_norms.joined_norm([_norm(each) for each in operation.norms], operation.units)
        return add(kernel.Scale(_wide(operation.factor), _wide(operation.shift), norm), *sources)
    if isinstance(operation, Lookup):
        return add(kernel.Lookup(_wide(operation.table)), *sources)
    if isinstance(operation, Columns):
        return _add_columns(add, operation.indices, sources[0])
    if isinstance(operation, Input):
        return add(kernel.Input(operation.columns))
    if isinstance(operation, Sum | Concatenate):
        joined = kernel.Sum() if isinstance(operation, Sum) else kernel.Concatenate()
        return add(joined, *sources) if len(sources) > 1 else sources[0]
    raise NotImplementedError(f"the kernel's {operation.kind}")


def _dense(affine: Affine) -> kernel.Dense:
    weight, bias, fold = _wide(affine.weight), _wide(affine.bias), affine.fold
    if fold is None:
        return kernel.Dense(weight, bias)
    out, width = fold.weight.shape
    own = np.zeros(out) if fold.bias is None else _wide(fold.bias)
    before = kernel_norms.joined_norm([_norm(each) for each in fold.before], width)
    after = kernel_norms.joined_norm([_norm(each) for each in fold.after], out)
    return kernel.Dense(weight, bias, kernel_norms.Fold(_wide(fold.weight), own, before, after))


def _add_parts(add: _Add, head: Affine, sources: Sequence[int]) -> int:
    """Add a head of several parts: layers of their own, each times its factor, and their sum."""
    assert head.fold is not None
    parts = []
    for part, source in zip(head.fold.parts, sources, strict=True):
        after = [] if part.factor == 1 else [kernel_norms.scaling(0.0, part.factor, None)]
        (weight, bias), fold = kernel_norms.fold_layer(part.weight, part.bias, [], after)
        parts.append(add(kernel.dense_layer("layer", weight, bias, fold), source))
    return add(kernel.Sum(), *parts)


def _feeds_parts(network: Network, node: Node) -> bool:
    """Return whether this concatenation is only what a head of several parts reads."""
    head = network.nodes[-1]
    joined = network.head.fold is not None and bool(network.head.fold.parts)
    return joined and network.nodes[head.sources[0]] is node


def _add_columns(add: _Add, indices: Sequence[int], source: int) -> int:
    """Add a choice of columns; a node of the kernel chooses none twice."""
    runs: list[dict[int, None]] = [{}]
    for index in indices:
        if index in runs[-1]:
            runs.append({})
        runs[-1][index] = None
    parts = [add(kernel.Columns(tuple(run)), source) for run in runs]
    return parts[0] if len(parts) == 1 else add(kernel.Concatenate(), *parts)


def _norm(norm: Norm) -> kernel_norms.Norm:
    if norm.variance is not None:
        return kernel_norms.batch_norm(norm.mean, norm.variance, norm.gain, norm.shift, norm.epsilon)
    gain = np.ones(()) if norm.gain is None else norm.gain
    return kernel_norms.scaling(norm.mean, gain, norm.shift)


def _wide(array: np.ndarray) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float64)
