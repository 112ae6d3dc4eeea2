"""Random programs of the operations that exporters write, with numbers that are bad for rounding, and exact runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.soundness.functions import in_float64
from fairmend.network import Activation

WIDTHS = (1, 3, 16, 300, 700)  # wide enough for several blocks of a matrix product
EPSILON = float(np.float32(1e-5))
FUNCTIONS = [
    *(Activation(name) for name in ("relu", "tanh", "sigmoid", "silu", "gelu_tanh", "hardswish", "softsign")),
    Activation("clip", parameters=(-0.5, 6.0)),
    Activation("leaky_relu", float(np.float32(0.01))),
    Activation("hardsigmoid", parameters=(float(np.float32(1 / 6)), 0.5)),
    *(Activation(name, parameters=(1.0,)) for name in ("softplus", "elu", "celu")),
    *(Activation(name) for name in ("selu", "mish", "gelu")),
]
IN_DOUBLE = FUNCTIONS[:8]  # ONNX Runtime has no others in float64


@dataclass(frozen=True)
class Step:
    """One operation on earlier values; ``form`` is one of the ways in which exporters write it."""

    kind: str
    sources: tuple[int, ...]
    width: int
    form: int = 0
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    function: Activation | None = None
    columns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    """Steps in the order of computation; value 0 is the input row, value i + 1 that of step i, the last the output."""

    inputs: int
    dtype: np.dtype[Any]
    steps: tuple[Step, ...]

    @property
    def norm_beside_others(self) -> bool:
        """Whether a norm is one of several readers of a layer: `torch.jit.freeze` gives it to all of them.

        A norm of a layer has become part of it by then, so that the next norm reads a layer again.
        """
        readers = Counter(source for step in self.steps for source in step.sources)
        layers = {0: False}
        for number, step in enumerate(self.steps, start=1):
            layers[number] = step.kind == "affine" or (step.kind == "norm" and layers[step.sources[0]])
        return any(
            step.kind == "norm" and layers[step.sources[0]] and readers[step.sources[0]] > 1 for step in self.steps
        )

    def exact(self, X: np.ndarray) -> np.ndarray:
        """Return the outputs in extended precision."""
        values = [X.astype(np.longdouble)]
        for step in self.steps:
            values.append(EXACT[step.kind](step, *(values[source] for source in step.sources)))
        return values[-1]


def _affine(step: Step, x: np.ndarray) -> Any:
    numbers = {name: number.astype(np.longdouble) for name, number in step.numbers.items()}
    return x @ numbers["weight"] + numbers.get("bias", 0)


def _norm(step: Step, x: np.ndarray) -> Any:
    gain, shift, mean, variance = (step.numbers[k].astype(np.longdouble) for k in ("gain", "shift", "mean", "variance"))
    return (x - mean) / np.sqrt(variance + EPSILON) * gain + shift


def _function(step: Step, x: np.ndarray) -> Any:
    assert step.function is not None
    if step.function.name == "gelu":  # its error function is known in float64 only, which is exact beside float32
        return in_float64(step.function, x.astype(np.float64)).astype(np.longdouble)
    return in_float64(step.function, x)


EXACT: dict[str, Callable[..., Any]] = {
    "affine": _affine,
    "norm": _norm,
    "function": _function,
    "sum": lambda step, *parts: sum(parts[1:], parts[0]),
    "difference": lambda step, a, b: a - b,
    "product": lambda step, x: x * step.numbers["factor"].astype(np.longdouble),
    "quotient": lambda step, x: x / step.numbers["factor"].astype(np.longdouble),
    "shift": lambda step, x: x + step.numbers["shift"].astype(np.longdouble),
    "concatenate": lambda step, *parts: np.concatenate(parts, axis=1),
    "columns": lambda step, x: x[:, list(step.columns)],
}


class Writer:
    """Writes a random program."""

    def __init__(self, rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
        self.rng, self.dtype = rng, dtype
        self.widths = [int(rng.integers(2, 6))]
        self.steps: list[Step] = []

    def write(self) -> Program:
        makers = [self.affine] * 8 + [self.join] * 4 + [self.apart] * 2 + [self.function] * 4 + [self.norm] * 2
        makers += [self.scale] * 3 + [self.move, self.side_by_side, self.choose]
        for _ in range(self.rng.integers(3, 10)):
            makers[self.rng.integers(len(makers))](self.pick())
        total = self.affine(len(self.steps), width=2)
        if self.rng.random() < 0.4:  # a skip to the output
            self.add("sum", total, self.affine(self.pick(), width=2))
        return Program(self.widths[0], self.dtype, tuple(self.steps))

    def pick(self) -> int:
        """Return a value, more often a late one."""
        return int(self.rng.integers(len(self.widths), size=2).max())

    def size(self, low: float = -3, high: float = 3) -> float:
        return float(10.0 ** self.rng.uniform(low, high))

    def normal(self, *shape: int, low: float = -3, high: float = 3) -> np.ndarray:
        return (self.rng.normal(size=shape) * self.size(low, high)).astype(self.dtype)

    def add(self, kind: str, *sources: int, width: int = 0, **given: Any) -> int:
        width = width or self.widths[sources[0]]
        self.steps.append(Step(kind, sources, width, int(self.rng.integers(4)), **given))
        self.widths.append(width)
        return len(self.steps)

    def affine(self, source: int, width: int = 0) -> int:
        before, width = self.widths[source], width or int(self.rng.choice(WIDTHS))
        weight = self.normal(before, width, low=-4, high=6 if self.rng.random() < 0.2 else 3) / np.sqrt(before)
        if self.rng.random() < 0.3:  # nothing cancels
            weight = np.abs(weight)
        numbers = {"weight": weight.astype(self.dtype)}
        if self.rng.random() < 0.6:
            numbers["bias"] = self.normal(width, high=5)
        return self.add("affine", source, width=width, numbers=numbers)

    def join(self, source: int) -> int:
        """Add another value of the same width, or one that a layer brings to it."""
        width = self.widths[source]
        same = [other for other, each in enumerate(self.widths) if each == width]
        other = int(self.rng.choice(same)) if self.rng.random() < 0.7 else self.affine(self.pick(), width)
        pair = (source, other) if self.rng.random() < 0.5 else (other, source)
        return self.add("sum" if self.rng.random() < 0.8 else "difference", *pair)

    def apart(self, source: int) -> int:
        """Compute a value in two ways whose difference is small: only what they round remains."""
        if self.rng.random() < 0.7:
            source = self.scale(source) if self.rng.random() < 0.5 else self.function(source)
        width = self.widths[source]
        if width > 16 or self.rng.random() < 0.3:
            other = self.add("product", source, numbers={"factor": np.array(1 + 2.0**-20, self.dtype)})
        else:
            other = self.add("affine", source, width=width, numbers={"weight": np.eye(width, dtype=self.dtype)})
        return self.add("difference", other, source)

    def function(self, source: int) -> int:
        listed = IN_DOUBLE if self.dtype == np.float64 else FUNCTIONS
        chosen = listed[self.rng.integers(len(listed))] if self.rng.random() < 0.7 else listed[0]
        return self.add("function", source, function=chosen)

    def norm(self, source: int) -> int:
        width = self.widths[source]
        numbers = {name: self.normal(width) for name in ("gain", "shift", "mean")}
        numbers["variance"] = (self.rng.random(width) * self.size() + 1e-3).astype(self.dtype)
        return self.add("norm", source, numbers=numbers)

    def scale(self, source: int) -> int:
        shape = () if self.rng.random() < 0.7 else (self.widths[source],)
        factor = np.asarray(self.size(-4, 4) * (1 + self.rng.random(shape)), self.dtype)
        return self.add("product" if self.rng.random() < 0.5 else "quotient", source, numbers={"factor": factor})

    def move(self, source: int) -> int:
        return self.add("shift", source, numbers={"shift": self.normal(self.widths[source], high=5)})

    def side_by_side(self, source: int) -> int:
        other = self.pick()
        return self.add("concatenate", source, other, width=self.widths[source] + self.widths[other])

    def choose(self, source: int) -> int:
        width = self.widths[source]
        chosen = self.rng.permutation(width)[: self.rng.integers(1, width + 1)]
        return self.add("columns", source, width=len(chosen), columns=tuple(sorted(map(int, chosen))))
