"""Elementwise functions in Keras files: by name, as the activation of a layer, or as a layer of their own."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network import Activation

_SAME = ("relu", "tanh", "sigmoid", "selu", "softsign", "silu", "mish", "gelu")
_READ: dict[str, tuple[str, float, tuple[float, ...]]] = {
    **{name: (name, 0.0, ()) for name in _SAME},
    "swish": ("silu", 0.0, ()),
    "exponential": ("exp", 0.0, ()),
    "leaky_relu": ("leaky_relu", 0.2, ()),
    "relu6": ("clip", 0.0, (0.0, 6.0)),
    "hard_tanh": ("clip", 0.0, (-1.0, 1.0)),
    "elu": ("elu", 0.0, (1.0,)),
    "celu": ("celu", 0.0, (1.0,)),
    "softplus": ("softplus", 0.0, (1.0,)),
    "hard_silu": ("hardswish", 0.0, ()),
    "hard_swish": ("hardswish", 0.0, ()),
}
_HARD_SIGMOIDS = {2: (0.2, 0.5), 3: (1 / 6, 0.5)}  # by the version of Keras


def named_activation(name: str, keras: int | None) -> Activation | None:
    """Return a function by its name in Keras `keras` (2 or 3); None if there is none that fairmend knows."""
    if name == "hard_sigmoid":
        if keras not in _HARD_SIGMOIDS:
            raise FairmendError(
                "is hard_sigmoid, which Keras 2 and 3 compute differently, and the file does not say which Keras "
                "wrote it (keras_version)"
            )
        return Activation("hardsigmoid", parameters=_HARD_SIGMOIDS[keras])
    if name not in _READ:
        return None
    function, slope, parameters = _READ[name]
    return Activation(function, slope, parameters)


def major_version(version: object) -> int | None:
    """Return 3 for "3.15.1", and None for what is neither Keras 2 nor 3."""
    first = version.split(".")[0] if isinstance(version, str) else ""
    return int(first) if first in ("2", "3") else None


class Style(enum.Enum):
    """The style of a config: that of Keras 2 (.h5) or of Keras 3 (.keras)."""

    KERAS_2 = 2
    KERAS_3 = 3


@dataclass(frozen=True)
class WrittenFunction:
    """A name for the option `activation`, or a layer of its own with options and arrays."""

    name: str = ""
    kind: str = "Activation"
    options: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, FloatArray] = field(default_factory=dict)


_WRITTEN = {name: name for name in ("relu", "tanh", "sigmoid", "selu", "softsign", "gelu", "mish")} | {
    "identity": "linear",
    "silu": "swish",
    "exp": "exponential",
}
_HARD_SIGMOID = (float(np.float32(1 / 6)), 0.5)


def written_function(activation: Activation, style: Style) -> WrittenFunction:
    """Return how Keras stores a function; refuse one that it does not have."""
    name, numbers = activation.name, activation.parameters
    if name in _WRITTEN:
        return WrittenFunction(_WRITTEN[name])
    if name == "softplus" and numbers == (1.0,):
        return WrittenFunction("softplus")
    if name == "leaky_relu":
        return _leaky(activation.slope, style)
    if name == "elu":
        return WrittenFunction(kind="ELU", options={"alpha": numbers[0]})
    if name == "prelu":
        return WrittenFunction(
            kind="PReLU", options={"shared_axes": None}, arrays={"alpha": np.array(numbers, np.float32)}
        )
    if name == "clip" and numbers[0] == 0 < numbers[1]:
        options = {"max_value": numbers[1], "negative_slope": 0.0, "threshold": 0.0}
        return WrittenFunction(kind="ReLU", options=options)
    new = {  # that Keras 2 does not have, or computes otherwise
        ("clip", (-1.0, 1.0)): "hard_tanh",
        ("celu", (1.0,)): "celu",
        ("hardsigmoid", _HARD_SIGMOID): "hard_sigmoid",
        ("hardswish", ()): "hard_silu",
    }.get((name, numbers))
    if new is None or style is Style.KERAS_2:
        files = ".h5 file, which Keras 2 can load as well" if new else "Keras file"
        raise FairmendError(f"cannot write {activation} in a {files}; use another format such as .onnx")
    return WrittenFunction(new)


def _leaky(slope: float, style: Style) -> WrittenFunction:
    """Return the layer for a leaky ReLU; Keras 2 and 3 agree on the name of ReLU's slope, not of LeakyReLU's."""
    if style is Style.KERAS_3:
        return WrittenFunction(kind="LeakyReLU", options={"negative_slope": slope})
    if slope == 0:  # a ReLU of slope 0 would be read back as one
        return WrittenFunction(kind="LeakyReLU", options={"alpha": 0.0})
    options = {"max_value": None, "negative_slope": slope, "threshold": 0.0}
    return WrittenFunction(kind="ReLU", options=options)
