"""ONNX files: changed field by field, and run by ONNX Runtime or by the reference implementation of ONNX."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from google.protobuf.message import DecodeError
from onnx.reference import ReferenceEvaluator

from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import Model
from fairmend_check.readers.read_onnx import read_onnx
from support.fuzzing.file_format import FileFormat, RuntimeRefusal
from support.onnx_wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Parts,
    attribute,
    field,
    node,
    tensor,
    value_info,
    varint,
)

CORPUS = Path(__file__).parents[2] / "corpus" / "onnx"
NUMBERS = (0, 1, 2, 3, 6, 7, 10, 11, 13, 17, 99, -1, 2**31, 2**32 + 1, 2**63, 2**64 - 2)
TEXTS = (
    *("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "x", "ORTM"),
    *("Gemm", "MatMul", "Add", "Relu", "LeakyRelu", "PRelu", "Tanh", "Sigmoid", "Softmax", "Identity", "Constant"),
    *("Cast", "Flatten", "Reshape", "Neg", "Sub", "Mul", "Transpose", "Dropout", "Clip"),
    *("Concat", "ArgMax", "ArgMin", "ZipMap", "ArrayFeatureExtractor", "Gather"),
    *("alpha", "beta", "transA", "transB", "axis", "to", "value", "broadcast", "allowzero", "saturate"),
    *("BatchNormalization", "Div", "Scaler", "Squeeze", "epsilon", "training_mode", "offset", "scale", "perm", "axes"),
    *("keepdims", "select_last_index", "classlabels_strings", "classlabels_int64s"),
)
OPERATORS = [text.encode() for text in TEXTS if text[:1].isupper()]


@dataclass(frozen=True)
class Field:
    """One field: its number, its wire type, and a number, bytes or the fields of the message that it holds."""

    number: int
    wire: int
    value: int | bytes | list[Field]
    kind: Any = None  # the descriptor of the message
    padding: int = 1  # how many bytes its numbers take at least


def parse(content: bytes, kind: Any) -> list[Field] | None:
    """Return the fields of a message; None if the bytes are none."""
    fields, position = [], 0
    known = {} if kind is None else {one.number: one.message_type for one in kind.fields}
    while position < len(content):
        key, position = read_varint(content, position)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, position = read_varint(content, position)
            fields.append(Field(number, wire, value))
            continue
        if wire == BYTES:
            size, position = read_varint(content, position)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            return None
        part, position = content[position : position + size], position + size
        if position > len(content):
            return None
        inner = known.get(number) if wire == BYTES else None
        parsed = parse(part, inner) if inner is not None else None
        fields.append(Field(number, wire, part if parsed is None else parsed, inner))
    return fields


def read_varint(content: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while position < len(content) and shift < 70:
        byte = content[position]
        result, position, shift = result | (byte & 0x7F) << shift, position + 1, shift + 7
        if byte < 0x80:
            break
    return result & (2**64 - 1), position


def write(fields: list[Field]) -> bytes:
    out = []
    for one in fields:
        key = varint(one.number << 3 | one.wire, one.padding if one.padding > 2 else 1)
        if isinstance(one.value, int):
            payload = varint(one.value, one.padding) if one.wire == VARINT else varint(one.value)
        else:
            payload = write(one.value) if isinstance(one.value, list) else one.value
        out.append(key + (varint(len(payload), one.padding) if one.wire == BYTES else b"") + payload)
    return b"".join(out)


def messages(fields: list[Field], kind: str = "ModelProto") -> list[tuple[str, list[Field]]]:
    """Return the fields of a message and of all messages inside, each with the kind of message."""
    found = [(kind, fields)]
    for one in fields:
        if isinstance(one.value, list):
            found += messages(one.value, one.kind.name)
    return found


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Change one message of the file; half of the time Google's library then writes it in its own form."""
    for _ in range(10):  # not every change can be made to every message
        model = parse(content, onnx.ModelProto.DESCRIPTOR)
        if model is None:
            return content
        found = messages(model)
        kinds = sorted({kind for kind, _ in found})  # each kind as often as the others
        kind = kinds[rng.integers(len(kinds))]
        fitting = [fields for name, fields in found if name == kind]
        change = CHANGES[rng.integers(len(CHANGES))]
        change(fitting[rng.integers(len(fitting))], [fields for _, fields in found], rng)
        changed = write(model)
        if rng.random() < 0.5:
            with contextlib.suppress(DecodeError):
                changed = onnx.ModelProto.FromString(changed).SerializeToString()
        if changed != content:
            return changed
    return content


