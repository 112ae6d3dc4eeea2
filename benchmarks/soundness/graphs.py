"""Random networks that are graphs, with every operation and every function, and specs for them: see cases.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.soundness.cases import WEIGHTS, Case, move_threshold, random_affine, random_feature, random_inputs
from fairmend import Feature, Label, Network, Spec
from fairmend.network import (
    Activation,
    Affine,
    Columns,
    Concatenate,
    Input,
    Lookup,
    Node,
    Normalise,
    Product,
    Scale,
    Softmax,
    Sum,
)  # fmt: skip
from fairmend.network.folding import Norm

LINEAR_PIECES = [
    Activation("relu"), Activation("relu"), Activation("leaky_relu", 0.01), Activation("leaky_relu", 1.5),
    Activation("identity"), Activation("clip", parameters=(0.0, 6.0)), Activation("clip", parameters=(-1.0, 1.0)),
    Activation("hardsigmoid", parameters=(1 / 6, 0.5)), "prelu",
]  # fmt: skip
CURVES = [
    *map(Activation, ("tanh", "sigmoid", "softsign", "selu", "silu", "mish", "gelu", "gelu_tanh", "hardswish")),
    Activation("elu", parameters=(1.0,)), Activation("elu", parameters=(2.5,)), Activation("celu", parameters=(0.5,)),
    Activation("softplus", parameters=(1.0,)), Activation("softplus", parameters=(5.0,)),
]  # fmt: skip
ANYWHERE = [*map(Activation, ("abs", "square", "sin", "cos"))]
BOUNDED = {
    "exp": Activation("tanh"),
    **dict.fromkeys(("log", "sqrt", "rsqrt", "reciprocal"), Activation("clip", parameters=(0.5, 6.0))),
}  # functions that need numbers that are not too large, or positive, and what makes them so
KINDS = ["affine", "affine", "function", "function", "sum", "concatenate", "columns", "scale", "residual", "skip"]
MULTIPLIED = [*KINDS, "product", "gate", "attention", "softmax", "normalise", "elementary"]
MOST_OPERATIONS, WIDEST, MOST_WIDTH = 8, 6, 14
TERMS, LARGE_SKIP = 100, 2.0**12  # terms of a layer that so large a skip is added to
MOST_POINTS = 400
MOST_ROWS = 8  # of a table


def random_graph_case(rng: np.random.Generator, inputs: int, *, products: bool = False) -> Case:
    """Return a graph whose neighbourhoods can be listed, or sampled well if a continuous feature varies."""
    spec = random_graph_spec(rng)
    dtype = np.float64 if rng.random() < 0.2 else np.float32
    network = random_graph(rng, spec, dtype, MULTIPLIED if products else KINDS)
    X = random_inputs(rng, spec, inputs, dtype, exact=index_columns(network))
    network = move_threshold(rng, network, spec, X)
    if network.outputs <= 2 and rng.random() < 0.25:
        threshold = float(rng.choice([0.3, 0.6, 0.75]))
        network = network.at_threshold(threshold)
        spec = Spec(spec.features, label=Label("label", "1", threshold), links=spec.links)
    return Case(network, spec, X)


def random_graph_spec(rng: np.random.Generator) -> Spec:
    """Return three to five features: the first protected, one or two that can be looked up, and links now and then."""
    linked = rng.random() < 0.2
    continuous = not linked and rng.random() < 0.33
    features: list[Feature] = []
    points = 1
    for number in range(int(rng.integers(1, 4))):
        left = MOST_POINTS // points
        feature, size = random_feature(rng, f"f{number}", protected=number == 0, continuous=continuous, left=left)
        feature = replace(feature, bands=None) if linked else feature
        features.append(replace(feature, tolerance=0.0) if linked and feature.kind == "continuous" else feature)
        points *= size
    for number in range(int(rng.integers(1, 3))):
        features.append(_code(rng, f"code{number}", protected=rng.random() < 0.4 and points < 40))
        points *= len(features[-1].categories or range(MOST_ROWS)) + 1 if features[-1].protected else 1
    features = [features[place] for place in rng.permutation(len(features))]
    return Spec(features=features, links=_links(rng, features) if linked else [])


def _code(rng: np.random.Generator, name: str, *, protected: bool) -> Feature:
    """Return a feature whose values are the numbers of rows of a table."""
    if rng.random() < 0.5:
        categories = tuple("abcdef"[: int(rng.integers(2, 7))])
        return Feature(name, "categorical", categories=categories, encoding="ordinal", protected=protected)
    highest = int(rng.integers(1, MOST_ROWS))
    tolerance = 1.0 if not protected and rng.random() < 0.3 else 0.0
    return Feature(name, "integer", range=(0, highest), protected=protected, tolerance=tolerance)


def _links(rng: np.random.Generator, features: list[Feature]) -> list[dict[str, Any]]:
    """Return a link from some values of a protected feature to one that is neither protected nor tolerant."""
    whole = [each for each in features if each.kind != "continuous"]
    causes = [each for each in whole if each.protected and each.tells_apart]
    effects = [each for each in whole if not each.varies and not each.tolerance]
    effects = [each for each in effects if each.tells_apart or not each.categories]
    if not causes or not effects:
        return []
    cause, effect = causes[rng.integers(len(causes))], effects[rng.integers(len(effects))]
    low, high = cause.range if cause.range is not None else (0, len(cause.categories) - 1)
    when: Any = cause.categories[0] if cause.categories else [low, (low + high) // 2]
    if effect.categories:
        then: Any = {effect.categories[0]: [*effect.categories[1:3]]}
    else:
        then = {"offset": [1, 2]}
    return [{"when": {cause.name: when}, "then": {effect.name: then}}]


def index_columns(network: Network) -> set[int]:
    """Return the input columns that are looked up in tables."""
    found = set()
    for node in network.nodes:
        if isinstance(node.operation, Lookup):
            place, column = node.sources[0], 0
            while place:
                source = network.nodes[place]
                column, place = source.operation.indices[column], source.sources[0]
            found.add(column)
    return found


@dataclass
class GraphBuilder:
    """Nodes so far, and how wide each is. ``start`` is the first node that others may read."""

    rng: np.random.Generator
    inputs: int
    dtype: Any
    style: str
    nodes: list[Node] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    start: int = 0

    def __post_init__(self) -> None:
        self.add(Input(self.inputs))

    def add(self, operation: Any, *sources: int, name: str = "") -> int:
        """Append a node and return its number."""
        self.nodes.append(Node(operation, sources, name))
        self.widths.append(operation.width([self.widths[source] for source in sources]))
        return len(self.nodes) - 1

    def pick(self) -> int:
        """Return a node, rather a late one."""
        return int(max(self.rng.integers(self.start, len(self.nodes), size=2)))

    def affine(self, source: int, width: int) -> int:
        operation = random_affine(self.rng, self.widths[source], width, self.style, self.dtype)
        return self.add(operation, source, name=f"layer{len(self.nodes)}")

    def function(self, source: int, choices: list[Any]) -> int:
        activation = choices[self.rng.integers(len(choices))]
        if activation == "prelu":
            slopes = (self.rng.normal(size=self.widths[source]) / 2).astype(np.float32)
            return self.add(
                Activation("prelu", parameters=tuple(map(float, slopes))),
                source,
                name=f"slopes{source}x{len(self.nodes)}",
            )
        return self.add(activation, source)

    def scale(self, source: int) -> int:
        width, name = self.widths[source], f"norm{len(self.nodes)}"
        mean, gain, shift = self.rng.normal(size=(3, width)).astype(self.dtype)
        variance = np.exp(self.rng.normal(size=width)).astype(self.dtype)
        norm = Norm(name, mean, variance, gain, shift, 1e-5, name)
        return self.add(Scale((norm,), width, np.dtype(self.dtype), "the graph"), source, name=name)

    def sum(self) -> int:
        first = self.pick()
        others = [self.pick() for _ in range(self.rng.integers(1, 3))]
        width = self.widths[first]
        same = [other if self.widths[other] == width else self.affine(other, width) for other in others]
        return self.add(Sum(), first, *same)

    def residual(self, choices: list[Any]) -> int:
        """A block of the RTDL ResNet: x + affine(function(affine(norm(x))))."""
        source = self.pick()
        inner = self.affine(self.scale(source), int(self.rng.integers(1, WIDEST)))
        return self.add(Sum(), source, self.affine(self.function(inner, choices), self.widths[source]))

    def skip(self) -> int:
        """Many small terms of one sign and a skip that may round each of them away, with other steps in between."""
        rng, width = self.rng, int(self.rng.integers(1, WIDEST))
        units = self.add(Activation("sigmoid"), self.affine(self.pick(), TERMS))
        share = rng.choice([1.0, 1.0, 1e-3]) * rng.uniform(0.1, 0.5) * float(np.finfo(self.dtype).eps)
        weight = np.full((width, TERMS), share * LARGE_SKIP).astype(self.dtype)
        found = self.add(Affine(weight, np.zeros(width, self.dtype)), units, name=f"terms{len(self.nodes)}")
        if rng.random() < 0.3:
            self.function(found, [Activation("relu")])  # the layer has another reader
        for way in rng.choice(["none", "columns", "scale", "concatenate", "average", "sum"], size=rng.integers(1, 3)):
            width = self.widths[found]
            if way == "columns":
                found = self.add(Columns(tuple(map(int, rng.permutation(width)))), found)
            elif way == "scale":
                found = self.scale(found)
            elif way == "concatenate":
                found = self.add(Concatenate(), found, found) if width < WIDEST else found
            elif way == "average":
                found = self.add(
                    Affine(np.full((1, width), 1 / width, self.dtype), np.zeros(1, self.dtype)), found,
                    name=f"average{len(self.nodes)}",
                )  # fmt: skip
            elif way == "sum":
                found = self.add(Sum(), found, self.same_width(width))
        large = self.affine(self.pick(), self.widths[found])
        bias = Affine(np.eye(self.widths[found], dtype=self.dtype), np.full(self.widths[found], LARGE_SKIP, self.dtype))
        return self.add(Sum(), found, self.add(bias, large, name=f"skip{len(self.nodes)}"))

    def same_width(self, width: int) -> int:
        """Return a node of this width: one that is there, or an affine layer."""
        source = self.pick()
        return source if self.widths[source] == width else self.affine(source, width)

    def product(self) -> int:
        """The elementwise product of two nodes, which may be one: as in a cross layer."""
        first = self.pick()
        width = self.widths[first]
        return self.add(Product(width), first, self.same_width(width))

    def gate(self) -> int:
        """A gated unit, sigmoid(affine) affine."""
        source, width = self.pick(), int(self.rng.integers(1, WIDEST))
        gates = self.add(Activation("sigmoid"), self.affine(source, width))
        return self.add(Product(width), gates, self.affine(source, width))

    def attention(self) -> int:
        """Attention of two or three tokens: softmax(a bᵀ) c."""
        source, tokens, width = self.pick(), int(self.rng.integers(2, 4)), int(self.rng.integers(1, 3))
        query, key, turned = (self.affine(source, tokens * width) for _ in range(3))
        shares = self.add(Softmax(tokens), self.add(Product(1, tokens, tokens, width), query, key))
        return self.add(Product(1, tokens, width, tokens), shares, turned)

    def softmax(self) -> int:
        source = self.pick()
        return self.add(Softmax(self._group(source)), source)

    def normalise(self) -> int:
        source = self.pick()
        # A model's epsilon is a number of its type, and in ONNX always one of float32.
        epsilon, centred = float(np.float32(self.rng.choice([1e-5, 1e-3, 0.1]))), bool(self.rng.random() < 0.7)
        return self.add(Normalise(self._group(source), epsilon, centred), source)

    def elementary(self) -> int:
        """A function that has a value everywhere, or one that has it for numbers that a function before it gives."""
        source = self.pick()
        if self.rng.random() < 0.5:
            return self.function(source, ANYWHERE)
        name = str(self.rng.choice(list(BOUNDED)))
        return self.add(Activation(name), self.add(BOUNDED[name], source))

    def _group(self, source: int) -> int:
        width = self.widths[source]
        return int(self.rng.choice([size for size in range(1, width + 1) if width % size == 0]))

    def concatenate(self) -> int:
        return self.add(Concatenate(), *(self.pick() for _ in range(self.rng.integers(2, 4))))

    def columns(self) -> int:
        source = self.pick()
        chosen = self.rng.permutation(self.widths[source])[: self.rng.integers(1, self.widths[source] + 1)]
        return self.add(Columns(tuple(map(int, chosen))), source)

    def join(self) -> int:
        """Return a node that everything enters which nothing reads yet."""
        read = {source for node in self.nodes for source in node.sources}
        ends = [i for i in range(len(self.nodes)) if i not in read]
        return ends[0] if len(ends) == 1 else self.add(Concatenate(), *ends)


def random_graph(rng: np.random.Generator, spec: Spec, dtype: Any, kinds: list[str]) -> Network:
    """Return a graph on the columns of a spec; a third do not depend on what may differ between similar people."""
    styles = [style for style in WEIGHTS if style != "bump"]
    builder = GraphBuilder(rng, spec.width, dtype, styles[rng.integers(len(styles))])
    varying = {column for feature in spec.varying for column in range(spec.width)[spec.columns(feature.name)]}
    blind = rng.random() < 0.33 and len(varying) < spec.width
    for feature in spec.features:
        column = spec.columns(feature.name).start
        if feature.name.startswith("code") and rng.random() < 0.8:
            _look_up(builder, feature, column, constant=blind and column in varying)
    if blind:
        builder.start = len(builder.nodes)
        builder.add(Columns(tuple(column for column in range(spec.width) if column not in varying)), 0)
    choices = LINEAR_PIECES if rng.random() < 0.5 else LINEAR_PIECES + CURVES
    steps: dict[str, Callable[[], int]] = {
        "affine": lambda: builder.affine(builder.pick(), int(rng.integers(1, WIDEST))),
        "function": lambda: builder.function(builder.pick(), choices),
        "scale": lambda: builder.scale(builder.pick()),
        "residual": lambda: builder.residual(choices),
    }
    for kind in rng.choice(kinds, size=rng.integers(1, MOST_OPERATIONS + 1)):
        narrow = builder.widths[-1] <= MOST_WIDTH
        steps.get(str(kind), getattr(builder, str(kind), None))() if narrow else steps["affine"]()  # type: ignore[misc]
    builder.affine(builder.join(), int(rng.choice([1, 1, 1, 2, 3])))
    return Network.from_nodes(builder.nodes)


def _look_up(builder: GraphBuilder, feature: Feature, column: int, *, constant: bool) -> None:
    highest = feature.range[1] if feature.range is not None else len(feature.categories) - 1
    rows, width = highest + 1 + int(builder.rng.integers(0, 2)), int(builder.rng.integers(1, 4))
    rows = highest + 1 if feature.categories else rows  # of categories, a table has as many rows as there are
    table = builder.rng.normal(size=(rows, width)).astype(builder.dtype)
    if constant or builder.rng.random() < 0.2:
        table[1:] = table[0]
    builder.add(Lookup(table), builder.add(Columns((column,)), 0), name=f"table{len(builder.nodes)}")
