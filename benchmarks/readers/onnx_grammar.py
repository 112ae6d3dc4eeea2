"""Random ONNX graphs from a grammar: every operator and attribute that the readers know, with odd numbers in them.

A graph has one or several inputs, values of a few columns and up to a few dozen nodes. Matrices are often square, so
that a wrong transposition still fits; constants are often shared, renamed or transposed by nodes; numbers are often
those that runtimes treat specially (0, -0, 1, subnormal numbers, what float32 rounds to 0, to 1 or to infinity).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

ML = "ai.onnx.ml"
OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 2.0**-149, 2.0**-127, 1e-42, 1e-7, 1 + 2.0**-23, 1 - 2.0**-24, 1e6]
SPECIAL += [2.0**20, 2.0**-20, 2.0**59, 2.0**-59, 2.0**64, 1e30, 3e38]
DOUBLE = [2.0**-150, -(2.0**-150), 2.0**-151, 1e-50, 1e-300, 2.0**-1074, 1 + 2.0**-30, 1 - 2.0**-40, 1 + 2.0**-25]
DOUBLE += [1 + 2.0**-24, 1e39, 2.0**130, 1e300]
TABLE_ROWS = 4


@dataclass(frozen=True)
class Value:
    """A value of a graph, and how many columns it has."""

    name: str
    width: int


@dataclass(frozen=True)
class Case:
    """A graph, the dtype of its numbers, its inputs (name, width, dtype, axes), and how it ends.

    ``closing`` is "none", "sigmoid", "softmax" or "log_softmax", with ", second" for the second of two classes, and
    ``labels`` are those of the decision after it. ``rows`` is the one size of a batch that it takes, or 0.
    """

    model: ModelProto
    dtype: np.dtype[Any]
    inputs: tuple[tuple[str, int, np.dtype[Any], int], ...]
    lookups: tuple[int, ...]
    closing: str
    labels: tuple[Any, ...] = ()
    rows: int = 0

    @property
    def width(self) -> int:
        return sum(width for _, width, _, _ in self.inputs)

    def feed(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return what a caller gives for rows (rows, width) of numbers."""
        found, start = {}, 0
        for name, width, dtype, axes in self.inputs:
            part = rows[:, start : start + width].astype(dtype)
            found[name] = part if axes == 2 else part[:, 0]
            start += width
        return found


