"""Sizes of axes in an ONNX graph of which only the edges are read, where constants and declared inputs give them.

A size is a whole number; a negative number -n for at least n, as long as the batch is not empty; or None, which may be
anything. What is not certain is None, and of a value with an unknown number of axes nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fairmend_check.readers.protobuf import Message, integers_of_run

SOME = -1
Sizes = tuple[int | None, ...]
Lists = Callable[[str], Sizes | None]  # of sizes that are computed, None where a number is not known
Numbers = Callable[[str], list[int] | None]
_LAST = 2**31  # a Slice to here or further ends where its axis ends
_INT64 = 7
_KEEP = frozenset(
    """
    Abs BatchNormalization BitwiseNot Cast Ceil Celu Clip Cos CumSum Dropout Elu Erf Exp Floor Gelu HardSigmoid
    HardSwish Identity InstanceNormalization IsNaN LayerNormalization LeakyRelu Log LogSoftmax LpNormalization Mish Neg
    Not RMSNormalization Reciprocal Relu Round ScatterElements ScatterND Selu Sigmoid Sign Sin Softmax Softplus Softsign
    Sqrt Swish Tan Tanh
    """.split()
)
_BROADCAST = frozenset(
    """
    Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Or Pow Sub Sum Where
    """.split()
)
_REDUCE = frozenset(["ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"])


def list_of(node: Message, first: Sizes | None, lists: Lists, numbers: Numbers) -> Sizes | None:
    """Return the whole numbers that a node computes, as one list; ``first`` are the sizes of its first input."""
    kind, inputs = node.get("op_type", ""), node.get("input", [])
    if kind == "Shape" and first is not None:
        end = _number(node, "end", len(first))
        return first[_number(node, "start", 0) : end]
    held = lists(inputs[0]) if inputs else None
    if held is None or node.get("domain", "") not in ("", "ai.onnx"):
        return None
    if kind in ("Unsqueeze", "Squeeze", "Identity") or (kind == "Cast" and _number(node, "to", 0) == _INT64):
        return held
    if kind == "Reshape":
        return held if numbers(inputs[1]) in ([-1], [1]) else None
    if kind == "Gather":
        places = numbers(inputs[1])
        if places is None or _number(node, "axis", 0) or not all(-len(held) <= at < len(held) for at in places):
            return None
        return tuple(held[at] for at in places)
    if kind == "Slice" and len(inputs) in (3, 4):
        starts, ends = numbers(inputs[1]), numbers(inputs[2])
        return held[starts[0] : ends[0]] if starts and ends else None
    parts = [lists(name) for name in inputs]
    if kind in ("Add", "Div", "Mul") and len(parts) == 2:
        return _compute(kind, held, parts[1])
    if kind == "Concat" and None not in parts:
        return tuple(number for part in parts if part is not None for number in part)
    return None


def _compute(kind: str, held: Sizes, other: Sizes | None) -> Sizes | None:
    """Return what is at least n plus, times or divided by a number; nowhere near what overflows."""
    if len(held) != 1 or other is None or len(other) != 1 or held[0] is None or other[0] is None:
        return None
    low, number = (held[0], other[0]) if kind == "Div" or other[0] >= 0 else (other[0], held[0])
    if low >= 0 or number < 0 or (number == 0 and kind != "Add"):
        return None
    found = -low + number if kind == "Add" else -low * number if kind == "Mul" else -low // number
    return (-found,) if 0 < found < _LAST else None


def sizes_of_outputs(
    node: Message, given: Sequence[Sizes | None], numbers: Numbers, lists: Lists, *, full: bool
) -> list[Sizes | None]:
    """Return the sizes of each output of a node; ``given`` are those of its inputs, ``numbers`` gives constants.

    ``full`` says that the outputs cannot be empty.
    """
    kind, outputs = node.get("op_type", ""), len(node.get("output", []))
    nothing: list[Sizes | None] = [None] * outputs
    if node.get("domain", "") not in ("", "ai.onnx") or not given:
        return nothing
    if kind == "Reshape" and len(given) == 2:
        return [_reshape(node, given[0], lists(node["input"][1]), full)]
    if kind == "Range" and numbers(node["input"][0]) == [0] and numbers(node["input"][2]) == [1]:
        limit = lists(node["input"][1])
        return [limit if limit is not None and len(limit) == 1 else None]
    if kind == "ConstantOfShape":
        return [lists(node["input"][0])]
    if given[0] is None:
        return nothing
    first = given[0]
    if kind == "Shape":
        return [(len(first[_number(node, "start", 0) : _number(node, "end", len(first))]),)]
    if kind == "TopK" and len(given) == 2:
        axis, most = _number(node, "axis", -1), lists(node["input"][1])
        if not -len(first) <= axis < len(first):
            return nothing
        axis %= len(first)
        size = most[0] if most is not None and len(most) == 1 else None
        return [(*first[:axis], size, *first[axis + 1 :])] * outputs
    if kind == "Tile" and len(given) == 2:
        times = lists(node["input"][1])
        return [tuple(map(_times, first, times)) if times is not None and len(times) == len(first) else None]
    if kind == "Expand" and len(given) == 2:
        return [_broadcast([first, lists(node["input"][1])])]
    if kind == "Split":
        return [*_split(node, first, outputs, numbers, lists)]
    found = _one(kind, node, first, given, numbers, lists)
    return [found, *nothing[1:]]


def _one(
    kind: str, node: Message, first: Sizes, given: Sequence[Sizes | None], numbers: Numbers, lists: Lists
) -> Sizes | None:
    rank = len(first)
    if kind in _KEEP:
        return first
    if kind in _BROADCAST:
        return _broadcast(given)
    if kind == "Transpose":
        order = _list(node, "perm") or list(range(rank))[::-1]
        return tuple(first[axis] for axis in order) if sorted(order) == list(range(rank)) else None
    if kind in ("Unsqueeze", "Squeeze"):
        return _change_axes(kind, first, _axes(node, numbers))
    if kind == "Flatten":
        axis = _number(node, "axis", 1)
        return (_product(first[:axis]), _product(first[axis:])) if 0 <= axis <= rank else None
    if kind == "Concat":
        return _concat(_number(node, "axis", 0), given)
    if kind == "Slice":
        return _slice(node, first, numbers, lists)
    if kind == "Gather" and len(given) == 2 and given[1] is not None:
        axis = _number(node, "axis", 0) % rank if rank else 0
        return (*first[:axis], *given[1], *first[axis + 1 :])
    if kind == "GatherElements" and len(given) == 2:
        return given[1]
    if kind == "Einsum":
        return _einsum(node, given)
    if kind == "GatherND" and len(given) == 2 and given[1] and not _number(node, "batch_dims", 0):
        depth = given[1][-1]
        return (*given[1][:-1], *first[depth:]) if depth is not None and 0 < depth <= rank else None
    if kind == "MatMul" and len(given) == 2 and given[1] is not None and rank >= 2 and len(given[1]) >= 2:
        before = _broadcast([first[:-2], given[1][:-2]])
        return None if before is None else (*before, first[-2], given[1][-1])
    if kind == "Gemm" and len(given) >= 2 and given[1] is not None and rank == len(given[1]) == 2:
        return first[_number(node, "transA", 0) % 2], given[1][1 - _number(node, "transB", 0) % 2]
    if kind in _REDUCE:
        axes = _axes(node, numbers)
        if axes is None or not all(-rank <= axis < rank for axis in axes) or not axes:
            return None
        gone = {axis % rank for axis in axes}
        keeps = _number(node, "keepdims", 1)
        return tuple(1 if at in gone else size for at, size in enumerate(first) if keeps or at not in gone)
    if kind == "Conv" and len(given) >= 2 and given[1] is not None and rank == len(given[1]) > 2:
        moved = {*(_list(node, "strides") or [1]), *(1 + pad for pad in _list(node, "pads") or [0])}
        same = set(given[1][2:]) == {1} and moved == {1}
        return (first[0], given[1][0], *first[2:]) if same else None
    return None


def _number(node: Message, name: str, default: int) -> int:
    found: int = next((each.get("i", 0) for each in node.get("attribute", []) if each.get("name") == name), default)
    return found


def _list(node: Message, name: str) -> list[int] | None:
    found = next((each for each in node.get("attribute", []) if each.get("name") == name), None)
    return integers_of_run(found["ints"]) if found is not None and "ints" in found else None


def _axes(node: Message, numbers: Numbers) -> list[int] | None:
    """Return the axes of a node: an attribute in older versions, a constant in later ones."""
    inputs = node.get("input", [])
    return numbers(inputs[1]) if len(inputs) == 2 and inputs[1] else _list(node, "axes")


def _broadcast(given: Sequence[Sizes | None]) -> Sizes | None:
    """Return the sizes of what is broadcast: a node whose sizes do not fit together is an error."""
    known = [sizes for sizes in given if sizes is not None]
    if len(known) < len(given):
        return None
    rank = max(map(len, known))
    found: list[int | None] = []
    for sizes in zip(*((1,) * (rank - len(each)) + each for each in known), strict=True):
        others = [size for size in sizes if size != 1]
        fixed = [size for size in others if size is not None and size >= 0]
        whole = SOME if all(size is not None and size < 0 for size in others) else None
        found.append(1 if not others else fixed[0] if fixed else whole)
    return tuple(found)


def _times(size: int | None, times: int | None) -> int | None:
    if size is None or times is None:
        return None
    return size * times if min(size, times) >= 0 else SOME if size and times else 0


def _einsum(node: Message, given: Sequence[Sizes | None]) -> Sizes | None:
    """Return the sizes that the letters of an equation have; one of unknown size is a broadcast or not."""
    equation = next((bytes(each.get("s", b"")) for each in node.get("attribute", [])), b"").decode("ascii", "replace")
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow or "." in equation or len(terms) != len(given):
        return None
    found: dict[str, int | None] = {}
    for letters, sizes in zip(terms, given, strict=True):
        if sizes is None or len(letters) != len(sizes):
            return None
        for letter, size in zip(letters, sizes, strict=True):
            both = _broadcast([(found.get(letter, 1),), (size,)])
            found[letter] = both[0] if both else None
    return tuple(found[letter] for letter in output) if set(output) <= set(found) else None


def _product(sizes: Sequence[int | None]) -> int | None:
    if any(size is None for size in sizes):
        return None
    known = [size for size in sizes if size is not None]
    return math.prod(known) if min(known, default=1) >= 0 or 0 in known else SOME


def _change_axes(kind: str, first: Sizes, axes: list[int] | None) -> Sizes | None:
    rank = len(first) + (len(axes or ()) if kind == "Unsqueeze" else 0)
    if not axes or len({axis % rank for axis in axes if -rank <= axis < rank}) < len(axes):
        return None
    places = {axis % rank for axis in axes}
    if kind == "Squeeze":
        return tuple(size for at, size in enumerate(first) if at not in places)
    rest = iter(first)
    return tuple(1 if at in places else next(rest) for at in range(rank))


def _concat(axis: int, given: Sequence[Sizes | None]) -> Sizes | None:
    known = [sizes for sizes in given if sizes is not None]
    if (
        len(known) < len(given)
        or len({len(sizes) for sizes in known}) > 1
        or not -len(known[0]) <= axis < len(known[0])
    ):
        return None
    found = list(known[0])
    parts = [sizes[axis] for sizes in known]
    certain = [part for part in parts if part]
    whole = [part for part in parts if part is not None and part >= 0]
    found[axis] = sum(whole) if len(whole) == len(parts) else SOME if certain else None
    return tuple(found)


def _slice(node: Message, first: Sizes, numbers: Numbers, lists: Lists) -> Sizes | None:
    inputs = node.get("input", [])
    if not 4 <= len(inputs) <= 5:
        return None
    starts, ends, axes = (numbers(name) for name in inputs[1:4])
    steps = numbers(inputs[4]) if len(inputs) == 5 else [1] * len(axes or ())
    least = lists(inputs[2])
    found: list[int | None] = list(first)
    if axes is None or not all(-len(first) <= axis < len(first) for axis in axes):
        return None
    for at, axis in enumerate(axes):
        size = found[axis]
        found[axis] = None
        if ends is None and starts == [0] and steps == [1] and size and least is not None and least[0]:
            found[axis] = SOME  # from the first one to one that is at least the first
        if starts is None or ends is None or steps is None or not len(starts) == len(ends) == len(steps) == len(axes):
            continue
        if starts[at] == 0 and ends[at] >= _LAST and steps[at] == 1:
            found[axis] = size
        elif size is not None and size < 0 and starts[at] == 0 and ends[at] > 0 and steps[at] == 1:
            found[axis] = SOME
        elif size is not None and size >= 0 and steps[at] == 1:
            found[axis] = len(range(size)[starts[at] : ends[at]])
    return tuple(found)


def _split(node: Message, first: Sizes, outputs: int, numbers: Numbers, lists: Lists) -> list[Sizes | None]:
    inputs, axis = node.get("input", []), _number(node, "axis", 0)
    if not -len(first) <= axis < len(first):
        return [None] * outputs
    axis %= len(first)
    parts: list[int | None] = [None] * outputs
    lengths = lists(inputs[1]) if len(inputs) > 1 and inputs[1] else tuple(_list(node, "split") or ()) or None
    size = first[axis]
    if lengths is not None and len(lengths) == outputs:
        parts = [*lengths]
    elif len(inputs) < 2 and size is not None and size > 0 and size % outputs == 0 and _list(node, "split") is None:
        parts = [size // outputs] * outputs
    elif len(inputs) < 2 and outputs == 1 and _list(node, "split") is None:
        parts = [size]
    return [(*first[:axis], part, *first[axis + 1 :]) for part in parts]


def _reshape(node: Message, first: Sizes | None, shape: Sizes | None, full: bool) -> Sizes | None:
    """Return the sizes of a Reshape; what is not known of its shape cannot be 0 if the output has entries."""
    if shape is None or (_number(node, "allowzero", 0) and 0 in shape):
        return None
    some = SOME if full else None
    copied = [some if first is None or at >= len(first) else first[at] for at in range(len(shape))]
    return tuple(
        each if each is not None and each > 0 else copied[at] if each == 0 else some for at, each in enumerate(shape)
    )
