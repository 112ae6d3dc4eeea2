"""What the guarantee for everyone costs at least: a network that was trained without the features that vary.

A network that is proven for everyone ignores all features in which similar people may differ. So does one that is
trained, with all labels, as the original was but without these features. `auto` has few labels; where even this network
loses, the loss is the price of the guarantee and not of the repair.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.common.trained import Shape, trained_network
from benchmarks.repairs.figures import Figures, mean
from fairmend import Network, Spec
from fairmend.base.metrics import accuracy, balanced_accuracy
from fairmend.repairing.blind import columns_of, zero_columns

Rows = tuple[np.ndarray, np.ndarray]
"""Inputs ``(rows, inputs)`` and classes ``(rows,)``."""


def retrained_figures(
    name: str, original: Network, shape: Shape, spec: Spec, training: Rows, judging: Rows, cache: Path
) -> dict[str, float]:
    """Return how many points the retrained network loses on the judging rows: "retrained lost", "retrained fall"."""
    columns = columns_of(spec, spec.varying)
    without = "-".join(feature.name for feature in spec.varying)
    X, y = judging
    network = trained_network(
        f"{name}-without-{without}", shape, zero_columns(training[0], columns), training[1], cache
    )
    before, after = original.predict(X), network.predict(zero_columns(X, columns))
    return {
        "retrained lost": 100 * (accuracy(y, before) - accuracy(y, after)),
        "retrained fall": 100 * (balanced_accuracy(y, before) - balanced_accuracy(y, after)),
    }


def shape_of(network: Network) -> Shape:
    """Return the shape of a network whose hidden layers have one kind of activation."""
    return Shape(tuple(len(affine.bias) for affine in network.affines[:-1]), network.activations[0].name)


def beside(figures: Figures, own: str, retrained: str) -> str:
    """Return a figure of `auto`, and after it that of the retrained network, if there is one."""
    return f"{figures[own]:.2f}" + (f" ({figures[retrained]:.2f})" if retrained in figures else "")


def describe_retrained(which: str, group: list[Figures], console: Console) -> None:
    """Print what the networks lose that were trained without the features that vary, if there are such."""
    if not all("retrained lost" in r for r in group):
        return
    console.print(
        f"{which}, trained anew without the features that vary, with all labels: mean accuracy lost "
        f"{mean(group, 'retrained lost'):.3f}, largest fall {max(r['retrained fall'] for r in group):.2f}; here auto "
        f"loses {mean(group, 'accuracy lost'):.3f} and {max(r['fall'] for r in group):.2f}"
    )
