"""Work in parts that fit the memory of a GPU: when it is full, go on with smaller parts, and say so."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from fairmend.errors import FairmendError

_logger = logging.getLogger(__name__)


def run_in_parts(count: int, step: int, work: Callable[[slice], None], what: str) -> int:
    """Call ``work`` with slices of at most ``step`` of ``count`` things, and return the step in the end.

    When the memory of the GPU is full, the step is halved and the slice is done again; ``what`` names the things.
    """
    start, step = 0, max(1, step)
    while start < count:
        part = slice(start, min(start + step, count))
        try:
            work(part)
        except torch.OutOfMemoryError:
            if step == 1:
                raise FairmendError(
                    f"the memory of the GPU is too small for one of the {what}: use device cpu"
                ) from None
            step = max(1, min(step, count - start) // 2)
        else:
            start = part.stop
            continue
        # Out of the handler: until then, the error keeps the tensors of the failed work alive.
        torch.cuda.empty_cache()
        _logger.warning("the memory of the GPU is full: going on with %d %s at a time", step, what)
    return step
