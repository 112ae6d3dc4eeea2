""".pt2 files of torch.export.save: the graph in JSON and the weights as raw numbers, in one archive.

torch.export.load unpickles some parts of such a file, which can run any code. Here only JSON and raw numbers are read.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fairmend.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.form import FormError
from fairmend.network.formats.torch.interpret import interpret
from fairmend.network.formats.torch.program import Call, Constant, Program, ProgramInput, Ref
from fairmend.network.formats.torch.rows import ROWS
from fairmend.network.formats.torch.state_dict import StateDictForm, to_tensors

__all__ = ["Pt2Form", "read", "to_bytes"]

_DTYPES = {4: "<i4", 5: "<i8", 7: "<f4", 8: "<f8", 12: "?"}  # numbers of torch._export.serde.schema.ScalarType
_DTYPE_NAMES = {4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 12: "bool", 13: "bfloat16"}
_RESHAPES = ("aten.view", "aten.reshape", "aten._unsafe_view")
_MOST_BYTES = 2**31
_AGAIN = "save it again with torch.export.save of PyTorch 2.9 or later, or export the model to ONNX"


@dataclass(frozen=True, eq=False)
class Pt2Form(StateDictForm):
    """The archive that a network was read from; `records` says which of its files holds a tensor."""

    archive: bytes = field(default=b"", repr=False)
    records: Mapping[str, str] = field(default_factory=dict, repr=False)
    suffixes: ClassVar[tuple[str, ...]] = (".pt2", *StateDictForm.suffixes)

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`: as .pt2 the same archive, in which only these change."""
        if suffix != ".pt2":
            return super().to_bytes(network, suffix)
        changed: dict[str, bytes] = {}
        for key, tensor in to_tensors(network).items():
            if tensor is not self.tensors[key]:
                if self.records.get(key) is None:
                    raise FormError(f"the tensor {key!r} shares its numbers with others")
                changed[self.records[key]] = np.asarray(tensor, self.tensors[key].dtype.newbyteorder("<")).tobytes()
        return _patched(self.archive, changed)


def read(path: Path, activation: Activation | None) -> Network:
    """Return the network in the file; it names its functions itself."""
    content = path.read_bytes()
    try:
        members = _members(content)
        root = _root(members)
        model = json.loads(members[f"{root}models/model.json"])
        weights, records = _tensors(members, f"{root}data/weights/", "model_weights_config.json")
        constants, _ = _tensors(members, f"{root}data/constants/", "model_constants_config.json")
        program = _program(model["graph_module"], weights, constants)
    except FairmendError as error:
        raise FairmendError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, zipfile.BadZipFile) as error:
        raise FairmendError(f"{path}: not a readable .pt2 file ({type(error).__name__}: {error}); {_AGAIN}") from error
    reading = interpret(program, weights, str(path))
    form = Pt2Form(weights, description=tuple(reading.entries), archive=content, records=records)
    return reading.network(weights, str(path), form)


def to_bytes(network: Network) -> bytes:
    """Refuse: an exported program is only written for a network that was read from one."""
    raise FairmendError(
        "a .pt2 file can only be written for a network that was read from one; save it as .onnx or .pth"
    )


