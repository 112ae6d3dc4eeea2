"""Networks: what they compute (`network`, `activations`), and the files and objects they come from (`formats`)."""

from fairmend.network.activations import ACTIVATIONS, Activation
from fairmend.network.network import (
    CLOSINGS,
    DTYPES,
    Affine,
    Network,
    NetworkSource,
    load_network,
    predicted_classes,
)

__all__ = [
    "ACTIVATIONS",
    "CLOSINGS",
    "DTYPES",
    "Activation",
    "Affine",
    "Network",
    "NetworkSource",
    "load_network",
    "predicted_classes",
]
