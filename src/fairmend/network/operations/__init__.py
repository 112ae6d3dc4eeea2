"""The operations of a network: what a node of its graph computes from the nodes before it, one class for each.

`base` says what an operation must know. `layers` have numbers of their own, `wiring` has none, `products` are not
linear, and `elementwise` is any of the `functions`.
"""

from fairmend.network.operations.base import Numbers, Operation
from fairmend.network.operations.elementwise import ACTIVATIONS, Activation
from fairmend.network.operations.layers import DTYPES, Affine, Lookup, Scale, StoredLayer
from fairmend.network.operations.products import Normalise, Product, Softmax
from fairmend.network.operations.wiring import Columns, Concatenate, Input, Sum

__all__ = [
    "ACTIVATIONS",
    "DTYPES",
    "KINDS",
    "Activation",
    "Affine",
    "Columns",
    "Concatenate",
    "Input",
    "Lookup",
    "Normalise",
    "Numbers",
    "Operation",
    "Product",
    "Scale",
    "Softmax",
    "StoredLayer",
    "Sum",
]

KINDS: dict[str, type[Operation]] = {"sum": Sum, "product": Product, "normalise": Normalise}
"""Those without arrays of a file that stand anywhere in a network, by the kind of their step in its JSON form."""
