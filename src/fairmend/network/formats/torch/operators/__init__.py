"""What the functions of PyTorch compute, as steps of a graph.

`OPERATORS` has one entry for each function, by its plain name: torch.relu, F.relu, x.relu() and aten.relu are all
"relu". An operator takes the arguments that PyTorch's function takes; where ATen's differ, "aten.relu" comes first. To
support a function, add it to the table of one of the modules here; for a layer of torch.nn, add a line to `trace` as
well. What operators compute of tensors is in `formats.tensors`, once for all formats.
"""

from __future__ import annotations

from fairmend.network.formats.torch.operators.arithmetic import ARITHMETIC
from fairmend.network.formats.torch.operators.context import Context, Operator
from fairmend.network.formats.torch.operators.functions import FUNCTIONS
from fairmend.network.formats.torch.operators.products import PRODUCTS
from fairmend.network.formats.torch.operators.shapes import SHAPES

__all__ = ["OPERATORS", "Context", "Operator", "refusal"]

OPERATORS: dict[str, Operator] = {**FUNCTIONS, **SHAPES, **ARITHMETIC, **PRODUCTS}

# Why functions and layers are refused that users ask for; all others are just "not supported".
_REASONS = {
    "divides by statistics of the row; write it with LayerNorm, RMSNorm or GroupNorm": ("localresponsenorm",),
    "is not read as a whole; write its attention and its layers one by one, or export the model": (
        *("transformer", "transformerencoder", "transformerdecoder", "transformerdecoderlayer"),
    ),
    "is recurrent; fairmend reads rows of numbers": ("lstm", "gru", "rnn", "lstmcell", "grucell", "rnncell"),
    "is a convolution; fairmend reads rows of numbers": (
        *("conv1d", "conv2d", "conv3d", "convolution", "convtranspose1d", "convtranspose2d", "lazyconv1d"),
    ),
    "is a logarithm of a probability, for which fairmend has no bounds; end in the logit": ("logsigmoid",),
}


def refusal(name: str) -> str:
    """Return why a function or layer is refused: 'layer_norm', 'LayerNorm'."""
    plain = name.replace("_", "").lower()
    return next((why for why, names in _REASONS.items() if plain in names), "is not supported")
