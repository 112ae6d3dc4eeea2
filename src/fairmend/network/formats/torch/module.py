"""PyTorch modules, read through torch.fx: nn.Sequential, and any forward() that is a chain of layers.

To support a layer or an activation, add it to `_MODULES`, `_FUNCTIONS` and `_METHODS`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from fairmend.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.formats.chain import (
    Collapse,
    Linear,
    Nonlinear,
    Norm,
    Softmax,
    Step,
    build_network,
    unsupported,
)
from fairmend.network.formats.torch.pth import to_numpy
from fairmend.network.formats.torch.state_dict import StateDictForm

# Exact types, because a subclass may compute something else.
_MODULES: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
    nn.LeakyReLU: "leaky_relu",
    nn.Softmax: "softmax",
    nn.Flatten: "flatten",
    nn.Linear: "linear",
    nn.BatchNorm1d: "batchnorm",
    nn.Dropout: "pass",
    nn.AlphaDropout: "pass",
    nn.Identity: "pass",
}
_FUNCTIONS: dict[Callable[..., Any], str] = {
    torch.relu: "relu",
    torch.relu_: "relu",
    F.relu: "relu",
    F.relu_: "relu",
    torch.tanh: "tanh",
    F.tanh: "tanh",
    torch.sigmoid: "sigmoid",
    F.sigmoid: "sigmoid",
    F.leaky_relu: "leaky_relu",
    F.leaky_relu_: "leaky_relu",
    torch.softmax: "softmax",
    F.softmax: "softmax",
    torch.flatten: "flatten",
    torch.squeeze: "squeeze",
    F.dropout: "dropout",
    torch.dropout: "dropout",
}
_METHODS = {
    "relu": "relu",
    "relu_": "relu",
    "tanh": "tanh",
    "tanh_": "tanh",
    "sigmoid": "sigmoid",
    "sigmoid_": "sigmoid",
    "softmax": "softmax",
    "flatten": "flatten",
    "squeeze": "squeeze",
    "contiguous": "pass",
    "clone": "pass",
    "detach": "pass",
}


def read_module(module: nn.Module) -> Network:
    """Return the network that `module` computes in eval mode; the module itself does not change."""
    source = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise FairmendError(f"{source}: a TorchScript module cannot be read; pass the nn.Module, or export it to ONNX")
    for name, layer in module.named_modules():
        if layer._forward_hooks or layer._forward_pre_hooks:
            raise FairmendError(
                f"{source}: layer {name!r} ({type(layer).__name__}) has forward hooks, which may change "
                "what it computes; remove them (for weight norm: torch.nn.utils.remove_weight_norm)"
            )
    if type(module) in _MODULES:  # torch.fx would trace the inside of a single layer
        return build_network(_module_steps("", module, source), source, _form(module, {""}))
    try:
        module = copy.deepcopy(module).eval()  # a copy, so that eval() does not change the caller's module
        graph = fx.Tracer().trace(module)
    except Exception as error:  # forward() is the user's code: it may raise anything
        raise FairmendError(
            f"{source}: forward() could not be traced ({error}); write it as a plain chain of layers, "
            "or export the model to ONNX"
        ) from error
    steps: list[Step] = []
    seen: set[str] = set()
    for node in _chain(graph, source):
        if node.op == "call_module":
            target = str(node.target)
            steps += _module_steps(target, module.get_submodule(target), source)
            if isinstance(steps[-1] if steps else None, Linear) and target in seen:
                raise unsupported(source, f"layer {target!r} (Linear)", "is used twice")
            seen.add(target)
        else:
            steps += _call_steps(node, source)
    return build_network(steps, source, _form(module, seen))


def _form(module: nn.Module, used: set[str]) -> StateDictForm | None:
    """Return all tensors of the module, if each belongs to a layer of the chain; else a state dict would say too much.

    The network's own state dict then has the affine layers alone.
    """
    state = module.state_dict()
    if not all(isinstance(value, torch.Tensor) and key.rpartition(".")[0] in used for key, value in state.items()):
        return None
    tensors = {key: to_numpy(value, key) for key, value in state.items()}
    return StateDictForm(tensors, versions=getattr(state, "_metadata", None))


def _chain(graph: fx.Graph, source: str) -> list[fx.Node]:
    """Return the nodes from input to output, in order; nodes that the output does not depend on are left out."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    if not isinstance(output.args[0], fx.Node):
        raise FairmendError(f"{source}: forward() returns {type(output.args[0]).__name__}; it must return one tensor")
    chain: list[fx.Node] = []
    node = output.args[0]
    while node.op != "placeholder":
        if node.op == "get_attr" or len(node.all_input_nodes) != 1 or node.args[:1] != (node.all_input_nodes[0],):
            raise unsupported(source, _where(node), "is not a layer with one input")
        chain.append(node)
        node = node.all_input_nodes[0]
    return chain[::-1]


