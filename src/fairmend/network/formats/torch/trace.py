"""Trace the forward() of a module: with torch.fx, and with torch.export where that fails."""

from __future__ import annotations

import builtins
import inspect
import logging
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import fx, nn

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line, listed
from fairmend.network.formats.axes import Count
from fairmend.network.formats.build import unsupported
from fairmend.network.formats.torch.operators import refusal
from fairmend.network.formats.torch.operators.functions import LAYERS_OF_FUNCTIONS
from fairmend.network.formats.torch.program import ONE_OUTPUT, Call, Constant, Program, ProgramInput, Ref
from fairmend.network.formats.torch.pth import to_numpy

# The layers of torch.nn, each as the function that it calls.
#
# Exact types, because a subclass may compute something else: torch.fx looks inside those.


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


def _attention(layer: nn.MultiheadAttention) -> Arguments:
    """Return the arguments of attention whose inputs have one width."""
    if layer.in_proj_weight is None or layer.bias_k is not None or layer.add_zero_attn:
        raise ValueError("has kdim, vdim, add_bias_kv or add_zero_attn, which is not supported")
    biases = (
        {"in_bias": Ref("in_proj_bias"), "out_bias": Ref("out_proj.bias")} if layer.in_proj_bias is not None else {}
    )
    weights = {
        "in_weight": Ref("in_proj_weight"),
        "out_weight": Ref("out_proj.weight"),
        "in_bias": None,
        "out_bias": None,
    }
    return "multi_head_attention", {**weights, **biases, "heads": layer.num_heads, "batch_first": layer.batch_first}


_NORM = _tensors("batch_norm", "running_mean", "running_var", "weight", "bias", eps="eps")
LAYERS: dict[type[nn.Module], Callable[[Any], Arguments]] = {
    nn.Linear: _tensors("linear", "weight", "bias"),
    nn.Embedding: _tensors("embedding", "weight", max_norm="max_norm"),
    nn.EmbeddingBag: _tensors(
        "embedding_bag",
        "weight",
        **{name: name for name in ("mode", "max_norm", "padding_idx", "include_last_offset")},
    ),
    nn.Bilinear: _tensors("bilinear", "weight", "bias"),
    nn.LayerNorm: _tensors("layer_norm", "weight", "bias", normalized_shape="normalized_shape", eps="eps"),
    nn.RMSNorm: _tensors("rms_norm", "weight", normalized_shape="normalized_shape", eps="eps"),
    nn.GroupNorm: _tensors("group_norm", "weight", "bias", num_groups="num_groups", eps="eps"),
    nn.InstanceNorm1d: _tensors("instance_norm", "running_mean", "running_var", "weight", "bias", eps="eps"),
    nn.MultiheadAttention: _attention,
    nn.GLU: _with("glu", "dim"),
    nn.BatchNorm1d: _NORM,
    nn.SyncBatchNorm: _NORM,
    nn.PReLU: _tensors("prelu", "weight"),
    **{getattr(nn, name): _with(*call.split()) for name, call in LAYERS_OF_FUNCTIONS.items()},
    nn.Softmax: _with("softmax", "dim"),
    nn.LogSoftmax: _with("log_softmax", "dim"),
    nn.Unflatten: _with("unflatten", "dim", sizes="unflattened_size"),
    nn.Flatten: _with("flatten", "start_dim", "end_dim"),
    nn.Identity: _with("alias"),
    **{kind: _with("alias") for kind in (nn.Dropout, nn.Dropout1d, nn.AlphaDropout, nn.FeatureAlphaDropout)},
}


def layer_call(name: str, layer: nn.Module, source: str) -> Arguments:
    """Return the function that a layer calls, and its arguments beside the input; a Ref names a tensor of the layer."""
    kind = type(layer)
    where = f"layer {name!r} ({kind.__name__})"
    if kind in LAYERS:
        try:
            return LAYERS[kind](layer)
        except ValueError as error:
            raise unsupported(source, where, str(error)) from error
    if ".quant" in kind.__module__ or ".ao." in kind.__module__:
        raise unsupported(source, where, "is quantised; give the model as it was before")
    raise unsupported(source, where, refusal(kind.__name__))


