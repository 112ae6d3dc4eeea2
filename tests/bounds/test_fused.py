"""Fused steps of backward substitution are the plain ones."""

import ctypes
import itertools
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch

from fairmend.bounds import stacked
from fairmend.bounds.linear import _through_activation
from fairmend.bounds.stacked import product, through_lines
from fairmend.network.functions import Lines

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


def normal(*shape: int, seed: int, device: str = "cpu") -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(device).requires_grad_()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_step_through_a_function_has_the_values_and_gradients_of_the_plain_operations(pieces, device):
    A = normal(pieces, 4, 5, seed=9, device=device)
    lines = Lines(*(normal(3, 5, seed=seed, device=device) for seed in range(4)))
    found, plain = through_lines(A, *lines), _through_activation(A, lines)
    gradients = []
    for coefficients, constants in (found, plain):
        total = coefficients.square().sum() + constants.sin().sum()
        gradients.append(torch.autograd.grad(total, (A, *lines)))
    for mine, theirs in zip((*found, *gradients[0]), (*plain, *gradients[1]), strict=True):
        np.testing.assert_allclose(mine.detach().cpu(), theirs.detach().cpu(), rtol=1e-12, atol=1e-12)


def test_a_product_has_the_gradients_of_a_product():
    A, weight = normal(3, 4, 5, seed=0), normal(5, 6, seed=1)
    for found, expected in zip(
        *(torch.autograd.grad(each.sin().sum(), (A, weight)) for each in (product(A, weight), A @ weight)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@needs_gpu
@pytest.mark.parametrize("tf32", [False, True])
def test_gradients_may_have_three_digits_and_products_have_all(monkeypatch, tf32):
    monkeypatch.setattr(stacked, "TF32_GRADIENTS", tf32)
    A, weight = (normal(*shape, seed=0, device="cuda").detach().float() for shape in ((3, 64, 128), (128, 64)))
    A.requires_grad_()
    found = product(A, weight)
    (gradient,) = torch.autograd.grad(found.sin().sum(), A)
    exact = A.detach().double() @ weight.double()
    assert float((found.detach() - exact).abs().max()) < 1e-3
    error = float((gradient - exact.cos() @ weight.double().T).abs().max())
    assert error < (0.1 if tf32 else 1e-3)
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_kernels_compile_and_compute_the_plain_step(tmp_path):
    """The kernels are C++ that a GPU runs for each element; so they can be tried on a CPU."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    source, library = tmp_path / "kernels.cpp", tmp_path / "kernels.so"
    calls = []
    for code in (stacked._FORWARD, stacked._BACKWARD):
        torch.cuda.jiterator._create_multi_output_jit_fn(code, 2)  # raises an error if it cannot read the code
        name, names = re.search(r"void (\w+)\((.*?)\) \{", code, re.DOTALL).groups()
        inputs, outputs = sum("&" not in each for each in names.split(",")), names.count("&")
        arguments = [f"in[{i}]" for i in range(inputs)] + [f"out[{i}]" for i in range(outputs)]
        calls.append(
            f'{code}\nextern "C" void run_{name}(double* in, double* out) {{ {name}({", ".join(arguments)}); }}'
        )
    source.write_text("\n".join(calls))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    kernels = ctypes.CDLL(str(library))
    for run, plain, inputs, outputs in (
        (kernels.run_through_lines, stacked._forward, 5, 2),
        (kernels.run_through_lines_backward, stacked._backward, 7, 5),
    ):
        for sign, seed in itertools.product((-1.0, 0.0, 1.0), range(3)):
            given = np.random.default_rng(seed).normal(size=inputs)
            given[0] *= sign
            found = np.zeros(outputs)
            run(given.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p))
            np.testing.assert_allclose(found, [float(each) for each in plain(*torch.tensor(given))], rtol=1e-12)


def test_a_gpu_without_a_compiler_runs_the_plain_step_and_says_so(monkeypatch, caplog):
    def fails(*tensors):
        raise RuntimeError("no compiler\nand more")

    monkeypatch.setattr(torch.cuda.jiterator, "_create_multi_output_jit_fn", lambda code, outputs: fails)
    assert stacked._compile.__wrapped__(torch.device("cpu")) is None
    assert "step 1 runs without compiled kernels: no compiler" in caplog.text
