"""The operations of a network: a class for each, with all of its mathematics.

`base` says what an operation must know. `columns` has inputs, tables, sums and what moves columns, `affine` the layer
and the norms beside it, `product` and `groups` what is not linear. Elementwise functions are in
`fairmend_check.kernel.functions`.
"""

from typing import Any

from fairmend_check.kernel.operations.groups import Normalise, Softmax
from fairmend_check.kernel.operations.product import Product

KINDS: dict[str, Any] = {"product": Product, "softmax": Softmax, "normalise": Normalise}
"""Those without arrays of a file, by the kind of their step in the JSON form; the fields of the class are its keys."""
