"""PyTorch modules in memory: forward() is traced, and the network must give what the module gives.

`trace` finds the calls of forward(), and `interpret` the graph that they compute. To support a layer or a function, see
`layers` and `operators`.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.utils import parametrize

from fairmend.base.errors import FairmendError
from fairmend.network import Columns, Input, Lookup, Network
from fairmend.network.formats.torch.interpret import Reading, interpret
from fairmend.network.formats.torch.pth import to_numpy
from fairmend.network.formats.torch.state_dict import StateDictForm
from fairmend.network.formats.torch.trace import has_optional, program_of_export, trace

# Trained nets of skorch: the module inside, and the rule by which the net decides.


def read_net(net: Any) -> Network:
    """Return the network in a net, with its threshold; refuse a net that decides by other numbers."""
    source = type(net).__name__
    if not hasattr(net, "module_"):
        raise FairmendError(f"{source}: is not fitted; call fit first")

    network = read_module(net.module_)
    kinds = _kinds(net)
    if network.rescaling is not None and any(kind.startswith("NeuralNet") and "Classifier" in kind for kind in kinds):
        raise FairmendError(
            f"{source}: its module makes other scores of a sigmoid ({network.rescaling}), of which skorch makes its "
            "own decision. Give the module itself, net.module_, and the threshold in the spec"
        )
    if "NeuralNetBinaryClassifier" in kinds:
        if network.outputs != 1 or not _gives_the_sigmoid(net, network):
            raise FairmendError(
                f"{source}: does not decide by the sigmoid of one logit: module, criterion and predict_nonlinearity "
                "do not fit together. Give the module itself, net.module_, whose positive logits are class 1"
            )
        return network.at_threshold(float(net.threshold))
    if "NeuralNetClassifier" in kinds and network.outputs == 1:
        raise FairmendError(
            f"{source}: has 1 output, so that it always predicts class 0; use NeuralNetBinaryClassifier, or give the "
            "module itself, net.module_, whose positive logits are class 1"
        )
    return network


def to_net(network: Network, like: Any) -> Any:
    """Return a copy of a net with the weights of `network`, which was read from it; `like` does not change."""
    net = copy.deepcopy(like)
    net.module_ = network.to_module()
    return net


def _kinds(source: Any) -> set[str]:
    return {base.__name__ for base in type(source).__mro__ if base.__module__.partition(".")[0] == "skorch"}


def _gives_the_sigmoid(net: Any, network: Network) -> bool:
    """Return whether the probability of the net is the sigmoid of the logit.

    skorch adds the sigmoid that its criterion BCEWithLogitsLoss has; with any other, the module must end in one.
    """
    criterion = getattr(net.criterion_, "_orig_mod", net.criterion_)
    added = any(base.__name__ == "BCEWithLogitsLoss" for base in type(criterion).__mro__)
    return net.predict_nonlinearity == "auto" and added == (network.closing == "none")


_ROWS = 16  # on which the network is compared with the module
_CLOSE = 1e-3
_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REMOVERS = {  # by the modules of the hooks: what removes them, and keeps what the layer computes
    "torch.nn.utils.weight_norm": "torch.nn.utils.remove_weight_norm",
    "torch.nn.utils.spectral_norm": "torch.nn.utils.remove_spectral_norm",
    "torch.nn.utils.prune": "torch.nn.utils.prune.remove",
}
_WRAPPERS = {  # by the names of their classes, and where the module is in them
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "AveragedModel": "module",
}


def read_module(module: nn.Module, example: Any = None) -> Network:
    """Return the network that `module` computes in eval mode; the module itself does not change.

    An example is what forward() takes: rows as a tensor or an array, or several of them.
    """
    module = _unwrapped(module)
    source = type(module).__name__
    _refuse_what_hides_code(module, source)
    try:
        module = copy.deepcopy(module).eval()  # a copy, so that eval() does not change the caller's module
    except Exception as error:  # the user's code
        raise FairmendError(f"{source}: the module cannot be copied ({error}); export the model to ONNX") from error
    _keep_computed_weights(module)
    reading = interpreted(module, source, None if example is None else _arguments(example, module, source))
    tensors = _tensors(module, source)
    versions = getattr(module.state_dict(), "_metadata", None)
    form = StateDictForm(tensors, versions, None, tuple(reading.entries), module, _tied(module), copied=reading.copied)
    network = reading.network(tensors, source, form)
    _compare(module, network, reading, source)
    return network


def interpreted(module: nn.Module, source: str, example: tuple[Any, ...] | None = None) -> Reading:
    """Return the steps of forward(), with its defaults or, where it does not work with these, without those of None."""
    try:
        return interpret(trace(module, source, example), _tensors(module, source), source)
    except FairmendError as error:
        if example is None and has_optional(module):
            try:
                return interpret(trace(module, source, optional=True), _tensors(module, source), source)
            except FairmendError:
                raise error from None  # the user hears what stands in the way with the defaults
        raise


def read_export(exported: Any) -> Network:
    """Return the network of a torch.export.ExportedProgram in memory."""
    source = type(exported).__name__
    tensors = {key: to_numpy(value, f"{source}: {key}") for key, value in exported.state_dict.items()}
    reading = interpret(program_of_export(exported, source), tensors, source)
    return reading.network(
        tensors, source, StateDictForm(tensors, description=tuple(reading.entries), copied=reading.copied)
    )


def _arguments(example: Any, module: nn.Module, source: str) -> tuple[Any, ...]:
    """Return an example as the arguments of forward(), on the device of the module."""
    device = next((tensor.device for tensor in module.state_dict().values()), torch.device("cpu"))
    given = tuple(example) if isinstance(example, list | tuple) else (example,)
    arguments = [torch.as_tensor(each).to(device) if isinstance(each, np.ndarray) else each for each in given]
    tensors = [each for each in arguments if each is not None]
    if not tensors or not all(isinstance(each, torch.Tensor) and each.ndim in (1, 2) and len(each) for each in tensors):
        raise FairmendError(
            f"{source}: example= must be what forward() takes: a tensor or an array of rows, or several in a tuple"
        )
    return tuple(each if each is None else each.to(device) for each in arguments)


def _unwrapped(module: nn.Module) -> nn.Module:
    """Return the module inside of torch.compile, DataParallel and the like."""
    while type(module).__name__ in _WRAPPERS and type(module).__module__.startswith("torch."):
        module = getattr(module, _WRAPPERS[type(module).__name__])
    return module


def _refuse_what_hides_code(module: nn.Module, source: str) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        raise FairmendError(f"{source}: a TorchScript module cannot be read; pass the nn.Module, or export it to ONNX")
    for name, layer in module.named_modules():
        hooks = [*layer._forward_hooks.values(), *layer._forward_pre_hooks.values()]
        if hooks:
            modules = [type(hook).__module__ for hook in hooks]
            how = next((f"with {_REMOVERS[module]}" for module in modules if module in _REMOVERS), "first")
            raise FairmendError(
                f"{source}: layer {name!r} ({type(layer).__name__}) has forward hooks, which may change "
                f"what it computes; remove them {how}"
            )


def _keep_computed_weights(module: nn.Module) -> None:
    """Make weights that weight norm, spectral norm and the like compute from other tensors weights as any others.

    PyTorch's own remove_parametrizations would break the original, which has its class in common with the copy.
    """
    for layer in list(module.modules()):
        if parametrize.is_parametrized(layer):
            computed = {name: getattr(layer, name).detach().clone() for name in list(layer.parametrizations)}  # type: ignore[arg-type]
            layer.__class__ = parametrize.type_before_parametrizations(layer)
            del layer._modules["parametrizations"]
            for name, value in computed.items():
                layer.register_parameter(name, nn.Parameter(value))


def _tensors(module: nn.Module, source: str) -> dict[str, npt.NDArray[Any]]:
    tensors: dict[str, npt.NDArray[Any]] = {}
    for key, value in module.state_dict().items():
        if not isinstance(value, torch.Tensor):
            raise FairmendError(f"{source}: {key!r} in its state dict is {type(value).__name__}, not a tensor")
        tensors[key] = to_numpy(value, f"{source}: {key}")
    return tensors


def _tied(module: nn.Module) -> tuple[tuple[str, ...], ...]:
    """Return the keys that name one tensor together: load_state_dict writes it once for each."""
    keys: dict[int, list[str]] = {}
    for key, tensor in module.state_dict(keep_vars=True).items():
        keys.setdefault(id(tensor), []).append(key)
    return tuple(tuple(names) for names in keys.values() if len(names) > 1)


def _compare(module: nn.Module, network: Network, reading: Reading, source: str) -> None:
    """Refuse a network that gives other outputs than the module: tracing follows one path through forward()."""
    rows = example_rows(network, _ROWS)
    try:
        with torch.no_grad():
            given = module(*module_arguments(module, rows, reading, network.dtype))
    except Exception as error:  # forward() is the user's code: it may raise anything
        raise FairmendError(
            f"{source}: forward() does not take rows of {network.inputs} columns, which its layers read ({error}); "
            "export the model to ONNX"
        ) from error
    given = given.get("logits", next(iter(given.values()))) if isinstance(given, dict) else given
    given = given[0] if isinstance(given, list | tuple) else given
    expected = np.asarray(given.detach().cpu().numpy(), np.float64).reshape(len(rows), -1)
    got = np.asarray(network.scores(rows), np.float64).reshape(len(rows), -1)
    if network.closing == "softmax":
        got = got[:, -1:] if expected.shape[1] == 1 else got
        # The logarithm of a probability near 1 is 0.
        expected = np.exp(expected) if (expected <= 0).all() and (expected < 0).any() else expected
    close = got.shape == expected.shape and np.allclose(
        got, expected, rtol=_CLOSE, atol=_CLOSE * np.abs(expected).max()
    )
    if not close:
        raise FairmendError(
            f"{source}: the layers that were traced give other outputs than forward(), which may take another path for "
            "other inputs; write it without control flow, or export the model to ONNX"
        )


def example_rows(network: Network, count: int) -> npt.NDArray[np.float64]:
    """Return random rows; columns that a table is looked up with hold numbers of its rows."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(count, network.inputs))
    for node in network.nodes:
        if isinstance(node.operation, Lookup):
            source = network.nodes[node.sources[0]]
            column = 0
            while isinstance(source.operation, Columns):
                column, source = source.operation.indices[column], network.nodes[source.sources[0]]
            if isinstance(source.operation, Input):
                rows[:, column] = random.integers(0, len(node.operation.table), count)
    return rows


