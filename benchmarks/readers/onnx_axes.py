"""Attack the readers of ONNX files with values of several axes: random graphs of tokens, heads, masks and products.

    python benchmarks/readers/onnx_axes.py [--count 2000] [--seed 0] [--near] [--reproduce NUMBER] [--keep FOLDER]

A graph grows node by node: each is drawn with odd axes, shapes, broadcasts and equations, and stays if ONNX Runtime
runs the graph so far. Those that the checker reads are run, optimised and not, in batches of several sizes. Outputs
must lie within what the checker encloses. Where fairmend's loader reads the graph too, both must have read the same
network; what it alone reads is compared with the runs as well.
With --near, most graphs have normalisations and GELU as nodes, some with exchanged inputs, with a value of the row
for a constant, or with numbers that are nearly the right ones: ONNX Runtime takes some of them for what they are not.
Prints how many graphs were read, run and refused, and why. Exits with 1 if anything is outside a bound.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import fairmend
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import network_digest
from fairmend_check.readers.read_onnx import read_onnx
from fairmend_check.run.enclosure import close_outputs, enclose_outputs

BATCHES = (1, 2, 5)
OPSETS = (11, 12, 13, 14, 17, 18, 20, 21, 23)
FUNCTIONS = ("Relu", "Tanh", "Sigmoid", "Abs", "Exp", "Softplus", "Sin", "Cos", "Neg", "Softsign", "Elu", "Identity")
_LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)


def session(model: onnx.ModelProto, level: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, level
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Graph:
    """A graph that grows, and what its values are for two rows and for three."""

    def __init__(self, rng: np.random.Generator, *, near: bool = False) -> None:
        self.rng, self.near = rng, near
        self.opset = int(rng.choice(OPSETS))
        self.double = rng.random() < 0.15
        self.dtype = np.float64 if self.double else np.float32
        self.width = int(rng.choice([2, 3, 4, 6, 6, 8, 12]))
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.rows = {count: rng.normal(size=(count, self.width)).astype(self.dtype) for count in (2, 3)}
        self.values: dict[str, dict[int, np.ndarray]] = {"x": dict(self.rows)}
        self.kept = ["x"]
        self.used = 0

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def name(self) -> str:
        self.used += 1
        return f"v{self.used}"

    def constant(self, array: Any) -> str:
        name = self.name()
        self.constants[name] = np.asarray(array)
        return name

    def numbers(self, shape: Any) -> str:
        return self.constant(np.round(self.rng.normal(size=tuple(shape)), 3).astype(self.dtype))

    def whole(self, numbers: Any) -> str:
        return self.constant(np.array(numbers, np.int64))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name][2].shape

    def batch_axis(self, name: str) -> int | None:
        two, three = self.values[name][2].shape, self.values[name][3].shape
        found = [axis for axis, (a, b) in enumerate(zip(two, three, strict=False)) if a != b]
        return found[0] if len(found) == 1 and len(two) == len(three) else None

    def model(self, output: str, name: str = "g") -> onnx.ModelProto:
        element = TensorProto.DOUBLE if self.double else TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info("x", element, ["rows", self.width])]
        rank = len(self.shape(output)) if output in self.values else 2
        sizes: list[Any] = [f"d{axis}" for axis in range(rank)]
        if output in self.values and self.batch_axis(output) == 0:
            sizes = ["rows", *self.shape(output)[1:]]
        outputs = [helper.make_tensor_value_info(output, element, sizes)]
        initializers = [numpy_helper.from_array(array, key) for key, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, name, inputs, outputs, initializers)
        versions = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=versions, ir_version=8 if self.opset < 22 else 10)

    def add(self, kind: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> bool:
        """Add a node if it runs, with numbers that are not too large, for two and for three rows."""
        names = [self.name() for _ in range(outputs)]
        element = TensorProto.DOUBLE if self.double else TensorProto.FLOAT
        before = len(self.nodes)
        try:
            self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
            model = self.model(names[0])
            del model.graph.output[:]
            model.graph.output.extend(helper.make_tensor_value_info(name, element, None) for name in names)
            runner = session(model, _LEVELS[0])
            found = {count: runner.run(None, {"x": rows}) for count, rows in self.rows.items()}
        except Exception:  # a node that cannot be run is not part of the graph
            del self.nodes[before:]
            return False
        arrays = [array for each in found.values() for array in each]
        fine = all(
            isinstance(array, np.ndarray)
            and array.size <= 3 * 400
            and np.isfinite(array).all()
            and np.abs(array).max(initial=0) < 1e4
            for array in arrays
        )
        if not fine:
            self.nodes.pop()
            return False
        for place, name in enumerate(names):
            self.values[name] = {count: each[place] for count, each in found.items()}
            self.kept.append(name)
        return True

    def pick(self) -> str:
        late = int(self.rng.integers(len(self.kept), size=2).max())
        return self.kept[late]

    def axis(self, rank: int) -> int:
        axis = int(self.rng.integers(rank)) if rank else 0
        return axis - rank if self.chance(0.5) else axis

    def axes(self, kind: str, source: str, axes: list[int], since: int, **attributes: Any) -> bool:
        if self.opset < since:
            return self.add(kind, [source], **({"axes": axes} if axes else {}), **attributes)
        return self.add(kind, [source, *([self.whole(axes)] if axes else [])], **attributes)

    def draw(self) -> bool:
        makers = [
            self._function, self._linear, self._left, self._gemm, self._constant_sum, self._two, self._two,
            self._matmul, self._softmax, self._norm, self._reduce, self._reduce, self._transpose, self._transpose,
            self._reshape, self._reshape, self._squeeze, self._unsqueeze, self._slice, self._gather, self._concat,
            self._split,
            self._expand, self._einsum, self._weighted_einsum, self._where, self._mask, self._power, self._sized,
            self._flatten, self._gate, self._written_norm, self._channel_norm, self._channel_norm,
            self._three_factors, self._n_ary, self._measure, self._measure, self._triangle,
            self._one_of_two, self._gather_nd, self._tile, self._vector, self._every_row,
        ]  # fmt: skip
        if self.near and self.chance(0.6):
            makers = [self._near_norm, self._near_norm, self._near_gelu]
        return makers[int(self.rng.integers(len(makers)))](self.pick())

    def _function(self, x: str) -> bool:
        return self.add(str(self.rng.choice(FUNCTIONS)), [x])

    def _linear(self, x: str) -> bool:
        shape = self.shape(x)
        if not shape:
            return False
        extra = self._broadcast(shape[:-2], full=0.3) if len(shape) > 2 and self.chance(0.4) else ()
        if not self.add("MatMul", [x, self.numbers((*extra, shape[-1], int(self.rng.integers(1, 5))))]):
            return False
        y = self.kept[-1]
        if self.chance(0.5):
            pair = [y, self.numbers(self._broadcast(self.shape(y), full=0.7))]
            self.add("Add", pair if self.chance(0.5) else pair[::-1])
        return True

    def _left(self, x: str) -> bool:
        shape = self.shape(x)
        if len(shape) < 2:
            return False
        return self.add("MatMul", [self.numbers((int(self.rng.integers(1, 4)), shape[-2])), x])

    def _gemm(self, x: str) -> bool:
        shape, width = self.shape(x), int(self.rng.integers(1, 5))
        if len(shape) != 2:
            return False
        turned, left = int(self.chance(0.5)), int(self.chance(0.15))
        inside = shape[0] if left else shape[1]
        bias = [self.numbers(self._broadcast((1, width), full=0.6))] if self.chance(0.7) else []
        more = {"alpha": 0.5, "beta": 2.0} if self.chance(0.3) else {}
        weight = self.numbers((width, inside) if turned else (inside, width))
        return self.add("Gemm", [x, weight, *bias], transB=turned, transA=left, **more)

    def _broadcast(self, shape: tuple[int, ...], full: float = 0.4) -> tuple[int, ...]:
        found = [size if self.chance(full) else 1 for size in shape]
        found = [int(self.rng.integers(2, 4)) if size == 1 and self.chance(0.08) else size for size in found]
        return tuple(found[int(self.rng.integers(len(found) + 1)) if self.chance(0.4) else 0 :])

    def _constant_sum(self, x: str) -> bool:
        kind = str(self.rng.choice(["Add", "Sub", "Mul", "Div"]))
        pair = [x, self.numbers(self._broadcast(self.shape(x)))]
        return self.add(kind, pair if self.chance(0.6) else pair[::-1])

    def _two(self, x: str) -> bool:
        kind = str(self.rng.choice(["Add", "Sub", "Mul", "Mul", "Div"]))
        return self.add(kind, [x, self.pick()])

    def _n_ary(self, x: str) -> bool:
        count = int(self.rng.integers(1, 4))
        kind = str(self.rng.choice(["Sum", "Mean", "Max", "Min", "Max", "Min"]))
        others = [self.pick() for _ in range(count)]
        if kind[0] == "M" and self.chance(0.5):
            others.insert(0, self.numbers(self._broadcast(self.shape(x))))
        return self.add(kind, [x, *others])

    def _matmul(self, x: str) -> bool:
        other = self.pick()
        if self.shape(x)[-1:] == self.shape(other)[-1:] and len(self.shape(x)) >= 2 and self.chance(0.7):
            order = list(range(len(self.shape(other))))
            order[-2:] = order[-2:][::-1]
            if not self.add("Transpose", [other], perm=order):
                return False
            other = self.kept[-1]
        return self.add("MatMul", [x, other])

    def _softmax(self, x: str) -> bool:
        more = {"axis": self.axis(len(self.shape(x)))} if self.chance(0.8) else {}
        return self.add("Softmax" if self.chance(0.9) else "LogSoftmax", [x], **more)

    def _norm(self, x: str) -> bool:
        shape = self.shape(x)
        axis = self.axis(len(shape))
        inside = shape[axis:] if axis >= 0 else shape[len(shape) + axis :]
        kind = "RMSNormalization" if self.opset >= 23 and self.chance(0.5) else "LayerNormalization"
        more = [self.numbers(inside)] if kind[0] == "L" and self.chance(0.7) else []
        stash = {"stash_type": 11} if self.double else {}
        return self.add(kind, [x, self.numbers(inside), *more], axis=axis, **stash)

    def _channel_norm(self, x: str) -> bool:
        channels = (*self.shape(x), 1, 1)[1]
        size = channels if self.chance(0.9) else 2
        more = [self.numbers((size,)) for _ in range(2)]
        if self.chance(0.6):
            return self.add("InstanceNormalization", [x, *more])
        stash = {"stash_type": 11} if self.double else {}
        return self.add("GroupNormalization", [x, *more], num_groups=int(self.rng.integers(1, 4)), **stash)

    def _three_factors(self, x: str) -> bool:
        """Multiply three values, or two and a constant, with axes of names that often fit."""
        given = [x, x if self.chance(0.5) else self.pick(), self.pick() if self.chance(0.6) else ""]
        letters = "abcdefgh"
        parts = []
        for place, name in enumerate(given):
            rank = len(self.shape(name)) if name else int(self.rng.integers(1, 4))
            rest = list(letters[1:]) if self.chance(0.3) else list(letters[1 : rank + 1])
            parts.append(("a" if name else "") + "".join(self.rng.permutation(rest)[: rank - bool(name)]))
            if not name:
                given[place] = self.numbers(tuple(int(self.rng.choice([2, 3, 4])) for _ in parts[-1]))
        used = sorted({*"".join(parts)})
        out = "a" + "".join(name for name in used if name != "a" and self.chance(0.7))
        return self.add("Einsum", given, equation=f"{','.join(parts)}->{out}")

    def _written_norm(self, x: str) -> bool:
        rank = len(self.shape(x))
        if not rank or not self.axes("ReduceMean", x, [self.axis(rank) if self.chance(0.3) else -1], 18):
            return False
        if not self.add("Sub", [x, self.kept[-1]]):
            return False
        y = self.kept[-1] if self.chance(0.8) else x
        if not self.add("Pow", [y, self.constant(np.array(2.0, self.dtype))]):
            return False
        if not self.axes("ReduceMean", self.kept[-1], [self.axis(rank) if self.chance(0.3) else -1], 18):
            return False
        eps = np.array(1e-5, self.dtype).reshape((1,) * int(self.rng.integers(0, 3)))
        if not self.add("Add", [self.kept[-1], self.constant(eps)]) or not self.add("Sqrt", [self.kept[-1]]):
            return False
        if self.chance(0.3):
            root = self.kept[-1]
            return self.add("Reciprocal", [root]) and self.add("Mul", [y, self.kept[-1]])
        return self.add("Div", [y, self.kept[-1]])

    def _near_norm(self, x: str) -> bool:
        """Write a normalisation, its gain and its shift, in a form that may be a little off."""
        rank, apart, one = len(self.shape(x)), x, self.constant(np.array(1.0, self.dtype))
        if not rank:
            return False
        if self.chance(0.6):
            if not self.axes("ReduceMean", x, [-1], 18) or not self.add("Sub", self._either(x, self.kept[-1])):
                return False
            apart = self.kept[-1]
        square = [apart, self.constant(np.array(2.0, self.dtype))] if self.chance(0.7) else [apart, apart]
        if not self.add("Pow" if square[1] != apart else "Mul", square) or not self.axes(
            "ReduceMean", self.kept[-1], [-1], 18
        ):
            return False
        epsilon = np.array(self.rng.choice([1e-5, 0.3]), self.dtype).reshape((1,) * int(self.rng.integers(0, 3)))
        mean, added = self.kept[-1], self.constant(epsilon)
        if self.chance(0.1) and self.add("Abs", [self.pick()]):
            added = self.kept[-1]
        if not self.add("Add", self._either(mean, added)) or not self.add("Sqrt", [self.kept[-1]]):
            return False
        root, form = self.kept[-1], int(self.rng.integers(6))
        if form == 0:
            done = self.add("Reciprocal", [root]) and self.add("Mul", self._either(apart, self.kept[-1], 0.5))
        elif form == 1:
            done = self.add("Div", [one, root]) and self.add("Mul", self._either(apart, self.kept[-1], 0.5))
        else:
            done = self.add("Div", self._either(apart, root))
        if done and self.chance(0.8):
            done = self.add("Mul", self._either(self.kept[-1], self.numbers(self.shape(x)[-1:]), 0.5))
            if done and self.chance(0.7):
                done = self.add("Add", self._either(self.kept[-1], self.numbers(self.shape(x)[-1:]), 0.5))
        return done

    def _either(self, first: str, second: str, chance: float = 0.1) -> list[str]:
        """Return two inputs of a node, at times in the other order."""
        return [second, first] if self.chance(chance) else [first, second]

    def _near_gelu(self, x: str) -> bool:
        """Write GELU by tanh, at times with numbers that are nearly the right ones."""
        numbers = np.array([3.0, 0.044715, np.sqrt(2 / np.pi), 1.0, 0.5])
        if self.chance(0.5):
            numbers[1:] *= 1 + self.rng.choice([0, 1], size=4) * float(self.rng.choice([1e-7, 5e-6, 1e-5, 1e-4, 1e-2]))
        names = [self.constant(np.array(number, self.dtype)) for number in numbers]
        steps = [("Pow", x, 0), ("Mul", "", 1), ("Add", "", x), ("Mul", "", 2), ("Tanh", "", None), ("Add", "", 3)]
        for kind, first, second in [*steps, ("Mul", "", x), ("Mul", "", 4)]:
            read = [first or self.kept[-1], *([] if second is None else [x if second == x else names[int(second)]])]
            if not self.add(kind, read if kind in ("Pow", "Tanh") else self._either(*read, 0.3)):
                return False
        return True

    def _reduce(self, x: str) -> bool:
        rank = len(self.shape(x))
        kind = str(self.rng.choice(["ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"]))
        return self._along(kind, x, rank)

    def _measure(self, x: str) -> bool:
        """Add a norm, or the logarithm of a sum: of positive numbers, in most cases."""
        kind = str(self.rng.choice(["L1", "L2", "LogSum", "LogSumExp", "SumSquare"]))
        if kind == "LogSum" and self.chance(0.8):
            if not self.add(str(self.rng.choice(["Softplus", "Exp", "Sigmoid"])), [x]):
                return False
            x = self.kept[-1]
        return self._along(f"Reduce{kind}", x, len(self.shape(x)))

    def _along(self, kind: str, x: str, rank: int) -> bool:
        since = 13 if kind == "ReduceSum" else 18
        count = int(self.rng.integers(0, 3))
        axes = [self.axis(rank) for _ in range(min(count, rank))] if rank else []
        more = {"keepdims": int(self.chance(0.5))} if self.chance(0.8) else {}
        if self.opset >= since and self.chance(0.1):
            more["noop_with_empty_axes"] = int(self.chance(0.5))
        return self.axes(kind, x, axes, since, **more)

    def _transpose(self, x: str) -> bool:
        order = self.rng.permutation(len(self.shape(x))).tolist()
        return self.add("Transpose", [x], **({"perm": order} if self.chance(0.9) else {}))

    def _sizes(self, x: str) -> list[int]:
        """Return a random shape for the numbers of a value, with 0 and -1 in it."""
        shape, at = list(self.shape(x)), self.batch_axis(x)
        size = int(np.prod([n for axis, n in enumerate(shape) if axis != at]))
        parts: list[int] = []
        while size > 1 and len(parts) < 4:
            part = int(self.rng.choice([n for n in range(1, size + 1) if size % n == 0]))
            parts.append(part)
            size //= part
        parts += [size] * (size > 1)
        self.rng.shuffle(parts)
        parts.insert(int(self.rng.integers(len(parts) + 1)) if self.chance(0.3) else 0, -1)
        if self.chance(0.3):
            for axis in range(min(len(parts), len(shape))):
                if self.chance(0.4):
                    parts[axis] = 0
            if -1 not in parts and self.chance(0.7):
                parts[int(self.rng.integers(len(parts)))] = -1
        return parts

    def _reshape(self, x: str) -> bool:
        more = {"allowzero": int(self.chance(0.5))} if self.opset >= 14 and self.chance(0.2) else {}
        return self.add("Reshape", [x, self.whole(self._sizes(x))], **more)

    def _sized(self, x: str) -> bool:
        """Reshape to sizes that nodes compute: of the rows of the input, or of any axis of the value."""
        owner = x if self.chance(0.5) else "x"
        shape = self.name()
        self.nodes.append(helper.make_node("Shape", [owner], [shape]))
        at = self.batch_axis(owner) or 0
        place = at if self.chance(0.8) else int(self.rng.integers(len(self.shape(owner)) or 1))
        size = self.name()
        taken = [shape, self.whole([place] if self.chance(0.7) else [place - len(self.shape(owner))])]
        kind = int(self.rng.integers(3))
        if kind == 0:
            self.nodes.append(helper.make_node("Gather", taken, [size], axis=0))
        else:
            ends = [self.whole([place]), self.whole([place + 1])]
            axes = [] if kind == 1 else ["", self.whole([1])] if self.chance(0.3) else [self.whole([0])]
            self.nodes.append(helper.make_node("Slice", [shape, *ends, *axes], [size]))
        parts = self._sizes(x)
        joined = [size if part == -1 and self.chance(0.8) else self.whole([part]) for part in parts]
        whole = self.name()
        self.nodes.append(helper.make_node("Concat", joined, [whole], axis=0))
        more = {"allowzero": 1} if self.opset >= 14 and self.chance(0.1) else {}
        before = len(self.nodes)
        if self.add("Reshape", [x, whole], **more):
            return True
        del self.nodes[before - 3 :]
        return False

    def _flatten(self, x: str) -> bool:
        return self.add("Flatten", [x], axis=self.axis(len(self.shape(x)) + 1))

    def _squeeze(self, x: str) -> bool:
        single = [axis for axis, size in enumerate(self.shape(x)) if size == 1]
        axes = single[: int(self.rng.integers(0, len(single) + 1))]
        rank = len(self.shape(x))
        return self.axes("Squeeze", x, [axis - rank if self.chance(0.5) else axis for axis in axes], 13)

    def _unsqueeze(self, x: str) -> bool:
        return self.axes("Unsqueeze", x, [self.axis(len(self.shape(x)) + 1)], 13)

    def _slice(self, x: str) -> bool:
        rank = len(self.shape(x))
        if not rank:
            return False
        count = int(self.rng.integers(1, min(rank, 2) + 1))
        axes = [self.axis(rank) for _ in range(count)]
        starts = [int(self.rng.choice([0, 1, -1, -2, -9, 9, 2**31])) for _ in axes]
        ends = [int(self.rng.choice([0, 1, 2, 3, -1, -9, 9, 2**31 - 1, 2**63 - 1, -(2**63)])) for _ in axes]
        steps = [int(self.rng.choice([1, 1, 2, -1, -2])) for _ in axes]
        lists = [starts, ends, axes, steps][: int(self.rng.choice([2, 3, 4, 4]))]
        if not self.add("Slice", [x, *(self.whole(each) for each in lists)]):
            return False
        return bool(np.size(self.values[self.kept[-1]][2])) or self.forget()

    def forget(self) -> bool:
        self.kept.pop()
        return False

    def _gather(self, x: str) -> bool:
        rank = len(self.shape(x))
        axis = self.axis(rank)
        size = self.shape(x)[axis] if rank else 1
        chosen = self.rng.integers(-size, size, size=int(self.rng.integers(1, 4)))
        indices = chosen[0] if self.chance(0.3) else chosen if self.chance(0.8) else chosen[None]
        return self.add("Gather", [x, self.constant(np.asarray(indices, np.int64))], axis=axis)

    def _concat(self, x: str) -> bool:
        return self.add(
            "Concat", [x, self.pick(), *([x] if self.chance(0.2) else [])], axis=self.axis(len(self.shape(x)))
        )

    def _split(self, x: str) -> bool:
        axis = self.axis(len(self.shape(x)))
        size = self.shape(x)[axis] if self.shape(x) else 1
        if size < 2 or self.opset < 13:
            return False
        first = int(self.rng.integers(1, size))
        if self.chance(0.3):
            more = {"num_outputs": 2} if self.opset >= 18 else {}
            return self.add("Split", [x], 2, axis=axis, **more)
        return self.add("Split", [x, self.whole([first, size - first])], 2, axis=axis)

    def _expand(self, x: str) -> bool:
        shape = [1 if self.chance(0.5) else size for size in self.shape(x)]
        at = self.batch_axis(x)
        shape = [1 if axis == at else 3 if size == 1 and self.chance(0.4) else size for axis, size in enumerate(shape)]
        shape = shape[int(self.rng.integers(2)) :] if self.chance(0.3) else ([1] * self.chance(0.1)) + shape
        return self.add("Expand", [x, self.whole(shape)])

    def _einsum(self, x: str) -> bool:
        other = self.pick()
        letters = "abcdefijklmn"
        first = letters[: len(self.shape(x))]
        if self.chance(0.1) and first:
            first = "..." + first[1:]
        second = "".join(self.rng.choice(list("abcdeg"), size=len(self.shape(other)), replace=self.chance(0.1)))
        used = sorted({*first, *second} - {"."})
        out = "".join(self.rng.permutation([name for name in used if self.chance(0.7)]).tolist())
        return self.add("Einsum", [x, other], equation=f"{first},{second}->{out}")

    def _weighted_einsum(self, x: str) -> bool:
        shape = self.shape(x)
        first = "abcdefijklmn"[: len(shape)]
        known = dict(zip(first, shape, strict=True))
        second = "".join(self.rng.permutation(list("abcdefgh"))[: int(self.rng.integers(1, 4))])
        sizes = [1 if self.chance(0.1) else known.get(name, int(self.rng.choice([2, 4, 5]))) for name in second]
        used = sorted({*first, *second})
        out = "".join(self.rng.permutation([name for name in used if self.chance(0.75)]).tolist())
        numbers = np.round(self.rng.normal(size=tuple(sizes)), 3)
        for axis, name in enumerate(second):
            if (
                name not in first and sizes[axis] > 2
            ):  # large numbers that cancel: their sum is what the order makes of it
                one, other = self.rng.choice(sizes[axis], 2, replace=False)
                np.moveaxis(numbers, axis, 0)[one] += 2.0**27
                np.moveaxis(numbers, axis, 0)[other] -= 2.0**27
        pair = [(x, first), (self.constant(numbers.astype(self.dtype)), second)]
        pair = pair if self.chance(0.5) else pair[::-1]
        return self.add("Einsum", [name for name, _ in pair], equation=f"{pair[0][1]},{pair[1][1]}->{out}")

    def _where(self, x: str) -> bool:
        condition = self.constant(self.rng.random(self._broadcast(self.shape(x))) < 0.5)
        pair = [x, self.numbers(self._broadcast(self.shape(x)))]
        return self.add("Where", [condition, *(pair if self.chance(0.5) else pair[::-1])])

    def _mask(self, x: str) -> bool:
        """Mask scores, and take a softmax of them."""
        shape = self._broadcast(self.shape(x), full=0.8)
        hidden = self.rng.random(shape) < 0.4
        rank = len(self.shape(x))
        axis = self.axis(rank)
        name, self.used = f"v{self.used + 1}", self.used + 1
        if self.chance(0.5):
            least = -np.inf if self.chance(0.6) else np.finfo(self.dtype).min
            mask = np.where(hidden, least, np.where(self.rng.random(shape) < 0.5, 0.0, 0.5)).astype(self.dtype)
            self.nodes.append(helper.make_node("Add", [x, self.constant(mask)], [name]))
        else:
            fill = self.constant(np.array(-np.inf, self.dtype))
            if self.chance(0.5):
                self.nodes.append(helper.make_node("Where", [self.constant(hidden), fill, x], [name]))
            else:
                self.nodes.append(helper.make_node("Where", [self.constant(~hidden), x, fill], [name]))
        if self.add("Softmax", [name], axis=axis):
            return True
        self.nodes.pop()
        return False

    def _power(self, x: str) -> bool:
        exponent = self.rng.choice([2.0, 0.5, -0.5, -1.0, 3.0, 2.5, 1.0, 4.0])
        shape = (1,) * int(self.rng.integers(0, 3)) if self.chance(0.5) else self._broadcast(self.shape(x))
        dtype = np.int64 if self.chance(0.1) and exponent == int(exponent) else self.dtype
        exponents = np.full(shape, exponent, dtype)
        if exponents.size > 1 and self.chance(0.1):
            exponents.flat[0] = 2
        return self.add("Pow", [x, self.constant(exponents)])

    def _triangle(self, x: str) -> bool:
        """Mask scores by nodes that make a triangle of constants, and put 0 for what is not a number."""
        if len(self.shape(x)) < 2:
            return False
        before, kinds = len(self.nodes), ("ones", "triangle", "is 0", "mask", "masked", "softmax", "is nan")
        names = {kind: self.name() for kind in kinds}
        one, zero = (self.constant(np.array(number, self.dtype)) for number in (1, 0))
        least = self.constant(np.array(-np.inf if self.chance(0.5) else np.finfo(self.dtype).min, self.dtype))
        upper, below = int(self.chance(0.3)), self.whole([int(self.rng.integers(-1, 2))])
        self.nodes += [
            helper.make_node("Expand", [one, self.whole(self.shape(x)[-2:])], [names["ones"]]),
            helper.make_node("Trilu", [names["ones"], below], [names["triangle"]], upper=upper),
            helper.make_node("Equal", [names["triangle"], zero], [names["is 0"]]),
            helper.make_node("Where", [names["is 0"], least, zero], [names["mask"]]),
            helper.make_node("Add", [x, names["mask"]], [names["masked"]]),
            helper.make_node("Softmax", [names["masked"]], [names["softmax"]], axis=-1),
            helper.make_node("IsNaN", [names["softmax"]], [names["is nan"]]),
        ]
        if self.opset >= 14 and self.add("Where", [names["is nan"], zero, names["softmax"]]):
            return True
        del self.nodes[before:]
        return False

    def _one_of_two(self, x: str) -> bool:
        condition = self.constant(self.rng.random(self._broadcast(self.shape(x))) < 0.5)
        return self.add("Where", [condition, x, self.pick()])

    def _gather_nd(self, x: str) -> bool:
        shape = self.shape(x)
        depth = int(self.rng.integers(1, len(shape) + 1)) if shape else 0
        more = (int(self.rng.integers(1, 4)),) * int(self.rng.integers(0, 3))
        chosen = [self.rng.integers(-size, size, size=more) for size in shape[:depth]]
        return bool(depth) and self.add("GatherND", [x, self.constant(np.stack(chosen, axis=-1).astype(np.int64))])

    def _tile(self, x: str) -> bool:
        return self.add("Tile", [x, self.whole([2 if self.chance(0.3) else 1 for _ in self.shape(x)])])

    def _vector(self, x: str) -> bool:
        """Multiply by a vector, from the right or the left."""
        shape = self.shape(x)
        if self.chance(0.2) and len(shape) > 1:
            return self.add("MatMul", [self.numbers(shape[-2:-1]), x])
        return bool(shape) and self.add("MatMul", [x, self.numbers(shape[-1:])])

    def _every_row(self, x: str) -> bool:
        """Make a constant of the shape of a value, and add the two or put them side by side."""
        shape, whole = self.name(), self.name()
        one = numpy_helper.from_array(np.array([0.5], self.dtype))
        before = len(self.nodes)
        self.nodes.append(helper.make_node("Shape", [x], [shape]))
        if self.chance(0.5):
            self.nodes.append(helper.make_node("ConstantOfShape", [shape], [whole], value=one))
        else:
            self.nodes.append(
                helper.make_node("Expand", [self.numbers(self._broadcast(self.shape(x))), shape], [whole])
            )
        pair = [x, whole] if self.chance(0.5) else [whole, x]
        more = {"axis": self.axis(len(self.shape(x)))} if self.chance(0.5) else {}
        if self.add("Concat" if more else "Mul", pair, **more):
            return True
        del self.nodes[before:]
        return False

    def _gate(self, x: str) -> bool:
        if not self.add("Sigmoid", [x]):
            return False
        return self.add("Mul", [x, self.kept[-1]])

    def finish(self) -> str | None:
        """End with rows of numbers, by a layer: return the name of the output."""
        for name in reversed(self.kept[-6:]):
            if self.batch_axis(name) is None or name == "x":
                continue
            at = self.batch_axis(name)
            if at != 0:
                rank = len(self.shape(name))
                if not self.add("Transpose", [name], perm=[at, *(axis for axis in range(rank) if axis != at)]):
                    continue
                name = self.kept[-1]
            if len(self.shape(name)) != 2:
                size = int(np.prod(self.shape(name)[1:]))
                if not self.add("Reshape", [name, self.whole([-1, size])]):
                    continue
                name = self.kept[-1]
            if self.shape(name)[1] > 64:
                continue
            weight = self.numbers((self.shape(name)[1], int(self.rng.integers(1, 4))))
            if self.add("MatMul", [name, weight]):
                return self.kept[-1]
        return None


def grow(seed: int, number: int, *, near: bool = False) -> tuple[onnx.ModelProto, Graph] | None:
    graph = Graph(np.random.default_rng([seed, number]), near=near)
    wanted, tries = int(graph.rng.integers(2, 10)), 0
    if graph.chance(0.7):  # tokens
        parts = [n for n in range(1, graph.width + 1) if graph.width % n == 0]
        part = int(graph.rng.choice(parts))
        graph.add("Reshape", ["x", graph.whole([-1, part, graph.width // part])])
    while len(graph.kept) < wanted and tries < 60:
        tries += 1
        graph.draw()
    output = graph.finish()
    return None if output is None else (graph.model(output), graph)


def pruned(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without nodes and constants that nothing reads, in most cases as exporters write it."""
    needed, kept = {model.graph.output[0].name}, []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed.update(node.input)
    del model.graph.node[:]
    model.graph.node.extend(kept[::-1])
    initializers = [each for each in model.graph.initializer if each.name in needed]
    del model.graph.initializer[:]
    model.graph.initializer.extend(initializers)
    return model


