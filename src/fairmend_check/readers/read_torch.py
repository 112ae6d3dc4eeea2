"""Read files of PyTorch: the pickle of tensors in .pth, .pt and .ckpt files, and the weights of a .pt2 program.

Each opcode does what Python's unpickler does, on a stack of tensors, dicts, lists, tuples, texts and numbers. All other
opcodes and objects are refused, and so is an entry of a dict or of the memo that is written twice.

The program in a .pt2 file is not read here. As for a state dict, the claim holds on the condition that the program
computes what the certificate names.
"""

from __future__ import annotations

import math
import re
import struct
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import only_keys, parse_json, take
from fairmend_check.kernel.model import Model
from fairmend_check.readers.state_dict import MOST_AXES, model_of_tensors
from fairmend_check.readers.zip_archive import MAX_BYTES, read_archive

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


Numbers = NDArray[Any]

_CHECKPOINT_KEYS = ("state_dict", "model_state_dict", "model")
_TYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "LongStorage": "<i8", "BoolStorage": "|b1"}  # of masks
_MEMBERS = {  # what torch.save writes beside the storages; older releases write the first two only
    "data.pkl": b".*",
    "version": b"3\n",
    "byteorder": b"little",
    ".format_version": b"1",
    ".storage_alignment": b"64",
    ".data/serialization_id": b"[0-9]{1,40}",
}


def read_pth(content: bytes, network: Mapping[str, Any] | None) -> Model:
    """Return the model of a state dict, alone or in a checkpoint, with the steps of a certificate."""
    if not content.startswith(b"PK\3\4"):
        raise CheckError("not a .pth file of PyTorch 1.6 or later. Save it again: torch.save(model.state_dict(), path)")
    if b"/constants.pkl" in content:
        raise CheckError("this is a TorchScript archive, which is a program. Save model.state_dict() instead")
    members = _members(content)
    content_of_pickle, described = read_pickle(members["data.pkl"])
    part, pickled = _state_dict(content_of_pickle)
    storages = {storage.key: storage for storage in described}
    if any(storages[storage.key] != storage for storage in described):
        raise CheckError("the file describes a storage in two different ways")
    if {f"data/{key}" for key in storages} != {name for name in members if name not in _MEMBERS}:
        raise CheckError("the file does not contain exactly the storages that its tensors use")
    used = {tensor.storage.key: tensor.storage for tensor in pickled.values()}
    numbers = {key: _numbers(storage, members[f"data/{key}"]) for key, storage in used.items()}
    if sum(math.prod(tensor.size) for tensor in pickled.values()) > MAX_BYTES // 8:
        raise CheckError("the tensors in the file are too large")
    tensors = {name: _view(name, tensor, numbers[tensor.storage.key]) for name, tensor in pickled.items()}
    model = model_of_tensors(tensors, network)
    if part is None:
        return model
    return replace(model, condition=f'the module loads the part "{part}" of the checkpoint. T{model.condition[1:]}')


def _state_dict(content: Any) -> tuple[str | None, dict[str, Tensor]]:
    """Return the tensors by key, and under which key of a checkpoint they are; None if there is only a state dict."""
    if not isinstance(content, dict):
        raise CheckError("the file does not contain a state dict. Save model.state_dict() instead")
    parts = [key for key in _CHECKPOINT_KEYS if isinstance(content.get(key), dict)]
    if len(parts) > 1:
        raise CheckError(f'the checkpoint contains "{parts[0]}" and "{parts[1]}". Save model.state_dict() alone')
    part = parts[0] if parts else None
    found = content if part is None else content[part]
    for key, tensor in found.items():
        if type(key) is not str or not isinstance(tensor, Tensor):
            raise CheckError(f'"{str(key)[:40]}" in the state dict is not a tensor. Save model.state_dict() alone')
    return part, found


def _members(content: bytes) -> dict[str, bytes]:
    """Return the members of the archive without their common folder."""
    members = read_archive(content)
    root = next(iter(members), "").split("/")[0]
    if not all(name.startswith(f"{root}/") for name in members):
        raise CheckError("the archive has more than one top folder")
    inside = {name[len(root) + 1 :]: data for name, data in members.items()}
    for name, data in inside.items():
        known = name in _MEMBERS and re.fullmatch(_MEMBERS[name], data, re.DOTALL)
        if not known and not re.fullmatch("data/[0-9]+", name):
            raise CheckError(
                f"the archive contains {name[:60]!r} with a name or content that torch.save does not write"
            )
    if not {"data.pkl", "version"} <= inside.keys():
        raise CheckError("the archive contains no data.pkl or no version, so torch.save did not write it")
    return inside


