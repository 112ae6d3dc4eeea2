"""A model: a graph of operations, and the digest that identifies its weights.

Nodes are in topological order: the first is the input row, every other one reads earlier nodes, and the last one gives
the outputs. A chain of affine layers with a function after each but the last is the simplest graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.functions import Activation, check_activation, function_of
from fairmend_check.kernel.functions.elementary import Elementary
from fairmend_check.kernel.operations.affine import Dense, Fold
from fairmend_check.kernel.operations.base import Nonlinear, Operation
from fairmend_check.kernel.operations.columns import Columns, Concatenate, Input, Lookup, Rearranging
from fairmend_check.kernel.operations.groups import Normalise, Softmax
from fairmend_check.kernel.operations.product import Product
from fairmend_check.kernel.rescaling import Rescaling

__all__ = ["Activation", "Dense", "Model", "Node", "input_weights", "make_graph", "network_digest", "weights_digest"]

Array = NDArray[np.float64]

MAX_WIDTH = 2**20  # the error bounds of the arithmetic assume dot products no longer than this
MAX_NODES = 2_000  # the work for bounds grows with the square
SECOND = "second "  # before the name of a closing softmax of which a file gives the second of two numbers
_ROUNDING_ONLY = ("fold", "norm")  # fields of operations that say how a program rounds, not what it computes
_HELD = 4  # times the widest node: so many numbers of a row may be held at once


@dataclass(frozen=True, eq=False)
class Node:
    """An operation, and the numbers of the nodes that it reads."""

    operation: Operation
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Model:
    """A graph of nodes. `make_graph` checks that it is one.

    A closing sigmoid (of one output), softmax or log_softmax does not change the prediction, so it is left out;
    ``closing`` names the one that the file has, after SECOND if the file chooses the second of two. ``rescaling``
    is what comes after a closing sigmoid, if its probability is rescaled to a score. ``condition`` says
    what a program must do with the file to compute this model, if the file itself does not fix that.
    """

    nodes: tuple[Node, ...]
    dtype: str
    condition: str = ""
    closing: str = ""
    rescaling: Rescaling | None = None

    @property
    def slack(self) -> float:
        """How far a score that is computed from a probability may be off, in units of the probability."""
        return 0.0 if self.rescaling is None else self.rescaling.slack

    @property
    def closed(self) -> bool:
        """Whether the file computes probabilities."""
        return self.closing.removeprefix(SECOND) in ("sigmoid", "softmax")

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many numbers each node gives."""
        found: list[int] = []
        for node in self.nodes:
            found.append(node.operation.width([found[source] for source in node.sources]))
        return tuple(found)

    @cached_property
    def held(self) -> int:
        """About how many numbers a row takes while it is bounded, which limits how many rows are bounded at once.

        That is the width of the widest node, or more if there are many nodes, as there is an interval for each.
        """
        return max(*self.widths, sum(self.widths) // _HELD)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.widths[0]

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.widths[-1]

    @cached_property
    def layers(self) -> tuple[Dense, ...]:
        """The affine layers, in the order of the nodes."""
        return tuple(node.operation for node in self.nodes if isinstance(node.operation, Dense))

    @cached_property
    def activations(self) -> tuple[Activation, ...]:
        """The elementwise functions, in the order of the nodes."""
        return tuple(node.operation for node in self.nodes if isinstance(node.operation, Activation))

    @cached_property
    def multiplies(self) -> bool:
        """Whether it has products, softmax or normalisation."""
        return any(isinstance(node.operation, Product | Softmax | Normalise) for node in self.nodes)

    @cached_property
    def partial(self) -> dict[int, Elementary]:
        """The functions of some numbers only, such as logarithms, by their nodes."""
        kinds = {number: node.operation for number, node in enumerate(self.nodes)}
        functions = {number: function_of(kind) for number, kind in kinds.items() if isinstance(kind, Activation)}
        found = {number: each for number, each in functions.items() if isinstance(each, Elementary)}
        return {number: each for number, each in found.items() if type(each).defined is not Elementary.defined}

    @cached_property
    def is_chain(self) -> bool:
        """Whether the model is affine layer, function, affine layer, ..., affine layer."""
        return len(self.nodes) % 2 == 0 and all(
            node.sources == (i,) and isinstance(node.operation, Activation if i % 2 else Dense)
            for i, node in enumerate(self.nodes[1:])
        )

    @cached_property
    def readers(self) -> tuple[int, ...]:
        """How many nodes read each node."""
        found = [0] * len(self.nodes)
        for node in self.nodes:
            for source in node.sources:
                found[source] += 1
        return tuple(found)

    @cached_property
    def uses(self) -> tuple[Array, ...]:
        """How many nodes read each number of each node, directly or through nodes that only move it."""
        found = [np.zeros(width) for width in self.widths]
        for node, own in zip(self.nodes[::-1], found[::-1], strict=True):
            operation, widths = node.operation, [self.widths[source] for source in node.sources]
            parts = operation.returned(own, widths) if isinstance(operation, Rearranging) else map(np.ones, widths)
            for source, part in zip(node.sources, parts, strict=True):
                found[source] += part
        return tuple(found)

    def index_column(self, lookup: int) -> int:
        """Return the input column that a look-up reads, through choices of columns alone; -1 if there is none."""
        node, column = self.nodes[lookup].sources[0], 0
        while True:
            operation, sources = self.nodes[node].operation, self.nodes[node].sources
            if isinstance(operation, Input):
                return column
            if isinstance(operation, Columns):
                node, column = sources[0], operation.indices[column]
            elif isinstance(operation, Concatenate):
                for node in sources:
                    if column < self.widths[node]:
                        break
                    column -= self.widths[node]
            else:
                return -1

    @cached_property
    def tables(self) -> tuple[tuple[int, int], ...]:
        """The input columns that look-ups read, and how many rows their tables have."""
        return tuple(
            (self.index_column(number), len(node.operation.table))
            for number, node in enumerate(self.nodes)
            if isinstance(node.operation, Lookup)
        )


def make_graph(nodes: Sequence[Node], dtype: str) -> Model:
    """Return the model of these nodes, after checking that they form a graph of finite numbers."""
    if not 2 <= len(nodes) <= MAX_NODES:
        raise CheckError(f"the model has {len(nodes)} nodes; it must have 2 to {MAX_NODES:,}")
    for number, node in enumerate(nodes):
        if isinstance(node.operation, Input) != (number == 0):
            raise CheckError("the model must have one input, its first node")
        if not all(0 <= source < number for source in node.sources):
            raise CheckError(f"the model's node {number} reads a node that is not before it")
        if isinstance(node.operation, Activation):
            check_activation(node.operation, dtype)
    if not nodes[-1].operation.arithmetic or isinstance(nodes[-1].operation, Nonlinear):
        raise CheckError("the model must end with an affine layer, or a sum of them")
    model = Model(tuple(nodes), dtype)
    if not all(0 < width <= MAX_WIDTH for width in model.widths):
        raise CheckError(f"the model has a node with no values, or with more than {MAX_WIDTH:,}")
    if any(column < 0 or rows > MAX_WIDTH for column, rows in model.tables):
        raise CheckError("a table must be looked up by a column of the inputs, unchanged, and not be too long")
    return model


def dense_layer(
    where: str, weight: NDArray[np.floating], bias: NDArray[np.floating] | None, fold: Fold | None = None
) -> Dense:
    """Return an affine layer in double precision, after checking its shapes and that its numbers are finite."""
    if weight.ndim != 2 or not 0 < min(weight.shape) <= max(weight.shape) <= MAX_WIDTH:
        raise CheckError(f"the model's {where} has weights of shape {weight.shape}")
    bias = np.zeros(len(weight), weight.dtype) if bias is None else bias
    if bias.shape != weight.shape[:1]:
        raise CheckError(f"the model's {where} has weights {weight.shape} and biases {bias.shape}")
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise CheckError(f"the model's {where} contains a weight that is not finite")
    wide, shift = (np.ascontiguousarray(array, dtype=np.float64) for array in (weight, bias))
    return Dense(wide, shift, fold)


def common_dtype(arrays: Sequence[NDArray[np.floating] | None]) -> str:
    """Return the type of all arrays of weights."""
    dtypes = {array.dtype.name for array in arrays if array is not None}
    if len(dtypes) != 1 or not dtypes <= {"float32", "float64"}:
        raise CheckError(f"the model's weights must all be float32 or all be float64, got {', '.join(sorted(dtypes))}")
    return dtypes.pop()


def input_weights(model: Model) -> Array:
    """Return how much each input weighs in the nodes that read it (inputs,): only a measure of where to halve a box."""
    found = [np.zeros(width) for width in model.widths]
    for number in range(len(model.nodes) - 1, 0, -1):
        node = model.nodes[number]
        widths = [model.widths[source] for source in node.sources]
        for source, weights in zip(node.sources, node.operation.weigh(found[number], widths), strict=True):
            found[source] += weights
    return found[0]


def weights_digest(model: Model) -> str:
    """Return the digest of docs/certificate.md, "The weights digest"."""
    return _chain_digest(model) if model.is_chain else _graph_digest(model)


def network_digest(model: Model) -> str:
    """Return the digest of what a model computes: its operations, their numbers, and how they read each other.

    It does not depend on the order of nodes that do not read each other, nor on whether norms are stored by themselves
    or folded into the layers beside them.
    """
    found: list[str] = []
    for node in model.nodes:
        operation = _with_one_slope(node.operation) if isinstance(node.operation, Activation) else node.operation
        digest = hashlib.sha256(f"{type(operation).__name__}\n".encode("ascii"))
        for part in fields(operation):  # type: ignore[arg-type]  # every operation is a dataclass
            if part.name not in _ROUNDING_ONLY:
                digest.update(f"{part.name} ".encode("ascii") + _content(getattr(operation, part.name)))
        digest.update("".join(f"{found[source]}\n" for source in node.sources).encode("ascii"))
        found.append(digest.hexdigest())
    return hashlib.sha256(f"fairmend network 1\n{model.dtype}\n{found[-1]}\n".encode("ascii")).hexdigest()


def _content(value: object) -> bytes:
    if isinstance(value, np.ndarray):
        return _shape(value) + _bytes(value)
    if isinstance(value, tuple):
        return f"{len(value)} ".encode("ascii") + b"".join(_content(each) for each in value)
    return f"{value.hex() if isinstance(value, float) else value}\n".encode()


def _chain_digest(model: Model) -> str:
    digest = hashlib.sha256(f"fairmend weights 1\n{model.dtype}\n".encode("ascii"))
    for number, layer in enumerate(model.layers):
        digest.update(_shape(layer.weight) + _bytes(layer.weight) + _bytes(layer.bias))
        if number < len(model.activations):
            function = _with_one_slope(model.activations[number])
            numbers = " ".join(value.hex() for value in (function.slope, *function.parameters))
            digest.update(f"{function.name} {numbers}\n".encode("ascii"))
    return digest.hexdigest()


def _with_one_slope(function: Activation) -> Activation:
    """Return a PReLU with one slope for all units as the LeakyReLU that it is: formats write either."""
    slopes = set(function.parameters)
    if function.name != "prelu" or len(slopes) != 1 or min(slopes) < 0:
        return function
    return Activation("leaky_relu", slopes.pop())


def _graph_digest(model: Model) -> str:
    """Return the digest of the arrays as they are stored, in no order: the structure is read from the file."""
    arrays = [array for node in model.nodes for array in node.operation.stored]
    lines = sorted(hashlib.sha256(_shape(array) + _bytes(array)).hexdigest() for array in arrays if array.any())
    return hashlib.sha256("\n".join([f"fairmend weights 2\n{model.dtype}", *lines, ""]).encode("ascii")).hexdigest()


def _shape(array: Array) -> bytes:
    return f"{' '.join(map(str, array.shape))}\n".encode("ascii")


def _bytes(array: Array) -> bytes:
    return array.astype("<f8").tobytes()
