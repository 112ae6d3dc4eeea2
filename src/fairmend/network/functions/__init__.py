"""The elementwise functions that fairmend knows, one file each; docs/extending.md shows how to add one."""

from fairmend.network.functions.base import Function, Lines, Precision
from fairmend.network.functions.celu import Celu
from fairmend.network.functions.clip import Clip
from fairmend.network.functions.elu import Elu
from fairmend.network.functions.gelu import Gelu
from fairmend.network.functions.gelu_tanh import GeluTanh
from fairmend.network.functions.hardsigmoid import Hardsigmoid
from fairmend.network.functions.hardswish import Hardswish
from fairmend.network.functions.identity import Identity
from fairmend.network.functions.leaky_relu import LeakyRelu
from fairmend.network.functions.mish import Mish
from fairmend.network.functions.prelu import Prelu
from fairmend.network.functions.relu import Relu
from fairmend.network.functions.selu import Selu
from fairmend.network.functions.sigmoid import Sigmoid
from fairmend.network.functions.silu import Silu
from fairmend.network.functions.softplus import Softplus
from fairmend.network.functions.softsign import Softsign
from fairmend.network.functions.tanh import Tanh

__all__ = ["FUNCTIONS", "Function", "Lines", "Precision"]

FUNCTIONS: dict[str, type[Function]] = {
    "relu": Relu,
    "leaky_relu": LeakyRelu,
    "tanh": Tanh,
    "sigmoid": Sigmoid,
    "identity": Identity,
    "prelu": Prelu,
    "clip": Clip,
    "elu": Elu,
    "celu": Celu,
    "selu": Selu,
    "softplus": Softplus,
    "softsign": Softsign,
    "hardsigmoid": Hardsigmoid,
    "gelu": Gelu,
    "gelu_tanh": GeluTanh,
    "silu": Silu,
    "mish": Mish,
    "hardswish": Hardswish,
}
"""Their names in specs, certificates and messages."""