def copied(one: Field) -> Field:
    """Return a field that shares nothing with the first."""
    return replace(one, value=write(one.value)) if isinstance(one.value, list) else one


def drop(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    if fields:
        del fields[rng.integers(len(fields))]


def repeat(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    if fields:
        fields.insert(rng.integers(len(fields) + 1), copied(fields[rng.integers(len(fields))]))


def swap(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    if fields:
        i, j = rng.integers(len(fields), size=2)
        fields[i], fields[j] = fields[j], fields[i]


def swap_contents(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    """Exchange two values of the same field: names of tensors, their data, inputs of a node."""
    numbers = [one.number for one in fields]
    same = [i for i, number in enumerate(numbers) if numbers.count(number) > 1]
    if same:
        i = same[rng.integers(len(same))]
        j = rng.choice([k for k in same if numbers[k] == numbers[i]])
        first, second = fields[i].value, fields[j].value
        if isinstance(first, list) and isinstance(second, list) and first and second:
            a = rng.integers(len(first))
            b = next((k for k, one in enumerate(second) if one.number == first[a].number), None)
            if b is not None:
                first[a], second[b] = second[b], first[a]
        else:
            fields[i], fields[j] = replace(fields[i], value=second), replace(fields[j], value=first)


def copy_from_elsewhere(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    other = everything[rng.integers(len(everything))]
    if other:
        fields.insert(rng.integers(len(fields) + 1), copied(other[rng.integers(len(other))]))


def renumber(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    if fields:
        i = rng.integers(len(fields))
        fields[i] = replace(fields[i], number=int(rng.integers(1, 27)))


def change_wire_type(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    """Repeat a field with another wire type, before or after the first, or in its place."""
    if not fields:
        return
    i = rng.integers(len(fields))
    one = fields[i]
    if isinstance(one.value, int):
        payload = varint(one.value if rng.random() < 0.5 else int(rng.integers(0, 12)))
        other = Field(one.number, BYTES, payload)
        if rng.random() < 0.2:
            other = Field(one.number, FIXED32, struct.pack("<I", one.value & 0xFFFFFFFF))
    elif one.wire == FIXED32 and isinstance(one.value, bytes):
        decoy = struct.pack("<f", rng.choice([0.0, 0.5, 1.0, 0.01]))
        other = Field(one.number, BYTES, one.value if rng.random() < 0.3 else decoy)
    else:
        other = Field(one.number, VARINT, int(rng.integers(0, 12)))
    place = rng.integers(3)
    if place == 2:
        fields[i] = other
    else:
        fields.insert(int(i + place), other)


def change_number(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    places = [i for i, one in enumerate(fields) if isinstance(one.value, int)]
    if places:
        i = rng.choice(places)
        fields[i] = replace(fields[i], value=NUMBERS[rng.integers(len(NUMBERS))])


def change_text(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    """Put a known text or one of the file in the place of bytes, or change one byte."""
    places = [i for i, one in enumerate(fields) if isinstance(one.value, bytes)]
    if not places:
        return
    i = rng.choice(places)
    value = fields[i].value
    assert isinstance(value, bytes)
    texts = [one.value for part in everything for one in part if isinstance(one.value, bytes) and len(one.value) < 30]
    roll = rng.random()
    if roll < 0.4:
        value = TEXTS[rng.integers(len(TEXTS))].encode()
    elif roll < 0.8 and texts:
        value = texts[rng.integers(len(texts))]
    elif value:
        at = int(rng.integers(len(value)))
        value = value[:at] + bytes([rng.integers(256)]) + value[at + 1 :]
    fields[i] = replace(fields[i], value=value)


def pad_number(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    if fields:
        i = rng.integers(len(fields))
        fields[i] = replace(fields[i], padding=int(rng.integers(2, 11)))


def pack(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    """Write numbers of a repeated field as one packed field, or packed floats one by one."""
    numbers = [one.value for one in fields if one.number == 1 and isinstance(one.value, int)]
    if numbers:
        fields[:] = [one for one in fields if one.number != 1 or not isinstance(one.value, int)]
        fields.insert(0, Field(1, BYTES, b"".join(map(varint, numbers))))
        return
    for number, size, wire in ((4, 4, FIXED32), (10, 8, FIXED64)):
        for i, one in enumerate(fields):
            if one.number == number and isinstance(one.value, bytes) and one.wire == BYTES:
                parts = [one.value[k : k + size] for k in range(0, len(one.value) - size + 1, size)]
                fields[i : i + 1] = [Field(number, wire, part) for part in parts]
                return


def add_decoy(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    """Add data of a tensor, an attribute's value or something else of a known shape."""
    values = rng.normal(size=rng.choice([1, 2, 3, 5, 15, 20]))
    decoys = [
        Field(4, BYTES, values.astype("<f4").tobytes()),
        Field(9, BYTES, values.astype("<f4").tobytes()),
        Field(10, BYTES, values.astype("<f8").tobytes()),
        Field(5, BYTES, b"".join(varint(int(one)) for one in values * 4)),
        Field(6, BYTES, TEXTS[rng.integers(len(TEXTS))].encode()),
        Field(8, VARINT, int(rng.integers(0, 3))),
        Field(9, BYTES, TEXTS[rng.integers(len(TEXTS))].encode()),
        Field(7, BYTES, b"".join(varint(int(one)) for one in values * 4)),
        Field(2, FIXED32, struct.pack("<f", values[0])),
        Field(3, VARINT, int(rng.integers(0, 3))),
        Field(20, VARINT, int(rng.integers(0, 8))),
        Field(14, VARINT, int(rng.integers(0, 2))),
        Field(13, BYTES, field(1, "location") + field(2, "m.onnx")),
        Field(int(rng.integers(1, 40)), BYTES, b""),
        Field(8, BYTES, field(1, TEXTS[rng.integers(4)]) + field(2, int(rng.integers(1, 30)))),
        Field(7, BYTES, field(5, tensor("w", [len(values)], field(9, values.astype("<f4").tobytes())))),
        Field(25, BYTES, field(1, "Relu") + field(4, "X") + field(5, "Y") + field(10, TEXTS[rng.integers(2)])),
    ]
    fields.insert(rng.integers(len(fields) + 1), decoys[rng.integers(len(decoys))])


def rename(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    """Put another text in the place of one, wherever it occurs."""
    texts = sorted({one.value for one in fields if isinstance(one.value, bytes) and 0 < len(one.value) < 30})
    if texts:
        old, new = texts[rng.integers(len(texts))], TEXTS[rng.integers(len(TEXTS))].encode()
        for part in everything:
            part[:] = [replace(one, value=new) if one.value == old else one for one in part]


def change_data(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    """Change one of the floats in bytes or in a fixed field."""
    places = [i for i, one in enumerate(fields) if isinstance(one.value, bytes) and len(one.value) >= 4]
    if places:
        i = rng.choice(places)
        data = bytearray(fields[i].value)
        at = 4 * int(rng.integers(len(data) // 4))
        data[at : at + 4] = struct.pack("<f", rng.choice([0.0, 0.5, 1.0, rng.normal(), np.inf, np.nan, 1e-42]))
        fields[i] = replace(fields[i], value=bytes(data))


def nodes_among(everything: list[list[Field]]) -> list[list[Field]]:
    return [part for part in everything if any(one.number == 4 and one.value in OPERATORS for one in part)]


def rewire(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    """Let a node or an output take another value of the same graph."""
    nodes = nodes_among(everything)
    values = [one.value for part in nodes for one in part if one.number in (1, 2)]
    places = [(part, i) for part in nodes for i, one in enumerate(part) if one.number in (1, 2)]
    places += [(part, 0) for part in everything if part and part[0].number == 1 and part[0].value in values]
    if places:
        part, i = places[rng.integers(len(places))]
        part[i] = replace(part[i], value=values[rng.integers(len(values))])


def add_attribute(fields: list[Field], everything: list[list[Field]], rng: np.random.Generator) -> None:
    """Add an attribute to a node, or change the one it has."""
    nodes = nodes_among(everything)
    if nodes:
        part = nodes[rng.integers(len(nodes))]
        number = int(rng.integers(-1, 9))
        choices: list[tuple[str, int, list[int] | list[str]]] = [
            *((name, 2, [number]) for name in ("axis", "keepdims", "select_last_index", "to")),
            *(("classlabels_int64s", 7, keys) for keys in ([0, 1], [1, -2], [1, 0, 2])),
            *(("classlabels_strings", 8, keys) for keys in (["no", "yes"], ["yes", "no"], ["low", "low", "high"])),
        ]
        name, kind, values = choices[rng.integers(len(choices))]
        made = attribute(name, *(field({2: 3, 7: 8, 8: 9}[kind], value) for value in values), kind=kind)
        own = [one for one in part if one.number != 5 or rng.random() < 0.3]
        place = max(i for i, one in enumerate(own) if one.number <= 4) + 1
        part[:] = [*own[:place], Field(5, BYTES, made), *own[place:]]


CHANGES = (
    *(drop, repeat, swap, swap_contents, copy_from_elsewhere, renumber, change_wire_type, change_number),
    *(change_text, pad_number, pack, add_decoy, rename, change_data),
    *(rewire, add_attribute),
)


def seeds() -> list[bytes]:
    """Return the files of the corpus that are whole and that the checker reads, and some with square matrices."""
    found = square_models() + norm_models() + models_with_weights_as_inputs()
    for path in sorted(CORPUS.glob("*.onnx")):
        if "external" not in path.name:
            try:
                read_onnx(path.read_bytes(), CORPUS)
            except CheckError:
                continue
            found.append(path.read_bytes())
    return found


def square_models() -> list[bytes]:
    """Return models whose layers all have three inputs and outputs: what is exchanged or transposed still fits."""
    rng = np.random.default_rng(0)
    tensors = {name: rng.normal(size=(3, 3) if name in "wvu" else 3).astype("<f4") for name in "wvubcd"}
    stored = [tensor(name, list(array.shape), field(9, array.tobytes())) for name, array in tensors.items()]
    ends = {"inputs": [value_info("x", 3)], "outputs": [value_info("y", 3)]}
    one, half = attribute("transB", field(3, 1), kind=2), attribute("alpha", field(2, 0.5), kind=1)
    gemms = [
        *(node("Gemm", "x w b", "p", one), node("LeakyRelu", "p", "q", half), node("Gemm", "q v c", "r")),
        *(node("Tanh", "r", "s"), node("Gemm", "s u d", "y", one)),
    ]
    products = [
        *(node("MatMul", "x w", "p"), node("Add", "p b", "q"), node("Relu", "q", "r"), node("Identity", "r", "s")),
        *(node("MatMul", "s v", "t"), node("Add", "c t", "z"), node("Softmax", "z", "y")),
    ]
    constants = [
        node("Constant", "", name, attribute("value", field(5, one), kind=4))
        for name, one in zip(tensors, stored, strict=True)
    ]
    models = [Parts(gemms, stored, **ends), Parts(products, stored, **ends), Parts(constants + gemms, [], **ends)]
    return [model.content() for model in models] * 10  # as many as there are of other kinds


def norm_models() -> list[bytes]:
    """Return models with batch normalisation, scaling, constants in nodes, and an output without columns."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(3, 3) if name in "wv" else 3).astype("<f4") for name in "wvbcgmn"}
    arrays["s"] = rng.uniform(0.5, 2, 3).astype("<f4")
    arrays["o"] = rng.normal(size=(3, 1)).astype("<f4")
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    norm = make("BatchNormalization", ["p", "g", "b", "m", "s"], ["q"], epsilon=1e-3)
    first = [make("Gemm", ["x", "w", "c"], ["p"], transB=1, alpha=0.5), norm, make("Relu", ["q"], ["r"])]
    rest = [make("Mul", ["r", "n"], ["t"]), make("Add", ["b", "t"], ["u"]), make("Gemm", ["u", "v", "c"], ["y"])]
    scaler = make("Scaler", ["x"], ["a"], domain="ai.onnx.ml", offset=[0.5, 1, 2], scale=[2, 0.5, 1])
    scaled = [scaler, make("Sub", ["a", "m"], ["d"]), make("Div", ["d", "s"], ["e"])]
    constant = make("Constant", [], ["axes"], value_ints=[1])
    product = [make("MatMul", ["e", "w"], ["f"]), make("Add", ["f", "b"], ["h"]), make("Tanh", ["h"], ["i"])]
    single = [make("Dropout", ["i"], ["j"]), make("MatMul", ["j", "o"], ["k"]), make("Squeeze", ["k", "axes"], ["l"])]
    ends = {"y": [None, 3], "z": [None]}
    graphs = {"y": [*first, *rest], "z": [constant, *scaled, *product, *single, make("Sigmoid", ["l"], ["z"])]}
    found = []
    for name, nodes in graphs.items():
        used = {value for one in nodes for value in one.input}
        stored = [onnx.numpy_helper.from_array(array, key) for key, array in arrays.items() if key in used]
        values = [info("x", 1, [None, 3])], [info(name, 1, ends[name])]
        graph = onnx.helper.make_graph(nodes, "norms", *values, stored)
        imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
        found.append(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())
    return found * 15


def models_with_weights_as_inputs() -> list[bytes]:
    """Return models that list their weights as inputs too: in an old format, which demands it, and in a later one."""
    found = []
    for version in (3, 8):
        for content in (square_models()[0], norm_models()[0]):
            model = onnx.ModelProto.FromString(content)
            model.ir_version = version
            for one in model.graph.initializer:
                value = onnx.helper.make_tensor_value_info(one.name, one.data_type, list(one.dims))
                model.graph.input.insert(0 if version == 3 else 1, value)
            found.append(model.SerializeToString())
    return found * 8


def disagreement(model: Model, content: bytes, path: Path) -> str | None:
    """Say how runtimes differ from the checker: in what they compute, or in the bytes they would write."""
    rng = np.random.default_rng(0)
    # Given as bytes, a file may be taken for one of another format.
    runs = [("ONNX Runtime", run_onnxruntime(source, model, rng)) for source in (str(path), content)]
    if runs[0][1] is None:
        runs.append(("the reference implementation", run_reference(path, model, rng)))
    for runtime, result in runs:
        if result is not None:
            rows, found = result
            wrong = found if isinstance(found, str) else difference(found, content, model, rows)
            if wrong is not None:
                return f"{runtime} {wrong}"
    with contextlib.suppress(DecodeError):
        if onnx.ModelProto.FromString(content).SerializeToString() != content:
            return "Google's library writes the same model in other bytes"
    if all(result is None for _, result in runs):
        raise RuntimeRefusal("neither ONNX Runtime nor the reference implementation runs it")
    return None


def difference(found: list[Any], content: bytes, model: Model, rows: np.ndarray) -> str | None:
    """Say how the outputs differ from those of the model: scores, or labels and probabilities."""
    possible = possible_outputs(model, rows)
    if len(found) == 1:
        return None if any(fits(found[0], low, high) for low, high in possible) else "computes other outputs"
    labels, scores = found
    low, high = possible[1 if model.outputs == 1 else 2]
    if model.outputs == 1:
        low, high = np.hstack([1 - high, low]), np.hstack([1 - low, high])
    keys = None
    if isinstance(scores, list):
        (zipped,) = (one for one in onnx.ModelProto.FromString(content).graph.node if one.op_type == "ZipMap")
        keys = [*zipped.attribute[0].ints, *(text.decode() for text in zipped.attribute[0].strings)]
        if any(set(row) != set(keys) for row in scores):
            return "has other keys than the classes"
        scores = np.array([[row[key] for key in keys] for row in scores])
    if not fits(scores, low, high):
        return "computes other probabilities"
    if np.shape(labels) != (len(rows),):
        return "has labels of another shape"
    of_class: dict[int, Any] = {} if keys is None else dict(enumerate(keys))
    for label, least, most in zip(labels, low, high, strict=True):
        chosen = int(np.argmax(least))
        certain = np.isfinite(most).all() and (np.delete(most, chosen) < least[chosen]).all()
        if certain and of_class.setdefault(chosen, label) != label:
            return "gives two labels to one class"
    if len(set(of_class.values())) != len(of_class):
        return "gives one label to two classes"
    return None


def fits(found: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether outputs lie between the ends; where inference can overflow, the ends are not finite and say nothing."""
    if low.shape == (len(low), 1) and found.shape == (len(low),):  # an output without columns
        low, high = low[:, 0], high[:, 0]
    known = np.isfinite(low) & np.isfinite(high)
    return found.shape == low.shape and bool(np.all((low <= found) & (found <= high) | ~known))


def rows_for(model: Model, count: Any, rng: np.random.Generator) -> np.ndarray:
    rows = count if isinstance(count, int) and 0 < count < 1000 else 40
    return rng.normal(size=(rows, model.inputs)).astype(model.dtype)


def run_onnxruntime(source: str | bytes, model: Model, rng: np.random.Generator) -> tuple[np.ndarray, Any] | None:
    """Return rows and outputs, or how the model is called differently; None if ONNX Runtime refuses the file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception:  # ONNX Runtime has a class for each of its codes and no class for them all
        return None
    inputs, outputs = session.get_inputs(), session.get_outputs()
    try:
        count = inputs[0].shape[0] if inputs and inputs[0].shape else None
    except UnicodeDecodeError:
        return np.zeros(0), "has a name that is no text"
    if len(inputs) != 1 or len(outputs) not in (1, 2):
        return np.zeros(0), "has other inputs or outputs"
    if session.get_overridable_initializers() and not model.condition:
        return np.zeros(0), "has other inputs or outputs"
    rows = rows_for(model, count, rng)
    try:
        found = session.run(None, {inputs[0].name: rows})
    except Exception as error:
        return rows, f"cannot run the model on its own inputs ({str(error)[:200]})"
    return rows, found


def run_reference(path: Path, model: Model, rng: np.random.Generator) -> tuple[np.ndarray, Any] | None:
    try:
        evaluator = ReferenceEvaluator(onnx.load(path))
        graph = evaluator.proto_.graph
        weights = {one.name for one in graph.initializer}
        (given,) = (value for value in graph.input if value.name not in weights)
        rows = rows_for(model, given.type.tensor_type.shape.dim[0].dim_value, rng)
        with np.errstate(all="ignore"):
            found = evaluator.run(None, {given.name: rows})
    except Exception:  # whatever is raised in Python code that runs an odd file
        return None
    return rows, found


def possible_outputs(model: Model, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the ends that the checker proves of the outputs in inference: logits, and a closing sigmoid or softmax."""
    x = rows.astype(np.float64)
    with np.errstate(all="ignore"):
        nodes = interval_layers(model, x, x)
        low, high = nodes[-1]
        error = output_errors(model, x, x, nodes, np.tile(np.eye(model.outputs), (len(x), 1, 1)))
        h, error = (low + high) / 2, error + (high - low)
        exponentials = np.exp(h - h.max(axis=1, keepdims=True))
        softmax = exponentials / exponentials.sum(axis=1, keepdims=True)
        ends = [(h - error, h + error)]
        largest = error.max(axis=1, keepdims=True)  # a softmax depends on every logit
        for found, wrong in ((0.5 + 0.5 * np.tanh(h / 2), error), (softmax, 2 * largest)):
            off = wrong + 8 * float(np.finfo(model.dtype).eps)  # 16 u
            ends.append((found - off, found + off))
    return ends


FORMAT = FileFormat("onnx", ".onnx", seeds, mutate, disagreement)
