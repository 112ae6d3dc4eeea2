"""Network: a graph of operations that ends in an affine layer, evaluated with NumPy alone.

In the paper (Section 2) the *head* is the last affine layer f_L, and the *extractor* f_{1:L} is everything before it.
The closing sigmoid or softmax only turns logits into probabilities. It never changes a prediction, so it is stored
separately and the network itself ends in logits. From which probability on the prediction is positive is not part of a
model file: `at_threshold` sets it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network.decision import (
    DEFAULT_THRESHOLD,
    Decides,
    as_threshold,
    require_threshold,
)
from fairmend.network.form import Form
from fairmend.network.graph import Node, chain_nodes, describe, is_chain, node_widths, read_columns
from fairmend.network.operations import Activation, Affine, Lookup, Operation, StoredLayer
from fairmend.network.operations.products import PLANAR
from fairmend.network.rescaling import Rescaling

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import BaseEstimator
    from torch import nn


NetworkSource: TypeAlias = Union["Network", str, PathLike[str], "nn.Module", "BaseEstimator"]
"""What `load_network` reads: a file, a module, a fitted estimator, or a Network, which it returns unchanged."""

CLOSINGS = ("none", "sigmoid", "softmax")

_logger = logging.getLogger(__name__)
_FIELDS = ("nodes", "closing", "threshold", "form", "widths", "rescaling")
# Rows are computed in blocks whose widest layer has about so many numbers, which stay in the processor's cache, and
# products in parts with so many multiplications, below the size at which BLAS starts threads: they cost more than they
# gain on networks this narrow. Of a wide network, both have at least so many rows.
_BLOCK, _PRODUCTS, _LEAST_ROWS = 65_536, 500_000, 256


@dataclass(frozen=True, init=False, repr=False)
class Network(Decides):
    """A graph of operations that gives logits, and a closing sigmoid or softmax after them.

    ``Network(affines, activations)`` is a chain affine, activation, affine, …, affine; `from_nodes` takes any graph.
    Two networks are equal if all their bits are. `form` is all else in the file or module that the network came from,
    so that a saved network loads back there. `threshold` is the probability of class 1 from which it is predicted;
    files do not store it. `widths` says how many numbers each node gives. `rescaling` is what the file or module
    makes of the probability of a closing sigmoid, if that is not the score itself.
    """

    nodes: tuple[Node, ...]
    closing: str
    threshold: float
    form: Form | None = field(compare=False)
    widths: tuple[int, ...] = field(compare=False)
    rescaling: Rescaling | None

    def __init__(
        self,
        affines: Sequence[Affine],
        activations: Sequence[Activation],
        closing: str = "none",
        names: Sequence[str] | None = None,
        threshold: float = DEFAULT_THRESHOLD,
        form: Form | None = None,
    ) -> None:
        """Check that the layers form one chain of finite numbers of one dtype."""
        names = tuple(names) if names is not None else tuple(f"layers.{i}" for i in range(len(affines)))
        self._set(chain_nodes(affines, activations, names), closing, threshold, form)

    @classmethod
    def from_nodes(
        cls,
        nodes: Sequence[Node],
        closing: str = "none",
        threshold: float = DEFAULT_THRESHOLD,
        form: Form | None = None,
        rescaling: Rescaling | None = None,
    ) -> Network:
        """Return the network of a graph: nodes in topological order, the input first and the head last."""
        network = object.__new__(cls)
        network._set(tuple(nodes), closing, threshold, form, rescaling)
        return network

    def _set(
        self,
        nodes: tuple[Node, ...],
        closing: str,
        threshold: float,
        form: Form | None,
        rescaling: Rescaling | None = None,
    ) -> None:
        widths = node_widths(nodes)
        dtype = _check_numbers(nodes)
        _check_names(nodes)
        _check_closing(closing, widths[-1])
        threshold = as_threshold(threshold)
        require_threshold(threshold, widths[-1])
        # What is computed with, and so what a proof must be about, is each function in the network's dtype.
        nodes = tuple(
            Node(node.operation.astype(dtype), node.sources, node.name)
            if isinstance(node.operation, Activation)
            else node
            for node in nodes
        )
        for part, value in zip(_FIELDS, (nodes, closing, threshold, form, tuple(widths), rescaling), strict=True):
            object.__setattr__(self, part, value)

    def __repr__(self) -> str:
        """Show the layers, for example Network(13 → 16 relu → 8 relu → 1 logit, float32)."""
        closing = "" if self.closing == "none" else f" + {self.closing}"
        closing += "" if self.rescaling is None else f" ({self.rescaling})"
        logits = "logit" if self.outputs == 1 else "logits"
        at = "" if self.threshold == DEFAULT_THRESHOLD else f", threshold {self.threshold:g}"
        return f"Network({self.inputs} → {self._hidden()}{self.outputs} {logits}{closing}, {self.dtype}{at})"

    def _hidden(self) -> str:
        if self.is_chain:
            pairs = zip(self.affines, self.activations, strict=False)
            return "".join(f"{affine.weight.shape[0]} {activation} → " for affine, activation in pairs)
        kinds = Counter(node.operation.kind for node in self.nodes[1:])
        return f"graph of {', '.join(f'{count} {kind}' for kind, count in kinds.items())} → "

    @cached_property
    def is_chain(self) -> bool:
        """Whether the network is affine, activation, affine, …, affine."""
        return is_chain(self.nodes)

    @cached_property
    def multiplies(self) -> bool:
        """Whether nodes are multiplied, in products, softmax or normalisation: bounds of these are planes."""
        return any(isinstance(node.operation, PLANAR) for node in self.nodes)

    @cached_property
    def affines(self) -> tuple[Affine, ...]:
        """The affine layers, in the order of the nodes; the last one is the head."""
        return tuple(node.operation for node in self.nodes if isinstance(node.operation, Affine))

    @cached_property
    def affine_nodes(self) -> tuple[int, ...]:
        """The numbers of the nodes that are affine layers."""
        return tuple(i for i, node in enumerate(self.nodes) if isinstance(node.operation, Affine))

    @cached_property
    def activations(self) -> tuple[Activation, ...]:
        """The elementwise functions, in the order of the nodes."""
        return tuple(node.operation for node in self.nodes if isinstance(node.operation, Activation))

    @property
    def stored_layers(self) -> tuple[StoredLayer, ...]:
        """The affine layers as a file stores them, in the order of the nodes."""
        pairs = zip(self.names, self.affines, strict=True)
        return tuple(layer for name, affine in pairs for layer in affine.stored(name))

    @property
    def tables(self) -> dict[str, FloatArray]:
        """The tables of look-ups, by their names."""
        return {node.name: node.operation.table for node in self.nodes if isinstance(node.operation, Lookup)}

    @cached_property
    def functions(self) -> tuple[int, ...]:
        """The numbers of the nodes that are elementwise functions."""
        return tuple(i for i, node in enumerate(self.nodes) if isinstance(node.operation, Activation))

    @cached_property
    def readers(self) -> Counter[int]:
        """How many nodes read each node."""
        return Counter(source for node in self.nodes for source in node.sources)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the affine layers: their key prefixes in the file or module that the network came from."""
        return tuple(self.nodes[i].name for i in self.affine_nodes)

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """The dtype of every weight and every result: float32 or float64."""
        return self.head.weight.dtype

    @property
    def inputs(self) -> int:
        """The number of columns of X."""
        return self.widths[0]

    @property
    def outputs(self) -> int:
        """The number of logits per row; 1 for a binary classifier."""
        return self.widths[-1]

    @property
    def depth(self) -> int:
        """The number of affine layers."""
        return len(self.affines)

    @property
    def weights(self) -> int:
        """The number of weights and biases of the affine layers, and of entries of tables."""
        return sum(node.operation.size for node in self.weight_nodes)

    @cached_property
    def weight_nodes(self) -> tuple[Node, ...]:
        """The nodes with weights that a repair may change: affine layers and tables, those that share them once."""
        nodes: dict[object, Node] = {}
        for i, node in enumerate(self.nodes):
            if node.operation.size:
                nodes.setdefault((node.operation.kind, node.operation.shared_as or node.name or i), node)
        return tuple(nodes.values())

    @cached_property
    def read_columns(self) -> Bools:
        """Which input columns the outputs can depend on, bool (inputs,)."""
        columns = read_columns(self.nodes)
        columns.flags.writeable = False
        return columns

    @property
    def head(self) -> Affine:
        """The last affine layer, f_L."""
        head = self.nodes[-1].operation
        assert isinstance(head, Affine)
        return head

    def features(self, X: npt.ArrayLike) -> FloatArray:
        """Return what the head reads, f_{1:L}(X), as (rows, d); X itself if the head is the only layer."""
        return self._run(X, self.nodes[-1].sources[0])

    def logits(self, X: npt.ArrayLike) -> FloatArray:
        """Return the logits of X (rows, inputs): (rows,) for a network with one output, (rows, N) for N.

        Of a regression network, they are its predictions.
        """
        logits = self._run(X, len(self.nodes) - 1)
        return logits[:, 0] if self.outputs == 1 else logits

    def probabilities_of(self, logits: FloatArray) -> FloatArray:
        """Return the sigmoid of the logit (rows,) or the softmax of the logits (rows, N), whatever `closing` is."""
        values = logits.copy()
        if values.ndim == 1:
            Activation("sigmoid").apply(values)
        else:
            values -= values.max(axis=1, keepdims=True)
            np.exp(values, out=values)
            values /= values.sum(axis=1, keepdims=True)
        return values

    def with_affines(self, affines: Sequence[Affine]) -> Network:
        """Return this network with new weights, as its form can store them: cast to its dtype, its norms unchanged.

        A layer beside batch normalisation is unfolded and folded again, which may change the last bits.
        """
        pairs = zip(affines, self.affines, strict=True)
        stored = _shared_alike([new.stored_as(old) for new, old in pairs])
        return self.with_operations(dict(zip(self.affine_nodes, stored, strict=True)))

    def with_operations(self, operations: Mapping[int, Operation]) -> Network:
        """Return this network with other operations at some nodes."""
        nodes = [replace(node, operation=operations.get(i, node.operation)) for i, node in enumerate(self.nodes)]
        return Network.from_nodes(nodes, self.closing, self.threshold, self.form, self.rescaling)

    def astype(self, dtype: npt.DTypeLike) -> Network:
        """Return the network in float32 or float64."""
        if self.dtype == dtype:
            return self
        nodes = [replace(node, operation=node.operation.astype(dtype)) for node in self.nodes]
        return Network.from_nodes(nodes, self.closing, self.threshold, rescaling=self.rescaling)

    def at_threshold(self, threshold: float) -> Network:
        """Return this network with another threshold: class 1 is predicted from that probability on.

        The logits and probabilities stay the same, and so does the file that `save` writes.
        """
        return Network.from_nodes(self.nodes, self.closing, threshold, self.form, self.rescaling)

    def with_rescaling(self, rescaling: Rescaling | None) -> Network:
        """Return this network with other scores of its probability."""
        return Network.from_nodes(self.nodes, self.closing, self.threshold, self.form, rescaling)

    def scores(self, X: npt.ArrayLike) -> FloatArray:
        """Return what the file or module gives, in its own unit: logits, probabilities or what it makes of them."""
        if self.closing == "none":
            return self.logits(X)
        probabilities = self.probabilities(X)
        return probabilities if self.rescaling is None else self.rescaling.scores(probabilities)

    def to_frame(self) -> pd.DataFrame:
        """Return the layers as a table, one row each: inputs, outputs, weights, and the activation after it."""
        import pandas as pd

        if not self.is_chain:
            nodes = self.nodes[1:]
            return pd.DataFrame(
                {
                    "node": range(1, len(self.nodes)),
                    "operation": [node.operation.title for node in nodes],
                    "name": [node.name for node in nodes],
                    "reads": [", ".join(map(str, node.sources)) for node in nodes],
                    "outputs": self.widths[1:],
                    "weights": [node.operation.size for node in nodes],
                }
            )
        functions = [str(activation) for activation in self.activations]
        return pd.DataFrame(
            {
                "layer": range(1, self.depth + 1),
                "inputs": [affine.weight.shape[1] for affine in self.affines],
                "outputs": [affine.weight.shape[0] for affine in self.affines],
                "weights": [affine.size for affine in self.affines],
                "activation": [*functions, self.closing],
            }
        )

    def _repr_html_(self) -> str:
        """Show the layers in a notebook."""
        from fairmend.base.text import html_table

        table = self.to_frame()
        title = f"Network: {self.inputs} inputs, {table['weights'].sum():,} weights, {self.dtype}"
        return html_table(title, list(table.columns), table.to_numpy().tolist())

    def save(self, path: str | PathLike[str], *, keep_form: bool = True) -> None:
        """Write one file in the format of its suffix: .onnx, .h5, .keras, .nnet (ReLU), .pth, .ckpt or .safetensors.

        In the format that the network was read from, only the weights change: names, shapes, further outputs, batch
        normalisation and metadata stay as they were. With ``keep_form=False`` the file is what fairmend writes for a
        network from elsewhere, with the norms folded into the layers; an .onnx file keeps the names of its input and
        output if it has one of each. An existing file is replaced completely, or not at all.
        """
        from fairmend.network.formats import write_network

        write_network(self, path, keep_form)

    def to_module(self) -> Any:
        """Return the PyTorch module or Keras model that the network was read from, with the weights of this network.

        It is a copy of its own class, in eval mode; what `load_network` was given does not change.
        """
        to_module = getattr(self.form, "to_module", None)
        if to_module is None:
            raise FairmendError(
                "the network was not read from a module or model in memory, so there is none to return; use save()"
            )
        return to_module(self)

    def _run(self, X: npt.ArrayLike, last: int) -> FloatArray:
        """Return the result of node `last` (rows, width), computed in blocks of rows."""
        X = _numeric(X, self.inputs)
        part = max(_LEAST_ROWS, _PRODUCTS // max(affine.weight.size for affine in self.affines))
        step = max(1, min(len(X), part * max(1, _BLOCK // (part * max(self.widths)))))
        out = np.empty((len(X), self.widths[last]), self.dtype)
        plan = self._plan(last, step)
        # Overflow is detected in the result, where the row is known.
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), step):
                values = X[start : start + step].astype(self.dtype, copy=False)
                _check_finite(values, start, "X is not a finite {dtype} number")
                target = out[start : start + step]
                if last == 0:
                    target[...] = values
                results = {0: values}
                for i, sources, operation, buffer in plan:
                    results[i] = target if buffer is None else buffer[: len(values)]
                    operation.compute([results[source] for source in sources], results[i], part)
                if not np.isfinite(target).all():
                    self._find_undefined(values[~np.isfinite(target).all(axis=1)][:1], last)
                _check_finite(target, start, "the network's output overflows {dtype}: check the scale of X")
        return out

    def _find_undefined(self, row: FloatArray, last: int) -> None:
        """Raise an error that names the first function of a row (1, inputs) that is not defined for what it reads."""
        for i, node in enumerate(self.nodes[: last + 1]):
            if isinstance(node.operation, Activation) and node.operation.function.domain:
                read = self._run(row, node.sources[0])[0]
                outside = ~np.isfinite(node.operation.function.value(read))
                if outside.any():
                    raise FairmendError(
                        f"{describe(self.nodes, i)} reads {read[outside][0]:.6g}, and is defined for "
                        f"{node.operation.function.domain} alone; add a positive number to what it reads"
                    )

    def _plan(self, last: int, rows: int) -> list[tuple[int, tuple[int, ...], Operation, FloatArray | None]]:
        """Return the nodes that node `last` needs, in order, each with the buffer that it writes to (None: the result).

        A function of a node that nothing else reads is computed in place.
        """
        needed = {last}
        for i in range(last, 0, -1):
            if i in needed:
                needed.update(self.nodes[i].sources)
        readers = Counter(source for i in needed for source in self.nodes[i].sources)
        buffers: dict[int, FloatArray | None] = {last: None}
        for i in range(last, 0, -1):
            node = self.nodes[i]
            if i not in needed:
                continue
            if i not in buffers:
                buffers[i] = np.empty((rows, self.widths[i]), self.dtype)
            if node.operation.in_place and readers[node.sources[0]] == 1 and node.sources[0] > 0:
                buffers[node.sources[0]] = buffers[i]
        return [(i, self.nodes[i].sources, self.nodes[i].operation, buffers[i]) for i in sorted(needed) if i > 0]


def load_network(source: NetworkSource, activation: str | Activation | None = None, *, example: Any = None) -> Network:
    """Read a network from a file, or from a model of PyTorch, Keras or scikit-learn.

    A file is read by its suffix: .onnx, .h5, .keras, .nnet, .pt2, .pth, .ckpt or .safetensors. Neither Keras nor any
    other framework needs to be installed, and nothing in the file is executed. A model folder of MLflow is read by the
    file in it.

    A model of scikit-learn is an MLPClassifier or MLPRegressor, a linear model, or a Pipeline, a search or a
    calibration by a sigmoid with one of these inside. Of a Pipeline, the network is the model at its end:
    `Spec.from_sklearn` describes the steps before it. `fairmend.sklearn.to_estimator` puts a repaired
    network into a copy.

    `activation` names the activation between the affine layers of a file that holds weights only: a .pth, .ckpt or
    .safetensors state dict that fairmend did not write. It must be given for these, unless there is one layer alone: by
    giving it you say that the model is one chain of the layers in the order of their keys. Other sources name their
    activations themselves. "leaky_relu" has PyTorch's slope, 0.01; write "leaky_relu(0.2)" for another.

    `example` is a row or more of what forward() of a PyTorch module takes, a tensor or an array, or several in a tuple.
    It is needed for modules whose forward() looks at the shape of its inputs, as those of rtdl and TabM do.
    """
    from fairmend.network.formats import read_network

    network = read_network(source, activation, example)
    if network is not source:
        _logger.info(
            "read %r from %s", network, source if isinstance(source, str | PathLike) else type(source).__name__
        )
    return network


def _shared_alike(affines: Sequence[Affine]) -> list[Affine]:
    """Return layers of which those that share their numbers have the same: the mean, where they differ."""
    groups: dict[str, list[FloatArray]] = {}
    for affine in affines:
        groups.setdefault(affine.shared_as, []).append(affine.weights if affine.shared_as else affine.bias[:0])
    return [
        affine.with_weights(
            np.asarray(np.mean(groups[affine.shared_as], axis=0, dtype=np.float64), affine.weight.dtype)
        )
        if affine.shared_as and len({each.tobytes() for each in groups[affine.shared_as]}) > 1
        else affine
        for affine in affines
    ]


def _check_numbers(nodes: Sequence[Node]) -> np.dtype[np.floating[Any]]:
    """Return the dtype of all numbers; refuse numbers that are not finite, and a second dtype."""
    first: np.dtype[np.floating[Any]] | None = None
    for i, node in enumerate(nodes):
        arrays = node.operation.arrays
        if not all(np.isfinite(array).all() for array in arrays):
            raise FairmendError(f"{describe(nodes, i)} has a weight or bias that is not finite (NaN or infinite)")
        for dtype in {array.dtype for array in arrays}:
            first = dtype if first is None else first
            if dtype != first:
                raise FairmendError(f"{describe(nodes, i)} is {dtype} after {first}; use one dtype")
    assert first is not None  # the head has one
    return first


def _check_names(nodes: Sequence[Node]) -> None:
    names = [node.name for node in nodes if isinstance(node.operation, Affine)]
    if len(set(names)) != len(names):
        raise FairmendError(f"the names must be {len(names)} different ones, one per affine layer: {tuple(names)}")


def _check_closing(closing: str, width: int) -> None:
    if closing not in CLOSINGS:
        raise FairmendError(f"unknown closing {closing!r}; supported: {', '.join(CLOSINGS)}")
    if closing == "sigmoid" and width > 1:
        raise FairmendError(f"a closing sigmoid needs 1 output, not {width}; classes exclude each other: use softmax")
    if closing == "softmax" and width == 1:
        raise FairmendError("a closing softmax over 1 output is always 1; use sigmoid, or 2 outputs")


def _numeric(X: npt.ArrayLike, inputs: int) -> npt.NDArray[Any]:
    """Return X as an array of numbers (rows, inputs), not yet cast to the network's dtype."""
    try:
        X = np.asarray(X)
        X = X.astype(np.float64) if X.dtype.kind == "O" else X
    except (TypeError, ValueError) as error:
        raise FairmendError(f"X is not an array of numbers: {error}") from error
    if X.dtype.kind not in "biuf":
        raise FairmendError(f"X holds {X.dtype.name}, not numbers; encode it with the spec first")
    if X.ndim != 2:
        hint = "; for a single row write X[None, :]" if X.shape == (inputs,) else ""
        raise FairmendError(f"X has shape {X.shape}; it must be (rows, {inputs}){hint}")
    if X.shape[1] != inputs:
        raise FairmendError(f"X has {X.shape[1]} columns, the network takes {inputs}")
    return X


def _check_finite(values: FloatArray, start: int, complaint: str) -> None:
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        complaint = complaint.format(dtype=values.dtype)
        raise FairmendError(f"{complaint}: row {start + row}, column {column} is {values[row, column]}")
