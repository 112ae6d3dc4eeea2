"""The config of a Keras model, the JSON in .h5 and .keras files, as layers and what each of them reads.

Keras believes some parts of a config and ignores others, and which ones differs between its versions. So every key must
be known and have a value whose meaning is the same to all of them. A Sequential lists its layers; a functional model
says what each layer reads. A layer may be a model itself.

Keras assigns the weights of a file to layers by their order, which it finds by a walk from the output: layers farther
from it come first. A file whose layers are listed in another order could give a layer the weights of another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import only_keys, parse_json, take

Call = tuple[str, int]  # a layer by its name, and which of its uses


@dataclass(frozen=True)
class Calls:
    """The inputs of a model, its output, what each call reads, each after those, and the layers in Keras's order.

    ``named`` says of calls that read values by names which of them has which name, with the other options of the call.
    """

    inputs: tuple[str, ...]
    output: Call
    reads: dict[Call, tuple[Call, ...]]
    order: tuple[str, ...]
    named: dict[Call, dict[str, Any]] = field(default_factory=dict)


def read_calls(content: dict[str, Any], entries: list[Any], layers: dict[str, Layer]) -> Calls:
    """Return the calls of a functional model with these layers, of which each has an entry."""
    inputs = [name for name, layer in layers.items() if layer.kind == "InputLayer"]
    weighted = [name for name, layer in layers.items() if has_weights(layer)]
    nodes = {}
    for entry, layer in zip(entries, layers.values(), strict=True):
        name = take(entry, "name", str, "a layer of the model")
        nodes[name] = take(entry, "inbound_nodes", list, layer.where)
        if bool(nodes[name]) == (name in inputs):
            raise CheckError(f"{layer.where} reads nothing, or is an input that reads something")
        if (layer.kind in _ONCE or layer.kind.startswith(OPERATION)) and len(nodes[name]) != 1:
            raise CheckError(f"{layer.where} is used twice, so that two places share its weights")
    given = [name for name, _ in _ends(content, "input_layers")]
    outputs = _ends(content, "output_layers")
    if sorted(given) != sorted(inputs) or len(outputs) != 1:
        raise CheckError("the model's input_layers are not its inputs, or it has several outputs")
    walk = _Walk(nodes, layers)
    output = walk.visit(outputs[0])
    order = walk.order(output)
    unread = [name for name in nodes if name not in order]
    if any(name not in inputs for name in unread):
        raise CheckError(f'layer "{unread[0][:40]}" is not a part of what the model computes')
    if weighted != [name for name in order if name in weighted]:
        raise CheckError("the layers are not listed in the order in which Keras assigns their weights")
    reads = {(name, 0): () for name in given} | {call: walk.reads[call] for call in walk.finished}
    return Calls(tuple(given), output, reads, (*unread, *order), walk.named)


def _ends(content: dict[str, Any], key: str) -> list[Call]:
    """Return inputs or outputs: ["dense", 0, 0], a list of these, or an object whose values they are."""
    ends = content.get(key)
    if type(ends) is dict:
        if key == "input_layers" and any(type(end) is not list or end[:1] != [name] for name, end in ends.items()):
            raise CheckError(f"the model's {key} have other names than their layers, so that callers may mix them up")
        ends = list(ends.values())
    if type(ends) is not list:
        raise CheckError(f"the model has no {key}")
    single = len(ends) == 3 and type(ends[0]) is str
    return [_call(end, f"the model's {key}") for end in ([ends] if single else ends)]


def _call(history: Any, where: str) -> Call:
    if type(history) is not list or [type(part) for part in history] != [str, int, int]:
        raise CheckError(f"{where} name something else than the output of a layer")
    name, node, tensor = history
    if node < 0 or tensor != 0:
        raise CheckError(f"{where} name an output that its layer does not have")
    return name, node


class _Walk:
    """The walk of Keras through a model, from its output."""

    def __init__(self, nodes: dict[str, list[Any]], layers: dict[str, Layer]) -> None:
        self._nodes, self._layers = nodes, layers
        self.named: dict[Call, dict[str, Any]] = {}
        self.reads: dict[Call, tuple[Call, ...]] = {}
        self.finished: list[Call] = []
        self._seen: dict[str, int] = {}

    def visit(self, last: Call) -> Call:
        """Visit a call and all that it depends on, and return it."""
        last = self._known(last, "the model's output")
        todo, active, done = [(last, False)], set(), set()
        while todo:
            call, left = todo.pop()
            if left:
                active.discard(call)
                done.add(call)
                self.finished.append(call)
            elif call in active:
                raise CheckError(f'layer "{call[0][:40]}" reads what depends on itself')
            elif call not in done:
                active.add(call)
                self._seen.setdefault(call[0], len(self._seen))
                self.reads[call] = self._sources(call)
                todo += [(call, True), *((source, False) for source in reversed(self.reads[call]))]
        return last

    def order(self, output: Call) -> list[str]:
        """Return the layers by their distance from the output, the farthest first, and then as they were seen."""
        calls, layers = {output: 0}, dict[str, int]()
        for call in reversed(self.finished):
            calls[call] = layers[call[0]] = max(calls[call], layers.get(call[0], 0))
            for source in self.reads[call]:
                calls[source] = max(calls.get(source, 0), calls[call] + 1)
        return sorted(layers, key=lambda name: (-layers[name], self._seen[name]))

    def _known(self, call: Call, where: str) -> Call:
        name, node = call
        if name not in self._nodes:
            raise CheckError(f'{where} reads the layer "{name[:40]}", which the model does not have')
        if self._layers[name].model is not None and node == 1:
            return name, 0  # some versions of Keras count the model itself as a use
        if node >= max(1, len(self._nodes[name])):
            raise CheckError(f'{where} reads a use of layer "{name[:40]}" that there is not')
        return call

    def _sources(self, call: Call) -> tuple[Call, ...]:
        """Return what a call reads; an input reads nothing."""
        nodes, layer = self._nodes[call[0]], self._layers[call[0]]
        if not nodes:
            return ()
        if layer.kind == "MultiHeadAttention":
            found, self.named[call] = _read_by_name(nodes[call[1]], layer.where)
        else:  # operations have constants among their arguments, which are not read here
            found = _read_by(nodes[call[1]], layer.where, layer.kind.startswith(OPERATION))
        return tuple(self._known(source, layer.where) for source in found)


def is_tensor(given: Any) -> bool:
    """Return whether an argument of a call in Keras 3 is what another layer gives."""
    return type(given) is dict and given.get("class_name") == "__keras_tensor__"


def _read_by(node: Any, where: str, operation: bool) -> list[Call]:
    """Return what a node reads; refuse options that could change what its layer computes."""
    if type(node) is dict:  # Keras 3
        only_keys(node, ("args", "kwargs"), where)
        arguments, options = take(node, "args", list, where), take(node, "kwargs", dict, where)
        tensors = arguments[0] if len(arguments) == 1 and type(arguments[0]) is list else arguments
        if operation and tensors is arguments:
            tensors = [given for given in arguments if is_tensor(given)]
        elif tensors is arguments and len(arguments) != 1:
            raise CheckError(f"{where} does not read one value, or a list of values")
        histories = [_history(tensor, where) for tensor in tensors]
        given = [options]
    else:
        if type(node) is not list or not all(type(tensor) is list and len(tensor) in (3, 4) for tensor in node):
            raise CheckError(f"{where} does not read a list of values")
        histories, given = [tensor[:3] for tensor in node], [(*tensor[3:], {})[0] for tensor in node]
    for options in given:
        if type(options) is not dict or any(value is not None and value is not False for value in options.values()):
            raise CheckError(f"{where} is called with options that cannot be checked")
        only_keys(options, ("training", "mask"), where)
    if not histories:
        raise CheckError(f"{where} reads nothing")
    return [_call(history, where) for history in histories]


def _read_by_name(node: Any, where: str) -> tuple[list[Call], dict[str, Any]]:
    """Return what attention reads, the arguments before the options by their keys, and which of them is which.

    A mask that other layers compute is refused: only constants can be checked.
    """
    if type(node) is not dict:
        raise CheckError(f"{where} is not called as in Keras 3")
    only_keys(node, ("args", "kwargs"), where)
    arguments, options = take(node, "args", list, where), take(node, "kwargs", dict, where)
    only_keys(options, (*ATTENDING, "use_causal_mask", "attention_mask", "training"), where)
    if len(arguments) > len(ATTENDING):
        raise CheckError(f"{where} is called with options that cannot be checked")
    given = [*zip(ATTENDING, arguments, strict=False), *sorted(options.items())]
    found: dict[str, Any] = {"use_causal_mask": False, "attention_mask": None, "training": False}
    calls: list[Call] = []
    for name, value in given:
        if name in found and name in ATTENDING:
            raise CheckError(f"{where} reads its {name} twice")
        if name in ATTENDING and value is not None:
            found[name] = len(calls)
            calls.append(_call(_history(value, where), where))
        elif is_tensor(value):
            raise CheckError(f"{where} has a {name} that depends on the input, which cannot be checked")
        elif name not in ATTENDING:
            found[name] = value
    causal, training = found["use_causal_mask"], found.pop("training")
    if not {"query", "value"} <= found.keys() or causal not in (None, True, False) or training not in (None, False):
        raise CheckError(f"{where} is called with options that cannot be checked")
    return calls, found


def _history(tensor: Any, where: str) -> Any:
    """Return the layer, its use and its output that a tensor of Keras 3 comes from."""
    if not is_tensor(tensor):
        raise CheckError(f"{where} does not read one value, or a list of values")
    only_keys(tensor, ("class_name", "config"), where)
    described = take(tensor, "config", dict, where)
    only_keys(described, ("shape", "dtype", "keras_history"), where)
    shape = described.get("shape")
    if shape is not None and (type(shape) is not list or len(shape) > _MOST_AXES):
        raise CheckError(f"{where} does not read rows of numbers")
    if described.get("dtype") not in (None, "float32", "int32", "int64"):
        raise CheckError(f"{where} reads values of {str(described.get('dtype'))[:40]}")
    return described.get("keras_history")


ATTENDING = ("query", "value", "key")  # what attention reads, in the order of its arguments
_MOST_AXES = 6  # with that of the rows
RANDOM = ("Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout", "AlphaDropout")  # in training only
_MODEL_KEYS = ("module", "class_name", "config", "registered_name", "build_config", "compile_config")
_SEQUENTIAL_KEYS = ("name", "trainable", "dtype", "layers", "build_input_shape")
_FUNCTIONAL_KEYS = ("name", "trainable", "dtype", "layers", "input_layers", "output_layers")
_FUNCTIONAL_MODULES = ("keras", "keras.models", "keras.src.models.functional", "keras.src.engine.functional")
_ENTRY_KEYS = ("module", "class_name", "config", "registered_name", "build_config", "name")
_COMMON_KEYS = ("name", "trainable", "dtype", "batch_shape", "batch_input_shape")
_DENSE_KEYS = (
    "kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer", "activity_regularizer",
    "kernel_constraint", "bias_constraint",
)  # fmt: skip
_NORM_KEYS = (
    "beta_initializer", "gamma_initializer", "moving_mean_initializer", "moving_variance_initializer",
    "beta_regularizer", "gamma_regularizer", "beta_constraint", "gamma_constraint",
)  # fmt: skip
_GAIN_KEYS = tuple(key for key in _NORM_KEYS if not key.startswith("moving"))
_SLOPE_KEYS = ("alpha_initializer", "alpha_regularizer", "alpha_constraint")
_TABLE_KEYS = ("embeddings_initializer", "embeddings_regularizer", "activity_regularizer", "embeddings_constraint")
_TRAINING_KEYS = (*_DENSE_KEYS, *_NORM_KEYS, *_SLOPE_KEYS, *_TABLE_KEYS)
_FALSE_KEYS = ("sparse", "ragged", "optional", "renorm", "mask_zero", "rms_scaling", "normalize")
_NULL_KEYS = ("quantization_config", "lora_rank", "lora_alpha", "renorm_clipping", "virtual_batch_size")
_CHANGES = ("quantization_config", "lora_rank", "lora_alpha")
_KEYS = {
    "InputLayer": ("sparse", "ragged", "optional"),
    "Dense": ("units", "activation", "use_bias", *_CHANGES, *_DENSE_KEYS),
    "BatchNormalization": (
        "axis", "momentum", "epsilon", "center", "scale", "synchronized", "renorm", "renorm_clipping",
        "renorm_momentum", "virtual_batch_size", "fused", *_NORM_KEYS,
    ),
    "LayerNormalization": ("axis", "epsilon", "center", "scale", "rms_scaling", *_GAIN_KEYS),
    "GroupNormalization": ("groups", "axis", "epsilon", "center", "scale", *_GAIN_KEYS),
    "RMSNormalization": ("axis", "epsilon"),
    "MultiHeadAttention": (
        "num_heads", "key_dim", "value_dim", "dropout", "use_bias", "use_gate", "output_shape", "attention_axes",
        "sliding_window", "seed", *_DENSE_KEYS,
    ),
    "EinsumDense": ("equation", "output_shape", "activation", "bias_axes", *_CHANGES, *_DENSE_KEYS),
    "Normalization": ("axis", "invert", "mean", "variance"),
    "Rescaling": ("scale", "offset"),
    "Embedding": ("input_dim", "output_dim", "mask_zero", "input_length", *_CHANGES, *_TABLE_KEYS),
    "ActivityRegularization": ("l1", "l2"),
    "Activation": ("activation",),
    "ReLU": ("max_value", "negative_slope", "threshold"),
    "LeakyReLU": ("negative_slope", "alpha"),
    "PReLU": ("shared_axes", *_SLOPE_KEYS),
    "ELU": ("alpha",),
    "Softmax": ("axis",),
    "Flatten": ("data_format",),
    "Reshape": ("target_shape",),
    "Add": (),
    **dict.fromkeys(("Average", "Maximum", "Minimum", "Multiply"), ()),
    "Dot": ("axes", "normalize"),
    "Permute": ("dims",),
    "RepeatVector": ("n",),
    "GlobalAveragePooling1D": ("data_format", "keepdims"),
    "Subtract": (),
    "Concatenate": ("axis",),
    **dict.fromkeys(RANDOM, ("rate", "stddev", "seed", "noise_shape")),
}  # fmt: skip
OPERATION = "ops."  # before the kinds of operations on tensors, which may have the name of a layer
OF_NUMBERS = (  # operations on each number of a tensor
    "Absolute", "Cos", "Exp", "Log", "Reciprocal", "Relu", "Rsqrt", "Sigmoid", "Silu", "Sin", "Sqrt", "Square", "Tanh",
)  # fmt: skip
ALONG_AXES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Logsumexp", "Mean", "Sum"), ("axis", "keepdims")),
    "Prod": ("axis", "keepdims", "dtype"),
    **dict.fromkeys(("Max", "Min"), ("axis", "keepdims", "initial")),
}
_OPERATIONS: dict[str, tuple[str, ...]] = {  # and their options
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Divide", "TrueDivide", "Negative", "GetItem", *OF_NUMBERS), ()),
    "Concatenate": ("axis",),
    **ALONG_AXES,
}
_MODULES = {"Logsumexp": "math", "Rsqrt": "math", **dict.fromkeys(("Relu", "Sigmoid", "Silu"), "nn")}  # not numpy
_WEIGHTED = (
    "Dense", "BatchNormalization", "Normalization", "PReLU", "Embedding", "LayerNormalization", "RMSNormalization",
    "GroupNormalization", "MultiHeadAttention", "EinsumDense",
)  # fmt: skip
_ONCE = ("BatchNormalization", "Sequential", "Functional", "Model")  # must not be used twice
_BY_PLACE = (
    "Permute", "RepeatVector", "GlobalAveragePooling1D", "GroupNormalization", "Dot", "EinsumDense",
    "MultiHeadAttention",
)  # fmt: skip
_BY_AXIS = ("Softmax", "LayerNormalization", "RMSNormalization")
_WHOLE = ("int32", "int64")  # of inputs that are looked up in tables
_MOST_NESTED = 5
FLOAT32_ONLY = "Keras rounds inputs to float32, so only float32 models can be checked. Save it in float32, or as .onnx"
_KERAS_1 = "load the file with Keras 2.0 to 2.3 and save it again: keras.models.load_model(path).save(path)"
_INNER = ("ReLU", "LeakyReLU", "ELU", "Softmax")  # layers that another layer may have as its activation


@dataclass(frozen=True)
class Layer:
    """A layer of a Keras model with its options; ``model`` is what is in it if it is a model itself.

    ``built`` is the shape, or the list of shapes, of what it reads, if the config says it.
    """

    kind: str
    name: str
    config: dict[str, Any]
    model: Described | None = None
    built: Any = None

    @property
    def where(self) -> str:
        """The layer, for messages."""
        return f'layer "{self.name[:40]}"'


@dataclass(frozen=True)
class Described:
    """The layers of a model, in the order in which Keras lists their weights, and what each call of them reads.

    ``listed`` says that its output is in a list, as Keras wrote it until 3.10.
    """

    layers: list[Layer]
    calls: Calls
    shape: Any = None  # that the model declares for its input, if no layer does
    named: dict[str, Layer] = field(default_factory=dict)
    listed: bool = False


def read_config(config: bytes, *, archived: bool = False) -> Described:
    """Return the model that a config describes; ``archived`` says that it is that of a .keras file."""
    model = parse_json(config, "the config")
    only_keys(model, _MODEL_KEYS, "the config")
    found = _model(model, "the model", 0)
    if not archived:
        _check_one_axis(found.layers)
    if archived and _has_list_in_sequential(found.layers, model["class_name"]):
        _check_last_axis(found.layers)
    return found


def _check_one_axis(layers: list[Layer]) -> None:
    """Refuse several axes in an .h5 file, for which Keras takes the last one when it loads the file."""
    for layer in layers:
        if layer.model is not None:
            _check_one_axis(layer.model.layers)
        axis = layer.config.get("axis")
        if type(axis) is list and len(axis) > 1:
            raise CheckError(f"{layer.where} has several axes, which Keras ignores in .h5 files: use .keras")


def _has_list_in_sequential(layers: list[Layer], kind: str) -> bool:
    """Return whether a layer of a Sequential reads a list of one value, of which later Keras makes one more axis.

    It does so after a .keras file, which says what layers are built for, and raises an error after an .h5 file.
    """
    models = [(layer.model, layer.kind) for layer in layers if layer.model is not None]
    return any(
        (kind == "Sequential" and model.listed) or _has_list_in_sequential(model.layers, inner)
        for model, inner in models
    )


def _check_last_axis(layers: list[Layer]) -> None:
    """Refuse what counts axes from the first: with one more axis, it goes over people instead of columns."""
    for layer in layers:
        if layer.model is not None:
            _check_last_axis(layer.model.layers)
        inner = layer.config.get("activation")
        kind, options = (inner["class_name"], inner["config"]) if type(inner) is dict else (layer.kind, layer.config)
        by_axis = kind in _BY_AXIS and options.get("axis", -1) not in (-1, [-1])
        by_place = kind in _BY_PLACE or kind.removeprefix(OPERATION) in ("GetItem", *ALONG_AXES)
        if by_place or by_axis:
            raise CheckError(
                f"{layer.where} counts axes from the first, and Keras 3.11 or later has one more after a "
                "functional model in a Sequential. Use axis=-1, or save the model with the Keras that runs it"
            )


def _model(model: dict[str, Any], where: str, depth: int) -> Described:
    kind = take(model, "class_name", str, "the config")
    functional = kind in ("Functional", "Model")
    if (kind != "Sequential" and not functional) or depth > _MOST_NESTED:
        raise CheckError("the model is neither a Sequential nor functional, or deeply nested; export it to ONNX")
    _check_origin(model, _FUNCTIONAL_MODULES if functional else ("keras",), where, kind if functional else None)
    if kind == "Sequential" and type(model.get("config")) is list:  # as Keras wrote it before 2.2.3
        model["config"] = {"layers": model["config"]}
    content = take(model, "config", dict, "the config")
    only_keys(content, _FUNCTIONAL_KEYS if functional else _SEQUENTIAL_KEYS, "the config")
    _check_shape(content.get("build_input_shape"), where)
    _check_dtype(content.get("dtype"), where)
    entries = take(content, "layers", list, "the config")
    found = [_layer(entry, number, functional, depth) for number, entry in enumerate(entries)]
    named = {layer.name: layer for layer in found}
    if len(named) != len(found):
        raise CheckError("two layers have the same name")
    if not functional:
        return Described(found, _one_after_the_other(found), content.get("build_input_shape"), named)
    calls = read_calls(content, entries, named)
    ends = content["output_layers"]
    listed = type(ends) is not list or type(ends[0]) is not str
    return Described([named[name] for name in calls.order], calls, None, named, listed)


def has_weights(layer: Layer) -> bool:
    """Return whether a layer may have arrays in the file."""
    return layer.model is not None or layer.kind in _WEIGHTED


def _one_after_the_other(layers: list[Layer]) -> Calls:
    """Return the calls of a Sequential; without an InputLayer, its input has no name."""
    names = [layer.name for layer in layers]
    if not layers or layers[0].kind != "InputLayer":
        names.insert(0, "")
    reads: dict[Call, tuple[Call, ...]] = {(names[0], 0): ()}
    for before, name in pairwise(names):
        reads[name, 0] = ((before, 0),)
    return Calls((names[0],), (names[-1], 0), reads, tuple(layer.name for layer in layers))


def _layer(entry: Any, number: int, functional: bool, depth: int) -> Layer:
    where = f"layer {number}"
    if type(entry) is not dict:
        raise CheckError(f"{where} is not a table")
    known = (*_ENTRY_KEYS, "compile_config", "inbound_nodes") if functional else (*_ENTRY_KEYS, "compile_config")
    only_keys(entry, known, where)
    kind = take(entry, "class_name", str, where)
    if kind in ("Sequential", "Functional", "Model"):
        return _nested_model(entry, kind, where, depth)
    options = take(entry, "config", dict, where)
    if functional and entry.get("module") == f"keras.src.ops.{_MODULES.get(kind, 'numpy')}":
        return _operation(entry, kind, options, where)
    if "compile_config" in entry or kind not in _KEYS or (kind == "InputLayer" and number and not functional):
        raise CheckError(f"{where} ({kind[:40]}) cannot be checked there; save the network as .onnx with fairmend")
    if kind == "Dense" and {"output_dim", "bias"} & options.keys():
        raise CheckError(f"{where} is of Keras 1; {_KERAS_1}")
    _check_origin(entry, ("keras.layers",), where)
    _check_options(kind, options, where)
    return Layer(kind, _name(entry, options, where), options, None, _built(entry))


def _operation(entry: dict[str, Any], kind: str, options: dict[str, Any], where: str) -> Layer:
    """Return an operation on tensors, such as x + y or x[:, :3], as a layer with its arguments as an option."""
    known = kind in _OPERATIONS and entry.get("registered_name") == kind
    if not known or entry.keys() & {"build_config", "compile_config"}:
        raise CheckError(f"{where} ({kind[:40]}) cannot be checked there; save the network as .onnx with fairmend")
    only_keys(options, ("name", *_OPERATIONS[kind]), where)
    nodes = take(entry, "inbound_nodes", list, where)
    given = [node.get("args") for node in nodes if type(node) is dict]
    if len(given) != 1 or len(nodes) != 1 or type(given[0]) is not list:
        raise CheckError(f"{where} ({kind[:40]}) is not called once")
    arguments = [None if is_tensor(each) else each for each in given[0]]
    return Layer(OPERATION + kind, _name(entry, options, where), {**options, "arguments": arguments})


def _nested_model(entry: dict[str, Any], kind: str, where: str, depth: int) -> Layer:
    options = entry.get("config")
    if type(options) is not dict:  # a list in a Sequential of before Keras 2.2.3
        options = {"name": entry.get("name")}
    model = {key: entry[key] for key in _MODEL_KEYS if key in entry}
    return Layer(kind, _name(entry, options, where), options, _model(model, where, depth + 1), _built(entry))


def _name(entry: dict[str, Any], options: dict[str, Any], where: str) -> str:
    name = take(options, "name", str, where)
    if entry.get("name", name) != name or "/" in name or not name:
        raise CheckError(f"{where} has two names, none, or one that is a path")
    return name


def _built(entry: dict[str, Any]) -> Any:
    """Return the shape of what a layer reads, if the config says it."""
    built = entry.get("build_config")
    if type(built) is dict and type(built.get("shapes_dict")) is dict:  # of a layer that reads values by names
        shapes = built["shapes_dict"]
        only_keys(shapes, [f"{name}_shape" for name in ATTENDING], "a layer's shapes_dict")
        return [shapes.get(f"{name}_shape") for name in ATTENDING if f"{name}_shape" in shapes]
    return built.get("input_shape") if type(built) is dict else None


def _check_origin(entry: dict[str, Any], modules: tuple[str, ...], where: str, name: str | None = None) -> None:
    """Refuse what is not one of Keras's own classes."""
    if entry.get("module") not in (None, *modules) or entry.get("registered_name") not in (None, name):
        raise CheckError(f"{where} is not a part of Keras itself")
    if entry.get("build_config") is not None:
        key = "shapes_dict" if entry.get("class_name") == "MultiHeadAttention" else "input_shape"
        only_keys(take(entry, "build_config", dict, where), (key,), where)


