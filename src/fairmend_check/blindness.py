"""Which columns the outputs of a model can depend on: those that reach it by weights that are not 0.

A number that is multiplied by 0 changes nothing as long as it is finite. So the sizes of all values are bounded on the
way, from those of the inputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmend_check.functions import function_of
from fairmend_check.model import Activation, Columns, Concatenate, Dense, Lookup, Model, Node, Scale
from fairmend_check.rounding import Array, Precision

Bools = NDArray[np.bool_]


def dependent_columns(model: Model, columns: list[int], sizes: Array) -> tuple[Bools, Bools]:
    """Return on which of these columns the outputs depend, and which of them may overflow before a weight of 0.

    ``sizes`` (inputs,) bound the values of all inputs. Both results are bool (columns,).
    """
    largest = Precision.of(model.dtype).largest
    start = np.zeros((model.inputs, len(columns)), dtype=np.bool_)
    start[columns, np.arange(len(columns))] = True
    reached, bounds, overflows = [start], [sizes], np.zeros(len(columns), dtype=np.bool_)
    with np.errstate(all="ignore"):
        for node in model.nodes[1:]:
            entering = _after_norm(node, bounds[node.sources[0]])
            unbounded = ~(entering <= largest)  # also of what is not a number
            lost = reached[node.sources[0]] & unbounded[:, None]
            if isinstance(node.operation, Dense | Scale) and lost.any():
                overflows |= lost.any(axis=0)
            reached.append(_reached(node, reached))
            bounds.append(_bound(node, bounds, largest))
    return np.asarray(reached[-1].any(axis=0)), overflows


def _after_norm(node: Node, size: Array) -> Array:
    """Bound the numbers that are multiplied by the weights of an affine layer, or by the factors of a scaling."""
    operation = node.operation
    norm = operation.norm if isinstance(operation, Scale) else None
    if isinstance(operation, Dense) and operation.fold is not None:
        norm = operation.fold.before
    return size if norm is None or not norm.roundings else 2 * (size * norm.reach + norm.size)


def _reached(node: Node, reached: list[Bools]) -> Bools:
    """Return which values of a node depend on which column, bool (width, columns)."""
    operation, sources = node.operation, [reached[source] for source in node.sources]
    if isinstance(operation, Dense):
        # A norm after the layer may multiply by 0 what was infinite before it, so the stored weights count.
        fold = operation.fold
        used = operation.weight != 0 if fold is None else (fold.weight != 0) & (fold.before.factor != 0)
        return np.asarray(used.astype(np.float64) @ sources[0].astype(np.float64) > 0)
    if isinstance(operation, Scale):
        return np.asarray(sources[0] & (operation.norm.factor != 0)[:, None])
    if isinstance(operation, Columns):
        return sources[0][list(operation.indices)]
    if isinstance(operation, Lookup):
        return np.asarray(sources[0] & (operation.table != operation.table[0]).any(axis=0)[:, None])
    if isinstance(operation, Concatenate):
        return np.concatenate(sources)
    return np.asarray(np.logical_or.reduce(sources))  # a function, or a sum


def _bound(node: Node, bounds: list[Array], largest: float) -> Array:
    """Bound the values of a node, with room for rounding."""
    operation, sources = node.operation, [bounds[source] for source in node.sources]
    if isinstance(operation, Dense):
        entering, fold = _after_norm(node, sources[0]), operation.fold
        if fold is None:
            return 2 * (np.abs(operation.weight) @ entering + np.abs(operation.bias))
        total = 2 * (np.abs(fold.weight) @ entering + np.abs(fold.bias))
        return np.asarray(2 * (total * fold.after.reach + fold.after.size))
    if isinstance(operation, Scale):
        return _after_norm(node, sources[0])
    if isinstance(operation, Columns):
        return sources[0][list(operation.indices)]
    if isinstance(operation, Lookup):
        return np.asarray(np.abs(operation.table).max(axis=0))
    if isinstance(operation, Concatenate):
        return np.concatenate(sources)
    if isinstance(operation, Activation):
        low, high = function_of(operation).value_range(-sources[0][None], sources[0][None])
        # Of infinity some functions make NaN, and of large numbers some make larger ones on the way.
        return np.where(sources[0] <= largest / 64, 2 * np.maximum(high, -low)[0], np.inf)
    return np.asarray(2 * sum(sources))
