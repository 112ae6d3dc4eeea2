"""The operators of ONNX that fairmend reads: a small function for each, in the table of its file.

To support an operator, write its function and enter it in that table. An activation that exporters write as several
operators belongs into `patterns`.
"""

from __future__ import annotations

from collections.abc import Callable

from fairmend.network.formats.onnx.conversion import At, Result
from fairmend.network.formats.onnx.graph import Node
from fairmend.network.formats.onnx.operators import arithmetic, functions, layers, shapes

__all__ = ["find_operator"]

_OPERATORS = {**layers.OPERATORS, **arithmetic.OPERATORS, **functions.OPERATORS, **shapes.OPERATORS}
_DOMAINS = {"Scaler": "ai.onnx.ml"}  # of all other operators: ONNX's own


def find_operator(node: Node) -> Callable[[At], Result] | None:
    """Return the function that converts a node; None if its operator is not known."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    return _OPERATORS.get(node.op_type) if domain == _DOMAINS.get(node.op_type, "") else None
