"""The operations of a network: what a node of its graph computes from the nodes before it.

Each file holds one operation. `base` says what an operation must know; the elementwise functions are in `functions`.
"""

from fairmend.network.operations.affine import DTYPES, Affine, StoredLayer
from fairmend.network.operations.base import Operation
from fairmend.network.operations.columns import Columns
from fairmend.network.operations.concatenate import Concatenate
from fairmend.network.operations.input import Input
from fairmend.network.operations.lookup import Lookup
from fairmend.network.operations.scale import Scale
from fairmend.network.operations.sum import Sum

__all__ = ["DTYPES", "Affine", "Columns", "Concatenate", "Input", "Lookup", "Operation", "Scale", "StoredLayer", "Sum"]
