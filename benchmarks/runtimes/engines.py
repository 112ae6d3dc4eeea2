"""Programs in ONNX Runtime and PyTorch, with and without what these do to make them faster."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper

from benchmarks.runtimes.programs import EPSILON, Program, Step

Run = Callable[[np.ndarray], np.ndarray]
OPERATORS = {
    "relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "softsign": "Softsign", "leaky_relu": "LeakyRelu",
    "softplus": "Softplus", "elu": "Elu", "celu": "Celu", "selu": "Selu", "mish": "Mish", "gelu": "Gelu",
    "gelu_tanh": "Gelu", "hardswish": "HardSwish", "hardsigmoid": "HardSigmoid",
}  # fmt: skip
# Functions that exporters write as several operators, of x and of numbers.
STEPS: dict[str, list[str]] = {
    "silu": ["s = Sigmoid(x)", "y = Mul(x, s)"],
    "mish": ["p = Softplus(x)", "t = Tanh(p)", "y = Mul(x, t)"],
    "softsign": ["a = Abs(x)", "p = Add(a, 1)", "y = Div(x, p)"],
    "hardswish": ["a = Add(x, 3)", "c = Clip(a, 0, 6)", "p = Mul(x, c)", "y = Div(p, 6)"],
    "gelu": ["d = Div(x, root)", "e = Erf(d)", "p = Add(e, 1)", "q = Mul(x, p)", "y = Mul(q, half)"],
    "gelu_tanh": [
        *("c = Pow(x, 3)", "q = Mul(c, cubic)", "a = Add(x, q)", "b = Mul(a, wide)", "t = Tanh(b)", "p = Add(t, 1)"),
        *("h = Mul(x, half)", "y = Mul(h, p)"),
    ],
}
NUMBERS = {"root": math.sqrt(2), "half": 0.5, "cubic": 0.044715, "wide": math.sqrt(2 / math.pi)}


class OnnxFile:
    """The nodes and constants of a program in ONNX."""

    def __init__(self, program: Program) -> None:
        self.dtype, self.nodes, self.constants = program.dtype, list[Any](), dict[str, np.ndarray]()
        for number, step in enumerate(program.steps, start=1):
            self._write(step, [f"v{source}" for source in step.sources], f"v{number}")
        element = TensorProto.FLOAT if self.dtype == np.float32 else TensorProto.DOUBLE
        self.inputs = [helper.make_tensor_value_info("v0", element, ["n", program.inputs])]
        last = len(program.steps)
        self.outputs = [helper.make_tensor_value_info(f"v{last}", element, ["n", program.steps[-1].width])]

    def save(self, path: Path) -> None:
        """Write what the output needs."""
        needed, kept = {self.outputs[0].name}, list[Any]()
        for node in reversed(self.nodes):
            if needed & set(node.output):
                kept.insert(0, node)
                needed |= set(node.input)
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items() if name in needed]
        graph = helper.make_graph(kept, "program", self.inputs, self.outputs, constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(value)
        self.constants[name] = array if array.dtype == np.int64 else array.astype(self.dtype)
        return name

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))

    def _write(self, step: Step, sources: list[str], output: str) -> None:
        if step.kind == "affine":
            self._affine(step, sources[0], output)
        elif step.kind == "function":
            self._function(step, sources[0], output)
        elif step.kind == "norm":
            names = [self._constant(step.numbers[name]) for name in ("gain", "shift", "mean", "variance")]
            self._node("BatchNormalization", [*sources, *names], output, epsilon=EPSILON)
        elif step.kind == "concatenate":
            self._node("Concat", sources, output, axis=1)
        elif step.kind == "columns":
            self._node("Gather", [*sources, self._constant(np.array(step.columns, np.int64))], output, axis=1)
        else:
            kinds = {"sum": ("Add", "Sum")[step.form % 2], "difference": "Sub"}
            kinds |= {"product": "Mul", "quotient": "Div", "shift": "Add"}
            self._node(kinds[step.kind], [*sources, *map(self._constant, step.numbers.values())], output)

    def _affine(self, step: Step, source: str, output: str) -> None:
        weight, bias = step.numbers["weight"], [self._constant(step.numbers["bias"])] if "bias" in step.numbers else []
        if step.form == 0:
            self._node("Gemm", [source, self._constant(weight.T.copy()), *bias], output, transB=1)
        elif bias:
            self._node("MatMul", [source, self._constant(weight)], f"{output}_product")
            self._node("Add", [f"{output}_product", *bias][:: 1 if step.form == 1 else -1], output)
        else:
            self._node("MatMul", [source, self._constant(weight)], output)

    def _function(self, step: Step, source: str, output: str) -> None:
        function = step.function
        assert function is not None
        if function.name == "clip":
            self._node("Clip", [source, *map(self._constant, function.parameters)], output)
        elif function.name in STEPS and (step.form < 3 or function.name == "silu" or self.dtype == np.float64):
            for line in STEPS[function.name]:
                result, kind, inputs = line.replace(")", "").replace(" = ", "(").split("(")
                names = [self._value(name, source, output) for name in inputs.split(", ")]
                self._node(kind, names, self._value(result, source, output))
        else:
            given: dict[str, Any] = {"approximate": "tanh"} if function.name == "gelu_tanh" else {}
            if function.name == "leaky_relu":
                given = {"alpha": function.slope}
            if function.name == "hardsigmoid":
                given = dict(zip(("alpha", "beta"), function.parameters, strict=True))
            self._node(OPERATORS[function.name], [source], output, **given)

    def _value(self, name: str, source: str, output: str) -> str:
        if name in ("x", "y"):
            return source if name == "x" else output
        if name.isdigit() or name in NUMBERS:
            return self._constant(NUMBERS[name] if name in NUMBERS else float(name))
        return f"{output}_{name}"


def in_onnx_runtime(path: Path, *, optimised: bool) -> tuple[Run, list[str]]:
    """Return the run of a file, and the operators that it has then."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    written = path.with_suffix(".run.onnx")
    options.optimized_model_filepath = str(written)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    operators = [node.op_type for node in onnx.load(written).graph.node]
    return lambda X: np.asarray(session.run(None, {"v0": X})[0]), operators


