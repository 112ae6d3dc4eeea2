"""Read the pickle that torch.save writes for a state dict, or for a checkpoint that contains one. No code in it runs.

Each opcode does what Python's unpickler does, on a stack of tensors, dicts, lists, tuples, texts and numbers. All other
opcodes and objects are refused, and so is an entry of a dict or of the memo that is written twice.
"""

from __future__ import annotations

import re
import struct
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NoReturn

from fairmend_check.errors import CheckError

_LOCATION = "cpu|cuda:[0-9]{1,3}"  # never "meta", which torch loads without the numbers
_ORDERED_DICT = "collections OrderedDict"
_TENSOR = "torch._utils _rebuild_tensor_v2"
_PARAMETER = "torch._utils _rebuild_parameter"
_HARMLESS = (  # what a checkpoint may hold beside its tensors; its value is not needed
    "torch Size",
    "torch device",
    "collections Counter",
    "_codecs encode",
    "__builtin__ set",
    "__builtin__ bytearray",
    "__builtin__ complex",
)
_PLAIN = (str, int, float, bool, type(None))
_TYPE = "torch ([A-Za-z0-9]+Storage|b?float[0-9]+|u?int[0-9]+|bool)"
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False, b")": ()}
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
_INTEGERS = {b"K": 1, b"M": 2, b"J": 4}  # bytes; the last one has a sign


@dataclass(frozen=True)
class Storage:
    """Numbers of one type, such as "FloatStorage", in the member data/``key`` of the archive."""

    kind: str
    key: str
    location: str
    count: int