def try_one(
    seed: int, number: int, counts: Counter[str], folder: Path, keep: Path | None = None, *, near: bool = False
) -> list[str]:
    """Return what is wrong with a graph."""
    grown = grow(seed, number, near=near)
    if grown is None:
        counts["no graph"] += 1
        return []
    model, graph = pruned(grown[0]), grown[1]
    content = model.SerializeToString()
    if keep is not None:
        (keep / f"graph-{number}.onnx").write_bytes(content)
    path, found = folder / "graph.onnx", list[str]()
    path.write_bytes(content)
    try:
        network, refusal = read_onnx(content, folder), ""
    except CheckError as error:
        network, refusal = None, str(error)
    try:
        loaded = fairmend.load_network(path)
    except fairmend.FairmendError as error:
        loaded = None
        if network is not None:
            counts["read by the checker alone: " + re.sub(r"'[^']*'|[\d.,()]+", "#", str(error))[-90:]] += 1
    if network is None:
        counts["refused: " + re.sub(r"'[^']*'|[\d.,()]+", "#", refusal)[:90]] += 1
        if loaded is None:
            return []
        counts["read by the loader alone"] += 1
        counts["  loader alone: " + re.sub(r"'[^']*'|[\d.,()]+", "#", refusal)[:90]] += 1
        network = kernel_model(loaded)  # what certify proves, whatever check says
    else:
        counts["read"] += 1
        if loaded is not None:
            counts["read by both"] += 1
            if network_digest(kernel_model(loaded)) != network_digest(network):
                found.append("loader and checker read different networks")
    rng = np.random.default_rng([seed, number, 1])
    rows = rng.normal(size=(10, graph.width)) * rng.choice([0.1, 1.0, 5.0], size=(10, 1))
    rows = rows.astype(graph.dtype)
    low, high = enclose_outputs(network, rows.astype(np.float64))
    columns = model.graph.output[0].type.tensor_type.shape.dim[-1].dim_value or 1
    ends = close_outputs(low, high, network.closing, network.dtype, columns, network.rescaling)
    if ends is None:
        return [*found, "the checker read another number of outputs"]
    for level in _LEVELS:
        try:
            runner = session(model, level)
        except Exception as error:
            counts[f"not loaded: {str(error)[:60]}"] += 1
            continue
        for size in BATCHES:
            for start in range(0, len(rows) - size + 1, size):
                part = slice(start, start + size)
                try:
                    given = runner.run(None, {"x": rows[part]})[0]
                except Exception as error:
                    counts[f"fails for {size} rows: {re.sub('[0-9]+', '#', str(error))[:100]}"] += 1
                    continue
                least, most = (end[part] for end in ends)
                counts["runs"] += 1
                if given.reshape(-1).size != least.size:
                    found.append(f"{given.shape} for {size} rows")
                    continue
                given = given.reshape(least.shape)
                sure = np.isfinite(least) & np.isfinite(most)
                bad = sure & ~((given >= least) & (given <= most))
                if bad.any():
                    at = np.argwhere(bad)[0]
                    found.append(
                        f"{given[tuple(at)]} outside {least[tuple(at)]} to {most[tuple(at)]}, {size} rows, {level}"
                    )
    counts["unsure"] += int(not (np.isfinite(low) & np.isfinite(high)).all())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--near", action="store_true", help="normalisations and GELU that may be a little off")
    parser.add_argument("--reproduce", type=int)
    parser.add_argument("--keep", type=Path, help="a folder for the graphs")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    numbers = range(options.count) if options.reproduce is None else [options.reproduce]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        for number in numbers:
            found = try_one(options.seed, number, counts, Path(folder), options.keep, near=options.near)
            for each in dict.fromkeys(found):
                print(f"graph {number}: {each}")
            wrong += bool(found)
    for what, count in sorted(counts.items(), key=lambda each: -each[1]):
        print(f"{count:8,}  {what}")
    print(f"{wrong} graphs are wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
