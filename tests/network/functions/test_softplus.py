"""Softplus, with PyTorch's threshold."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fairmend.base.errors import FairmendError
from fairmend.network import Activation
from fairmend_check.kernel.rounding import Precision
from support.function_checks import check_inference, kernel_function
from support.onnx_files import node, runtime, save


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_frameworks_compute_it(beta):
    node = ("Softplus", {}) if beta == 1 else None
    check_inference(Activation("softplus", parameters=(beta,)), lambda z: F.softplus(z, beta), onnx_node=node)


def test_the_threshold_of_pytorch_is_in_the_bound():
    """In float64 it is most of the error: from beta·z = 20 on PyTorch computes z."""
    z = np.array([20.01])
    bound = kernel_function(Activation("softplus", parameters=(1.0,))).rounding(z, z, Precision.of("float64"))
    lost = np.log1p(np.exp(-20.01))
    assert F.softplus(torch.from_numpy(z)).item() == 20.01
    assert lost < bound < 1.2 * lost


def test_beta_is_moderate():
    with pytest.raises(FairmendError, match="beta must lie between"):
        Activation("softplus", parameters=(0.0,))


def test_there_is_no_bound_in_float64_where_exp_overflows(tmp_path):
    """ONNX Runtime computes log(1 + exp(z)) in float64, as version 18 of the operators writes it."""
    z = np.array([[699.0], [710.0]])
    path = save(tmp_path / "m.onnx", [node("Softplus", "x")], outputs=1, opset=18, element=11, axes=("n", 1))
    assert np.isfinite(runtime(path, z)[:, 0]).tolist() == [True, False]
    softplus = kernel_function(Activation("softplus", parameters=(1.0,)))
    assert np.isfinite(softplus.rounding(-z, z, Precision.of("float64"))[:, 0]).tolist() == [True, False]
    assert np.isfinite(softplus.rounding(-z, z, Precision.of("float32"))).all()
