"""Attack the bounds of how much elementwise functions round: PyTorch, ONNX Runtime and NumPy at millions of values.

    python benchmarks/runtimes/function_rounding.py [--values 3000000] [--seed 0]

For each function, in float32: values of every binade, many of the size of activations, and those where formulas change.
Prints the largest error of each program as a share of the bound (`Function.rounding`), and where it occurs. The exact
value is that of `Function.value` in float64, whose own error is below 1e-6 of the bound. Exits with 1 if an error
exceeds its bound.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

from fairmend.network import Activation
from fairmend_check.kernel.functions import Activation as KernelActivation
from fairmend_check.kernel.functions import function_of
from fairmend_check.kernel.rounding import Precision

Values = np.ndarray
Torch = Callable[[torch.Tensor], torch.Tensor]
# The function, what PyTorch has for it, fused and by hand, and the operator of ONNX.
CASES: list[tuple[Activation, list[Torch], tuple[str, dict[str, object]] | None]] = [
    (Activation("tanh"), [torch.tanh], ("Tanh", {})),
    (Activation("sigmoid"), [torch.sigmoid], ("Sigmoid", {})),
    (Activation("leaky_relu", 0.3), [lambda z: F.leaky_relu(z, 0.3)], ("LeakyRelu", {"alpha": 0.3})),
    (Activation("clip", parameters=(0, 6)), [F.relu6], None),
    (
        Activation("hardsigmoid", parameters=(1 / 6, 0.5)),
        [F.hardsigmoid, lambda z: F.relu6(z + 3) / 6],
        ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    ),
    (Activation("softsign"), [F.softsign], ("Softsign", {})),
    (Activation("softplus", parameters=(1.0,)), [F.softplus], ("Softplus", {})),
    (Activation("softplus", parameters=(3.0,)), [lambda z: F.softplus(z, 3.0)], None),
    (Activation("elu", parameters=(1.0,)), [F.elu], ("Elu", {})),
    (Activation("elu", parameters=(0.3,)), [lambda z: F.elu(z, 0.3)], ("Elu", {"alpha": 0.3})),
    (Activation("celu", parameters=(3.0,)), [lambda z: F.celu(z, 3.0)], ("Celu", {"alpha": 3.0})),
    (Activation("selu"), [F.selu], ("Selu", {})),
    (Activation("silu"), [F.silu, lambda z: z * z.sigmoid()], None),
    (Activation("mish"), [F.mish, lambda z: z * F.softplus(z).tanh()], ("Mish", {})),
    (Activation("gelu"), [F.gelu, lambda z: 0.5 * z * (1 + (z / 2**0.5).erf())], ("Gelu", {})),
    (Activation("gelu_tanh"), [lambda z: F.gelu(z, approximate="tanh")], ("Gelu", {"approximate": "tanh"})),
    (Activation("hardswish"), [F.hardswish, lambda z: z * F.relu6(z + 3) / 6], ("HardSwish", {})),
]
KINKS = (-3.0, 3.0, 20.0, -18.0, 18.0, -88.0, 88.0, -2.5, 2.5, 5.55)


def draw(count: int, seed: int) -> Values:
    """Return the values to attack with, float32."""
    rng = np.random.default_rng(seed)
    part = count // 4
    binades = rng.choice([-1, 1], part) * rng.uniform(1, 2, part) * 2.0 ** rng.integers(-126, 100, part)
    near = np.concatenate([rng.uniform(-12, 12, part), rng.uniform(-120, 120, part), rng.normal(size=part) * 0.3])
    kinks = np.concatenate([kink + rng.normal(size=2000) * 10.0 ** rng.uniform(-7, -3, 2000) for kink in KINKS])
    return np.concatenate([binades, near, kinks, [0.0, -0.0]]).astype(np.float32)


def run_onnx(operator: str, attributes: dict[str, object], z: Values) -> Values:
    """Return what ONNX Runtime computes."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], **attributes)], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": z})[0])


def worst(activation: Activation, z: Values, computed: Values) -> tuple[float, float]:
    """Return the largest error as a share of its bound, and the value where it occurs."""
    exact = activation.function.value(z.astype(np.float64))
    wide = z.astype(np.float64)
    bound = function_of(KernelActivation(activation.name, activation.slope, activation.parameters)).rounding(
        wide, wide, Precision.of("float32")
    )
    error = np.abs(computed.astype(np.float64) - exact)
    share = np.where(error == 0, 0.0, error / bound)
    place = int(np.argmax(np.where(np.isnan(share), np.inf, share)))
    return float(share[place]), float(z[place])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=3_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    z = draw(options.values, options.seed)
    table = Table("function", "PyTorch", "ONNX Runtime", "NumPy", title=f"errors, of the bound, at {len(z):,} values")
    highest = 0.0
    for given, functions, node in CASES:
        activation = given.astype(np.float32)
        applied = z.copy()
        with np.errstate(all="ignore"):
            activation.apply(applied)
            runs = [
                [f(torch.from_numpy(z)).numpy() for f in functions],
                [] if node is None else [run_onnx(*node, z)],
                [applied],
            ]
            found = [max((worst(activation, z, values) for values in run), default=None) for run in runs]
        cells = ["" if one is None else f"{one[0]:.1%} at {one[1]:.4g}" for one in found]
        highest = max([highest, *(one[0] for one in found if one is not None)])
        table.add_row(str(given), *cells)
    Console().print(table)
    return int(not highest <= 1)


if __name__ == "__main__":
    sys.exit(main())
