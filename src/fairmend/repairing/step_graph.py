"""The kernels of a training step, recorded once as a CUDA graph and replayed: starting them one by one takes longer.

A step can be recorded if it starts the same kernels each time: no shape may depend on the numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor

_logger = logging.getLogger(__name__)

_WARM_UP = 2  # steps before the recording, in which libraries set up their workspaces

T = TypeVar("T")


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
    """Record a step, which sets the gradients of the parameters; return None, and say why, if that is not possible."""
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
