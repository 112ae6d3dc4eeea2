"""Steps of backward substitution as single operations with their own gradients, for GPUs.

They compute what `linear` computes with a dozen tensor operations, in few passes over memory: on a GPU, each step
through a function is one kernel, compiled by PyTorch when it is first used. On a CPU, the plain operations of `linear`
keep every digit of earlier results.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

_logger = logging.getLogger(__name__)

COMPILED_KERNELS = True
"""Whether a GPU runs kernels that are compiled at run time, or PyTorch's own operations, in more passes."""

TF32_GRADIENTS = False
"""Whether, on a GPU, the products for the gradients keep three digits of their factors; bounds always keep all."""

_FORWARD = """
template <typename T> void through_lines(T a, T ls, T li, T us, T ui, T& coefficient, T& constant) {
    const bool rises = a > T(0);
    coefficient = a * (rises ? ls : us);
    constant = a * (rises ? li : ui);
}
"""

_BACKWARD = """
template <typename T> void through_lines_backward(T a, T of_coefficient, T of_constant, T ls, T li, T us, T ui,
                                                  T& of_a, T& of_ls, T& of_li, T& of_us, T& of_ui) {
    const bool rises = a > T(0);
    const T positive = rises ? a : T(0);
    const T negative = rises ? T(0) : a;
    of_a = of_coefficient * (rises ? ls : us) + of_constant * (rises ? li : ui);
    of_ls = of_coefficient * positive;
    of_li = of_constant * positive;
    of_us = of_coefficient * negative;
    of_ui = of_constant * negative;
}
"""

_Kernel = Callable[..., tuple[Tensor, ...]]


def through_lines(
    A: Tensor, lower_slope: Tensor, lower_intercept: Tensor, upper_slope: Tensor, upper_intercept: Tensor
) -> tuple[Tensor, Tensor]:
    """Replace a function's outputs by the lower line if A is positive and by the upper line if it is negative.

    A is ``(pieces or 1, rows, units)``, the lines ``(pieces, units)``. Return the new coefficients ``(pieces, rows,
    units)`` and the constants ``(pieces, rows)``.
    """
    found: tuple[Tensor, Tensor] = _ThroughLines.apply(A, lower_slope, lower_intercept, upper_slope, upper_intercept)  # type: ignore[no-untyped-call]
    return found


def product(A: Tensor, weight: Tensor) -> Tensor:
    """Return A @ weight for A ``(pieces, rows, units)``."""
    found: Tensor = _Product.apply(A, weight)  # type: ignore[no-untyped-call]
    return found


class _ThroughLines(torch.autograd.Function):
    """With P the positive and N the negative part of A: P·lower + N·upper, for the slopes and for the intercepts."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, ls: Tensor, li: Tensor, us: Tensor, ui: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(A, ls, li, us, ui)
        forward, _ = _kernels(A.device)
        coefficients, constants = forward(A, *(part.unsqueeze(1) for part in (ls, li, us, ui)))
        return coefficients, constants.sum(2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        A, *lines = ctx.saved_tensors
        _, backward = _kernels(A.device)
        of_coefficients, of_constants = gradients
        of_A, *of_lines = backward(
            A, of_coefficients, of_constants.unsqueeze(2), *(part.unsqueeze(1) for part in lines)
        )
        if len(A) != len(of_A):
            of_A = of_A.sum(0, keepdim=True)
        return of_A, *(part.sum(1) for part in of_lines)


class _Product(torch.autograd.Function):
    """The gradient of the weight is a sum of one product for each piece: a single one would have few, long sums."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(A, weight)
        return A @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        A, weight = ctx.saved_tensors
        (of_product,) = gradients
        with _gradient_precision(A.device):
            of_A = of_product @ weight.T if ctx.needs_input_grad[0] else None
            of_weight = (A.mT @ of_product).sum(0) if ctx.needs_input_grad[1] else None
        return of_A, of_weight


@contextmanager
def _gradient_precision(device: torch.device) -> Iterator[None]:
    if not TF32_GRADIENTS or device.type == "cpu":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _kernels(device: torch.device) -> tuple[_Kernel, _Kernel]:
    """Return the two steps, forward and backward, elementwise: their results are still to be added up."""
    compiled = _compile(device) if COMPILED_KERNELS and device.type != "cpu" else None
    return (_forward, _backward) if compiled is None else compiled


@cache
def _compile(device: torch.device) -> tuple[_Kernel, _Kernel] | None:
    """Compile the steps for a GPU, and try them; return None, and say why, if that is not possible."""
    create: Callable[[str, int], _Kernel] = torch.cuda.jiterator._create_multi_output_jit_fn
    kernels = create(_FORWARD, 2), create(_BACKWARD, 5)
    A, line = torch.ones(2, 3, 4, device=device), torch.ones(2, 1, 4, device=device)
    try:
        kernels[0](A, *[line] * 4)
        kernels[1](A, A, A[:, :, :1], *[line] * 4)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        _logger.warning("step 1 runs without compiled kernels: %s", str(error).partition("\n")[0])
        return None
    return kernels


def _forward(A: Tensor, ls: Tensor, li: Tensor, us: Tensor, ui: Tensor) -> tuple[Tensor, ...]:
    rises = A > 0
    return torch.where(rises, ls, us).mul_(A), torch.where(rises, li, ui).mul_(A)


def _backward(A: Tensor, of_coefficients: Tensor, of_constants: Tensor, *lines: Tensor) -> tuple[Tensor, ...]:
    ls, li, us, ui = lines
    rises = A > 0
    positive = A.clamp(min=0)
    negative = A - positive
    of_A = torch.where(rises, ls, us).mul_(of_coefficients).addcmul_(torch.where(rises, li, ui), of_constants)
    return (
        of_A,
        of_coefficients * positive,
        of_constants * positive,
        of_coefficients * negative,
        of_constants * negative,
    )
