"""Files of torch.save: their archives and pickles are changed; torch.load says what they mean."""

from __future__ import annotations

import io
import pickle
import pickletools
import types
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairmend_check.kernel.model import Model
from support.fuzzing.file_format import FileFormat, first_difference
from support.fuzzing.state_dicts import difference, norm_state, read_with_layers, read_with_norms, seeds

Members = list[tuple[str, bytes]]

CHECKPOINT_KEYS = ("state_dict", "model_state_dict", "model")
_FILES = ["constants.pkl", "version", ".data/version", "byteorder", "data/0", "data/2", "DATA/0", "Data.pkl", "data/"]
_FILES += [".format_version", ".storage_alignment", ".data/serialization_id", "data.pkl", "data/00", "x/data.pkl"]
_CONTENTS = [b"3\n", b"2\n", b"10\n", b"little", b"big", b"1", b"64", b"128", b"", bytes(8), bytes(48)]
_OPCODES = [b"\x88", b"\x89", b"N", b")", b"]", b"}", b"K\x00", b"K\x01", b"K\x04", b"M\x04\x00", b"J\x04\x00\x00\x00"]
_OPCODES += [
    b"\x8a\x01\x04",
    b"I4\n",
    b"\x85",
    b"\x86",
    b"\x87",
    b"(",
    b"t",
    b"s",
    b"u",
    b"b",
    b"R",
    b"Q",
    b"0",
    b"2",
    b".",
]
_OPCODES += [b"X\x03\0\0\0cpu", b"X\x04\0\0\0meta", b"X\x06\0\0\0cuda:0", b"X\x01\0\0\0" + b"1", b"X\x03\0\0\0neg"]
_OPCODES += [b"}X\x03\0\0\0neg\x88s", b"ctorch\nDoubleStorage\n", b"ctorch\nFloatStorage\n", b"ctorch\nBoolStorage\n"]
_OPCODES += [b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_parameter\n", b"\x80\x02", b"\x80\x04"]
_OPCODES += [b"X\x0a\0\0\0state_dict", b"X\x05\0\0\0model", b"a", b"e", b"h\x00", b"h\x04", b"q\x01", b"G" + bytes(8)]
_OPCODES += [b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_tensor\n", b"X\x08\0\0\0" + b"0.weight"]


def disagreement(model: Model, content: bytes, path: Path) -> str | None:
    """Say how torch.load reads the file differently: with and without weights_only, mapped, and from bytes."""
    own_pickle = {"weights_only": False, "pickle_module": _restricted()}
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "torch.load": (path, {"weights_only": True}),
        "torch.load, weights_only=False": (path, own_pickle),
        "torch.load, mmap=True": (path, {"weights_only": True, "mmap": True}),
        "torch.load of bytes": (io.BytesIO(content), {"weights_only": True}),
    }
    return first_difference(
        {name: partial(_difference, model, source, options) for name, (source, options) in ways.items()}
    )


def _difference(model: Model, source: Any, options: dict[str, Any]) -> str | None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = torch.load(source, **options)
        state = next((state[key] for key in CHECKPOINT_KEYS if isinstance(state.get(key), dict)), state)
        return difference(model, {key: value.detach().numpy() for key, value in state.items()})


def _restricted() -> Any:
    """Return a pickle module with Python's own unpickler that builds tensors and nothing else."""
    import torch

    known = {("collections", "OrderedDict"): OrderedDict}
    known |= {
        ("torch._utils", name): getattr(torch._utils, name) for name in ("_rebuild_tensor_v2", "_rebuild_parameter")
    }

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            return known[module, name]

    return types.SimpleNamespace(Unpickler=Unpickler, load=pickle.load, __name__="restricted")


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a member of the archive, its pickle, or a field of its headers."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    except Exception:  # whatever zipfile makes of a damaged file
        return content
    if not members or rng.random() < 0.2:
        return _change_field(content, rng)
    if rng.random() < 0.7:
        members = [(name, _change_pickle(data, rng) if name.endswith("data.pkl") else data) for name, data in members]
    else:
        members = _MEMBER_CHANGES[rng.integers(len(_MEMBER_CHANGES))](members, rng)
    return _pack(members)


def _pack(members: Members) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def _place(members: Members, rng: np.random.Generator) -> int:
    return int(rng.integers(len(members)))


def _root(members: Members) -> str:
    return members[0][0].split("/")[0]


def _rename(members: Members, rng: np.random.Generator) -> Members:
    place = _place(members, rng)
    name = members[place][0]
    names = [
        name.upper(),
        name.title(),
        name + "/",
        "x/" + name,
        f"{_root(members)}/{_FILES[rng.integers(len(_FILES))]}",
    ]
    return [*members[:place], (names[rng.integers(len(names))], members[place][1]), *members[place + 1 :]]


def _repeat(members: Members, rng: np.random.Generator) -> Members:
    other = _rename(members, rng)
    at = _place(members, rng)
    return [*members[:at], other[_place(members, rng)], *members[at:]]


def _drop(members: Members, rng: np.random.Generator) -> Members:
    place = _place(members, rng)
    return [*members[:place], *members[place + 1 :]] if len(members) > 1 else members


def _reorder(members: Members, rng: np.random.Generator) -> Members:
    return [members[i] for i in rng.permutation(len(members))]


def _swap_data(members: Members, rng: np.random.Generator) -> Members:
    first, second = _place(members, rng), _place(members, rng)
    changed = list(members)
    changed[first], changed[second] = (members[first][0], members[second][1]), (members[second][0], members[first][1])
    return changed


def _set_data(members: Members, rng: np.random.Generator) -> Members:
    place = _place(members, rng)
    name, data = members[place]
    size = [0, 4, -4, -8][rng.integers(4)]
    others = [
        _CONTENTS[rng.integers(len(_CONTENTS))],
        rng.bytes(len(data)),
        data[:size] if size < 0 else data + bytes(size),
    ]
    return [*members[:place], (name, others[rng.integers(3)]), *members[place + 1 :]]


def _add(members: Members, rng: np.random.Generator) -> Members:
    name, data = _FILES[rng.integers(len(_FILES))], _CONTENTS[rng.integers(len(_CONTENTS))]
    at = int(rng.integers(len(members) + 1))
    return [*members[:at], (f"{_root(members)}/{name}", data), *members[at:]]


_MEMBER_CHANGES: list[Callable[[Members, np.random.Generator], Members]] = [
    _rename, _repeat, _drop, _reorder, _swap_data, _set_data, _add,
]  # fmt: skip


def _change_pickle(data: bytes, rng: np.random.Generator) -> bytes:
    """Insert, drop, repeat, swap or replace opcodes; half of the time, number the memo again."""
    opcodes = _opcodes(data)
    if len(opcodes) < 2:
        return data
    first, second = sorted(int(i) for i in rng.integers(len(opcodes), size=2))
    other = _OPCODES[rng.integers(len(_OPCODES))] if rng.random() < 0.6 else opcodes[rng.integers(len(opcodes))]
    kind = rng.integers(6)
    if kind == 0:
        opcodes.insert(first, other)
    elif kind == 1:
        del opcodes[first : min(second, first + 4)]
    elif kind == 2:
        opcodes[first], opcodes[second] = opcodes[second], opcodes[first]
    elif kind == 3:
        opcodes[second:second] = opcodes[first : first + int(rng.integers(1, 8))]
    elif kind == 4:
        opcodes[first] = other
    else:
        opcodes[first] = _other_argument(opcodes[first], rng)
    return b"".join(_numbered(opcodes) if rng.random() < 0.5 else opcodes)


def _opcodes(data: bytes) -> list[bytes]:
    places = []
    try:
        places += [place for _, _, place in pickletools.genops(data)]
    except (ValueError, IndexError, UnicodeDecodeError):
        return []
    return [data[start:end] for start, end in zip(places, [*places[1:], len(data)], strict=True)]


def _other_argument(opcode: bytes, rng: np.random.Generator) -> bytes:
    if len(opcode) < 2:
        return opcode
    changed = bytearray(opcode)
    changed[int(rng.integers(1, len(opcode)))] = int(rng.integers(8) if rng.random() < 0.7 else rng.integers(256))
    return bytes(changed)


def _numbered(opcodes: list[bytes]) -> list[bytes]:
    """Give every entry of the memo the number that the pickler would give it, and let references follow."""
    numbers: dict[int, int] = {}
    found = []
    for opcode in opcodes:
        if opcode[:1] == b"q" and len(opcode) == 2 and len(numbers) < 255:
            numbers[opcode[1]] = len(numbers)
            opcode = bytes([opcode[0], numbers[opcode[1]]])
        elif opcode[:1] == b"h" and len(opcode) == 2:
            opcode = bytes([opcode[0], numbers.get(opcode[1], opcode[1])])
        found.append(opcode)
    return found


def _change_field(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a field near a signature of the archive."""
    signatures = [b"PK\3\4", b"PK\1\2", b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\7\x08"]
    signature = signatures[rng.integers(len(signatures))]
    places = [i for i in range(len(content)) if content.startswith(signature, i)]
    if not places:
        return content
    changed = bytearray(content)
    at = places[rng.integers(len(places))] + int(rng.integers(4, 46))
    values = [0, 1, 8, 16, 255, changed[min(at, len(changed) - 1)] + 1]
    changed[min(at, len(changed) - 1)] = values[rng.integers(len(values))] % 256
    return bytes(changed)


def norm_seeds() -> list[bytes]:
    """Return a state dict with BatchNorm, as torch.save writes it."""
    import torch

    buffer = io.BytesIO()
    torch.save(OrderedDict((key, torch.tensor(array)) for key, array in norm_state().items()), buffer)
    return [buffer.getvalue()]


def checkpoints() -> list[bytes]:
    """Return checkpoints as training scripts save them, with the state of an optimizer and plain values."""
    import torch

    from support.torch_modules import adam_state

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    found = []
    for key in CHECKPOINT_KEYS:
        buffer = io.BytesIO()
        plain = {"epoch": 3, "losses": [0.5, 0.25], "shape": (3, 2), "best": None, 4: {"rate": 1e-3, "large": 2**40}}
        torch.save({**plain, key: module.state_dict(), "optimizer": adam_state(module)}, buffer)
        found.append(buffer.getvalue())
    return found


FORMAT_CHECKPOINT = FileFormat("checkpoint", ".pth", checkpoints, mutate, disagreement, read_with_layers)
FORMAT_NORMS = FileFormat("pth-norms", ".pth", norm_seeds, mutate, disagreement, read_with_norms)
FORMAT = FileFormat("pth", ".pth", lambda: seeds(".pth"), mutate, disagreement, read_with_layers)
