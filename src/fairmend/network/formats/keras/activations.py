"""The elementwise functions that Keras knows by name."""

from __future__ import annotations

from fairmend.errors import FairmendError
from fairmend.network import Activation

__all__ = ["major_version", "named_activation"]

_SAME = ("relu", "tanh", "sigmoid", "selu", "softsign", "silu", "mish", "gelu")
_NAMED: dict[str, tuple[str, float, tuple[float, ...]]] = {
    **{name: (name, 0.0, ()) for name in _SAME},
    "swish": ("silu", 0.0, ()),
    "leaky_relu": ("leaky_relu", 0.2, ()),
    "relu6": ("clip", 0.0, (0.0, 6.0)),
    "hard_tanh": ("clip", 0.0, (-1.0, 1.0)),
    "elu": ("elu", 0.0, (1.0,)),
    "celu": ("celu", 0.0, (1.0,)),
    "softplus": ("softplus", 0.0, (1.0,)),
    "hard_silu": ("hardswish", 0.0, ()),
    "hard_swish": ("hardswish", 0.0, ()),
}
_HARD_SIGMOID = {2: (0.2, 0.5), 3: (1 / 6, 0.5)}  # by the version of Keras


def named_activation(name: str, keras: int | None) -> Activation | None:
    """Return a function by its name in Keras `keras` (2 or 3); None if there is none that fairmend knows."""
    if name == "hard_sigmoid":
        if keras not in _HARD_SIGMOID:
            raise FairmendError(
                "is hard_sigmoid, which Keras 2 and 3 compute differently, and the file does not say which Keras "
                "wrote it (keras_version)"
            )
        return Activation("hardsigmoid", parameters=_HARD_SIGMOID[keras])
    if name not in _NAMED:
        return None
    function, slope, parameters = _NAMED[name]
    return Activation(function, slope, parameters)


def major_version(version: object) -> int | None:
    """Return 3 for "3.15.1", and None for what is neither Keras 2 nor 3."""
    first = version.split(".")[0] if isinstance(version, str) else ""
    return int(first) if first in ("2", "3") else None
