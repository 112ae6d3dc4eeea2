"""Backward substitution of lower and upper forms at once, for GPUs.

The upper form of a row is minus the lower form of minus that row. So rows and their negatives are stacked, and lower
forms are all there is to compute: half as many operations, of twice the size, as in `linear`, with the same result. The
bias of a layer moves into the lines of the function that reads it: a line of W h + b is one of W h.

Steps of backward substitution as single operations with their own gradients, for GPUs.

They compute what `linear` computes with a dozen tensor operations, in few passes over memory: on a GPU, each step
through a function is one kernel, compiled by PyTorch when it is first used. On a CPU, the plain operations of `linear`
keep every digit of earlier results.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from fairmend.bounds.forms import Forms, signed_product, total
from fairmend.network.functions import Lines
from fairmend.network.graph import Node
from fairmend.network.operations import Numbers


class Stacked:
    """Backward substitution through the nodes of a network, down to those whose forms are ``known``.

    ``numbers`` are factor and shift of the nodes that have them, ``parameters`` those of affine layers. ``lines`` may
    grow: a walk from a node needs those of earlier functions only.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        widths: Sequence[int],
        known: Mapping[int, Forms],
        lines: Mapping[int, Lines],
        numbers: Mapping[int, Numbers],
        parameters: Mapping[int, Numbers],
        first: Tensor,
    ) -> None:
        self._nodes, self._widths, self._known, self._lines = nodes, widths, known, lines
        self._numbers, self._parameters, self._first = numbers, parameters, first
        self._shifted: dict[int, Lines] = {}

    def forms(self, root: int) -> Forms:
        """Return the forms of an affine layer or a sum, in the inputs."""
        if root in self._parameters:
            start, value = self._parameters[root]
        else:
            start = torch.eye(self._widths[root], dtype=self._first.dtype, device=self._first.device)
            value = start.new_zeros(len(start))
        rows = _Rows(torch.cat([value, -value]))
        both = torch.cat([start, -start]).unsqueeze(0)
        for source in self._nodes[root].sources:
            rows.carry(source, both)
        for i in range(root - 1, -1, -1):
            if i in rows.carried:
                self._substitute(rows, i)
        lower, negated = torch.addcmul(total(rows.ended), self._first, rows.value).chunk(2, dim=-1)
        return Forms(lower, -negated)

    def _substitute(self, rows: _Rows, i: int) -> None:
        """Replace the outputs of node i by its inputs, or by its forms if they are known."""
        A, operation, sources = rows.carried.pop(i), self._nodes[i].operation, self._nodes[i].sources
        if i in self._known:
            rows.ended.append(_times_forms(A, self._known[i]))
        elif i in self._lines:
            self._through(rows, A, i, sources[0])
        else:
            numbers, widths = self._numbers.get(i), [self._widths[source] for source in sources]
            if numbers is not None:
                rows.value = rows.value + A @ numbers[1]
            layer = self._parameters.get(i)
            parts = operation.pull(A, widths, numbers) if layer is None else [product(A, layer[0])]
            for source, part in zip(sources, parts, strict=True):
                rows.carry(source, part)

    def _through(self, rows: _Rows, A: Tensor, i: int, source: int) -> None:
        """Go back through the function at node i, and through the layer before it."""
        layer = None if source in self._known else self._parameters.get(source)
        lines = self._lines[i] if layer is None else self._shift(i, layer[1])
        A, constants = through_lines(A, *lines)
        rows.value = rows.value + constants
        if layer is None:
            rows.carry(source, A)
        else:
            rows.carry(self._nodes[source].sources[0], product(A, layer[0]))

    def _shift(self, i: int, bias: Tensor) -> Lines:
        """Return the lines of a function of z + bias, as lines of z."""
        if i not in self._shifted:
            lines = self._lines[i]
            self._shifted[i] = Lines(
                lines.lower_slope,
                torch.addcmul(lines.lower_intercept, lines.lower_slope, bias),
                lines.upper_slope,
                torch.addcmul(lines.upper_intercept, lines.upper_slope, bias),
            )
        return self._shifted[i]


class _Rows:
    """Linear functions on the way back: ``carried`` coefficients ``(pieces or 1, rows, units)`` of the nodes reached.

    ``ended`` are forms to add up, ``value`` is the constant.
    """

    def __init__(self, value: Tensor) -> None:
        self.carried: dict[int, Tensor] = {}
        self.ended: list[Tensor] = []
        self.value = value

    def carry(self, node: int, A: Tensor) -> None:
        """Add coefficients of a node."""
        self.carried[node] = self.carried[node] + A if node in self.carried else A


def _times_forms(A: Tensor, forms: Forms) -> Tensor:
    if forms.lower is forms.upper:
        # Not an einsum: its gradient of A has another layout, in which the steps through functions are slow.
        return (A @ forms.lower.permute(1, 2, 0)).permute(2, 0, 1)
    return signed_product(A, forms.lower, forms.upper)


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