_SPACES = (torch, F, operator, torch._C._nn, builtins, torch.special, fx._symbolic_trace, torch._C._linalg)  # type: ignore[attr-defined]


def trace(module: nn.Module, source: str, example: Sequence[Any] | None = None, optional: bool = False) -> Program:
    """Return the calls of forward(); the module is in eval mode, and an example is what forward() takes.

    Arguments that the example does not give keep their default; with ``optional``, those that default to None do not.
    """
    if type(module) in LAYERS:  # torch.fx would trace the inside of a single layer
        module = nn.Sequential(module)
        graph = fx.Tracer().trace(module)
        return _Translation(graph, module, source, prefix="0.").program()
    try:
        graph = fx.Tracer().trace(module, _fixed(module, example or (), optional))
    except Exception as error:  # forward() is the user's code: it may raise anything
        program = _exported(module, source, example)
        if program is None:
            raise FairmendError(
                f"{source}: forward() could not be traced ({first_line(error)}). Give an example of what forward() "
                "takes, load_network(model, example=x), or export the model to ONNX"
            ) from error
        return program
    return _as_wide(_Translation(graph, module, source).program(), example or ())


def _as_wide(program: Program, example: Sequence[Any]) -> Program:
    """Return the program with inputs as wide as those of an example."""
    tensors = [each for each in example if each is not None]
    if len(tensors) != len(program.inputs):
        return program
    inputs = [
        replace(each, width=tensor.shape[1] if tensor.ndim == 2 else 1, rank=tensor.ndim)
        for each, tensor in zip(program.inputs, tensors, strict=True)
    ]
    return replace(program, inputs=tuple(inputs))


def _fixed(module: nn.Module, example: Sequence[Any], optional: bool) -> dict[str, Any] | None:
    """Return the arguments of forward() that are no inputs: those that have a default, and are no tensor."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    fixed = {each.name: each.default for each in parameters if each.default is not each.empty}
    if optional:
        fixed = {name: default for name, default in fixed.items() if default is not None}
    for each, given in zip(parameters, example, strict=False):
        fixed.pop(each.name, None)
        if given is None:
            fixed[each.name] = None
    return fixed or None


def has_optional(module: nn.Module) -> bool:
    """Return whether an argument of forward() defaults to None, as fastai's x_cont does."""
    return any(each.default is None for each in inspect.signature(module.forward).parameters.values())


_EXPORTING = threading.RLock()  # one thread at a time silences logging, or the last one to end would leave it silent
_COUNTS = (61, 67)  # of rows, for code that torch.export takes for a fixed number of rows alone


def _exported(module: nn.Module, source: str, given: Sequence[Any] | None) -> Program | None:
    """Return the calls that torch.export finds, if there is an example of the inputs or one can be made; else None."""
    example = _example(module) if given is None else tuple(given)
    if example is None:
        return None
    rows = torch.export.Dim("rows", min=2)
    sizes = tuple({0: rows} if isinstance(each, torch.Tensor) else None for each in example)
    with _EXPORTING:
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)  # torch.export logs whole programs where it fails
        try:
            exported = [torch.export.export(module, _of_rows(example, 7), dynamic_shapes=sizes, strict=False)]
        except Exception:  # len(x) gives a fixed number; control flow may depend on numbers
            try:
                exported = [torch.export.export(module, _of_rows(example, n), strict=False) for n in _COUNTS]
            except Exception:  # the caller says what to do
                return None
        finally:
            logging.disable(level)
    programs = [program_of_export(each, source) for each in exported]
    return programs[0] if len(programs) == 1 else _of_any_rows(*programs)


