"""What each test of an elementwise function calls: inference of the frameworks against the exact function."""

from collections.abc import Callable

import mpmath
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper

from fairmend.network import Activation
from fairmend_check.kernel.functions import Activation as KernelActivation
from fairmend_check.kernel.functions import Function, function_of
from fairmend_check.kernel.rounding import Precision
from support.functions import exact_function

DTYPES = (np.float32, np.float64)


def points(dtype: type, seed: int = 0) -> np.ndarray:
    """Numbers of every binade up to 2^40, many of the size of activations, and those where formulas change."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], 80)
    binades = signs * rng.uniform(1, 2, 80) * 2.0 ** rng.integers(-120, 40, 80)
    special = [0.0, -3.0, 3.0, 6.0, 20.0, 20.5, -18.0, 18.0, -88.0, 89.0, -2.5, 2.5, 5.55, -0.34]
    near = np.concatenate([rng.uniform(-12, 12, 200), rng.normal(size=60) * 0.3, rng.uniform(-100, 100, 40)])
    return np.concatenate([binades, near, special]).astype(dtype)


def check_inference(
    activation: Activation,
    *functions: Callable[[torch.Tensor], torch.Tensor],
    onnx_node: tuple[str, dict] | None = None,
    positive: bool = False,
) -> None:
    """Assert that NumPy, PyTorch and ONNX Runtime err by no more than the bound at each point; and apply as well.

    With ``positive``, the points are those above 0.
    """
    for dtype in DTYPES:
        rounded = activation.astype(dtype)
        z = points(dtype)
        z = z[z > 0] if positive else z
        computed = [_applied(rounded, z), *(f(torch.from_numpy(z)).numpy() for f in functions)]
        computed.append(rounded.function.torch(torch.from_numpy(z)).numpy())
        if onnx_node is not None and dtype == np.float32:
            computed.append(_run_onnx(*onnx_node, z))
        wide = z.astype(np.float64)
        kind = Precision.of(np.dtype(dtype).name)
        bound = kernel_function(rounded).rounding(wide[:, None], wide[:, None], kind)[:, 0]
        with mpmath.workdps(40):
            exact = [exact_function(rounded, float(value)) for value in z]
            for values in computed:
                assert values.dtype == dtype
                errors = [abs(mpmath.mpf(float(v)) - y) for v, y in zip(values, exact, strict=True)]
                worst = max(range(len(z)), key=lambda i: errors[i] - bound[i])
                assert errors[worst] <= bound[worst], (str(activation), float(z[worst]), float(errors[worst]))


def kernel_function(activation: Activation) -> Function:
    """The kernel's function of this name."""
    return function_of(KernelActivation(activation.name, activation.slope, activation.parameters))


def _applied(activation: Activation, z: np.ndarray) -> np.ndarray:
    values = z[:, None].copy()
    activation.apply(values)
    return values[:, 0]


def _run_onnx(operator: str, attributes: dict, z: np.ndarray) -> np.ndarray:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], **attributes)], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": z})[0]
