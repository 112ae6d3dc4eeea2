"""Operators whose output may hold what was in memory before, in some release of ONNX Runtime.

Memory that a node does not write may hold a column that the entry replaces. A product of whole numbers whose sums have
no terms is such a node: ONNX Runtime up to 1.31 returns without writing it. So one factor of every such product must be
a constant with entries, or what only changes the form of one. The same is asked of products of floats in a file with
DequantizeLinear, because ONNX Runtime may turn these into products of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fairmend_check.errors import CheckError
from fairmend_check.readers.onnx_operators import MICROSOFT
from fairmend_check.readers.protobuf import Message

Operator = tuple[str, str]  # domain and name

# Products of whole numbers, and which of their inputs are the factors; then those that may become such products.
_WHOLE: dict[Operator, tuple[int, ...]] = {
    ("", "ConvInteger"): (1,),
    ("", "MatMulInteger"): (0, 1),
    ("", "QLinearConv"): (3,),
    ("", "QLinearMatMul"): (0, 3),
    (MICROSOFT, "DynamicQuantizeMatMul"): (0, 1),
    (MICROSOFT, "MatMulInteger16"): (0, 1),
    (MICROSOFT, "MatMulIntegerToFloat"): (0, 1),
    (MICROSOFT, "MatMulNBits"): (1,),
    (MICROSOFT, "QGemm"): (0, 3),
}
_FLOAT: dict[Operator, tuple[int, ...]] = {
    ("", "Conv"): (1,),
    ("", "ConvTranspose"): (1,),
    ("", "Gemm"): (0, 1),
    ("", "MatMul"): (0, 1),
    (MICROSOFT, "FusedConv"): (1,),
    (MICROSOFT, "FusedGemm"): (0, 1),
    (MICROSOFT, "FusedMatMul"): (0, 1),
    (MICROSOFT, "FusedMatMulActivation"): (0, 1),
}
_KEEP_ENTRIES = ("Cast", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose")
_KEEP_ENTRIES += ("Unsqueeze",)
# Inputs that some release does not compare with the sizes of what they are about, or with 0.
_UNSAFE_INPUTS: dict[Operator, tuple[int, str]] = {
    ("", "GRU"): (4, "lengths of sequences"),
    ("", "LSTM"): (4, "lengths of sequences"),
    ("", "RNN"): (4, "lengths of sequences"),
    (MICROSOFT, "MatMulNBits"): (4, "an index of groups"),
}


@dataclass
class Products:
    """What is known of a file so far: whether it has DequantizeLinear, and products of floats without a constant."""

    dequantized: bool = False
    unsure: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Refuse products of floats that may become products of whole numbers; after all nodes were seen."""
        if self.dequantized and self.unsure:
            raise CheckError(
                f"{self.unsure[0]} may become a product of whole numbers, as the file has DequantizeLinear, and "
                f"{_NO_FACTOR}"
            )


_NO_FACTOR = (
    "no factor of it is a constant with entries: if its sums have no terms, ONNX Runtime leaves in the output what was "
    "in memory. Quantise products with constants only (MatMulConstBOnly)"
)


def has_entries(tensor: Message) -> bool:
    """Return whether a constant has entries: no axis of length 0."""
    return bool(tensor) and all(size > 0 for size in tensor.get("dims", []))


def keeps_entries(domain: str, kind: str) -> bool:
    """Return whether the output of an operator has entries if its first input has."""
    return kind in _KEEP_ENTRIES and domain in ("", MICROSOFT)


def check_memory(
    operator: Operator, inputs: Sequence[str], what: str, is_full: Callable[[str], bool], products: Products
) -> None:
    """Refuse a node that may leave memory unset; ``is_full`` says of a name whether it is a constant with entries."""
    products.dequantized |= operator[1] == "DequantizeLinear"
    place, meaning = _UNSAFE_INPUTS.get(operator, (len(inputs), ""))
    if place < len(inputs) and inputs[place]:
        raise CheckError(f"{what} reads {meaning}, with which some releases of ONNX Runtime leave its output unset")
    factors = _WHOLE.get(operator, _FLOAT.get(operator, ()))
    if not factors or any(place < len(inputs) and is_full(inputs[place]) for place in factors):
        return
    if operator in _WHOLE:
        raise CheckError(f"{what} is a product of whole numbers, and {_NO_FACTOR}")
    products.unsure.append(what)