@dataclass(frozen=True, eq=False)
class Tensor:
    """A view of a storage; offset and strides count numbers."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Name:
    """The name of a class or function, as "module name", or a value of that class that no tensor depends on."""

    text: str


def read_pickle(data: bytes) -> tuple[Any, list[Storage]]:
    """Return what the pickle contains, and all storages in it."""
    reader = _Reader(data)
    return reader.read(), reader.storages


class _Reader:
    """A position in the pickle, the stack with the marks on it, and the memo: what can be referred to, by number."""

    def __init__(self, data: bytes) -> None:
        self.storages: list[Storage] = []
        self._data = data
        self._position = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: list[Any] = []

    def read(self) -> Any:
        if self._take(2) != b"\x80\x02":
            self._refuse()
        while (opcode := self._take(1)) != b".":
            self._step(opcode)
        if self._position != len(self._data) or len(self._stack) != 1 or self._marks:
            self._refuse()
        return self._stack[0]

    def _step(self, opcode: bytes) -> None:
        if opcode in (b"q", b"r"):
            if self._number(1 if opcode == b"q" else 4) != len(self._memo):
                self._refuse()
            self._memo.append(self._top(object))
        elif opcode == b"(":
            self._marks.append(len(self._stack))
        elif opcode in (b"s", b"u"):
            self._set_items(self._pop(2) if opcode == b"s" else self._pop_to_mark())
        elif opcode in (b"a", b"e"):
            items = self._pop(1) if opcode == b"a" else self._pop_to_mark()
            self._top(list).extend(items)
        elif opcode == b"b":
            (state,) = self._pop(1)
            if type(state) is not dict or list(state) != ["_metadata"]:  # versions of modules, and fairmend's note
                self._refuse()
            self._top(OrderedDict)
        else:
            self._stack.append(self._value(opcode))

    def _value(self, opcode: bytes) -> Any:
        """Return the value that an opcode puts on the stack."""
        if opcode in _CONSTANTS:
            return _CONSTANTS[opcode]
        if opcode in (b"}", b"]"):
            return {} if opcode == b"}" else []
        if opcode in _TUPLES or opcode == b"t":
            return tuple(self._pop(_TUPLES[opcode]) if opcode in _TUPLES else self._pop_to_mark())
        if opcode in _INTEGERS:
            return self._number(_INTEGERS[opcode], signed=opcode == b"J")
        if opcode == b"\x8a":  # a large number, after the number of its bytes
            return self._number(self._number(1), signed=True)
        if opcode == b"G":
            return struct.unpack(">d", self._take(8))[0]
        if opcode == b"X":
            return self._text()
        if opcode in (b"h", b"j"):
            number = self._number(1 if opcode == b"h" else 4)
            return self._memo[number] if number < len(self._memo) else self._refuse()
        if opcode == b"c":
            return self._name()
        if opcode == b"Q":
            return self._storage(*self._pop(1))
        if opcode == b"R":
            return self._call(*self._pop(2))
        self._refuse()

    def _set_items(self, items: list[Any]) -> None:
        target = self._top(dict)
        if len(items) % 2:
            self._refuse()
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not all(type(part) in _PLAIN for part in (key if type(key) is tuple else (key,))):
                self._refuse()
            if key in target:
                raise CheckError(f'the pickle has the key "{str(key)[:40]}" twice')
            target[key] = value

    def _call(self, name: Any, arguments: Any) -> Any:
        if type(name) is not Name or type(arguments) is not tuple:
            self._refuse()
        kinds = [type(argument) for argument in arguments]
        if name.text == _ORDERED_DICT and not arguments:
            return OrderedDict()
        if name.text == _TENSOR and kinds == [Storage, int, tuple, tuple, bool, OrderedDict]:
            storage, offset, size, stride, _, hooks = arguments
            if all(type(n) is int and n >= 0 for n in (offset, *size, *stride)) and not hooks:
                return Tensor(storage, offset, size, stride)
        if name.text == _PARAMETER and kinds == [Tensor, bool, OrderedDict] and not arguments[2]:
            return arguments[0]
        if name.text in _HARMLESS:
            return name
        self._refuse()

    def _storage(self, described: Any) -> Storage:
        kinds = [type(part) for part in described] if type(described) is tuple else []
        if kinds != [str, Name, str, str, int] or described[0] != "storage":
            self._refuse()
        _, name, key, location, count = described
        module, _, kind = name.text.partition(" ")
        if module != "torch" or not re.fullmatch("[0-9]{1,30}", key) or not re.fullmatch(_LOCATION, location):
            raise CheckError(f"the pickle stores a tensor as {module[:40]!r} on {location[:40]!r}; save it on the CPU")
        self.storages.append(Storage(kind, key, location, count))
        return self.storages[-1]

    def _name(self) -> Name:
        text = f"{self._line()} {self._line()}"
        known = text in (_ORDERED_DICT, _TENSOR, _PARAMETER, *_HARMLESS)
        if not known and not re.fullmatch(_TYPE, text):
            raise CheckError(
                f"the pickle calls {text[:60]!r}; only a state dict, alone or beside plain values, can be checked"
            )
        return Name(text)

    def _line(self) -> str:
        end = self._data.find(b"\n", self._position)
        line = self._take((end if end >= 0 else self._position) + 1 - self._position)[:-1]
        if not re.fullmatch(rb"[A-Za-z0-9_.]+", line):
            self._refuse()
        return line.decode("ascii")

    def _text(self) -> str:
        try:
            return self._take(self._number(4)).decode("utf-8")
        except UnicodeDecodeError:
            self._refuse()

    def _number(self, width: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(width), "little", signed=signed)

    def _top(self, kind: type) -> Any:
        """Return the value on top of the stack, above the last mark."""
        if len(self._stack) == (self._marks[-1] if self._marks else 0) or not isinstance(self._stack[-1], kind):
            self._refuse()
        return self._stack[-1]

    def _pop(self, count: int) -> list[Any]:
        """Take values from the stack, above the last mark."""
        first = len(self._stack) - count
        if first < (self._marks[-1] if self._marks else 0):
            self._refuse()
        taken = self._stack[first:]
        del self._stack[first:]
        return taken

    def _pop_to_mark(self) -> list[Any]:
        if not self._marks:
            self._refuse()
        taken = self._pop(len(self._stack) - self._marks[-1])
        self._marks.pop()
        return taken

    def _take(self, count: int) -> bytes:
        taken = self._data[self._position : self._position + count]
        if len(taken) != count:
            self._refuse()
        self._position += count
        return taken

    def _refuse(self) -> NoReturn:
        raise CheckError(
            f"the pickle differs from what torch.save writes for a state dict (before byte {self._position:,}). "
            "Save model.state_dict() instead"
        )
