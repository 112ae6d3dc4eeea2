"""Networks: graphs of `operations`, what they compute (`network`) and decide (`decision`), and their file `formats`."""

from fairmend.network.decision import DEFAULT_THRESHOLD, predicted_classes
from fairmend.network.graph import Node
from fairmend.network.model import Model
from fairmend.network.network import CLOSINGS, Network, NetworkSource, load_network
from fairmend.network.operations import (
    ACTIVATIONS,
    DTYPES,
    Activation,
    Affine,
    Columns,
    Concatenate,
    Input,
    Lookup,
    Normalise,
    Operation,
    Product,
    Scale,
    Softmax,
    Sum,
)

__all__ = [
    "ACTIVATIONS",
    "CLOSINGS",
    "DEFAULT_THRESHOLD",
    "DTYPES",
    "Activation",
    "Affine",
    "Columns",
    "Concatenate",
    "Input",
    "Lookup",
    "Model",
    "Network",
    "NetworkSource",
    "Node",
    "Normalise",
    "Operation",
    "Product",
    "Scale",
    "Softmax",
    "Sum",
    "load_network",
    "predicted_classes",
]