def _members(content: bytes) -> dict[str, bytes]:
    """Return the files in the archive, which must be stored as they are."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        names = [entry.filename for entry in entries]
        if len(set(names)) != len(names) or any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise FairmendError(f"the archive is not one that torch.export.save writes; {_AGAIN}")
        if sum(entry.file_size for entry in entries) > _MOST_BYTES:
            raise FairmendError("the archive is larger than 2 GB")
        return {name: archive.read(name) for name in names}


def _root(members: Mapping[str, bytes]) -> str:
    found = [name.removesuffix("models/model.json") for name in members if name.endswith("models/model.json")]
    if len(found) != 1:
        raise FairmendError(f"the archive holds no program models/model.json; {_AGAIN}")
    if members.get(f"{found[0]}byteorder", b"little") != b"little":
        raise FairmendError("the numbers in the archive are not little-endian")
    return found[0]


def _tensors(
    members: Mapping[str, bytes], folder: str, config: str
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """Return tensors by key, and the file of each that has one to itself."""
    described = json.loads(members[f"{folder}{config}"])["config"]
    tensors: dict[str, npt.NDArray[Any]] = {}
    files = [entry["path_name"] for entry in described.values()]
    records: dict[str, str] = {}
    for key, entry in described.items():
        if entry["use_pickle"]:
            raise FairmendError(f"{key!r} is stored as a pickle, which can run code; {_AGAIN}")
        data = members[f"{folder}{entry['path_name']}"]
        tensors[str(key)], whole = _tensor(data, entry["tensor_meta"], str(key))
        if whole and files.count(entry["path_name"]) == 1:
            records[str(key)] = f"{folder}{entry['path_name']}"
    return tensors, records


def _tensor(data: bytes, meta: Mapping[str, Any], key: str) -> tuple[npt.NDArray[Any], bool]:
    """Return a tensor, and whether it is all numbers of its file in order."""
    if meta["dtype"] not in _DTYPES:
        name = _DTYPE_NAMES.get(meta["dtype"], "of another kind")
        raise FairmendError(f"{key} is {name}; fairmend computes in float32 or float64: call model.float() first")
    numbers = np.frombuffer(data, np.dtype(_DTYPES[meta["dtype"]]))
    shape = [int(size["as_int"]) for size in meta["sizes"]]
    strides = [int(stride["as_int"]) for stride in meta["strides"]]
    offset = int(meta["storage_offset"]["as_int"])
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if min([*strides, *shape, offset], default=0) < 0 or 0 in shape or last >= len(numbers):
        raise FairmendError(f"{key} does not fit its numbers in the archive")
    steps = [stride * numbers.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(numbers[offset:], shape, steps, writeable=False)
    whole = offset == 0 and view.size == len(numbers) and view.flags.c_contiguous
    return np.array(view, numbers.dtype.newbyteorder("=")), whole


def _program(
    module: Mapping[str, Any], weights: Mapping[str, npt.NDArray[Any]], constants: Mapping[str, npt.NDArray[Any]]
) -> Program:
    graph, signature = module["graph"], module["signature"]
    held: dict[str, Constant] = {}
    inputs: list[ProgramInput] = []
    rows: set[int] = set()
    for spec in signature["input_specs"]:
        ((kind, content),) = spec.items()
        if kind == "user_input":
            argument = content["arg"]
            if "as_tensor" in argument:
                name = argument["as_tensor"]["name"]
                inputs.append(_input(name, graph["tensor_values"][name]["sizes"], rows))
        elif kind in ("parameter", "buffer"):
            key = content[f"{kind}_name"]
            source = weights if key in weights else constants
            held[content["arg"]["name"]] = Constant(source[key], key if key in weights else None)
        elif kind == "tensor_constant":
            held[content["arg"]["name"]] = Constant(constants[content["tensor_constant_name"]])
        else:
            raise FairmendError(f"the program has an input of the kind {kind!r}, which is not supported")
    outputs = [spec["user_output"]["arg"]["as_tensor"]["name"] for spec in signature["output_specs"]]
    if len(outputs) != 1:
        raise FairmendError(f"the program returns {len(outputs)} tensors; it must return one")
    calls = [call for node in graph["nodes"] for call in _calls(node, rows)]
    return Program(tuple(inputs), held, tuple(calls), Ref(outputs[0]))


def _input(name: str, sizes: list[Mapping[str, Any]], rows: set[int]) -> ProgramInput:
    """Return an input with its width; ``rows`` collects the number of rows of a program that has a fixed one."""
    if len(sizes) not in (1, 2) or (len(sizes) == 2 and "as_int" not in sizes[1]):
        raise FairmendError(f"the input {name!r} is not a row of numbers for each person: {sizes}")
    if "as_int" in sizes[0]:
        rows.add(int(sizes[0]["as_int"]))
    return ProgramInput(name, name, int(sizes[1]["as_int"]) if len(sizes) == 2 else 1, len(sizes))


def _calls(node: Mapping[str, Any], rows: set[int]) -> list[Call]:
    """Return the call of a node, and one for each of its results if there are several."""
    target = str(node["target"])
    parts = target.removeprefix("torch.ops.").split(".")
    operator = ".".join(parts[:2]) if target.startswith("torch.ops.aten.") else target
    args = tuple(_argument(each["arg"]) for each in node["inputs"] if each.get("kind") != 2)
    kwargs = {each["name"]: _argument(each["arg"]) for each in node["inputs"] if each.get("kind") == 2}
    if operator in _RESHAPES and len(args) == 2 and args[1] and args[1][0] in rows:
        args = (args[0], [ROWS, *args[1][1:]])
    results = [name for output in node["outputs"] for name in _names(output)]
    where = f"{parts[1] if len(parts) > 1 else target}() at {(results or [''])[0]!r} in the exported program"
    if len(results) == 1 and "as_tensors" not in node["outputs"][0]:
        return [Call(results[0], operator, args, kwargs, where)]
    whole = f"{'+'.join(results)}+"
    several = [Call(name, "getitem", (Ref(whole), i), {}, where) for i, name in enumerate(results)]
    return [Call(whole, operator, args, kwargs, where), *several]


def _names(output: Mapping[str, Any]) -> list[str]:
    ((kind, content),) = output.items()
    if kind == "as_tensor":
        return [str(content["name"])]
    if kind == "as_tensors":
        return [str(each["name"]) for each in content]
    if kind in ("as_sym_int", "as_sym_bool"):
        return [str(content["as_name"])]
    return []


def _argument(argument: Mapping[str, Any]) -> Any:
    """Return the argument of a call."""
    ((kind, content),) = argument.items()
    if kind == "as_none":
        return None
    if kind == "as_tensor":
        return Ref(str(content["name"]))
    if kind == "as_tensors":
        return [Ref(str(each["name"])) for each in content]
    if kind in ("as_optional_tensors", "as_sym_ints", "as_sym_bools"):
        return [_argument(each) for each in content]
    if kind in ("as_optional_tensor", "as_sym_int", "as_sym_bool"):
        return _argument(content)
    if kind == "as_name":
        return Ref(str(content))
    if kind == "as_scalar_type":
        return _DTYPE_NAMES.get(content, "another dtype")
    if kind in ("as_int", "as_float", "as_bool", "as_string", "as_ints", "as_floats", "as_bools"):
        return content
    return f"the {kind.removeprefix('as_')}"


def _patched(archive: bytes, changed: Mapping[str, bytes]) -> bytes:
    """Return the archive with other bytes in some of its files, and all else as it was."""
    patched = bytearray(archive)
    with zipfile.ZipFile(io.BytesIO(archive)) as content:
        directory = content.start_dir
        entries = content.infolist()
    for entry in entries:
        lengths = struct.unpack_from("<HHH", archive, directory + 28)  # of name, extra field and comment
        data = changed.get(entry.filename)
        if data is not None:
            header = entry.header_offset
            start = header + 30 + sum(struct.unpack_from("<HH", archive, header + 26))
            if len(data) != entry.file_size:
                raise FormError(f"{entry.filename} has another size in the exported program")
            checksum = struct.pack("<I", zlib.crc32(data))
            patched[start : start + len(data)] = data
            patched[directory + 16 : directory + 20] = checksum
            after = start + len(data)
            if entry.flag_bits & 8:  # the checksum follows the data
                after += 4 if archive[after : after + 4] == b"PK\7\x08" else 0
                patched[after : after + 4] = checksum
            else:
                patched[header + 14 : header + 18] = checksum
        directory += 46 + sum(lengths)
    return bytes(patched)
