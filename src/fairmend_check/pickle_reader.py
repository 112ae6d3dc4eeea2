"""Read the pickle of a state dict: exactly what torch.save writes for one, opcode by opcode. No code in it runs.

Python's pickler leaves one choice: an object that occurs again may be written as a reference to the first. All else
follows from the value (which opcode, which number in the memo), so whatever differs from it is refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from fairmend_check.errors import CheckError

_MAX_ENTRIES = 999  # the pickler starts a second batch at 1000
_LOCATION = "cpu|cuda:[0-9]{1,3}"  # never "meta", which torch loads without the numbers
_ORDERED_DICT = "collections OrderedDict"
_TENSOR = "torch._utils _rebuild_tensor_v2"
_PARAMETER = "torch._utils _rebuild_parameter"

T = TypeVar("T")


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


@dataclass(frozen=True)
class _Name:
    """The name of a class or function, as "module name"."""

    text: str


def read_pickle(data: bytes) -> dict[str, Tensor]:
    """Return the tensors of a state dict by key."""
    return _Reader(data).state_dict()


class _Reader:
    """A position in the pickle, and the memo: what can be referred to, by number."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._memo: list[Any] = []

    def state_dict(self) -> dict[str, Tensor]:
        self._expect(b"\x80\x02")
        if self._follows(b"}"):
            self._remember(dict)
            tensors = self._items(self._tensor)
        else:
            self._ordered_dict()
            tensors = self._items(self._tensor)
            if self._follows(b"}"):
                self._metadata()
        self._expect(b".")
        if self._position != len(self._data):
            self._refuse()
        return tensors

    def _metadata(self) -> None:
        """Skip the versions of the modules, and fairmend's note, which says nothing about the tensors."""
        self._remember(dict)
        self._constant_text("_metadata")
        self._ordered_dict()
        self._items(self._metadata_entry)
        self._expect(b"sb")

    def _metadata_entry(self) -> None:
        if self._follows(b"}"):
            self._remember(dict)
            self._constant_text("version")
            self._integer()
            self._expect(b"s")
        else:
            self._text()

    def _items(self, read_value: Callable[[], T]) -> dict[str, T]:
        found: dict[str, T] = {}

        def item() -> None:
            key = self._text()
            if key in found or len(found) == _MAX_ENTRIES:
                raise CheckError(f'the state dict has the key "{key[:40]}" twice, or more than {_MAX_ENTRIES} entries')
            found[key] = read_value()

        if self._follows(b"("):
            item()
            item()
            while not self._follows(b"u"):
                item()
        elif self._next() in (b"X", b"h", b"j"):
            item()
            self._expect(b"s")
        return found

    def _tensor(self, in_parameter: bool = False) -> Tensor:
        if self._next() in (b"h", b"j") and isinstance(self._peek_reference(), Tensor):
            return self._reference(Tensor)
        name = self._name()
        if name == _PARAMETER and not in_parameter:
            tensor = self._tensor(in_parameter=True)
            self._boolean()
            self._ordered_dict()
            self._expect(b"\x87")
        elif name == _TENSOR:
            self._expect(b"(")
            storage, offset, size, stride = self._storage(), self._integer(), self._sizes(), self._sizes()
            self._boolean()  # requires_grad
            self._ordered_dict()  # hooks
            self._expect(b"t")
            tensor = Tensor(storage, offset, size, stride)
        else:
            raise CheckError(f"the pickle calls {name[:60]!r}; only a state dict of tensors can be checked")
        self._remember(tuple)
        self._expect(b"R")
        return self._remember(tensor)

    def _storage(self) -> Storage:
        self._expect(b"(")
        self._constant_text("storage")
        module, _, kind = self._name().partition(" ")
        key, location, count = self._text(), self._text(), self._integer()
        self._expect(b"t")
        self._remember(tuple)
        self._expect(b"Q")
        if module != "torch" or not re.fullmatch("[0-9]+", key) or not re.fullmatch(_LOCATION, location):
            raise CheckError(f"the pickle stores a tensor as {module[:40]!r} on {location[:40]!r}; save it on the CPU")
        return Storage(kind, key, location, count)

    def _sizes(self) -> tuple[int, ...]:
        if self._follows(b")"):  # of a single number; Python does not remember the empty tuple
            return ()
        sizes = [self._integer()]
        if self._next() in (b"K", b"M", b"J"):
            sizes.append(self._integer())
        self._expect(b"\x85" if len(sizes) == 1 else b"\x86")
        return self._remember(tuple(sizes))

    def _ordered_dict(self) -> None:
        if self._name() != _ORDERED_DICT:
            raise CheckError("the file does not contain a state dict. Save model.state_dict() instead")
        self._expect(b")R")
        self._remember(dict)

    def _name(self) -> str:
        if self._next() in (b"h", b"j"):
            return self._reference(_Name).text
        self._expect(b"c")
        module, name = self._line(), self._line()
        return self._remember(_Name(f"{module} {name}")).text

    def _line(self) -> str:
        end = self._data.find(b"\n", self._position)
        line = self._take((end if end >= 0 else self._position) + 1 - self._position)[:-1]
        if not re.fullmatch(rb"[A-Za-z0-9_.]+", line):
            self._refuse()
        return line.decode("ascii")

    def _text(self) -> str:
        if self._next() in (b"h", b"j"):
            return self._reference(str)
        self._expect(b"X")
        (length,) = struct.unpack("<I", self._take(4))
        try:
            return self._remember(self._take(length).decode("utf-8"))
        except UnicodeDecodeError:
            self._refuse()

    def _constant_text(self, expected: str) -> None:
        if self._text() != expected:
            self._refuse()

    def _integer(self) -> int:
        """Read a number that is not negative, written in its shortest form."""
        width = {b"K": 1, b"M": 2, b"J": 4}.get(opcode := self._take(1), 0)
        number = int.from_bytes(self._take(width), "little")
        if not width or (width > 1 and number < 256 ** (width // 2)) or number >= 2**31:
            self._refuse(opcode)
        return number

    def _boolean(self) -> None:
        if self._take(1) not in (b"\x88", b"\x89"):
            self._refuse()

    def _remember(self, value: T) -> T:
        """Expect that the value just read enters the memo under the next number."""
        number = len(self._memo)
        self._expect(b"q" + struct.pack("<B", number) if number < 256 else b"r" + struct.pack("<I", number))
        self._memo.append(value)
        return value

    def _reference(self, kind: type[T]) -> T:
        value = self._peek_reference()
        self._take(2 if self._next() == b"h" else 5)
        if not isinstance(value, kind):
            self._refuse()
        return value

    def _peek_reference(self) -> Any:
        width = 1 if self._next() == b"h" else 4
        number = int.from_bytes(self._data[self._position + 1 : self._position + 1 + width], "little")
        if (width == 4 and number < 256) or number >= len(self._memo):
            self._refuse()
        return self._memo[number]

    def _next(self) -> bytes:
        return self._data[self._position : self._position + 1]

    def _take(self, count: int) -> bytes:
        taken = self._data[self._position : self._position + count]
        if len(taken) != count:
            self._refuse()
        self._position += count
        return taken

    def _follows(self, expected: bytes) -> bool:
        found = self._data.startswith(expected, self._position)
        self._position += len(expected) if found else 0
        return found

    def _expect(self, expected: bytes) -> None:
        if not self._follows(expected):
            self._refuse()

    def _refuse(self, opcode: bytes = b"") -> NoReturn:
        opcode = opcode or self._next()
        raise CheckError(
            f"the pickle differs from what torch.save writes for a state dict (byte {self._position:,}, "
            f"{opcode!r}). Save model.state_dict() instead"
        )
