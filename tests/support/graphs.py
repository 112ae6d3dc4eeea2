"""Random small graphs with every operation, and boxes and points of their inputs."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from fairmend.network import Activation, Affine, Network
from fairmend.network.folding import Norm
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Lookup, Scale, Sum
from support.functions import CLIPPED, CURVED, KINKED, S_SHAPED

PIECEWISE_LINEAR = (*(activation for activation in KINKED if activation.name != "prelu"), "prelu", *CLIPPED)
ALL_FUNCTIONS = (*PIECEWISE_LINEAR, *S_SHAPED, *CURVED)
OPERATIONS = ("affine", "affine", "function", "function", "sum", "concatenate", "columns", "scale")


class GraphMaker:
    """Nodes so far, and how wide each is."""

    def __init__(self, rng: np.random.Generator, inputs: int, dtype: npt.DTypeLike) -> None:
        self.rng, self.dtype = rng, np.dtype(dtype)
        self.nodes = [Node(Input(inputs))]
        self.widths = [inputs]

    def add(self, operation, *sources: int) -> int:
        """Append a node and return its number."""
        affines = sum(isinstance(node.operation, Affine) for node in self.nodes)
        name = f"layers.{affines}" if isinstance(operation, Affine) else ""
        self.nodes.append(Node(operation, sources, name))
        self.widths.append(operation.width([self.widths[source] for source in sources]))
        return len(self.nodes) - 1

    def pick(self) -> int:
        """Return a node, rather a late one."""
        return int(max(self.rng.integers(0, len(self.nodes), size=2)))

    def affine(self, source: int, width: int) -> int:
        before = self.widths[source]
        weight = self.rng.normal(size=(width, before)) * np.sqrt(2 / before)
        weight *= self.rng.random(weight.shape) < 0.9
        return self.add(Affine(weight.astype(self.dtype), self.rng.normal(size=width).astype(self.dtype) / 2), source)

    def function(self, activation: Activation | str) -> int:
        source = self.pick()
        if activation == "prelu":
            activation = Activation("prelu", parameters=tuple(self.rng.normal(size=self.widths[source])))
        return self.add(activation, source)

    def lookup(self, column: int, rows: int, width: int) -> int:
        table = self.rng.normal(size=(rows, width)).astype(self.dtype)
        return self.add(Lookup(table), self.add(Columns((column,)), 0))

    def scale(self, source: int) -> int:
        width = self.widths[source]
        numbers = self.rng.normal(size=(3, width)).astype(np.float32)
        variance = np.exp(self.rng.normal(size=width)).astype(np.float32)
        norm = Norm("a norm", numbers[0], variance, numbers[1], numbers[2], 1e-5)
        return self.add(Scale((norm,), width, self.dtype, "a graph"), source)

    def sum(self) -> int:
        first = self.pick()
        others = [self.pick() for _ in range(self.rng.integers(1, 3))]
        width = self.widths[first]
        same = [other if self.widths[other] == width else self.affine(other, width) for other in others]
        return self.add(Sum(), first, *same)

    def concatenate(self) -> int:
        return self.add(Concatenate(), *(self.pick() for _ in range(self.rng.integers(1, 4))))

    def columns(self) -> int:
        source = self.pick()
        chosen = self.rng.integers(0, self.widths[source], size=self.rng.integers(1, self.widths[source] + 2))
        return self.add(Columns(tuple(map(int, chosen))), source)

    def join(self) -> int:
        """Return a node that everything enters which nothing reads yet."""
        read = {source for node in self.nodes for source in node.sources}
        ends = [i for i in range(len(self.nodes)) if i not in read]
        return ends[0] if len(ends) == 1 else self.add(Concatenate(), *ends)


@st.composite
def graphs(
    draw: st.DrawFn,
    activations: Sequence[Activation | str] = ALL_FUNCTIONS,
    dtypes: Sequence[npt.DTypeLike] = (np.float32, np.float64),
    max_outputs: int = 3,
    max_operations: int = 8,
    lookups: bool = True,
) -> Network:
    """Draw networks of up to ``max_operations`` random operations on an input of 1 to 4 columns.

    The activation "prelu" stands for one with random slopes. The first columns may be row numbers of tables: see
    `index_columns`. Any node may be read several times.
    """
    builder = GraphMaker(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 4)), draw(st.sampled_from(dtypes))
    )
    if lookups:
        for column in range(draw(st.integers(0, min(2, builder.widths[0])))):
            builder.lookup(column, draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    for kind in draw(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=max_operations)):
        if builder.widths[-1] > 12:  # keep it small
            kind = "affine"
        if kind == "affine":
            builder.affine(builder.pick(), draw(st.integers(1, 5)))
        elif kind == "function":
            builder.function(draw(st.sampled_from(activations)))
        elif kind == "scale":
            builder.scale(builder.pick())
        else:
            getattr(builder, kind)()
    outputs = draw(st.integers(1, max_outputs))
    closing = draw(st.sampled_from(("none", "sigmoid" if outputs == 1 else "softmax")))
    builder.affine(builder.join(), outputs)
    return Network.from_nodes(builder.nodes, closing)


@st.composite
def hard_graphs(draw: st.DrawFn, activations: Sequence[Activation | str], spread: int = 30) -> Network:
    """Draw graphs in float32, some with weights and tables that span 10^±spread, or that are 0 here and there."""
    network = draw(graphs(activations, (np.float32,)))
    kind = draw(st.sampled_from(("ordinary", "mixed", "zeros")))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def harder(array: np.ndarray) -> np.ndarray:
        if kind == "mixed":
            return (array * 10.0 ** rng.uniform(-spread, spread, size=array.shape)).astype(np.float32)
        return array * (rng.random(array.shape) < 0.5) if kind == "zeros" else array

    changed = {
        i: Affine(harder(node.operation.weight), harder(node.operation.bias))
        if isinstance(node.operation, Affine)
        else Lookup(harder(node.operation.table))
        for i, node in enumerate(network.nodes)
        if isinstance(node.operation, Affine | Lookup)
    }
    return network.with_operations(changed)


def index_columns(network: Network) -> dict[int, int]:
    """The input columns that name rows of tables, each with the least number of rows."""
    found: dict[int, int] = {}
    for node in network.nodes:
        if isinstance(node.operation, Lookup):
            column = network.nodes[node.sources[0]].operation.indices[0]
            found[column] = min(found.get(column, 10**9), len(node.operation.table))
    return found


def graph_boxes(
    network: Network, rng: np.random.Generator, pieces: int = 3, radius: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes (pieces, inputs), some columns fixed; whole numbers of the table in the columns that look it up."""
    lower = rng.normal(size=(pieces, network.inputs))
    upper = lower + rng.uniform(0, 2 * radius, size=lower.shape) * (rng.random(lower.shape) < 0.7)
    for column, rows in index_columns(network).items():
        ends = np.sort(rng.integers(0, rows, size=(2, pieces)), axis=0)
        lower[:, column], upper[:, column] = ends[0], np.where(rng.random(pieces) < 0.5, ends[1], ends[0])
    return lower, upper


def points_of(network: Network, lower: np.ndarray, upper: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Corners of a box (inputs,) and points in it, each a possible input: (points, inputs)."""
    ends = np.array([lower, upper])
    corners = ends[rng.integers(0, 2, size=(8, len(lower))), np.arange(len(lower))]
    inside = lower + rng.uniform(size=(8, len(lower))) * (upper - lower)
    points = np.clip(np.concatenate([ends, corners, inside, [(lower + upper) / 2]]), lower, upper)
    for column in index_columns(network):
        points[:, column] = np.floor(points[:, column])
    return points


def residual_network(
    rng: np.random.Generator, inputs: int, width: int = 6, activation: Activation | None = None, blocks: int = 2
) -> Network:
    """A residual network in float32: x → W x, then h + W relu(W h) in each block; the input enters the head again."""
    activation = Activation("relu") if activation is None else activation
    builder = GraphMaker(rng, inputs, np.float32)
    last = builder.affine(0, width)
    for _ in range(blocks):
        inner = builder.add(activation, builder.affine(last, width))
        last = builder.add(Sum(), last, builder.affine(inner, width))
    builder.affine(builder.add(Concatenate(), builder.add(activation, last), 0), 1)
    return Network.from_nodes(builder.nodes)