def _of_rows(example: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Return the example with its first row so many times."""
    return tuple(each[:1].repeat(count, *[1] * (each.ndim - 1)) if isinstance(each, torch.Tensor) else each
                 for each in example)  # fmt: skip


class _NotOfRowsError(Exception):
    """Two programs differ in more than the number of rows."""


def _of_any_rows(one: Program, other: Program) -> Program | None:
    """Return the program of any number of rows, from those of two numbers: it stands where they differ, or None."""
    shared = [(each.result, each.operator) for each in one.calls]
    if shared != [(each.result, each.operator) for each in other.calls] or one.output != other.output:
        return None
    try:
        calls = [
            replace(each, args=_of_both(each.args, again.args), kwargs=_of_both(dict(each.kwargs), dict(again.kwargs)))
            for each, again in zip(one.calls, other.calls, strict=True)
        ]
        _of_both(dict(one.constants), dict(other.constants))
    except _NotOfRowsError:
        return None
    return replace(one, calls=tuple(calls))


def _of_both(one: Any, other: Any) -> Any:
    """Return an argument of two calls, with a Count in place of the numbers of rows."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {key: _of_both(one[key], other[key]) for key in one}
    if isinstance(one, list | tuple) and type(one) is type(other) and len(one) == len(other):
        return type(one)(_of_both(*both) for both in zip(one, other, strict=True))
    if isinstance(one, slice) and isinstance(other, slice):
        return slice(*(_of_both(getattr(one, part), getattr(other, part)) for part in ("start", "stop", "step")))
    if isinstance(one, Constant) and isinstance(other, Constant):
        if one.key == other.key and np.array_equal(one.array, other.array, equal_nan=True):
            return one
    elif type(one) is type(other) and one == other:
        return one
    elif type(one) is int and type(other) is int and one > 0:
        times, rest = divmod(one, _COUNTS[0])
        if not rest and other == times * _COUNTS[1]:
            return Count(times)
    raise _NotOfRowsError


def _example(module: nn.Module) -> tuple[torch.Tensor] | None:
    """Return a row for the one input of a module: Lightning's example, or as wide as the first layer reads."""
    given = getattr(module, "example_input_array", None)
    if isinstance(given, torch.Tensor) and given.ndim == 2:
        return (torch.zeros(1, given.shape[1], dtype=given.dtype),)
    parameters = [each for each in inspect.signature(module.forward).parameters.values() if each.default is each.empty]
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.BatchNorm1d) and len(parameters) == 1:
            width = layer.in_features if isinstance(layer, nn.Linear) else layer.num_features
            return (torch.zeros(1, width, dtype=next(layer.parameters()).dtype),)
    return None