def _check_shape(shape: Any, where: str) -> None:
    if shape is not None and (type(shape) is not list or len(shape) not in (1, 2)):
        raise CheckError(f"{where} does not take rows of numbers as its input")


def _check_options(kind: str, options: dict[str, Any], where: str) -> None:
    """Refuse an option that could change what a layer computes; the reader of the layer knows the others."""
    only_keys(options, (*_COMMON_KEYS, *_KEYS[kind]), where)
    if kind != "InputLayer" or options.get("dtype") not in _WHOLE:
        _check_dtype(options.get("dtype"), where)
    for key in ("batch_shape", "batch_input_shape"):
        _check_shape(options.get(key), where)
    for key in (*_FALSE_KEYS, *_NULL_KEYS):
        off = options.get(key) is None or (key in _FALSE_KEYS and options[key] is False)
        if not off:
            raise CheckError(f"{where} has the option {key}, which cannot be checked")
    for key in _TRAINING_KEYS:
        _check_training_part(options.get(key), f"{where}.{key}")
    if type(options.get("activation")) is dict:
        activation_layer(options["activation"], where)


def activation_layer(entry: dict[str, Any], where: str) -> Layer:
    """Return the layer that another layer has as its activation."""
    only_keys(entry, _ENTRY_KEYS, where)
    _check_origin(entry, ("keras.layers",), where)
    kind, options = take(entry, "class_name", str, where), take(entry, "config", dict, where)
    if kind not in _INNER:
        raise CheckError(f"{where} has the activation {kind[:40]}, which cannot be checked")
    _check_options(kind, options, where)
    return Layer(kind, str(options.get("name", "")), options)