def _where(node: fx.Node) -> str:
    if node.op == "call_module":
        return f"layer {str(node.target)!r}"
    return f"{getattr(node.target, '__name__', node.target)}() at {node.name!r} in forward()"


def _module_steps(name: str, layer: nn.Module, source: str) -> list[Step]:
    where = f"layer {name!r} ({type(layer).__name__})"
    kind = _MODULES.get(type(layer))
    if kind is None:
        raise unsupported(source, where, "is not supported")
    if isinstance(layer, nn.Linear):
        weight = to_numpy(layer.weight, f"{source}: the weight of {where}")
        bias = None if layer.bias is None else to_numpy(layer.bias, f"{source}: the bias of {where}")
        return [Linear(where, weight, bias, name)]
    if isinstance(layer, nn.BatchNorm1d):
        if layer.running_mean is None or layer.running_var is None:
            raise unsupported(source, where, "keeps no running statistics, so a row's output depends on the other rows")
        parts = (layer.running_mean, layer.running_var)
        mean, variance = (to_numpy(part, f"{source}: {where}") for part in parts)
        affine = (layer.weight, layer.bias) if layer.affine else (None, None)
        gain, shift = (None if part is None else to_numpy(part, f"{source}: {where}") for part in affine)
        return [Norm(where, mean, variance, gain, shift, layer.eps, name)]
    if isinstance(layer, nn.Flatten):
        return _reshaping("flatten", where, layer.start_dim, source)
    argument = getattr(layer, "dim", None) if kind == "softmax" else getattr(layer, "negative_slope", None)
    return _elementwise(kind, where, argument, source)


def _call_steps(node: fx.Node, source: str) -> list[Step]:
    where = _where(node)
    table: dict[Any, str] = _FUNCTIONS if node.op == "call_function" else _METHODS
    kind = table.get(node.target)
    if kind is None or node.kwargs.get("dtype") is not None:
        raise unsupported(source, where, "is not supported")
    if kind == "dropout":
        if _argument(node, 2, "train" if node.target is torch.dropout else "training", True):
            raise unsupported(source, where, "stays random in eval mode (pass training=self.training)")
        return []
    if kind == "flatten":
        return _reshaping(kind, where, _argument(node, 1, "start_dim", 0), source)
    if kind == "squeeze":
        return _reshaping(kind, where, _argument(node, 1, "dim", None), source)
    default, name = (0.01, "negative_slope") if kind == "leaky_relu" else (None, "dim")
    return _elementwise(kind, where, _argument(node, 1, name, default), source)


def _argument(node: fx.Node, position: int, name: str, default: object) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _elementwise(kind: str, where: str, argument: Any, source: str) -> list[Step]:
    """Return an activation or softmax, or nothing for Dropout; `argument` is leaky ReLU's slope or softmax's axis."""
    if kind == "pass":
        return []
    if kind == "softmax":
        if argument not in (1, -1):
            raise unsupported(source, where, f"has dim={argument}, not 1 or -1")
        return [Softmax(where)]
    try:
        return [Nonlinear(where, Activation(kind, float(argument) if kind == "leaky_relu" else 0.0))]
    except FairmendError as error:
        raise unsupported(source, where, f"is not supported: {error}") from error


def _reshaping(kind: str, where: str, axis: Any, source: str) -> list[Step]:
    """Return nothing for a Flatten from axis 1, which keeps rows as they are; from axis 0 it squeezes one output."""
    if kind == "flatten" and axis in (1, -1):
        return []
    if axis in ((0, -2) if kind == "flatten" else (None, 1, -1)):
        return [Collapse(where, single=axis not in (1, -1))]
    raise unsupported(source, where, f"over axis {axis} is not supported")
