"""Networks: what they compute (`network`, `activations`) and decide (`decision`), and the `formats` they come in."""

from fairmend.network.activations import ACTIVATIONS, Activation
from fairmend.network.decision import DEFAULT_THRESHOLD, predicted_classes
from fairmend.network.network import CLOSINGS, DTYPES, Affine, Network, NetworkSource, load_network

__all__ = [
    "ACTIVATIONS",
    "CLOSINGS",
    "DEFAULT_THRESHOLD",
    "DTYPES",
    "Activation",
    "Affine",
    "Network",
    "NetworkSource",
    "load_network",
    "predicted_classes",
]
