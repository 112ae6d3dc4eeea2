"""What all trainings share: parameters as one tensor, Adam, losses, recorded steps, and chunks that fit the memory."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fairmend.base.gpu import CPU
from fairmend.network import Affine, Network
from fairmend.network.operations.ties import Tie
from fairmend.spec.neighbourhoods import Regions

_logger = logging.getLogger(__name__)

T = TypeVar("T")

Layers = list[tuple[Tensor, Tensor]]
"""The weight and the bias of each affine layer."""

TaskLoss = Callable[[Tensor, Tensor], Tensor]
"""Returns a loss from outputs and targets."""

_COPIES = 8
"""Tensors of the size of a product that PyTorch keeps for the gradients: positive and negative parts, both sides."""

_WARM_UP = 2  # steps before the recording, in which libraries set up their workspaces


@dataclass(frozen=True)
class History:
    """The two losses of Alg. 1 before each step: ``fair`` (mean relative width) and ``task`` (cross-entropy,
    or the squared error of a regression).

    ``fair`` is empty if the fairness loss had no weight.
    """

    fair: tuple[float, ...] = ()
    task: tuple[float, ...] = ()

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.task)


def torch_dtype(network: Network) -> torch.dtype:
    """Return the network's precision as a PyTorch dtype."""
    return torch.float32 if network.dtype == np.float32 else torch.float64


class DerivedBiases:
    """The layers of a network that store no bias, by their numbers, with what gives it (`Affine.derived_bias`).

    Such a bias follows from the weights, and so do its gradients.
    """

    def __init__(self, network: Network, dtype: torch.dtype, device: torch.device) -> None:
        found = {number: affine.derived_bias for number, affine in enumerate(network.affines)}
        self._parts = {
            number: (
                torch.tensor(bias.shift, dtype=dtype, device=device),
                torch.tensor(bias.constant, dtype=dtype, device=device),
            )
            for number, bias in found.items()
            if bias is not None
        }

    def replace(self, layers: Layers) -> Layers:
        """Return the layers, weights ``(..., out, in)`` and biases ``(..., out)``, with the biases that follow."""
        return [
            (weight, weight @ self._parts[i][0] + self._parts[i][1] if i in self._parts else bias)
            for i, (weight, bias) in enumerate(layers)
        ]


def _owners(network: Network) -> list[int]:
    """Return for each affine layer the first that has its numbers: itself, unless it shares them."""
    first: dict[str, int] = {}
    ties = (affine.tie for affine in network.affines)
    return [i if tie is None or not tie.key else first.setdefault(tie.key, i) for i, tie in enumerate(ties)]