@dataclass
class Grammar:
    """Writes a random graph."""

    rng: np.random.Generator
    nodes: list[Any] = field(default_factory=list)
    initializers: dict[str, np.ndarray] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    inputs: list[tuple[str, int, np.dtype[Any], int]] = field(default_factory=list)
    lookups: list[int] = field(default_factory=list)

    def write(self) -> Case:
        """Return a graph: inputs, some random nodes, a layer, and how it ends."""
        rng = self.rng
        self.dtype = np.dtype(np.float64 if rng.random() < 0.5 else np.float32)
        self.element = TensorProto.DOUBLE if self.dtype == np.float64 else TensorProto.FLOAT
        self.opset = int(rng.choice(OPSETS if self.chance(0.3) else OPSETS[:-3]))  # ONNX Runtime 1.18 knows 21
        self.odd = float(rng.choice([0.02, 0.15, 0.5]))  # how often a number is a special one
        self.spread = float(rng.choice([3.0, 3.0, 3.0, 20.0]))  # how many powers of 10 the sizes of constants span
        self.used = 0
        self.rows = int(rng.choice([1, 3])) if rng.random() < 0.15 else 0
        self._read_inputs()
        makers = self._makers()
        for _ in range(rng.integers(1, 9)):
            self.values.append(makers[rng.integers(len(makers))](self.pick()))
        last = self.values[-1]
        if rng.random() < 0.93:
            last = self.gemm(last) if rng.random() < 0.5 else self.product(last)
        return self._finish(last)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self) -> Value:
        """Return a value, more often a late one."""
        return self.values[int(self.rng.integers(len(self.values), size=2).max())]

    def name(self, prefix: str = "v") -> str:
        self.used += 1
        return f"{prefix}{self.used}"

    def node(self, kind: str, inputs: list[str], width: int, **attributes: Any) -> Value:
        """Add a node with one output."""
        output = self.name()
        domain = {"domain": ML} if kind in ("Scaler", "ZipMap", "ArrayFeatureExtractor") else {}
        self.nodes.append(helper.make_node(kind, inputs, [output], **domain, **attributes))
        return Value(output, width)

    def number(self) -> float:
        """Return a number, often a special one."""
        if self.chance(self.odd):
            listed = SPECIAL + (DOUBLE if self.dtype == np.float64 else [])
            return float(self.rng.choice(listed)) * (1 if self.chance(0.8) else -1)
        return float(self.rng.normal() * 10.0 ** self.rng.uniform(-self.spread + 1, self.spread - 1))

    def single(self) -> float:
        """Return a number for an attribute, which is float32."""
        with np.errstate(all="ignore"):
            found = float(np.float32(self.number()))
        return found if math.isfinite(found) else 1.0

    def array(self, *shape: int) -> np.ndarray:
        """Return numbers for a constant: of one size, some of them special, or all 0, or the unit matrix."""
        roll = self.rng.random()
        if roll < 0.08 + self.odd / 4:
            return np.zeros(shape, self.dtype)
        if roll < 0.3 and len(shape) == 2 and shape[0] == shape[1]:
            return np.eye(shape[0], dtype=self.dtype)
        found = self.rng.normal(size=shape) * 10.0 ** self.rng.uniform(-self.spread, self.spread)
        chosen = self.rng.random(shape) < self.odd / 2
        found = np.where(chosen, np.array([self.number() for _ in range(found.size)]).reshape(shape), found)
        with np.errstate(all="ignore"):
            found = found.astype(self.dtype)
        return np.where(np.isfinite(found), found, 1).astype(self.dtype)

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add a constant: as an initialiser or a node, shared with others, renamed, or transposed."""
        array = np.asarray(value, dtype=self.dtype if dtype is None else dtype)
        key = array.dtype, array.shape, array.tobytes()
        same = [name for name, one in self.initializers.items() if (one.dtype, one.shape, one.tobytes()) == key]
        if same and self.chance(0.5):
            return same[0]
        name = self._transposed(array) if array.ndim == 2 and self.chance(0.2) else self._stored(array)
        if self.chance(0.08):
            name = self.node("Identity", [name], 0).name
        return name

    def _stored(self, array: np.ndarray) -> str:
        if self.chance(0.2):
            scalar = array.dtype == np.float32 and array.ndim <= 1 and self.opset >= 12 and self.chance(0.5)
            if scalar and array.ndim == 0:
                return self.node("Constant", [], 0, value_float=float(array)).name
            if scalar:
                return self.node("Constant", [], 0, value_floats=array.tolist()).name
            return self.node("Constant", [], 0, value=numpy_helper.from_array(array, "value")).name
        name = self.name("c")
        self.initializers[name] = array
        return name

    def _transposed(self, array: np.ndarray) -> str:
        """Return a matrix that nodes transpose: once, twice, or in the order that it has."""
        roll = self.rng.random()
        if roll < 0.7:
            given = {"perm": [1, 0]} if self.chance(0.5) else {}
            return self.node("Transpose", [self._stored(array.T.copy())], 0, **given).name
        if roll < 0.85:
            first = self.node("Transpose", [self._stored(array)], 0, perm=[1, 0]).name
            return self.node("Transpose", [first], 0, perm=[1, 0]).name
        return self.node("Transpose", [self._stored(array)], 0, perm=[0, 1]).name

    def whole(self, value: Any) -> str:
        return self._stored(np.asarray(value, np.int64))

    def axes(self, kind: str, source: str, axes: list[int], since: int, width: int, **attributes: Any) -> Value:
        """Add a node whose axes are an attribute before an operator set, and an input since then."""
        if self.opset < since:
            return self.node(kind, [source], width, axes=axes, **attributes)
        return self.node(kind, [source, self.whole(axes)], width, **attributes)

    def _read_inputs(self) -> None:
        rng = self.rng
        count = int(rng.choice([1, 2, 3], p=[0.8, 0.15, 0.05]))
        whole = np.dtype(np.int32 if self.chance(0.2) else np.int64)
        looked_up = rng.random(count) < (0.08 if count == 1 else 0.3)
        if looked_up.all():  # whole numbers alone stand for float32
            self.dtype, self.element = np.dtype(np.float32), TensorProto.FLOAT
        start = 0
        for number in range(count):
            name, width = f"x{number}", int(rng.integers(1, 5))
            if looked_up[number]:
                axes = 1 if count > 1 and self.chance(0.4) else 2
                width = 1 if axes == 1 or self.chance(0.6) else width
                self.inputs.append((name, width, whole, axes))
                self.values.append(self._look_up(name, width, axes))
                self.lookups += range(start, start + width)
            else:
                self.inputs.append((name, width, self.dtype, 2))
                self.values.append(Value(name, width))
            start += width
        if count > 1:
            total = sum(value.width for value in self.values)
            whole_row = self.node("Concat", [value.name for value in self.values], total, axis=1)
            self.values = [whole_row, *self.values] if self.chance(0.3) else [whole_row]
        if not self.lookups and self.chance(0.06):
            self._look_up_in_numbers()

    def _look_up_in_numbers(self) -> None:
        """Take one column of numbers as the number of a row of a table."""
        value, column = self.values[0], int(self.rng.integers(self.values[0].width))
        picked = self.node("Gather", [value.name, self.whole([column] if self.chance(0.5) else column)], 1, axis=1)
        one = self.nodes[-1].input[1]
        axes = 2 if self._array_of(one).ndim else 1
        cast = self.node("Cast", [picked.name], 1, to=TensorProto.INT64)
        found = self._look_up(cast.name, 1, axes)
        self.lookups.append(column)
        self.values.append(self.node("Concat", [value.name, found.name], value.width + found.width, axis=1))

    def _array_of(self, name: str) -> np.ndarray:
        if name in self.initializers:
            return self.initializers[name]
        made = next(node for node in self.nodes if node.output[0] == name)
        return numpy_helper.to_array(made.attribute[0].t)

    def _look_up(self, name: str, width: int, axes: int) -> Value:
        """Look up rows of a table, or encode one column by one-hot vectors."""
        if axes == 2 and width == 1 and self.chance(0.4):
            name, axes = self.axes("Squeeze", name, [1], 13, 1).name, 1
        if axes == 1 and self.chance(0.4) and self.opset >= 11:
            values = self._stored(np.array([0, 1], self.dtype))
            given = {"axis": int(self.rng.choice([-1, 1]))}
            return self.node("OneHot", [name, self.whole([TABLE_ROWS] if self.chance(0.5) else TABLE_ROWS), values],
                             TABLE_ROWS, **given)  # fmt: skip
        columns = int(self.rng.integers(1, 4))
        table = self._stored(self.array(TABLE_ROWS, columns))
        found = self.node("Gather", [table, name], columns * width, **({"axis": 0} if self.chance(0.5) else {}))
        if axes == 1:
            return found
        if width == 1 and self.chance(0.3):
            return self.axes("Squeeze", found.name, [1], 13, columns)
        if self.chance(0.5):
            return self.node("Flatten", [found.name], found.width, axis=1)
        shape = [int(self.rng.choice([-1, 0])), found.width]
        return self.node("Reshape", [found.name, self.whole(shape)], found.width)

    def _makers(self) -> list[Callable[[Value], Value]]:
        makers = [self.gemm] * 4 + [self.product] * 4 + [self.function] * 4 + [self.pattern] * 3 + [self.join] * 3
        makers += [self.with_number] * 6 + [self.pass_on] * 3 + [self.norm] * 2 + [self.take_apart] * 2
        return [*makers, self.choose, self.side_by_side, self.reduce, self.stack, self.scaler, self.negate]

    def width(self) -> int:
        return int(self.rng.integers(1, 5))

    def gemm(self, x: Value) -> Value:
        width = x.width if self.chance(0.5) else self.width()
        flipped = self.chance(0.5)
        weight = self.constant(self.array(width, x.width) if flipped else self.array(x.width, width))
        inputs = [x.name, weight]
        roll = self.rng.random()
        if roll < 0.7 or self.opset < 11:
            shapes: list[tuple[int, ...]] = [(width,), (1, width), (1,), (), (1, 1)]
            inputs.append(self.constant(self.array(*shapes[self.rng.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1])])))
        elif roll < 0.75:
            inputs.append("")
        given: dict[str, Any] = {"transB": 1} if flipped else {"transB": 0} if self.chance(0.2) else {}
        if self.chance(0.15):
            given["alpha"] = self.single()
        if self.chance(0.15):
            given["beta"] = self.single()
        if self.chance(0.02):
            given["transA"] = 1
        return self.node("Gemm", inputs, width, **given)

    def product(self, x: Value) -> Value:
        """Multiply by a matrix, and perhaps add a bias in either order."""
        width = x.width if self.chance(0.5) else self.width()
        found = self.node("MatMul", [x.name, self.constant(self.array(x.width, width))], width)
        if self.chance(0.6):
            kind = "Add" if self.chance(0.85) else "Sub"
            return self._shifted(kind, found)
        return found

    def per_column(self, width: int, *, added: bool = False) -> str:
        shapes: list[tuple[int, ...]] = [(), (1,), (1, 1), (width,), (1, width)]
        shape = shapes[self.rng.choice(5, p=[0.3, 0.2, 0.1, 0.3, 0.1])]
        if math.prod(shape) == 1:
            with np.errstate(all="ignore"):
                found = np.full(shape, self.number()).astype(self.dtype)
            if added and self.chance(self.odd / 2) and self.dtype == np.float64:
                found = np.full(shape, self.rng.choice(DOUBLE[:6]))
            return self.constant(np.where(np.isfinite(found), found, 1))
        return self.constant(self.array(*shape))

    def _shifted(self, kind: str, x: Value) -> Value:
        inputs = [x.name, self.per_column(x.width, added=True)]
        return self.node(kind, inputs if self.chance(0.7) else inputs[::-1], x.width)

    def with_number(self, x: Value) -> Value:
        kind = str(self.rng.choice(["Add", "Sub", "Mul", "Div"]))
        inputs = [x.name, self.per_column(x.width, added=kind in ("Add", "Sub"))]
        swapped = kind != "Div" and self.chance(0.3)
        return self.node(kind, inputs[::-1] if swapped else inputs, x.width)

    def negate(self, x: Value) -> Value:
        return self.node("Neg", [x.name], x.width)

    def join(self, x: Value) -> Value:
        """Add up values of one width, which may be the same one."""
        same = [value for value in self.values if value.width == x.width]
        other = same[self.rng.integers(len(same))] if same and self.chance(0.7) else self.gemm_to(self.pick(), x.width)
        if self.chance(0.03):
            other = self.pick()  # of another width, or with another axis: broadcast, which readers refuse
            if other.width == 1:
                other = self.axes("Squeeze", other.name, [1], 13, 1)
        pair = [x.name, other.name] if self.chance(0.5) else [other.name, x.name]
        kind = str(self.rng.choice(["Add", "Sub", "Sum", "Mean"], p=[0.4, 0.25, 0.2, 0.15]))
        if kind in ("Sum", "Mean") and self.chance(0.4):
            pair = pair[:1] if self.chance(0.3) else [*pair, x.name]
        return self.node(kind, pair, x.width)

    def gemm_to(self, x: Value, width: int) -> Value:
        weight = self.array(x.width, width)
        if self.chance(0.5) or self.opset < 11:
            return self.node("MatMul", [x.name, self.constant(weight)], width)
        given = {"beta": self.single()} if self.chance(0.2) else {}  # of no bias
        return self.node("Gemm", [x.name, self.constant(weight.T.copy())], width, transB=1, **given)

    def function(self, x: Value) -> Value:
        kinds = ["Relu", "Relu", "LeakyRelu", "PRelu", "Clip", "Clip", "Elu", "Tanh", "Sigmoid", "Softplus", "Softsign"]
        kinds += ["HardSigmoid", "Selu"]
        kinds += ["Celu"] * (self.opset >= 12) + ["HardSwish"] * (self.opset >= 14) + ["Mish"] * (self.opset >= 18)
        kinds += ["Gelu"] * 2 * (self.opset >= 20)
        if self.dtype == np.float64 and self.chance(0.8):  # which ONNX Runtime has in float64
            kinds = ["Relu", "Clip", "Tanh", "Sigmoid"]
        kind = str(self.rng.choice(kinds))
        if kind == "Clip":
            return self.clip(x)
        if kind == "PRelu":
            return self.node(kind, [x.name, self.per_column(x.width)], x.width)
        given: dict[str, Any] = {}
        if kind in ("LeakyRelu", "Elu", "Celu", "HardSigmoid") and self.chance(0.7):
            given["alpha"] = abs(self.single()) if self.chance(0.9) else self.single()
        if kind == "HardSigmoid":
            given |= {"beta": self.single()} if self.chance(0.5) else {}
            given |= {"alpha": float(np.float32(1 / 6))} if self.chance(0.3) else {}
        if kind == "Gelu" and self.chance(0.5):
            given["approximate"] = "tanh"
        return self.node(kind, [x.name], x.width, **given)

    def clip(self, x: Value) -> Value:
        ends = sorted([self.single() if self.opset < 11 else self.number(), self.number()], reverse=self.chance(0.05))
        with np.errstate(all="ignore"):
            low, high = (self.dtype.type(end) for end in ends)
        low = self.dtype.type(0) if self.chance(0.3) else low
        if self.opset < 11:
            limits = {"min": float(np.float32(low)), "max": float(np.float32(high))}
            limits = {key: limit for key, limit in limits.items() if self.chance(0.8) and math.isfinite(limit)}
            return self.node("Clip", [x.name], x.width, **limits)
        shape = () if self.chance(0.9) else (1,)
        inputs = [x.name, self.constant(np.full(shape, low)) if self.chance(0.8) else ""]
        inputs += [self.constant(np.full(shape, high))] if self.chance(0.8) else []
        return self.node("Clip", inputs, x.width)

    def pattern(self, x: Value) -> Value:
        """Write a function as several nodes; now and then with a number that is slightly another one."""
        kind = str(self.rng.choice(list(PATTERNS)))
        if self.dtype == np.float64 and self.chance(0.8):
            kind = str(self.rng.choice(["silu", "softsign", "hardswish", "gelu_tanh", "gelu_tanh of products"]))
        names = {"x": x.name}
        off = 1 + (float(self.rng.choice([2.0**-50, 2.0**-23, 1e-6, 1e-3])) if self.chance(0.1) else 0)
        for line in PATTERNS[kind]:
            result, operator, read = line.replace(")", "").replace(" = ", "(").split("(")
            inputs = [names[each] if each in names else self.constant(NUMBERS[each] * off) for each in read.split(", ")]
            if operator in ("Add", "Mul") and self.chance(0.3):
                inputs.reverse()
            if operator == "Clip" and self.opset < 11:
                names[result] = self.node("Clip", inputs[:1], x.width, min=0.0, max=6.0).name
                continue
            given = {"alpha": float(np.float32(1 / 6)), "beta": 0.5} if operator == "HardSigmoid" else {}
            names[result] = self.node(operator, inputs, x.width, **given).name
            off = 1.0
        return Value(names["y"], x.width)

    def norm(self, x: Value) -> Value:
        numbers = [self.constant(self.array(x.width)) for _ in range(3)]
        variance = np.abs(self.array(x.width)) + self.dtype.type(1e-3 if self.chance(0.8) else 0)
        given = {"epsilon": abs(self.single())} if self.chance(0.3) else {}
        given |= {"momentum": 0.5} if self.chance(0.2) else {}
        return self.node("BatchNormalization", [x.name, *numbers, self.constant(variance)], x.width, **given)

    def scaler(self, x: Value) -> Value:
        offset, scale = ([self.single() for _ in range(x.width if self.chance(0.8) else 1)] for _ in range(2))
        return self.node("Scaler", [x.name], x.width, offset=offset, scale=scale)

    def choose(self, x: Value) -> Value:
        """Take some columns, by their numbers or as a slice."""
        if self.chance(0.5):
            columns = self.rng.integers(-x.width, x.width, size=self.rng.integers(1, 5)).tolist()
            return self.node("Gather", [x.name, self.whole(columns)], len(columns), axis=int(self.rng.choice([1, -1])))
        step = int(self.rng.choice([1, 1, 2, -1]))
        start, end = (0, x.width) if step > 0 else (x.width - 1, -x.width - 1)
        start = int(self.rng.integers(x.width)) if self.chance(0.4) else start
        end = 2**31 - 1 if step > 0 and self.chance(0.3) else end
        width = len(range(x.width)[slice(start, end if end >= 0 else None, step)])
        if self.opset < 10:
            return self.node("Slice", [x.name], len(range(start, x.width)), starts=[start], ends=[2**31 - 1], axes=[1])
        inputs = [self.whole([start]), self.whole([end]), self.whole([int(self.rng.choice([1, -1]))])]
        inputs += [self.whole([step])] if step != 1 or self.chance(0.3) else []
        return self.node("Slice", [x.name, *inputs], max(width, 1))

    def take_apart(self, x: Value) -> Value:
        """Take a value apart, and put its parts together in some order."""
        roll, parts = self.rng.random(), list[Value]()
        if roll < 0.35:
            for column in range(x.width):
                one = self.node("Gather", [x.name, self.whole(column)], 1, axis=1)
                parts.append(self.axes("Unsqueeze", one.name, [1], 13, 1))
        elif roll < 0.6 and self.opset >= 10:
            for column in range(x.width):
                ends = [self.whole([column]), self.whole([column + 1]), self.whole([1])]
                parts.append(self.node("Slice", [x.name, *ends], 1))
        else:
            count = int(self.rng.integers(1, x.width + 1))
            cuts = np.sort(self.rng.permutation(x.width - 1)[: count - 1] + 1)
            sizes = np.diff([0, *cuts, x.width]).tolist()
            outputs = [self.name() for _ in sizes]
            given = {"split": sizes} if self.opset < 13 else {}
            inputs = [x.name] if given else [x.name, self.whole(sizes)]
            self.nodes.append(helper.make_node("Split", inputs, outputs, axis=1, **given))
            parts = [Value(name, size) for name, size in zip(outputs, sizes, strict=True)]
        order = [parts[k] for k in self.rng.permutation(len(parts))]
        if self.chance(0.3) and len({part.width for part in order}) == 1 and len(order) > 1:
            return self.node(str(self.rng.choice(["Sum", "Mean"])), [part.name for part in order], order[0].width)
        total = sum(part.width for part in order)
        return self.node("Concat", [part.name for part in order], total, axis=int(self.rng.choice([1, -1])))

    def side_by_side(self, x: Value) -> Value:
        others = [x, *(self.pick() for _ in range(self.rng.integers(0, 3)))]
        if sum(value.width for value in others) > 8:
            others = others[:1]
        return self.node("Concat", [value.name for value in others], sum(value.width for value in others), axis=1)

    def reduce(self, x: Value) -> Value:
        kind, keep = str(self.rng.choice(["ReduceSum", "ReduceMean"])), int(self.rng.integers(2))
        given = {"keepdims": keep} if not keep or self.chance(0.5) else {}
        axis = int(self.rng.choice([1, -1]))
        found = self.axes(kind, x.name, [axis], 13 if kind == "ReduceSum" else 18, 1, **given)
        return found if keep else self.axes("Unsqueeze", found.name, [1], 13, 1)

    def stack(self, x: Value) -> Value:
        """Stack values of one width along a new axis, and add them up along it."""
        same = [value for value in self.values if value.width == x.width] or [x]
        parts = [x, *(same[k] for k in self.rng.integers(len(same), size=self.rng.integers(1, 3)))]
        axis = int(self.rng.choice([0, 1, 2, -1, -2]))
        wide = [self.axes("Unsqueeze", part.name, [axis], 13, x.width).name for part in parts]
        stacked = self.node("Concat", wide, x.width, axis=axis)
        kind = str(self.rng.choice(["ReduceSum", "ReduceMean"]))
        return self.axes(kind, stacked.name, [axis], 13 if kind == "ReduceSum" else 18, x.width, keepdims=0)

    def pass_on(self, x: Value) -> Value:
        """Do nothing, in one of many ways."""
        roll = int(self.rng.integers(8))
        if roll == 0:
            return self.node("Identity", [x.name], x.width)
        if roll == 1:
            return self.dropout(x)
        if roll == 2:
            return self.node("Cast", [x.name], x.width, to=self.element)
        if roll == 3:
            given = {"axis": int(self.rng.choice([1, -1]))} if self.chance(0.7) else {}
            return self.node("Flatten", [x.name], x.width, **given)
        if roll == 4:
            shape = [[-1, x.width], [0, x.width], [0, -1]][self.rng.integers(3)]
            given = {"allowzero": int(self.rng.integers(2))} if self.opset >= 14 and self.chance(0.3) else {}
            return self.node("Reshape", [x.name, self.whole(shape)], x.width, **given)
        if roll == 5 and x.width == 1:
            if self.chance(0.1):
                flat = self.node("Squeeze", [x.name], 1)
            elif self.chance(0.5):
                flat = self.axes("Squeeze", x.name, [int(self.rng.choice([1, -1]))], 13, 1)
            else:
                flat = self.node("Reshape", [x.name, self.whole([-1])], 1)
            flat = self.node("Relu", [flat.name], 1) if self.chance(0.3) else flat
            return self.axes("Unsqueeze", flat.name, [1], 13, 1)
        if roll == 6:
            other = TensorProto.FLOAT if self.element == TensorProto.DOUBLE else TensorProto.DOUBLE
            there = self.node("Cast", [x.name], x.width, to=other if self.chance(0.5) else TensorProto.INT64)
            return self.node("Cast", [there.name], x.width, to=self.element)
        whole = [[0], [2**31 - 1], [0], [1]]
        if self.opset >= 10:
            return self.node("Slice", [x.name, *map(self.whole, whole)], x.width)
        return self.node("Identity", [x.name], x.width)

    def dropout(self, x: Value) -> Value:
        if self.opset < 12:
            return self.node("Dropout", [x.name], x.width, **({"ratio": 0.3} if self.chance(0.5) else {}))
        inputs = [x.name]
        if self.chance(0.5):
            inputs.append(self._stored(np.array(0.3, np.float32)))
            inputs += [self._stored(np.array(False))] if self.chance(0.5) else []
        return self.node("Dropout", inputs, x.width, **({"seed": 1} if self.chance(0.2) else {}))

    def _finish(self, last: Value) -> Case:
        closing, labels = "none", tuple[Any, ...]()
        outputs: list[Any] = []
        dims: list[Any] = [self.rows or "n", last.width]
        roll = self.rng.random()
        if last.width == 1 and roll < 0.3:
            closing, last = "sigmoid", self.node("Sigmoid", [last.name], 1)
            if self.chance(0.5):
                outputs, labels = self._decide(last, binary=True)
        elif last.width > 1 and roll < 0.45:
            given = {"axis": int(self.rng.choice([1, -1]))}
            if self.opset < 11:
                given["axis"] = 1
            closing = "softmax" if self.chance(0.7) else "log_softmax"
            last = self.node("Softmax" if closing == "softmax" else "LogSoftmax", [last.name], last.width, **given)
            if closing == "softmax" and self.chance(0.5):
                outputs, labels = self._decide(last, binary=False)
            elif last.width == 2 and self.chance(0.3):
                closing, last = f"{closing}, second", self.node("Gather", [last.name, self.whole([1])], 1, axis=1)
                dims[1] = 1
        if not labels and dims[1] == 1 and self.chance(0.3):
            last = self.axes("Squeeze", last.name, [1], 13, 1)
            dims = dims[:1]
        if not outputs:
            outputs = [helper.make_tensor_value_info(last.name, self.element, dims)]
        return self._case(outputs, closing, labels)

    def _decide(self, p: Value, *, binary: bool) -> tuple[list[Any], tuple[Any, ...]]:
        """Choose a label as skl2onnx does; return the outputs and the labels."""
        row, classes = p, 2 if binary else p.width
        if binary:
            rest = self.node("Sub", [self._stored(np.array([1], self.dtype)), p.name], 1)
            row = self.node("Concat", [rest.name, p.name], 2, axis=1)
        texts = self.chance(0.3)
        numbers = self.rng.permutation(classes + 3)[:classes].tolist()
        labels = [f"class {number}" for number in numbers] if texts else numbers
        given = {"axis": 1} if self.chance(0.5) else {"axis": 1, "keepdims": 1}
        chosen = self.node("ArgMax", [row.name], 1, **given)
        stored = self.name("c")
        self.initializers[stored] = np.array(labels, object if texts else np.int64)
        picked = self.node("ArrayFeatureExtractor", [stored, chosen.name], 1)
        label = self.node("Reshape", [picked.name, self.whole([-1])], 1)
        if not texts and self.chance(0.5):
            label = self.node("Cast", [label.name], 1, to=TensorProto.INT64)
        kind = TensorProto.STRING if texts else TensorProto.INT64
        rows = self.rows or "n"
        outputs = [helper.make_tensor_value_info(label.name, kind, [rows])]
        if self.dtype == np.float32 and self.chance(0.3):
            keys = {"classlabels_strings": labels} if texts else {"classlabels_int64s": labels}
            zipped = self.node("ZipMap", [row.name], 1, **keys)
            key = TensorProto.STRING if texts else TensorProto.INT64
            inside = helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
            outputs.append(helper.make_value_info(zipped.name, helper.make_sequence_type_proto(inside)))
        else:
            outputs.append(helper.make_tensor_value_info(row.name, self.element, [rows, classes]))
        return outputs, tuple(labels)

    def _case(self, outputs: list[Any], closing: str, labels: tuple[Any, ...]) -> Case:
        needed, kept = {value.name for value in outputs}, list[Any]()
        for node in reversed(self.nodes):
            if needed & set(node.output):
                kept.insert(0, node)
                needed |= set(node.input)
        constants = []
        for name, array in self.initializers.items():
            if name in needed and array.dtype == object:
                constants.append(helper.make_tensor(name, TensorProto.STRING, array.shape, array.tolist()))
            elif name in needed:
                constants.append(numpy_helper.from_array(array, name))
        elements = {np.dtype(np.float32): 1, np.dtype(np.float64): 11, np.dtype(np.int64): 7, np.dtype(np.int32): 6}
        inputs = [
            helper.make_tensor_value_info(name, elements[dtype], [self.rows or "n", width][:axes])
            for name, width, dtype, axes in self.inputs
        ]
        graph = helper.make_graph(kept, "grammar", inputs, outputs, constants)
        imports = [helper.make_opsetid("", self.opset)]
        if any(node.domain == ML for node in kept):
            imports.append(helper.make_opsetid(ML, 1 if self.opset < 12 else 3))
        model = helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 21 else 10)
        model.ClearField("producer_name")
        return Case(model, self.dtype, tuple(self.inputs), tuple(self.lookups), closing, labels, self.rows)


# Functions that exporters write as several nodes, of x and of numbers.
PATTERNS: dict[str, list[str]] = {
    "silu": ["s = Sigmoid(x)", "y = Mul(x, s)"],
    "mish": ["p = Softplus(x)", "t = Tanh(p)", "y = Mul(x, t)"],
    "softsign": ["a = Abs(x)", "p = Add(a, 1)", "y = Div(x, p)"],
    "softplus": ["g = Greater(x, 20)", "p = Softplus(x)", "y = Where(g, x, p)"],
    "hardswish": ["a = Add(x, 3)", "c = Clip(a, 0, 6)", "p = Mul(x, c)", "y = Div(p, 6)"],
    "hardswish as a product": ["a = Add(x, 3)", "c = Clip(a, 0, 6)", "p = Mul(c, 1/6)", "y = Mul(x, p)"],
    "hardswish of a sigmoid": ["s = HardSigmoid(x)", "y = Mul(x, s)"],
    "gelu": ["d = Div(x, root)", "e = Erf(d)", "p = Add(e, 1)", "q = Mul(x, p)", "y = Mul(q, 1/2)"],
    "gelu, half first": ["d = Mul(x, 1/root)", "e = Erf(d)", "p = Add(e, 1)", "h = Mul(x, 1/2)", "y = Mul(h, p)"],
    "gelu_tanh": [
        *("c = Pow(x, 3)", "q = Mul(c, cubic)", "a = Add(x, q)", "b = Mul(a, wide)", "t = Tanh(b)", "p = Add(t, 1)"),
        *("h = Mul(x, 1/2)", "y = Mul(h, p)"),
    ],
    "gelu_tanh of products": [
        *("d = Mul(x, x)", "c = Mul(d, x)", "q = Mul(c, cubic)", "a = Add(x, q)", "b = Mul(a, wide)", "t = Tanh(b)"),
        *("p = Add(t, 1)", "h = Mul(x, p)", "y = Mul(h, 1/2)"),
    ],
}  # fmt: skip
NUMBERS = {"0": 0.0, "1": 1.0, "3": 3.0, "6": 6.0, "20": 20.0, "1/2": 0.5, "1/6": 1 / 6, "root": math.sqrt(2)}
NUMBERS |= {"1/root": math.sqrt(0.5), "cubic": 0.044715, "wide": math.sqrt(2 / math.pi)}


def draw_case(seed: int, number: int) -> Case:
    """Return the graph of a seed and a number."""
    return Grammar(np.random.default_rng([seed, number, 29])).write()


def draw_rows(case: Case, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return rows in the dtype of the graph: numbers of several sizes, corners, and numbers of rows of a table."""
    rows = rng.normal(size=(count, case.width)) * 10.0 ** rng.uniform(-3, 4, size=(count, 1))
    corners = np.array([0.0, -0.0, 1.0, -1.0, 2.0**-149, 1e-30, 1e4, -1e4])
    odd = rng.random(rows.shape) < 0.2
    rows[odd] = rng.choice(corners, size=int(odd.sum()))
    rows[0] = 0.0
    for column in case.lookups:
        rows[:, column] = rng.integers(TABLE_ROWS, size=count)
    return rows.astype(case.dtype)
