"""Results as plain bytes: numbers, texts, arrays, and instances of named classes. Reading them runs no code.

The bytes are the length of a JSON text, the text, and the content of the arrays one after another. An instance is the
number of its class among those that both sides name, and its attributes; nothing is called to make one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from fairmend.base.errors import FairmendError

_LENGTH = 8  # bytes
_DTYPE = re.compile(r"[<>|][biufSU]\d{1,4}")  # numbers, truths and texts; no objects, no records
_COLLECTIONS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class NotPlainDataError(FairmendError):
    """The bytes are not what `dump` writes."""


def dump(value: Any, classes: Sequence[type]) -> bytes:
    """Return a value as bytes; whatever is an instance of another class is a TypeError."""
    arrays: list[bytes] = []
    text = json.dumps(_encoded(value, list(classes), arrays)).encode()
    return b"".join([len(text).to_bytes(_LENGTH, "big"), text, *arrays])


def load(content: bytes, classes: Sequence[type]) -> Any:
    """Return the value; raise `NotPlainDataError` for anything that `dump` does not write with these classes."""
    try:
        start = _LENGTH + int.from_bytes(content[:_LENGTH], "big")
        reader = _Reader(memoryview(content)[start:], classes)
        value = reader.decoded(json.loads(bytes(content[_LENGTH:start])))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise NotPlainDataError(f"not a result of fairmend ({error})") from error
    if len(reader.rest):
        raise NotPlainDataError("not a result of fairmend (bytes are left over)")
    return value


def _encoded(value: Any, classes: list[type], arrays: list[bytes]) -> Any:
    """Return what JSON can hold: a plain value as it is, and any other as a list that starts with its kind."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is bytes:
        return ["bytes", value.hex()]
    if isinstance(value, np.ndarray | np.generic):
        return _encoded_array(np.asarray(value), isinstance(value, np.generic), arrays)
    if kind.__name__ in _COLLECTIONS and kind is _COLLECTIONS[kind.__name__]:
        return [kind.__name__, [_encoded(each, classes, arrays) for each in value]]
    if kind is dict:
        return ["dict", [[_encoded(each, classes, arrays) for each in item] for item in value.items()]]
    if kind not in classes:
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not among the classes of these results")
    if isinstance(value, Enum):
        return ["member", classes.index(kind), value.name]
    if is_dataclass(kind):
        state = {field.name: getattr(value, field.name) for field in fields(kind)}
    else:
        state = value.__getstate__() if "__getstate__" in vars(kind) else vars(value)
    return ["instance", classes.index(kind), {name: _encoded(each, classes, arrays) for name, each in state.items()}]


def _encoded_array(array: np.ndarray[Any, Any], scalar: bool, arrays: list[bytes]) -> Any:
    if not _DTYPE.fullmatch(array.dtype.str):
        raise TypeError(f"an array of {array.dtype} cannot be sent")
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    arrays.append(array.tobytes(order))  # type: ignore[arg-type]  # one of the two
    return ["array", array.dtype.str, list(array.shape), order, scalar]


class _Reader:
    """Makes values, and takes the content of arrays from the bytes after the text."""

    def __init__(self, rest: memoryview, classes: Sequence[type]) -> None:
        self.rest, self._classes = rest, classes

    def decoded(self, plain: Any) -> Any:
        if not isinstance(plain, list):
            if isinstance(plain, dict):
                raise ValueError("an object of JSON where none belongs")
            return plain
        kind, *content = plain
        if kind == "array":
            return self._array(*content)
        if kind == "bytes":
            return bytes.fromhex(*content)
        if kind == "dict":
            return {self.decoded(key): self.decoded(value) for key, value in content[0]}
        if kind == "member":
            return self._class(content[0], Enum)[content[1]]
        if kind == "instance":
            return self._instance(*content)
        return _COLLECTIONS[kind]([self.decoded(each) for each in content[0]])

    def _class(self, number: int, of: type) -> Any:
        found = self._classes[number] if type(number) is int and number >= 0 else None
        if found is None or issubclass(found, Enum) != (of is Enum):
            raise ValueError("an unknown class")
        return found

    def _instance(self, number: int, state: dict[str, Any]) -> Any:
        kind = self._class(number, object)
        if is_dataclass(kind) and state.keys() != {field.name for field in fields(kind)}:
            raise ValueError(f"an instance of class {number} with other attributes")
        made = object.__new__(kind)
        made.__dict__.update({name: self.decoded(value) for name, value in state.items()})
        return made

    def _array(self, dtype: str, shape: list[int], order: Any, scalar: bool) -> Any:
        if not _DTYPE.fullmatch(dtype) or not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError("an array of another type")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > len(self.rest):
            raise ValueError("an array is cut off")
        content, self.rest = self.rest[:size], self.rest[size:]
        array = np.ndarray(shape, dtype, bytes(content), order=order).copy(order)
        return array[()] if scalar else array
