"""The config of a Keras model, the JSON in .h5 and .keras files, as layers and what each of them reads.

Keras believes some parts of a config and ignores others, and which ones differs between its versions. So every key must
be known and have a value whose meaning is the same to all of them. A Sequential lists its layers; a functional model
says what each layer reads (`keras_calls`). A layer may be a model itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fairmend_check import json_reader
from fairmend_check.errors import CheckError
from fairmend_check.readers.keras_calls import Call, Calls, is_tensor, read_calls

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
_SLOPE_KEYS = ("alpha_initializer", "alpha_regularizer", "alpha_constraint")
_TABLE_KEYS = ("embeddings_initializer", "embeddings_regularizer", "activity_regularizer", "embeddings_constraint")
_TRAINING_KEYS = (*_DENSE_KEYS, *_NORM_KEYS, *_SLOPE_KEYS, *_TABLE_KEYS)
_FALSE_KEYS = ("sparse", "ragged", "optional", "renorm", "mask_zero")
_NULL_KEYS = ("quantization_config", "lora_rank", "lora_alpha", "renorm_clipping", "virtual_batch_size")
_CHANGES = ("quantization_config", "lora_rank", "lora_alpha")
_KEYS = {
    "InputLayer": ("sparse", "ragged", "optional"),
    "Dense": ("units", "activation", "use_bias", *_CHANGES, *_DENSE_KEYS),
    "BatchNormalization": (
        "axis", "momentum", "epsilon", "center", "scale", "synchronized", "renorm", "renorm_clipping",
        "renorm_momentum", "virtual_batch_size", "fused", *_NORM_KEYS,
    ),
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
    "Average": (),
    "Subtract": (),
    "Concatenate": ("axis",),
    **dict.fromkeys(RANDOM, ("rate", "stddev", "seed", "noise_shape")),
}  # fmt: skip
OPERATION = "ops."  # before the kinds of operations on tensors, which may have the name of a layer
_OPERATIONS = ("Add", "Subtract", "Multiply", "Divide", "TrueDivide", "Negative", "Concatenate", "GetItem")
_WEIGHTED = ("Dense", "BatchNormalization", "Normalization", "PReLU", "Embedding")
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
    model = json_reader.parse_json(config, "the config")
    json_reader.only_keys(model, _MODEL_KEYS, "the config")
    found = _model(model, "the model", 0)
    if archived and _has_list_in_sequential(found.layers, model["class_name"]):
        _check_last_axis(found.layers)
    return found


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
        if kind == f"{OPERATION}GetItem" or (kind == "Softmax" and options.get("axis", -1) != -1):
            raise CheckError(
                f'layer "{layer.name[:40]}" counts axes from the first, and Keras 3.11 or later has one more after a '
                "functional model in a Sequential. Use axis=-1, or save the model with the Keras that runs it"
            )


def _model(model: dict[str, Any], where: str, depth: int) -> Described:
    kind = json_reader.take(model, "class_name", str, "the config")
    functional = kind in ("Functional", "Model")
    if (kind != "Sequential" and not functional) or depth > _MOST_NESTED:
        raise CheckError("the model is neither a Sequential nor functional, or deeply nested; export it to ONNX")
    _check_origin(model, _FUNCTIONAL_MODULES if functional else ("keras",), where, kind if functional else None)
    if kind == "Sequential" and type(model.get("config")) is list:  # as Keras wrote it before 2.2.3
        model["config"] = {"layers": model["config"]}
    content = json_reader.take(model, "config", dict, "the config")
    json_reader.only_keys(content, _FUNCTIONAL_KEYS if functional else _SEQUENTIAL_KEYS, "the config")
    _check_shape(content.get("build_input_shape"), where)
    _check_dtype(content.get("dtype"), where)
    entries = json_reader.take(content, "layers", list, "the config")
    found = [_layer(entry, number, functional, depth) for number, entry in enumerate(entries)]
    named = {layer.name: layer for layer in found}
    if len(named) != len(found):
        raise CheckError("two layers have the same name")
    if not functional:
        return Described(found, _one_after_the_other(found), content.get("build_input_shape"), named)
    inputs = [layer.name for layer in found if layer.kind == "InputLayer"]
    nested = [layer.name for layer in found if layer.model is not None]
    weighted = [layer.name for layer in found if has_weights(layer)]
    operations = [layer.name for layer in found if layer.kind.startswith(OPERATION)]
    calls = read_calls(content, entries, inputs, nested, weighted, operations)
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
    json_reader.only_keys(entry, known, where)
    kind = json_reader.take(entry, "class_name", str, where)
    if kind in ("Sequential", "Functional", "Model"):
        return _nested_model(entry, kind, where, depth)
    options = json_reader.take(entry, "config", dict, where)
    if functional and entry.get("module") == "keras.src.ops.numpy":
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
    json_reader.only_keys(options, ("name", "axis") if kind == "Concatenate" else ("name",), where)
    nodes = json_reader.take(entry, "inbound_nodes", list, where)
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
    name = json_reader.take(options, "name", str, where)
    if entry.get("name", name) != name or "/" in name or not name:
        raise CheckError(f"{where} has two names, none, or one that is a path")
    return name


def _built(entry: dict[str, Any]) -> Any:
    """Return the shape of what a layer reads, if the config says it."""
    built = entry.get("build_config")
    return built.get("input_shape") if type(built) is dict else None


def _check_origin(entry: dict[str, Any], modules: tuple[str, ...], where: str, name: str | None = None) -> None:
    """Refuse what is not one of Keras's own classes."""
    if entry.get("module") not in (None, *modules) or entry.get("registered_name") not in (None, name):
        raise CheckError(f"{where} is not a part of Keras itself")
    if entry.get("build_config") is not None:
        json_reader.only_keys(json_reader.take(entry, "build_config", dict, where), ("input_shape",), where)


