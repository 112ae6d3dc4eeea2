"""Network: a chain of affine and activation layers, evaluated with NumPy alone.

In the paper (Section 2) the *head* is the last affine layer f_L, and the *extractor* f_{1:L} is everything before it.
The closing sigmoid or softmax only turns logits into probabilities. It never changes a prediction, so it is stored
separately and the network itself ends in logits. From which probability on the prediction is positive is not part of a
model file: `at_threshold` sets it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray, Ints
from fairmend.errors import FairmendError
from fairmend.html_tables import html_table
from fairmend.network.activations import Activation
from fairmend.network.decision import DEFAULT_THRESHOLD, as_threshold, log_odds, predicted_classes, require_threshold
from fairmend.network.folding import Fold, Norm
from fairmend.network.form import Form

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.base import BaseEstimator
    from torch import nn


NetworkSource: TypeAlias = Union["Network", str, PathLike[str], "nn.Module", "BaseEstimator"]
"""What `load_network` reads: a file, a module, a fitted estimator, or a Network, which it returns unchanged."""

CLOSINGS = ("none", "sigmoid", "softmax")
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))

_logger = logging.getLogger(__name__)
_FIELDS = ("affines", "activations", "closing", "names", "threshold", "form")
# Multiplications in one layer for one block of rows. Blocks this small stay in the processor's cache, and below
# the size at which BLAS starts threads, which cost more than they gain on networks this narrow.
_BLOCK = 500_000


@dataclass(frozen=True, eq=False)
class Affine:
    """x ↦ weight·x + bias: weight (out, in), bias (out,), both read-only copies of one dtype.

    `fold` is how the layer is stored where batch normalisation or scaling is folded into it (`Affine.from_fold`).
    """

    weight: FloatArray
    bias: FloatArray
    fold: Fold | None = field(default=None, repr=False)

    @staticmethod
    def from_fold(fold: Fold) -> Affine:
        """Return the layer with its norms folded into it."""
        return Affine(*fold.folded(), fold)

    def __post_init__(self) -> None:
        """Copy the arrays, so that no view of them can change the layer, and check their shapes and dtypes."""
        for part in ("weight", "bias"):
            array = np.array(getattr(self, part), order="C")
            if array.dtype.newbyteorder("=") not in DTYPES:
                raise FairmendError(
                    f"the {part} is {array.dtype.name}; fairmend computes in float32 or float64: "
                    "convert the model first (float32 holds every float16 and bfloat16 number exactly)"
                )
            array = array.astype(array.dtype.newbyteorder("="), copy=False)
            array.setflags(write=False)
            object.__setattr__(self, part, array)
        if self.weight.ndim != 2 or 0 in self.weight.shape:
            raise FairmendError(f"the weight has shape {self.weight.shape}; it must be (out, in), with neither 0")
        if self.bias.shape != self.weight.shape[:1]:
            raise FairmendError(
                f"the bias has shape {self.bias.shape}; with a weight of shape {self.weight.shape} "
                f"it must be ({self.weight.shape[0]},)"
            )
        if self.bias.dtype != self.weight.dtype:
            raise FairmendError(f"the weight is {self.weight.dtype}, the bias {self.bias.dtype}; use one dtype")

    def _bits(self) -> tuple[object, ...]:
        return self.weight.shape, self.weight.dtype.str, self.weight.tobytes(), self.bias.tobytes()

    def __eq__(self, other: object) -> bool:
        """Compare bit by bit: −0.0 differs from 0.0."""
        return self._bits() == other._bits() if isinstance(other, Affine) else NotImplemented

    def __hash__(self) -> int:
        """Hash the bits that `__eq__` compares."""
        return hash(self._bits())

    def astype(self, dtype: npt.DTypeLike) -> Affine:
        """Return the layer in another dtype; numbers that overflow become infinite, which Network refuses."""
        if self.weight.dtype == dtype:
            return self
        with np.errstate(over="ignore"):
            return Affine(self.weight.astype(dtype), self.bias.astype(dtype))

    @property
    def stored(self) -> tuple[FloatArray, FloatArray | None, tuple[Norm, ...]]:
        """Weight and bias as a file stores them, and the norms beside the layer, each with its own numbers."""
        fold = self.fold
        return (self.weight, self.bias, ()) if fold is None else (fold.weight, fold.bias, (*fold.before, *fold.after))

    def stored_as(self, other: Affine) -> Affine:
        """Return the closest layer that can be stored as `other` is: in its dtype, and with the norms beside it."""
        if other.fold is None or self.fold is not None:
            return self.astype(other.weight.dtype)
        return Affine.from_fold(other.fold.refit(self.weight, self.bias))


@dataclass(frozen=True, init=False, repr=False)
class Network:
    """A chain affine, activation, affine, …, affine that gives logits, and a closing sigmoid or softmax after them.

    Two networks are equal if all their bits are. `names` are the key prefixes of the affine layers in the file or
    module that the network came from, and `form` is all else in it, so that a saved network loads back there.
    `threshold` is the probability of class 1 from which it is predicted; files do not store it.
    """

    affines: tuple[Affine, ...]
    activations: tuple[Activation, ...]
    closing: str
    names: tuple[str, ...]
    threshold: float
    form: Form | None = field(compare=False)

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
        _check_chain(affines, activations, closing, names)
        threshold = as_threshold(threshold)
        require_threshold(threshold, len(affines[-1].weight))
        dtype = affines[0].weight.dtype
        # What is computed with, and so what a proof must be about, is the slope in the network's dtype.
        activations = tuple(Activation(a.name, float(dtype.type(a.slope))) for a in activations)
        values = (tuple(affines), activations, closing, names, threshold, form)
        for part, value in zip(_FIELDS, values, strict=True):
            object.__setattr__(self, part, value)

    def __repr__(self) -> str:
        """Show the chain, for example Network(13 → 16 relu → 8 relu → 1 logit, float32)."""
        hidden = "".join(
            f"{affine.weight.shape[0]} {activation} → "
            for affine, activation in zip(self.affines, self.activations, strict=False)
        )
        closing = "" if self.closing == "none" else f" + {self.closing}"
        logits = "logit" if self.outputs == 1 else "logits"
        at = "" if self.threshold == DEFAULT_THRESHOLD else f", threshold {self.threshold:g}"
        return f"Network({self.inputs} → {hidden}{self.outputs} {logits}{closing}, {self.dtype}{at})"

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """The dtype of every weight and every result: float32 or float64."""
        return self.affines[0].weight.dtype

    @property
    def inputs(self) -> int:
        """The number of columns of X."""
        return int(self.affines[0].weight.shape[1])

    @property
    def outputs(self) -> int:
        """The number of logits per row; 1 for a binary classifier."""
        return int(self.head.weight.shape[0])

    @property
    def depth(self) -> int:
        """The number of affine layers."""
        return len(self.affines)

    @property
    def head(self) -> Affine:
        """The last affine layer, f_L."""
        return self.affines[-1]

    @property
    def offset(self) -> float:
        """The log-odds of the threshold: the logit, or the second minus the first, from which class 1 is predicted."""
        return log_odds(self.threshold)

    def features(self, X: npt.ArrayLike) -> FloatArray:
        """Return what the head reads, f_{1:L}(X), as (rows, d); X itself if the head is the only layer."""
        return self._run(X, self.depth - 1)

    def logits(self, X: npt.ArrayLike) -> FloatArray:
        """Return the logits of X (rows, inputs): (rows,) for a network with one output, (rows, N) for N.

        Of a regression network, they are its predictions.
        """
        logits = self._run(X, self.depth)
        return logits[:, 0] if self.outputs == 1 else logits

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the predicted class of each row, int64 (rows,), by the rule of `predicted_classes`."""
        return self.decide(self.logits(X))

    def decide(self, logits: FloatArray) -> Ints:
        """Return the predicted classes of logits (rows,) or (..., outputs), by the rule of `predicted_classes`."""
        return predicted_classes(logits, self.threshold)

    def centre(self, logits: FloatArray) -> FloatArray:
        """Return logits (rows,) or (..., outputs) with the offset taken from the last output.

        At the threshold 1/2, the result gives the prediction: class 1 from 0 on, or the largest of two.
        """
        if self.threshold == DEFAULT_THRESHOLD:
            return logits
        centred: FloatArray = logits.astype(np.float64)
        if logits.ndim == 1:
            return centred - self.offset
        centred[..., -1] -= self.offset
        return centred

    def probabilities(self, X: npt.ArrayLike) -> FloatArray:
        """Return the sigmoid of the logit (rows,) or the softmax of the logits (rows, N), whatever `closing` is."""
        values = self.logits(X)
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
        stored = [new.stored_as(old) for new, old in zip(affines, self.affines, strict=True)]
        return Network(stored, self.activations, self.closing, self.names, self.threshold, self.form)

    def astype(self, dtype: npt.DTypeLike) -> Network:
        """Return the network in float32 or float64."""
        if self.dtype == dtype:
            return self
        cast = [a.astype(dtype) for a in self.affines]
        return Network(cast, self.activations, self.closing, self.names, self.threshold)

    def at_threshold(self, threshold: float) -> Network:
        """Return this network with another threshold: class 1 is predicted from that probability on.

        The logits and probabilities stay the same, and so does the file that `save` writes.
        """
        return Network(self.affines, self.activations, self.closing, self.names, threshold, self.form)

    def to_frame(self) -> pd.DataFrame:
        """Return the layers as a table, one row each: inputs, outputs, weights, and the activation after it."""
        import pandas as pd

        functions = [str(activation) for activation in self.activations]
        return pd.DataFrame(
            {
                "layer": range(1, self.depth + 1),
                "inputs": [affine.weight.shape[1] for affine in self.affines],
                "outputs": [affine.weight.shape[0] for affine in self.affines],
                "weights": [affine.weight.size + affine.bias.size for affine in self.affines],
                "activation": [*functions, self.closing],
            }
        )

    def _repr_html_(self) -> str:
        """Show the layers in a notebook."""
        table = self.to_frame()
        title = f"Network: {self.inputs} inputs, {table['weights'].sum():,} weights, {self.dtype}"
        return html_table(title, list(table.columns), table.to_numpy().tolist())

    def save(self, path: str | PathLike[str], *, keep_form: bool = True) -> None:
        """Write one file in the format of its suffix: .onnx, .h5, .keras, .nnet (ReLU only), .pth or .safetensors.

        In the format that the network was read from, only the weights change: names, shapes, further outputs, batch
        normalisation and metadata stay as they were. With ``keep_form=False`` the file is what fairmend writes for a
        network from elsewhere, with the norms folded into the layers. An existing file is replaced completely, or not
        at all.
        """
        from fairmend.network.formats import write_network

        write_network(self, path, keep_form)

    def _run(self, X: npt.ArrayLike, layers: int) -> FloatArray:
        """Return the output of the first `layers` affine layers (rows, width), computed in blocks of rows."""
        X = _numeric(X, self.inputs)
        widths = [self.inputs, *(affine.weight.shape[0] for affine in self.affines)]
        largest = max(affine.weight.size for affine in self.affines)
        step = max(1, min(len(X), max(256, _BLOCK // largest)))
        buffers = [np.empty((step, width), self.dtype) for width in widths[1:layers]]
        out = np.empty((len(X), widths[layers]), self.dtype)
        # Overflow is detected in the result, where the row is known.
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), step):
                values = X[start : start + step].astype(self.dtype, copy=False)
                _check_finite(values, start, f"X is not a finite {self.dtype} number")
                target = out[start : start + step]
                if layers == 0:
                    target[...] = values
                for i, affine in enumerate(self.affines[:layers]):
                    into = target if i == layers - 1 else buffers[i][: len(values)]
                    values = np.matmul(values, affine.weight.T, out=into)
                    values += affine.bias
                    if i < len(self.activations):
                        self.activations[i].apply(values)
                _check_finite(target, start, f"the network's output overflows {self.dtype}: check the scale of X")
        return out


def load_network(source: NetworkSource, activation: str | Activation = "relu") -> Network:
    """Read a network from a file, a PyTorch module, or a fitted MLPClassifier or MLPRegressor of scikit-learn.

    A file is read by its suffix: .onnx, .h5, .keras, .nnet, .pth or .safetensors. Neither Keras nor any other framework
    needs to be installed, and nothing in the file is executed.

    A model of scikit-learn is an MLPClassifier or MLPRegressor, a linear model, or a Pipeline, a search or a
    calibration by a sigmoid with one of these inside. Of a Pipeline, the network is the model at its end:
    `Spec.from_sklearn` describes the steps before it. `fairmend.network.formats.sklearn.to_estimator` puts a repaired
    network into a copy.

    `activation` names the activation between the affine layers of a file that holds weights only: a .pth or
    .safetensors state dict that fairmend did not write. Other sources name it themselves. "leaky_relu" has PyTorch's
    slope, 0.01; write "leaky_relu(0.2)" for another.
    """
    from fairmend.network.formats import read_network

    network = read_network(source, activation)
    if network is not source:
        _logger.info(
            "read %r from %s", network, source if isinstance(source, str | PathLike) else type(source).__name__
        )
    return network


def _check_chain(
    affines: Sequence[Affine], activations: Sequence[Activation], closing: str, names: Sequence[str]
) -> None:
    if not affines:
        raise FairmendError("a network needs at least one affine layer")
    if len(activations) != len(affines) - 1:
        raise FairmendError(
            f"{len(affines)} affine layers need {len(affines) - 1} activations between them, not "
            f'{len(activations)}; use Activation("identity") where there is none'
        )
    if len(names) != len(affines) or len(set(names)) != len(names):
        raise FairmendError(f"the names must be {len(affines)} different ones, one per affine layer: {names}")
    first, width = affines[0], affines[0].weight.shape[1]
    for name, affine in zip(names, affines, strict=True):
        if not (np.isfinite(affine.weight).all() and np.isfinite(affine.bias).all()):
            raise FairmendError(f"layer {name!r} has a weight or bias that is not finite (NaN or infinite)")
        if affine.weight.dtype != first.weight.dtype:
            kinds = f"{affine.weight.dtype} after {first.weight.dtype}"
            raise FairmendError(f"layer {name!r} is {kinds}; use one dtype")
        if affine.weight.shape[1] != width:
            raise FairmendError(
                f"layer {name!r} takes {affine.weight.shape[1]} values, but the layer before it gives {width}"
            )
        width = affine.weight.shape[0]
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
        raise FairmendError(f"{complaint}: row {start + row}, column {column} is {values[row, column]}")
