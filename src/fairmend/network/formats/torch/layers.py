"""The layers of torch.nn, each as the function that it calls.

Exact types, because a subclass may compute something else: torch.fx looks inside those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network.formats.build import unsupported
from fairmend.network.formats.torch.operators import refusal
from fairmend.network.formats.torch.program import Ref

Arguments = tuple[str, dict[str, Any]]


def _with(operator: str, *attributes: str, **renamed: str) -> Callable[[Any], Arguments]:
    """Return a function that takes the arguments of an operator from attributes of the layer."""
    names = {name: name for name in attributes} | renamed

    def arguments(layer: Any) -> Arguments:
        return operator, {name: getattr(layer, attribute) for name, attribute in names.items()}

    return arguments


def _tensors(operator: str, *names: str, **renamed: str) -> Callable[[Any], Arguments]:
    """Return a function that takes tensors of the layer, and further attributes."""

    def arguments(layer: Any) -> Arguments:
        refs = {name: None if getattr(layer, name) is None else Ref(name) for name in names}
        return operator, refs | {name: getattr(layer, attribute) for name, attribute in renamed.items()}

    return arguments


_NORM = _tensors("batch_norm", "running_mean", "running_var", "weight", "bias", eps="eps")
LAYERS: dict[type[nn.Module], Callable[[Any], Arguments]] = {
    nn.Linear: _tensors("linear", "weight", "bias"),
    nn.Embedding: _tensors("embedding", "weight", max_norm="max_norm"),
    nn.BatchNorm1d: _NORM,
    nn.SyncBatchNorm: _NORM,
    nn.PReLU: _tensors("prelu", "weight"),
    nn.ReLU: _with("relu", "inplace"),
    nn.ReLU6: _with("relu6", "inplace"),
    nn.LeakyReLU: _with("leaky_relu", "negative_slope", "inplace"),
    nn.RReLU: _with("rrelu", "lower", "upper", "inplace"),
    nn.Hardtanh: _with("hardtanh", "min_val", "max_val", "inplace"),
    nn.ELU: _with("elu", "alpha", "inplace"),
    nn.CELU: _with("celu", "alpha", "inplace"),
    nn.SELU: _with("selu", "inplace"),
    nn.Softplus: _with("softplus", "beta", "threshold"),
    nn.Softsign: _with("softsign"),
    nn.Hardsigmoid: _with("hardsigmoid", "inplace"),
    nn.GELU: _with("gelu", "approximate"),
    nn.SiLU: _with("silu", "inplace"),
    nn.Mish: _with("mish", "inplace"),
    nn.Hardswish: _with("hardswish", "inplace"),
    nn.Tanh: _with("tanh"),
    nn.Sigmoid: _with("sigmoid"),
    nn.Softmax: _with("softmax", "dim"),
    nn.LogSoftmax: _with("log_softmax", "dim"),
    nn.Flatten: _with("flatten", "start_dim", "end_dim"),
    nn.Identity: _with("alias"),
    **{kind: _with("alias") for kind in (nn.Dropout, nn.Dropout1d, nn.AlphaDropout, nn.FeatureAlphaDropout)},
}


def layer_call(name: str, layer: nn.Module, source: str) -> Arguments:
    """Return the function that a layer calls, and its arguments beside the input; a Ref names a tensor of the layer."""
    kind = type(layer)
    where = f"layer {name!r} ({kind.__name__})"
    if kind in LAYERS:
        return LAYERS[kind](layer)
    if ".quant" in kind.__module__ or ".ao." in kind.__module__:
        raise unsupported(source, where, "is quantised; give the model as it was before")
    if hasattr(layer, "parametrizations"):
        raise FairmendError(
            f"{source}: {where} computes its weights from other tensors; call "
            "torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight') first"
        )
    raise unsupported(source, where, refusal(kind.__name__))