def _stored(affine: Affine, tie: Tie | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a layer that are trained: each once."""
    if tie is None:
        return affine.weight, affine.bias
    return tie.stored_weight(affine.weight).reshape(-1), tie.stored_bias(affine.bias)


def _places(tie: Tie, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return which stored number is at each place of weight and bias, counted from 2, after 1 and 0."""
    weight, bias = (torch.tensor(places + 2, device=device) for places in (tie.weight_places, tie.bias_places))
    return weight, bias


def _spread(layer: tuple[Tensor, Tensor], places: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    """Return the weight ``(..., out, in)`` and the bias ``(..., out)`` of stored numbers ``(..., numbers)``."""
    if places is None:
        return layer
    weight, bias = (
        F.pad(F.pad(stored, (1, 0)), (1, 0), value=1.0)
        .index_select(-1, at.reshape(-1))
        .reshape(*stored.shape[:-1], *at.shape)
        for stored, at in zip(layer, places, strict=True)
    )
    return weight, bias


class Parameters:
    """All weights and biases of a network as one leaf tensor ``flat``: an optimiser step costs time for each tensor.

    With ``stack`` they are those of several networks of its shape, one after the other. A bias that is not stored has
    a place in it, which has no effect. Numbers that a layer repeats, or shares with others, are in it once.
    """

    def __init__(
        self,
        network: Network,
        dtype: torch.dtype,
        device: torch.device = CPU,
        stack: Sequence[Sequence[Affine]] | None = None,
    ) -> None:
        stacked = [network.affines] if stack is None else stack
        self._owners = _owners(network)
        self._own = sorted(set(self._owners))
        ties = [affine.tie for affine in network.affines]
        networks = [[array for i in self._own for array in _stored(affines[i], ties[i])] for affines in stacked]
        self.shapes = [array.shape for array in networks[0]]
        self.sizes = [array.size for array in networks[0]]
        parts = [torch.tensor(array, dtype=dtype).reshape(-1) for arrays in networks for array in arrays]
        self.flat = torch.cat(parts).to(device).requires_grad_()
        self.derived = DerivedBiases(network, dtype, device)
        self._places = [None if tie is None else _places(tie, device) for tie in ties]
        self._rows = () if stack is None else (len(stack),)

    @property
    def values(self) -> Tensor:
        """The parameters as a view: ``(parameters,)``, or ``(networks, parameters)`` of a stack."""
        return self.flat.view(*self._rows, -1)

    def layers(self, values: Tensor | None = None) -> Layers:
        """Return weights ``(..., out, in)`` and biases ``(..., out)``, layer by layer: views, unless numbers repeat.

        They are those of the parameters, or of ``values (..., parameters)`` in their place.
        """
        values = self.values if values is None else values
        parts = values.split_with_sizes(self.sizes, dim=-1)
        shaped = [part.reshape(*values.shape[:-1], *shape) for part, shape in zip(parts, self.shapes, strict=True)]
        own = dict(zip(self._own, zip(shaped[::2], shaped[1::2], strict=True), strict=True))
        layers = [own[owner] for owner in self._owners]
        return self.derived.replace([_spread(layer, at) for layer, at in zip(layers, self._places, strict=True)])

    def affines(self) -> list[Affine]:
        """Return copies of the layers of one network in their present state."""
        layers = [(weight.detach().cpu(), bias.detach().cpu()) for weight, bias in self.layers()]
        return [Affine(weight.numpy().copy(), bias.numpy().copy()) for weight, bias in layers]


class Adam:
    """Adam (Kingma and Ba, 2015) with PyTorch's defaults: moves ``parameters`` against their ``.grad``, in place.

    `torch.optim` does the same, but its first use imports PyTorch's compiler, which takes a second: longer than the
    repair of a small network. A test compares the two.
    """

    def __init__(
        self, parameters: Tensor, learning_rate: float, betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8
    ) -> None:
        self.parameters, self.learning_rate, self.betas, self.epsilon = parameters, learning_rate, betas, epsilon
        self.mean = torch.zeros_like(parameters, requires_grad=False)
        self.square = torch.zeros_like(parameters, requires_grad=False)
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """Take one step and clear the gradient."""
        gradient = self.parameters.grad
        if gradient is None:
            raise RuntimeError("Adam needs a gradient: call backward() first")
        self.steps += 1
        first, second = self.betas
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        scale = math.sqrt(1 - second**self.steps)
        denominator = self.square.sqrt().div_(scale).add_(self.epsilon)
        self.parameters.addcdiv_(self.mean, denominator, value=-self.learning_rate / (1 - first**self.steps))
        self.parameters.grad = None


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy with probabilities ``y (rows, classes)`` or class numbers ``(rows,)``.

    It is binary for one logit.
    """
    if outputs.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype) if y.ndim == 1 else y[:, 1])
    return F.cross_entropy(outputs, y)


def squared_loss(targets: np.ndarray, dim: tuple[int, ...] | None = None) -> TaskLoss:
    """Return the mean squared error, in units of the variance of each column of ``targets (rows, outputs)``.

    So it weighs as much against the width of the features as a cross-entropy does, whatever the unit of the targets: a
    constant prediction has a loss of 1. The mean is over all dimensions, or over ``dim``.
    """
    variance = targets.var(axis=0)
    share = torch.tensor(1 / np.where(variance > 0, variance, 1.0))

    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        nonlocal share
        share = share.to(outputs)  # copied once: a recorded step cannot copy
        errors = (outputs - y.to(outputs.dtype)).square() * share
        return errors.mean() if dim is None else errors.mean(dim)

    return loss


def iterate_batches(rows: int, size: int | None, seed: int) -> Iterator[Tensor | None]:
    """Yield the rows of each step: None for all of them, or mini-batches in a new order for every pass."""
    if size is None or size >= rows:
        while True:
            yield None
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.split(torch.randperm(rows, generator=generator), int(size))


def take_rows(values: Tensor, rows: Tensor | None) -> Tensor:
    """Return some rows, or the tensor itself for None."""
    return values if rows is None else values[rows.to(values.device)]


class StepGraph(Generic[T]):
    """A recorded step: each replay computes the gradients anew, and what the step returned, in the same tensors."""

    def __init__(self, graph: torch.cuda.CUDAGraph, parameters: Tensor, result: T) -> None:
        self._graph, self._parameters, self._gradient, self._result = graph, parameters, parameters.grad, result

    def replay(self) -> T:
        """Run the step."""
        self._graph.replay()
        self._parameters.grad = self._gradient
        return self._result


def record_step(step: Callable[[], T], parameters: Tensor) -> StepGraph[T] | None:
    """Record the kernels of a step as a CUDA graph: starting them one by one takes longer than to replay them.

    The step sets the gradients of the parameters, and must start the same kernels each time: no shape may depend on the
    numbers. Return None, and say why, if it cannot be recorded.
    """
    side = torch.cuda.Stream(parameters.device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(parameters.device))
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            parameters.grad = None
            step()
    torch.cuda.current_stream(parameters.device).wait_stream(side)
    parameters.grad = None
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = step()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        _logger.warning("step 1 runs without a recorded graph: %s", str(error).partition("\n")[0])
        parameters.grad = None
        return None
    return StepGraph(graph, parameters, result)


def step_entries(network: Network, bounds: str) -> int:
    """Return how many numbers the bounds of one piece may need: a pair of layers has a matrix of coefficients.

    Where nodes are multiplied, so has every pair of nodes: tokens have more scores of attention than layers have units.
    """
    widths = network.widths[1:] if network.multiplies else [network.widths[i] for i in network.affine_nodes[:-1]]
    if bounds == "interval":
        return _COPIES * (network.inputs + sum(widths))
    pairs = (sum(widths) ** 2 - sum(width**2 for width in widths)) // 2
    return _COPIES * (network.inputs + sum(widths) + pairs)


def chunks_of_inputs(regions: Regions, pieces: int) -> Iterator[slice]:
    """Divide the inputs into runs with at most so many pieces, or of one input if that has more."""
    ends = np.searchsorted(regions.owner, np.arange(regions.count), side="right")
    start = taken = 0
    while start < regions.count:
        stop = max(start + 1, int(np.searchsorted(ends, taken + pieces, side="right")))
        yield slice(start, stop)
        start, taken = stop, int(ends[stop - 1])
