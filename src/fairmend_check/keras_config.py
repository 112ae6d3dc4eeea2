"""The config of a Keras model, the JSON in .h5 and .keras files, as a list of layers.

Keras believes some parts of a config and ignores others, and which ones differs between its versions. So every key must
be known and have a value whose meaning is the same to all of them.

A Sequential lists its layers. A functional model says what each layer reads, which must be the layer before it in the
list, so that both are read in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairmend_check import json_reader
from fairmend_check.errors import CheckError

RANDOM = ("Dropout", "GaussianNoise", "GaussianDropout", "AlphaDropout")  # random in training only
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
_TRAINING_KEYS = (*_DENSE_KEYS, *_NORM_KEYS)
_FALSE_KEYS = ("sparse", "ragged", "optional", "renorm")
_NULL_KEYS = ("quantization_config", "lora_rank", "lora_alpha", "max_value", "renorm_clipping", "virtual_batch_size")
_KEYS = {
    "InputLayer": ("sparse", "ragged", "optional"),
    "Dense": ("units", "activation", "use_bias", "quantization_config", "lora_rank", "lora_alpha", *_DENSE_KEYS),
    "BatchNormalization": (
        "axis", "momentum", "epsilon", "center", "scale", "synchronized", "renorm", "renorm_clipping",
        "renorm_momentum", "virtual_batch_size", "fused", *_NORM_KEYS,
    ),
    "Normalization": ("axis", "invert", "mean", "variance"),
    "Rescaling": ("scale", "offset"),
    "ActivityRegularization": ("l1", "l2"),
    "Activation": ("activation",),
    "ReLU": ("max_value", "negative_slope", "threshold"),
    "LeakyReLU": ("negative_slope", "alpha"),
    "Softmax": ("axis",),
    "Flatten": ("data_format",),
    **dict.fromkeys(RANDOM, ("rate", "stddev", "seed", "noise_shape")),
}  # fmt: skip
WEIGHTED = ("Dense", "BatchNormalization", "Normalization")
FLOAT32_ONLY = "Keras rounds inputs to float32, so only float32 models can be checked. Save it in float32, or as .onnx"
_KERAS_1 = "load the file with Keras 2.0 to 2.3 and save it again: keras.models.load_model(path).save(path)"
_INNER = ("ReLU", "LeakyReLU", "Softmax")  # layers that another layer may have as its activation


@dataclass(frozen=True)
class Layer:
    """A layer of a Keras model with its options."""

    kind: str
    name: str
    config: dict[str, Any]


def read_layers(config: bytes) -> list[Layer]:
    """Return the layers that a config describes, in the order in which they compute."""
    model = json_reader.parse_json(config, "the config")
    json_reader.only_keys(model, _MODEL_KEYS, "the config")
    kind = json_reader.take(model, "class_name", str, "the config")
    functional = kind in ("Functional", "Model")
    if kind != "Sequential" and not functional:
        raise CheckError("the model is neither a Sequential nor functional; export it to ONNX")
    _check_origin(model, _FUNCTIONAL_MODULES if functional else ("keras",), "the model", kind if functional else None)
    if kind == "Sequential" and type(model.get("config")) is list:  # as Keras wrote it before 2.2.3
        model["config"] = {"layers": model["config"]}
    content = json_reader.take(model, "config", dict, "the config")
    json_reader.only_keys(content, _FUNCTIONAL_KEYS if functional else _SEQUENTIAL_KEYS, "the config")
    _check_shape(content.get("build_input_shape"), "the model")
    _check_dtype(content.get("dtype"), "the model")
    entries = json_reader.take(content, "layers", list, "the config")
    found = [_layer(entry, number, functional) for number, entry in enumerate(entries)]
    if len({layer.name for layer in found}) != len(found):
        raise CheckError("two layers have the same name")
    if functional:
        _check_chain(content, entries, found)
    return found


def _layer(entry: Any, number: int, functional: bool) -> Layer:
    where = f"layer {number}"
    if type(entry) is not dict:
        raise CheckError(f"{where} is not a table")
    json_reader.only_keys(entry, (*_ENTRY_KEYS, "inbound_nodes") if functional else _ENTRY_KEYS, where)
    _check_origin(entry, ("keras.layers",), where)
    kind = json_reader.take(entry, "class_name", str, where)
    options = json_reader.take(entry, "config", dict, where)
    if kind not in _KEYS or (kind == "InputLayer" and number):
        raise CheckError(f"{where} ({kind[:40]}) cannot be checked there; save the network as .onnx with fairmend")
    if kind == "Dense" and {"output_dim", "bias"} & options.keys():
        raise CheckError(f"{where} is of Keras 1; {_KERAS_1}")
    name = json_reader.take(options, "name", str, where)
    if entry.get("name", name) != name or "/" in name:
        raise CheckError(f"{where} has two names, or one that is a path")
    _check_options(kind, options, where)
    return Layer(kind, name, options)


def _check_chain(content: dict[str, Any], entries: list[Any], layers: list[Layer]) -> None:
    """Refuse a functional model unless each layer reads the one before it in the list, and nothing else."""
    for key, layer in (("input_layers", layers[:1]), ("output_layers", layers[-1:])):
        end = json_reader.take(content, key, list, "the config")
        plain = [[one.name, 0, 0] for one in layer]
        if end not in (plain, plain[0] if plain else None):
            raise CheckError(f"the model's {key} are not the first or the last of its layers")
    if not layers or layers[0].kind != "InputLayer" or entries[0].get("inbound_nodes") != []:
        raise CheckError("the first layer of a functional model must be its one input")
    for before, entry in zip(layers, entries[1:], strict=False):
        where = f'the layer after "{before.name[:40]}"'
        nodes = json_reader.take(entry, "inbound_nodes", list, where)
        if len(nodes) != 1 or _read_by(nodes[0], where) != [before.name, 0, 0]:
            raise CheckError(f"{where} reads something else, or is used more than once")


def _read_by(node: Any, where: str) -> Any:
    """Return what a node reads, [layer, 0, 0]; refuse options that could change what its layer computes."""
    if type(node) is dict:  # Keras 3
        json_reader.only_keys(node, ("args", "kwargs"), where)
        arguments, options = json_reader.take(node, "args", list, where), json_reader.take(node, "kwargs", dict, where)
        tensor = arguments[0] if len(arguments) == 1 and type(arguments[0]) is dict else {}
        json_reader.only_keys(tensor, ("class_name", "config"), where)
        if tensor.get("class_name") != "__keras_tensor__":
            raise CheckError(f"{where} does not read one value")
        described = json_reader.take(tensor, "config", dict, where)
        json_reader.only_keys(described, ("shape", "dtype", "keras_history"), where)
        _check_shape(described.get("shape"), where)
        _check_dtype(described.get("dtype"), where)
        source = described.get("keras_history")
    else:
        if type(node) is not list or len(node) != 1 or type(node[0]) is not list or len(node[0]) not in (3, 4):
            raise CheckError(f"{where} does not read one value")
        source, options = node[0][:3], (*node[0][3:], {})[0]
    if type(options) is not dict or any(value is not None and value is not False for value in options.values()):
        raise CheckError(f"{where} is called with options that cannot be checked")
    json_reader.only_keys(options, ("training", "mask"), where)
    return source


def _check_origin(entry: dict[str, Any], modules: tuple[str, ...], where: str, name: str | None = None) -> None:
    """Refuse what is not one of Keras's own classes, or is built for another input than rows of numbers."""
    if entry.get("module") not in (None, *modules) or entry.get("registered_name") not in (None, name):
        raise CheckError(f"{where} is not a part of Keras itself")
    built = entry.get("build_config")
    if built is not None:
        json_reader.only_keys(json_reader.take(entry, "build_config", dict, where), ("input_shape",), where)
        _check_shape(built.get("input_shape"), where)


def _check_shape(shape: Any, where: str) -> None:
    if shape is not None and (type(shape) is not list or len(shape) != 2):
        raise CheckError(f"{where} does not take rows of numbers as its input")


def _check_options(kind: str, options: dict[str, Any], where: str) -> None:
    """Refuse an option that could change what a layer computes; the reader of the layer knows the others."""
    json_reader.only_keys(options, (*_COMMON_KEYS, *_KEYS[kind]), where)
    _check_dtype(options.get("dtype"), where)
    for key in ("batch_shape", "batch_input_shape"):
        _check_shape(options.get(key), where)
    for key in (*_FALSE_KEYS, *_NULL_KEYS):  # 0 is a value of its own: ReLU with max_value 0 is always 0
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
