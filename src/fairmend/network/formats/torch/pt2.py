""".pt2 files of torch.export.save: the graph in JSON and the weights as raw numbers, in one archive.

torch.export.load unpickles some parts of such a file, which can run any code. Here only JSON and raw numbers are read.
An archive that torch.export.save would not write is refused: PyTorch may run another program than the one read here.
"""

from __future__ import annotations

import io
import json
import math
import pickletools
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.form import FormError
from fairmend.network.formats.axes import Count
from fairmend.network.formats.build import unsupported
from fairmend.network.formats.torch.aten import ATEN, bind, only_computes
from fairmend.network.formats.torch.interpret import interpret
from fairmend.network.formats.torch.operators import OPERATORS, refusal
from fairmend.network.formats.torch.program import ONE_OUTPUT, Call, Constant, Program, ProgramInput, Ref
from fairmend.network.formats.torch.state_dict import StateDictForm, to_tensors

_DTYPES = {4: "<i4", 5: "<i8", 7: "<f4", 8: "<f8", 12: "?"}  # numbers of torch._export.serde.schema.ScalarType
_DTYPE_NAMES = {4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 12: "bool", 13: "bfloat16"}
_PLAIN = {"as_int": int, "as_float": float, "as_bool": bool, "as_string": str}
_RESHAPES = ("aten.view", "aten.reshape", "aten._unsafe_view")
_MOST_BYTES = 2**31
_DAMAGE = (  # what zipfile, json and the code below raise for a file that is damaged
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, EOFError, NotImplementedError),
    ArithmeticError,
    zipfile.BadZipFile,
)
_SCHEMA = 8  # the version of the program that torch.export.save of PyTorch 2.9 and later writes
# What torch.export writes about sizes, and in which words: PyTorch runs these texts as Python.
_GUARD = re.compile(
    r"(L(\['\w+'\]|\[[0-9]+\])+(\.(size|stride)\(\)\[[0-9]+\]|\.(storage_offset|dim|item)\(\))?"
    r"|\b(and|or|not|True|False|min|max|abs)\b|\b[0-9]+(\.[0-9]+)?\b|[-+*/%()<>,\s]|[=!<>]=)*"
)
# Of the example inputs: what builds tensors, and nothing else. PyTorch would run any other code in that pickle.
_BUILDS_TENSORS = re.compile(
    r"torch\._utils _rebuild_(tensor_v2|parameter)|collections OrderedDict|torch \w+Storage|torch Size|torch device"
    r"|torch (float|int|uint|bfloat|complex)[0-9]+|torch bool"
)
_OTHER_CODE = ("STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4")
_EXAMPLE_FILES = re.compile(
    r"[^/]+/(data\.pkl|version|byteorder|\.format_version|\.storage_alignment|\.data/serialization_id|data/[0-9]+)"
)
_LEGACY = ("data/weights/model.pt", "data/constants/model.pt")  # PyTorch would read these instead of the tensors
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
        model = _parsed(members[f"{root}models/model.json"])
        if model["schema_version"]["major"] != _SCHEMA:
            raise FairmendError(f"the program has version {model['schema_version']}, not {_SCHEMA}; {_AGAIN}")
        _refuse_code(model.get("guards_code", []), members.get(f"{root}data/sample_inputs/model.pt", b""))
        weights, records = _tensors(members, f"{root}data/weights/", "model_weights_config.json", "weight_")
        constants, _ = _tensors(members, f"{root}data/constants/", "model_constants_config.json", "tensor_")
        reading = interpret(_program(model["graph_module"], weights, constants, str(path)), weights, str(path))
    except FairmendError as error:
        named = str(error).startswith(f"{path}: ")
        raise error if named else FairmendError(f"{path}: {error}") from error
    except _DAMAGE as error:
        raise FairmendError(f"{path}: not a readable .pt2 file ({type(error).__name__}: {error}); {_AGAIN}") from error
    form = Pt2Form(weights, description=tuple(reading.entries), archive=content, records=records)
    return reading.network(weights, str(path), form)


