"""The hyperbolic tangent."""

import numpy as np
import torch
from onnx import TensorProto

from fairmend.network import Activation
from fairmend_check.kernel.rounding import Precision
from support.function_checks import check_inference, kernel_function
from support.onnx_files import node, runtime, save


def test_frameworks_compute_it():
    check_inference(Activation("tanh"), torch.tanh, onnx_node=("Tanh", {}))


def test_onnx_runtime_is_within_the_bound_in_float64(tmp_path):
    """Off by 10 units has been seen; the bound was once 8."""
    path = save(tmp_path / "m.onnx", [node("Tanh", "x")], 1, element=TensorProto.DOUBLE, axes=("n", 1))
    z = np.linspace(-20, 20, 100_000)[:, None]
    bound = kernel_function(Activation("tanh")).rounding(z, z, Precision.of("float64"))
    assert (np.abs(runtime(path, z) - np.tanh(z)) <= bound).all()
    assert (bound > 10 * 2.0**-53).all()