class Module(torch.nn.Module):
    """A program in PyTorch."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        for number, step in enumerate(program.steps):
            for name, value in step.numbers.items():
                self.register_buffer(f"{name}{number}", torch.from_numpy(np.array(value)))

    def forward(self, x: Any) -> Any:
        values = [x]
        for number, step in enumerate(self.program.steps):
            numbers = {name: getattr(self, f"{name}{number}") for name in step.numbers}
            values.append(TORCH[step.kind](step, numbers, *(values[source] for source in step.sources)))
        return values[-1]


def _torch_affine(step: Step, numbers: dict[str, Any], x: Any) -> Any:
    if step.form < 2:
        return F.linear(x, numbers["weight"].T, numbers.get("bias"))
    return x @ numbers["weight"] + numbers["bias"] if "bias" in numbers else x @ numbers["weight"]


def _torch_norm(step: Step, numbers: dict[str, Any], x: Any) -> Any:
    return F.batch_norm(x, *(numbers[name] for name in ("mean", "variance", "gain", "shift")), eps=EPSILON)


def _torch_function(step: Step, numbers: dict[str, Any], x: Any) -> Any:
    function = step.function
    assert function is not None
    if function.name == "silu" and step.form:
        return x * torch.sigmoid(x)
    if function.name == "gelu" and step.form:
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    if function.name == "hardswish" and step.form:
        return x * F.relu6(x + 3) / 6
    own: dict[str, Callable[[Any], Any]] = {
        "clip": lambda z: z.clamp(*function.parameters),
        "leaky_relu": lambda z: F.leaky_relu(z, function.slope),
        "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
    }
    return own.get(function.name, getattr(F, function.name, None))(x)  # type: ignore[misc]


TORCH: dict[str, Callable[..., Any]] = {
    "affine": _torch_affine,
    "norm": _torch_norm,
    "function": _torch_function,
    "sum": lambda step, numbers, a, b: a + b,
    "difference": lambda step, numbers, a, b: a - b,
    "product": lambda step, numbers, x: x * numbers["factor"],
    "quotient": lambda step, numbers, x: x / numbers["factor"],
    "shift": lambda step, numbers, x: x + numbers["shift"],
    "concatenate": lambda step, numbers, *parts: torch.cat(parts, dim=1),
    "columns": lambda step, numbers, x: x[:, list(step.columns)],
}


def in_torch(program: Program, how: str) -> Run:
    """Return the run in PyTorch: "eager", "frozen" (traced, and optimised for inference), or "compiled"."""
    module: Any = Module(program).eval()
    if how == "frozen":
        example = torch.zeros((3, program.inputs), dtype=getattr(torch, program.dtype.name))
        traced = torch.jit.trace(module, example, check_trace=False)
        module = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
    elif how == "compiled":
        torch._dynamo.reset()
        module = torch.compile(module)

    def run(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(module(torch.from_numpy(X)).numpy())

    return run