def _check_shape(shape: Any, where: str) -> None:
    if shape is not None and (type(shape) is not list or len(shape) not in (1, 2)):
        raise CheckError(f"{where} does not take rows of numbers as its input")


def _check_options(kind: str, options: dict[str, Any], where: str) -> None:
    """Refuse an option that could change what a layer computes; the reader of the layer knows the others."""
    json_reader.only_keys(options, (*_COMMON_KEYS, *_KEYS[kind]), where)
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
    json_reader.only_keys(entry, _ENTRY_KEYS, where)
    _check_origin(entry, ("keras.layers",), where)
    kind, options = json_reader.take(entry, "class_name", str, where), json_reader.take(entry, "config", dict, where)
    if kind not in _INNER:
        raise CheckError(f"{where} has the activation {kind[:40]}, which cannot be checked")
    _check_options(kind, options, where)
    return Layer(kind, str(options.get("name", "")), options)


def _check_training_part(part: Any, where: str) -> None:
    """Refuse what is not one of Keras's own initializers, regularizers or constraints, which act in training only."""
    if part is None:
        return
    kind, options = json_reader.take(part, "class_name", str, where), json_reader.take(part, "config", dict, where)
    json_reader.only_keys(part, ("module", "class_name", "config", "registered_name"), where)
    modules = ("keras.initializers", "keras.regularizers", "keras.constraints")
    if part.get("module") not in (None, *modules) or part.get("registered_name") is not None:
        raise CheckError(f"{where} is not a part of Keras itself")
    if not kind.isidentifier() or kind[:1] == "_" or any(type(value) in (dict, list) for value in options.values()):
        raise CheckError(f"{where} is not a plain part of Keras")


def _check_dtype(dtype: Any, where: str) -> None:
    """Refuse all but float32, which is also what Keras computes in where nothing is said."""
    if type(dtype) is dict:
        known = ("module", "class_name", "config", "registered_name", "shared_object_id")
        json_reader.only_keys(dtype, known, f"{where}.dtype")
        plain = dtype.get("class_name") == "DTypePolicy" and dtype.get("registered_name") is None
        name = json_reader.take(dtype, "config", dict, where)
        if not plain or dtype.get("module") != "keras" or list(name) != ["name"]:
            raise CheckError(f"{where} has a dtype policy that cannot be checked")
        dtype = name["name"]
    if dtype not in (None, "float32"):
        raise CheckError(f"{where} computes in {str(dtype)[:40]}; {FLOAT32_ONLY}")