def _numbers(storage: Storage, data: bytes) -> Numbers:
    if storage.kind not in _TYPES:
        raise CheckError(f"a tensor is stored as {storage.kind[:40]}; only float32 and float64 can be checked")
    dtype = np.dtype(_TYPES[storage.kind])
    if len(data) != storage.count * dtype.itemsize:
        raise CheckError(f"storage {storage.key[:40]} has {len(data):,} bytes, but the pickle says another size")
    return np.frombuffer(data, dtype=dtype)


def _view(name: str, tensor: Tensor, numbers: Numbers) -> Numbers:
    """Return a tensor, which may be any view of its storage, such as a transposed matrix."""
    if len(tensor.size) != len(tensor.stride) or min(tensor.size, default=1) == 0:
        raise CheckError(f"tensor {name[:40]!r} has an unusable shape")
    last = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.size, tensor.stride, strict=True))
    if last >= len(numbers) or math.prod(tensor.size) > len(numbers):
        raise CheckError(f"tensor {name[:40]!r} does not fit its storage")
    steps = [step * numbers.itemsize for step in tensor.stride]
    view = np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.size, steps, writeable=False)
    return np.array(view, dtype=numbers.dtype.newbyteorder("="))


_PROGRAM_TYPES = {4: "<i4", 5: "<i8", 7: "<f4", 8: "<f8", 12: "|b1"}  # numbers of PyTorch's scalar types
_FOLDER, _CONFIG = "data/weights/", "model_weights_config.json"
_LEGACY = ("data/weights/model.pt", "data/constants/model.pt")  # PyTorch would read these instead of the tensors
_ENTRY_KEYS = ("path_name", "is_param", "use_pickle", "tensor_meta")


def read_pt2(content: bytes, network: Mapping[str, Any] | None) -> Model:
    """Return the model of the weights in an exported program."""
    members = read_archive(content)
    root = next(iter(members), "").split("/")[0]
    inside = {name[len(root) + 1 :]: data for name, data in members.items() if name.startswith(f"{root}/")}
    programs = [name for name in inside if name.startswith("models/")]
    one_program = programs == ["models/model.json"] and f"{_FOLDER}{_CONFIG}" in inside
    if len(inside) != len(members) or not one_program or any(name in inside for name in _LEGACY):
        raise CheckError("the archive is not one that torch.export.save of PyTorch 2.9 or later writes")
    if inside.get("byteorder") != b"little":
        raise CheckError("the numbers in the archive are not little-endian")
    config = take(parse_json(inside[f"{_FOLDER}{_CONFIG}"], "the weights"), "config", dict, "the weights")
    tensors = {name: _tensor(entry, inside, name[:60]) for name, entry in config.items()}
    kinds = {(entry["path_name"], tensors[name].dtype) for name, entry in config.items()}
    if len(kinds) != len({path for path, _ in kinds}):
        raise CheckError("two tensors read the same numbers as different types")
    model = model_of_tensors(tensors, network)
    return replace(model, condition=f"the program in the file is not checked, only its weights: {model.condition}")


def _tensor(entry: Any, members: dict[str, bytes], where: str) -> NDArray[Any]:
    """Return one tensor, which must be all numbers of its member in order."""
    if type(entry) is not dict:
        raise CheckError(f"{where} is not described")
    only_keys(entry, _ENTRY_KEYS, where)
    path, meta = take(entry, "path_name", str, where), take(entry, "tensor_meta", dict, where)
    plain_name = re.fullmatch("weight_[0-9]+", path) and f"{_FOLDER}{path}" in members
    if take(entry, "use_pickle", bool, where) or not plain_name:
        raise CheckError(f"{where} is not stored as raw numbers")
    kind = take(meta, "dtype", int, where)
    if kind not in _PROGRAM_TYPES:
        raise CheckError(f"{where} is stored as type {kind}; only float32 and float64 can be checked")
    dtype, data = np.dtype(_PROGRAM_TYPES[kind]), members[f"{_FOLDER}{path}"]
    shape = [take(size, "as_int", int, where) for size in take(meta, "sizes", list, where)]
    strides = [take(size, "as_int", int, where) for size in take(meta, "strides", list, where)]
    offset = take(take(meta, "storage_offset", dict, where), "as_int", int, where)
    plain = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    lengths_fit = len(strides) == len(shape) and all(
        n == 1 or step == wanted for n, step, wanted in zip(shape, strides, plain, strict=True)
    )
    if len(shape) > MOST_AXES or min(shape, default=1) < 1 or offset != 0 or not lengths_fit:
        raise CheckError(f"{where} is not stored row by row")
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise CheckError(f"{where} does not fit its {len(data):,} bytes in the archive")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))