def to_bytes(network: Network) -> bytes:
    """Refuse: an exported program is only written for a network that was read from one."""
    raise FairmendError(
        "a .pt2 file can only be written for a network that was read from one; save it as .onnx or .pth"
    )


def _members(content: bytes) -> dict[str, bytes]:
    """Return the files in the archive, which must be stored as they are, one after the other."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        names = [entry.filename for entry in entries]
        distinct = {name.lower() for name in names}  # PyTorch finds a file whatever the case of its name
        plain = all(entry.compress_type == zipfile.ZIP_STORED and entry.flag_bits & ~0x0808 == 0 for entry in entries)
        alone = content.startswith(b"PK\3\4") and content[-22:-18] == b"PK\5\6" and not archive.comment
        if len(distinct) != len(names) or not plain or not alone or entries[0].header_offset != 0:
            raise FairmendError(f"the archive is not one that torch.export.save writes; {_AGAIN}")
        if sum(entry.file_size for entry in entries) > _MOST_BYTES:
            raise FairmendError("the archive is larger than 2 GB")
        return {name: archive.read(name) for name in names}


def _root(members: Mapping[str, bytes]) -> str:
    """Return the folder of all files, with a slash."""
    root = f"{next(iter(members), '').split('/')[0]}/"
    inside = {name.removeprefix(root) for name in members if name.startswith(root)}
    programs = [name for name in inside if name.startswith("models/")]
    if len(inside) != len(members) or programs != ["models/model.json"]:
        raise FairmendError(f"the archive does not hold one program, models/model.json; {_AGAIN}")
    if not inside.isdisjoint(_LEGACY):
        raise FairmendError(f"the archive holds its tensors as a pickle, which can run code; {_AGAIN}")
    if members.get(f"{root}byteorder", b"little") != b"little":
        raise FairmendError("the numbers in the archive are not little-endian")
    return root


def _refuse_code(guards: list[str], examples: bytes) -> None:
    """Refuse a file with code that PyTorch would run when it loads the program or checks its inputs."""
    guard = next((text for text in guards if not _GUARD.fullmatch(text)), None)
    if guard is not None:
        raise FairmendError(f"the program has the condition {guard[:80]!r} on its inputs, which may run code; {_AGAIN}")
    if not examples:
        return
    members = _members(examples)
    pickles = [data for name, data in members.items() if name.endswith("/data.pkl")]
    plain = len(pickles) == 1 and all(_EXAMPLE_FILES.fullmatch(name) for name in members)
    for opcode, argument, _ in pickletools.genops(pickles[0]) if plain else ():
        named = opcode.name == "GLOBAL" and _BUILDS_TENSORS.fullmatch(str(argument))
        plain = plain and (bool(named) or (opcode.name != "GLOBAL" and opcode.name not in _OTHER_CODE))
    if not plain:
        raise FairmendError(f"the example inputs in the archive may run code; {_AGAIN}")


def _parsed(data: bytes) -> Any:
    """Return the content of a JSON file in which no key is given twice."""

    def entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise FairmendError(f"a part of the program names {[key for key, _ in pairs][:5]} twice")
        return found

    return json.loads(data, object_pairs_hook=entries)


def _tensors(
    members: Mapping[str, bytes], folder: str, config: str, prefix: str
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """Return tensors by key, and the file of each that has one to itself."""
    described = _parsed(members[f"{folder}{config}"])["config"]
    tensors: dict[str, npt.NDArray[Any]] = {}
    files = [entry["path_name"] for entry in described.values()]
    kinds: dict[str, Any] = {}
    records: dict[str, str] = {}
    for key, entry in described.items():
        if entry["use_pickle"] is not False:
            raise FairmendError(f"{key!r} is stored as a pickle, which can run code; {_AGAIN}")
        name = entry["path_name"]
        if (
            not re.fullmatch(f"{prefix}[0-9]+", name)
            or kinds.setdefault(name, entry["tensor_meta"]["dtype"]) != (entry["tensor_meta"]["dtype"])
        ):
            raise FairmendError(f"{key!r} is not stored as torch.export.save stores a tensor; {_AGAIN}")
        tensors[str(key)], whole = _tensor(members[f"{folder}{name}"], entry["tensor_meta"], str(key))
        if whole and files.count(name) == 1:
            records[str(key)] = f"{folder}{name}"
    return tensors, records


def _tensor(data: bytes, meta: Mapping[str, Any], key: str) -> tuple[npt.NDArray[Any], bool]:
    """Return a tensor, and whether it is all numbers of its file in order."""
    if meta["dtype"] not in _DTYPES:
        name = _DTYPE_NAMES.get(meta["dtype"], "of another kind")
        raise FairmendError(f"{key} is {name}; fairmend computes in float32 or float64: call model.float() first")
    numbers = np.frombuffer(data, np.dtype(_DTYPES[meta["dtype"]]))
    shape = [_whole(size) for size in meta["sizes"]]
    strides = [_whole(stride) for stride in meta["strides"]]
    offset = _whole(meta["storage_offset"])
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    too_large = math.prod(shape) > _MOST_BYTES // 8  # numbers may be read many times over
    if min([*strides, *shape, offset], default=0) < 0 or 0 in shape or last >= len(numbers) or too_large:
        raise FairmendError(f"{key} does not fit its numbers in the archive")
    steps = [stride * numbers.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(numbers[offset:], shape, steps, writeable=False)
    whole = offset == 0 and view.size == len(numbers) and view.flags.c_contiguous
    return np.array(view, numbers.dtype.newbyteorder("=")), whole


def _whole(size: Mapping[str, Any]) -> int:
    """Return a size that is a number."""
    ((kind, number),) = size.items()
    if kind != "as_int" or type(number) is not int:
        raise FairmendError(f"a size is {dict(size)}, which is not a fixed number")
    return number


def _program(
    module: Mapping[str, Any],
    weights: Mapping[str, npt.NDArray[Any]],
    constants: Mapping[str, npt.NDArray[Any]],
    source: str,
) -> Program:
    graph, signature = module["graph"], module["signature"]
    held: dict[str, Constant] = {}
    inputs: list[ProgramInput] = []
    placed: list[str] = []
    rows: set[int | None] = set()
    for spec in signature["input_specs"]:
        ((kind, content),) = spec.items()
        if kind == "user_input":
            argument = content["arg"]
            if "as_tensor" in argument:
                name = argument["as_tensor"]["name"]
                sizes = graph["tensor_values"][name]["sizes"]
                inputs.append(_input(name, sizes))
                rows.add(sizes[0].get("as_int"))
                placed.append(name)
            continue
        if kind == "parameter" or (kind == "buffer" and content["persistent"] is True):
            key, stored = content[f"{kind}_name"], weights
        elif kind in ("buffer", "tensor_constant"):
            key, stored = content[f"{kind}_name"], constants
        else:
            raise FairmendError(f"the program has an input of the kind {kind!r}, which is not supported")
        placed.append(content["arg"]["name"])
        held[placed[-1]] = Constant(stored[key], key if stored is weights else None)
    if [each["as_tensor"]["name"] for each in graph["inputs"] if "as_tensor" in each] != placed:
        raise FairmendError(f"the program lists its inputs in two different ways; {_AGAIN}")
    _refuse_renamed(module, [each.name for each in inputs])
    nodes = [call for node in graph["nodes"] for call in _calls(node, rows, source)]
    defined = [*placed, *(call.result for call in nodes)]
    if len(set(defined)) != len(defined):
        raise FairmendError(f"the program gives one name to several tensors; {_AGAIN}")
    return Program(tuple(inputs), held, tuple(nodes), Ref(_output(graph, signature)))


def _output(graph: Mapping[str, Any], signature: Mapping[str, Any]) -> str:
    """Return the name of the output: the program must return one tensor, and change none."""
    kinds = [kind for spec in signature["output_specs"] for kind in spec]
    changing = next((kind for kind in kinds if kind != "user_output"), None)
    if changing is not None:
        raise FairmendError(f"the program has an output of the kind {changing!r}, which is not supported")
    outputs = [spec["user_output"]["arg"]["as_tensor"]["name"] for spec in signature["output_specs"]]
    if len(outputs) != 1:
        raise FairmendError(f"the program returns {len(outputs)} outputs; {ONE_OUTPUT}")
    if [each["as_tensor"]["name"] for each in graph["outputs"]] != outputs:
        raise FairmendError(f"the program lists its outputs in two different ways; {_AGAIN}")
    return str(outputs[0])


def _refuse_renamed(module: Mapping[str, Any], inputs: list[str]) -> None:
    """Refuse several inputs under names that forward() has in another order: PyTorch fills them by place."""
    names = [str(name).lower() for name in module["module_call_graph"][0]["signature"]["forward_arg_names"] or ()]
    found = [names.index(name.lower()) for name in inputs if name.lower() in names]
    if found != sorted(found):
        raise FairmendError(f"the program lists its inputs {', '.join(inputs)} in another order than forward()")


def _input(name: str, sizes: list[Mapping[str, Any]]) -> ProgramInput:
    """Return an input with its width."""
    if len(sizes) not in (1, 2) or (len(sizes) == 2 and "as_int" not in sizes[1]):
        raise FairmendError(f"the input {name!r} is not a row of numbers for each person: {sizes}")
    return ProgramInput(name, name, _whole(sizes[1]) if len(sizes) == 2 else 1, len(sizes), json.dumps(sizes[0]))


def _calls(node: Mapping[str, Any], rows: set[int | None], source: str) -> list[Call]:
    """Return the call of a node, and one for each of its results if there are several; ``rows`` is their number."""
    target = str(node["target"])
    overload = target.removeprefix("torch.ops.aten.")
    function = [*target.removeprefix("torch.ops.").split("."), target][1]
    results = _results(node["outputs"])
    where = f"{function}() at {(results or [''])[0]!r} in the exported program"
    if overload not in ATEN or overload == target:
        if not only_computes(node):
            raise unsupported(source, where, f"may change tensors in place, and {refusal(function)}")
        operator = target if overload == target else overload if function in OPERATORS else f"aten.{function}"
        refs = tuple(_argument(each["arg"]) for each in node["inputs"])
        return [Call(name, operator, refs, {}, where) for name in results]
    try:
        bound = {name: _argument(arg) for name, arg in bind(overload, node["inputs"]).items()}
    except FairmendError as error:
        raise unsupported(source, where, str(error)) from error
    if function == "batch_norm" and bound["training"] is not False:
        raise unsupported(source, where, "changes its running statistics, so a row's output depends on other rows")
    declared = [each.removesuffix("=") for each in ATEN[overload]]
    first = [name for name, given in zip(declared, bound, strict=False) if name == given]
    args = tuple(bound.pop(name) for name in first)
    if f"aten.{function}" in _RESHAPES and len(args) == 2 and args[1] and args[1][0] in rows:
        args = (args[0], [Count(), *args[1][1:]])
    if not results:
        return []
    if len(results) == 1 and "as_tensors" not in node["outputs"][0]:
        if node.get("name") not in (None, results[0]):
            raise FairmendError(f"the program names the result of a node {node['name']!r} and {results[0]!r}")
        return [Call(results[0], f"aten.{function}", args, bound, where)]
    whole = f"{'+'.join(results)}+"
    several = [Call(name, "getitem", (Ref(whole), i), {}, where) for i, name in enumerate(results)]
    return [Call(whole, f"aten.{function}", args, bound, where), *several]


def _results(outputs: list[Mapping[str, Any]]) -> list[str]:
    """Return the names of the results of a node: a list, or one each."""
    names = [_names(output) for output in outputs]
    if len(names) > 1 and any(len(each) != 1 for each in names):
        raise FairmendError("the program has a node that returns several lists, which is not supported")
    return [name for each in names for name in each]


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
    plain = _PLAIN.get(kind.removesuffix("s"))
    if plain is not None:
        if kind == "as_float" and content == "-Infinity":  # that of a mask
            return -math.inf
        listed = content if kind.endswith("s") else [content]
        if not all(type(each) is plain for each in listed):
            raise FairmendError(f"an argument of the program is {content!r}, which is not {kind.removeprefix('as_')}")
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