class _Translation:
    """Translates the nodes of torch.fx."""

    def __init__(self, graph: fx.Graph, module: nn.Module, source: str, prefix: str = "") -> None:
        self.graph, self.module, self.source, self.prefix = graph, module, source, prefix
        self.state = module.state_dict(keep_vars=True)
        self.constants: dict[str, Constant] = {}
        self.inputs: list[ProgramInput] = []
        self.calls: list[Call] = []

    def program(self) -> Program:
        output: Any = None
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.inputs += self._inputs(node)
            elif node.op == "get_attr":
                self.constants[node.name] = self._constant(str(node.target))
            elif node.op == "output":
                output = _one_output(node.args[0], self.source)
            else:
                self._call(node)
        return Program(tuple(self.inputs), self.constants, tuple(self.calls), Ref(output.name))

    def _inputs(self, node: fx.Node) -> list[ProgramInput]:
        """Return the input, or its parts where forward() takes a dict."""
        label = str(node.target).lstrip("*")
        keys = list(dict.fromkeys(user.args[1] for user in node.users if _reads_key(user, node)))
        if keys and all(_reads_key(user, node) for user in node.users):
            return [ProgramInput(f"{node.name}[{key}]", str(key)) for key in keys]
        return [ProgramInput(node.name, label)]

    def _call(self, node: fx.Node) -> None:
        where = _where(node)
        if node.op == "call_module":
            self._layer(node, str(node.target))
            return
        name = str(node.target) if node.op == "call_method" else _plain_name(node.target)
        source = node.args[0] if node.args else None
        if (
            name == "getitem"
            and isinstance(source, fx.Node)
            and source.op == "placeholder"
            and _reads_key(node, source)
        ):
            key = f"{source.name}[{node.args[1]}]"
            self.calls.append(Call(node.name, "alias", (Ref(key),), {}, where))
            return
        args, kwargs = _translated(node.args), {key: _translated(arg) for key, arg in node.kwargs.items()}
        self.calls.append(Call(node.name, name, args, kwargs, where))

    def _layer(self, node: fx.Node, target: str) -> None:
        args, given = _translated(node.args), {key: _translated(arg) for key, arg in node.kwargs.items()}
        kind = type(self.module.get_submodule(target))
        if kind in (nn.TransformerEncoderLayer, nn.TransformerEncoder):
            (self._encoder if kind is nn.TransformerEncoderLayer else self._encoders)(node.name, target, args, given)
        else:
            self._layer_call(node.name, target, args, given)

    def _layer_call(self, result: str, target: str, args: tuple[Any, ...], given: Mapping[str, Any]) -> Ref:
        """Add the call of a layer, and return its result."""
        layer = self.module.get_submodule(target)
        name = target.removeprefix(self.prefix.rstrip(".")) if self.prefix else target
        function, arguments = layer_call(name, layer, self.source)
        kwargs: dict[str, Any] = {}
        for argument, value in arguments.items():
            if isinstance(value, Ref):
                path = f"{target}.{value.name}"
                self.constants[f"{result}:{value.name}"] = self._constant(path)
                value = Ref(f"{result}:{value.name}")
            kwargs[argument] = value
        where = f"layer {name!r} ({type(layer).__name__})"
        self.calls.append(Call(result, function, args, {**kwargs, **given}, where))
        return Ref(result)

    def _encoder(self, result: str, target: str, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        """Add the calls of nn.TransformerEncoderLayer: attention, two layers, and a norm before or after each."""
        layer: Any = self.module.get_submodule(target)
        where = f"layer {target!r} (TransformerEncoderLayer)"
        function = {1: "relu", 2: "gelu"}.get(layer.activation_relu_or_gelu)
        mask = {"attn_mask": given.get("src_mask"), "is_causal": given.get("is_causal", False)}
        if len(args) != 1 or given.keys() - {"src_mask", "is_causal"} or function is None:
            raise unsupported(self.source, where, "has a padding mask, or an activation other than ReLU and GELU")

        def part(name: str, *values: Any, **more: Any) -> Ref:
            return self._layer_call(f"{result}.{name}", f"{target}.{name}", values, more)

        def call(name: str, operator: str, *values: Any) -> Ref:
            self.calls.append(Call(name, operator, values, {}, where))
            return Ref(name)

        def attended(x: Ref) -> Ref:
            both = part("self_attn", x, x, x, need_weights=False, **mask)
            return call(f"{result}.attended", "getitem", both, 0)

        def forward(x: Ref) -> Ref:
            return part("linear2", call(f"{result}.{function}", function, part("linear1", x)))

        (x,) = args
        for name, change in (("norm1", attended), ("norm2", forward)):
            if layer.norm_first:
                x = call(f"{result}.after_{name}", "add", x, change(part(name, x)))
            else:
                x = part(name, call(f"{result}.before_{name}", "add", x, change(x)))
        call(result, "alias", x)

    def _encoders(self, result: str, target: str, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        """Add the calls of nn.TransformerEncoder: its layers, and a norm."""
        whole: Any = self.module.get_submodule(target)
        where = f"layer {target!r} (TransformerEncoder)"
        others = {type(layer) for layer in whole.layers} - {nn.TransformerEncoderLayer}
        if len(args) not in (1, 2) or given.keys() - {"mask", "is_causal"} or others:
            raise unsupported(self.source, where, "has a padding mask, or layers of other kinds")
        mask = {"src_mask": args[1] if len(args) == 2 else given.get("mask"), "is_causal": bool(given.get("is_causal"))}
        x = args[0]
        for number in range(len(whole.layers)):
            self._encoder(f"{result}.{number}", f"{target}.layers.{number}", (x,), mask)
            x = Ref(f"{result}.{number}")
        if whole.norm is not None:
            x = self._layer_call(f"{result}.norm", f"{target}.norm", (x,), {})
        self.calls.append(Call(result, "alias", (x,), {}, where))

    def _constant(self, path: str) -> Constant:
        """Return a tensor of the module by its path, which is its key if the state dict holds it."""
        owner, _, attribute = path.rpartition(".")
        tensor = getattr(self.module.get_submodule(owner), attribute)
        if not isinstance(tensor, torch.Tensor):
            raise FairmendError(f"{self.source}: {path!r} is {type(tensor).__name__}, not a tensor")
        key = path.removeprefix(self.prefix)
        return Constant(to_numpy(tensor, f"{self.source}: {key}"), key if self.state.get(path) is tensor else None)


def _reads_key(node: fx.Node, source: fx.Node) -> bool:
    """Return whether a node reads one entry of a dict by its name."""
    return node.target is operator.getitem and node.args[0] is source and isinstance(node.args[1], str)


def _translated(argument: Any) -> Any:
    """Return the arguments of a node with references in place of nodes."""
    if isinstance(argument, fx.Node):
        return Ref(argument.name)
    if isinstance(argument, list | tuple):
        items = [_translated(each) for each in argument]
        return items if isinstance(argument, list) else tuple(items)
    if isinstance(argument, slice):
        return slice(*(_translated(part) for part in (argument.start, argument.stop, argument.step)))
    if isinstance(argument, torch.Tensor):
        return Constant(to_numpy(argument, "a constant"))
    return argument


def _one_output(output: Any, source: str) -> fx.Node:
    """Return the tensor that forward() returns, alone or as the only one or the logits of a dict."""
    if isinstance(output, dict):
        output = output.get("logits", next(iter(output.values())) if len(output) == 1 else output)
    if isinstance(output, list | tuple) and len(output) == 1:
        output = output[0]
    if isinstance(output, dict | list | tuple) and len(output) > 1:
        names = f" ({listed([str(name) for name in output])})" if isinstance(output, dict) else ""
        raise FairmendError(f"{source}: forward() returns {len(output)} outputs{names}; {ONE_OUTPUT}")
    if not isinstance(output, fx.Node):
        raise FairmendError(f"{source}: forward() returns {type(output).__name__}; it must return one tensor")
    return output


def _where(node: fx.Node) -> str:
    return f"{getattr(node.target, '__name__', node.target)}() at {node.name!r} in forward()"


def _plain_name(target: Any) -> str:
    """Return the name of a function of PyTorch; one that only has such a name gets another."""
    if isinstance(target, torch._ops.OpOverload):
        space, _, name = target._schema.name.partition("::")
        return f"aten.{name}" if space == "aten" else f"{space}::{name}"
    name = getattr(target, "__name__", str(target))
    if any(getattr(space, name, None) is target for space in _SPACES):
        return str(name)
    if name == "log_sigmoid" or getattr(target, "__module__", "").startswith("torch."):
        return f"torch function {name}" if name not in ("log_sigmoid",) else name
    return f"function {name}"


def program_of_export(exported: Any, source: str) -> Program:
    """Return the calls of an ExportedProgram in memory."""
    kinds = {spec.arg.name: spec for spec in exported.graph_signature.input_specs}
    constants: dict[str, Constant] = {}
    inputs: list[ProgramInput] = []
    calls: list[Call] = []
    output: Any = None
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            spec = kinds[node.name]
            if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT:
                value = node.meta["val"]
                if isinstance(value, torch.Tensor):
                    width = int(value.shape[1]) if value.ndim == 2 else 1
                    inputs.append(ProgramInput(node.name, node.name, width, value.ndim))
            else:
                held = exported.state_dict.get(spec.target)
                tensor = held if held is not None else exported.constants[spec.target]
                key = spec.target if held is not None else None
                constants[node.name] = Constant(to_numpy(tensor, f"{source}: {spec.target}"), key)
        elif node.op == "output":
            output = _one_output(node.args[0], source)
        elif node.op == "call_function":
            args, kwargs = _translated(node.args), {key: _translated(arg) for key, arg in node.kwargs.items()}
            calls.append(Call(node.name, _plain_name(node.target), args, kwargs, _where(node)))
        else:
            raise unsupported(source, _where(node), "is not supported")
    return Program(tuple(inputs), constants, tuple(calls), Ref(output.name))