def _check_training_part(part: Any, where: str) -> None:
    """Refuse what is not one of Keras's own initializers, regularizers or constraints, which act in training only."""
    if part is None:
        return
    kind, options = take(part, "class_name", str, where), take(part, "config", dict, where)
    only_keys(part, ("module", "class_name", "config", "registered_name"), where)
    modules = ("keras.initializers", "keras.regularizers", "keras.constraints")
    if part.get("module") not in (None, *modules) or part.get("registered_name") is not None:
        raise CheckError(f"{where} is not a part of Keras itself")
    if not kind.isidentifier() or kind[:1] == "_" or any(type(value) in (dict, list) for value in options.values()):
        raise CheckError(f"{where} is not a plain part of Keras")


def _check_dtype(dtype: Any, where: str) -> None:
    """Refuse all but float32, which is also what Keras computes in where nothing is said."""
    if type(dtype) is dict:
        known = ("module", "class_name", "config", "registered_name", "shared_object_id")
        only_keys(dtype, known, f"{where}.dtype")
        plain = dtype.get("class_name") == "DTypePolicy" and dtype.get("registered_name") is None
        name = take(dtype, "config", dict, where)
        if not plain or dtype.get("module") != "keras" or list(name) != ["name"]:
            raise CheckError(f"{where} has a dtype policy that cannot be checked")
        dtype = name["name"]
    if dtype not in (None, "float32"):
        raise CheckError(f"{where} computes in {str(dtype)[:40]}; {FLOAT32_ONLY}")
