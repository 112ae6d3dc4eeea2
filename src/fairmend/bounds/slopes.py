"""Slopes that make rigorous bounds tight: those of the CROWN relaxation, computed with PyTorch in float64.

Any slopes give sound bounds (see `fairmend.bounds.rigorous`), so nothing that PyTorch computes here has to be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from fairmend.base.arrays import FloatArray
from fairmend.base.device import current_device
from fairmend.base.gpu import run_in_parts
from fairmend.bounds.linear import Boxes, propagate
from fairmend.bounds.pieces import batch_size, batches, exact_boxes
from fairmend.bounds.relaxation import Lines
from fairmend.bounds.rigorous import Slopes
from fairmend.network import Network


def choose_slopes(network: Network, lower: npt.ArrayLike, upper: npt.ArrayLike) -> list[Slopes]:
    """Return tight slopes for the boxes ``(pieces, inputs)``, one `Slopes` per elementwise function."""
    low, high = exact_boxes(network, lower, upper)
    device = current_device()
    parameters = [(_tensor(affine.weight, device), _tensor(affine.bias, device)) for affine in network.affines[:-1]]
    widths = [network.widths[i] for i in network.functions]
    chosen = [Slopes(np.zeros((len(low), width)), np.zeros((len(low), width))) for width in widths]

    def choose(part: slice) -> None:
        boxes = Boxes.from_arrays(low[part], high[part], torch.float64)
        boxes = boxes if device is None else boxes.to(device)
        found = slopes_from(propagate(network, parameters, boxes).relaxations)
        for into, slopes in zip(chosen, found, strict=True):
            into.lower[part], into.upper[part] = slopes.lower, slopes.upper

    with torch.no_grad(), np.errstate(all="ignore"):
        if not widths:
            return chosen
        if device is None:
            for part in batches(network, len(low)):
                choose(part)
        else:
            run_in_parts(len(low), batch_size(network), choose, "neighbourhoods")
    return chosen


def _tensor(array: FloatArray, device: torch.device | None) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float64, device=device)


def slopes_from(relaxations: Sequence[Lines]) -> list[Slopes]:
    """Return the slopes of the lines that `propagate` found."""
    return [
        Slopes(*(s.detach().cpu().to(torch.float64).numpy() for s in (lines.lower_slope, lines.upper_slope)))
        for lines in relaxations
    ]
