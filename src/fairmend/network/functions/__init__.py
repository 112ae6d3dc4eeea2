"""The elementwise functions that fairmend knows, one file each; docs/extending.md shows how to add one."""

from fairmend.network.functions.base import Function, Lines, Precision
from fairmend.network.functions.identity import Identity
from fairmend.network.functions.leaky_relu import LeakyRelu
from fairmend.network.functions.prelu import Prelu
from fairmend.network.functions.relu import Relu
from fairmend.network.functions.sigmoid import Sigmoid
from fairmend.network.functions.tanh import Tanh

__all__ = ["FUNCTIONS", "Function", "Lines", "Precision"]

FUNCTIONS: dict[str, type[Function]] = {
    "relu": Relu,
    "leaky_relu": LeakyRelu,
    "tanh": Tanh,
    "sigmoid": Sigmoid,
    "identity": Identity,
    "prelu": Prelu,
}
"""Their names in specs, certificates and messages."""