def module_arguments(module: nn.Module, rows: npt.NDArray[np.float64], reading: Reading, dtype: Any) -> tuple[Any, ...]:
    """Return the rows as forward() takes them: one tensor for each input, or a dict of them."""
    device = next((tensor.device for tensor in module.state_dict().values()), torch.device("cpu"))
    tensors: dict[str, torch.Tensor] = {}
    start = 0
    for each in reading.inputs:
        part = rows[:, start : start + (each.width or 1)]
        start += part.shape[1]
        kind = np.dtype(np.int64) if each.name in reading.indices else dtype
        tensor = torch.tensor(part.astype(kind)).to(device)
        tensors[each.name] = tensor[:, 0] if each.rank == 1 else tensor
    arguments: dict[str, Any] = {}
    for each in reading.inputs:
        owner, bracket, key = each.name.partition("[")
        if bracket:
            arguments.setdefault(owner, {})[key.removesuffix("]")] = tensors[each.name]
        else:
            arguments[owner] = tensors[each.name]
    parameters = [each for each in inspect.signature(module.forward).parameters.values() if each.kind in _PLACED]
    if not arguments.keys() <= {each.name for each in parameters}:  # forward(*inputs), or a name of torch.export
        return tuple(arguments.values())
    unused = {each.name: None if each.default is each.empty else each.default for each in parameters}
    return tuple({**unused, **arguments}.values())
