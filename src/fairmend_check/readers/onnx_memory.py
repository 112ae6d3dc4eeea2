"""Operators whose output may hold what was in memory before, in some release of ONNX Runtime.

Memory that a node does not write may hold a column that the entry replaces. A product of whole numbers whose sums have
no terms is such a node: ONNX Runtime up to 1.31 returns without writing it. So one factor of every such product must be
a constant with entries, or what only changes the form of one. The same is asked of products of floats in a file with
DequantizeLinear, because ONNX Runtime may turn these into products of whole numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from fairmend_check.errors import CheckError
from fairmend_check.readers.onnx_operators import MICROSOFT, ML, NEED_ENTRIES
from fairmend_check.readers.protobuf import Message, integers_of_run, unpack_integers

Operator = tuple[str, str]  # domain and name
_INT64 = 7

# Products of whole numbers, and which of their inputs are the factors; then those that may become such products.
_WHOLE: dict[Operator, tuple[int, ...]] = {
    ("", "ConvInteger"): (1,),
    ("", "MatMulInteger"): (0, 1),
    ("", "QLinearConv"): (3,),
    ("", "QLinearMatMul"): (0, 3),
    (MICROSOFT, "DynamicQuantizeMatMul"): (0, 1),
    (MICROSOFT, "MatMulInteger16"): (0, 1),
    (MICROSOFT, "MatMulIntegerToFloat"): (0, 1),
    (MICROSOFT, "MatMulNBits"): (1,),
    (MICROSOFT, "QGemm"): (0, 3),
}
_FLOAT: dict[Operator, tuple[int, ...]] = {
    ("", "Conv"): (1,),
    ("", "ConvTranspose"): (1,),
    ("", "Gemm"): (0, 1),
    ("", "MatMul"): (0, 1),
    (MICROSOFT, "FusedConv"): (1,),
    (MICROSOFT, "FusedGemm"): (0, 1),
    (MICROSOFT, "FusedMatMul"): (0, 1),
    (MICROSOFT, "FusedMatMulActivation"): (0, 1),
}
PRODUCTS = frozenset(_WHOLE) | frozenset(_FLOAT)
_KEEP_ENTRIES = frozenset(
    """
    Cast DequantizeLinear Flatten Identity QuantizeLinear Reshape Squeeze Transpose Unsqueeze
    """.split()
)
# Inputs that some release does not compare with the sizes of what they are about, or with 0.
_UNSAFE_INPUTS: dict[Operator, tuple[int, str]] = {
    ("", "GRU"): (4, "lengths of sequences"),
    ("", "LSTM"): (4, "lengths of sequences"),
    ("", "RNN"): (4, "lengths of sequences"),
    (MICROSOFT, "MatMulNBits"): (4, "an index of groups"),
}


@dataclass
class Products:
    """What is known of a file so far: whether it has DequantizeLinear, and products of floats without a constant."""

    dequantized: bool = False
    unsure: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Refuse products of floats that may become products of whole numbers; after all nodes were seen."""
        if self.dequantized and self.unsure:
            raise CheckError(
                f"{self.unsure[0]} may become a product of whole numbers, as the file has DequantizeLinear, and "
                f"{_NO_FACTOR}"
            )


_NO_FACTOR = (
    "no factor of it is a constant with entries: if its sums have no terms, ONNX Runtime leaves in the output what was "
    "in memory. Quantise products with constants only (MatMulConstBOnly)"
)


def has_entries(tensor: Message) -> bool:
    """Return whether a constant has entries: no axis of length 0."""
    return bool(tensor) and all(size > 0 for size in tensor.get("dims", []))


def keeps_entries(domain: str, kind: str) -> bool:
    """Return whether the output of an operator has entries if its first input has."""
    return kind in _KEEP_ENTRIES and domain in ("", MICROSOFT)


def check_memory(
    node: Message,
    operator: Operator,
    what: str,
    is_full: Callable[[str], bool],
    is_fixed: Callable[[str], bool],
    axes_of: Callable[[str], Axes],
    products: Products,
) -> None:
    """Refuse a node that may leave memory unset.

    ``is_full`` says of a name whether it is a constant with entries, and ``is_fixed`` whether it may become a constant.
    """
    inputs = node.get("input", [])
    if operator[1] in NEED_ENTRIES.get(operator[0], ()):
        unsure = [name for name in inputs if name and axes_of(name) != FULL]
        if operator[1] == "Scan" and _of_steps(node, axes_of) != FULL:
            unsure += inputs[:1]
        if unsure:
            raise CheckError(
                f'{what} reads "{unsure[0][:60]}", which may be empty: ONNX Runtime may then give what was in memory'
            )
    if operator == (ML, "LinearClassifier"):
        _check_linear_classifier(node, what)
    for place in _FLOAT.get(operator, ()):
        name = inputs[place] if place < len(inputs) else ""
        if name and is_fixed(name) and not is_full(name) and axes_of(name) != FULL:
            raise CheckError(
                f'{what} multiplies by "{name[:60]}", which may become a constant without entries: ONNX Runtime then '
                "leaves in the output what was in memory"
            )
    products.dequantized |= operator[1] == "DequantizeLinear"
    place, meaning = _UNSAFE_INPUTS.get(operator, (len(inputs), ""))
    if place < len(inputs) and inputs[place]:
        raise CheckError(f"{what} reads {meaning}, with which some releases of ONNX Runtime leave its output unset")
    factors = _WHOLE.get(operator, _FLOAT.get(operator, ()))
    if not factors or any(place < len(inputs) and is_full(inputs[place]) for place in factors):
        return
    if operator in _WHOLE:
        raise CheckError(f"{what} is a product of whole numbers, and {_NO_FACTOR}")
    products.unsure.append(what)


def _check_linear_classifier(node: Message, what: str) -> None:
    """Refuse a classifier that has not one intercept for each class: ONNX Runtime then writes some scores only."""
    given = {each.get("name", ""): each for each in node.get("attribute", [])}
    labels = given.get("classlabels_strings", {}).get("strings", [])
    if "classlabels_ints" in given:
        labels = integers_of_run(given["classlabels_ints"].get("ints", memoryview(b"")))
    intercepts = len(given.get("intercepts", {}).get("floats", b"")) // 5  # a tag and four bytes each
    coefficients = len(given.get("coefficients", {}).get("floats", b"")) // 5
    if not labels or intercepts != len(labels) or coefficients % len(labels) or not coefficients:
        raise CheckError(f"{what} must have coefficients and one intercept for each of its {len(labels)} classes")


# Concat: ONNX Runtime up to 1.31 makes room for an input that is empty along another axis, and writes nothing there.
# So it is followed along which axes a value may be empty although the batch is not.

Axes = frozenset[int] | None  # as nodes give them, negative ones too; None: any
FULL: Axes = frozenset()

_SAME_SHAPE_NAMES = """
    Abs Acos Acosh Asin Asinh Atan Atanh Binarizer BitwiseNot Cast CastLike CategoryMapper Ceil Celu Clip Cos Cosh
    CumProd CumSum Dropout Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity Imputer InstanceNormalization
    IsInf IsNaN LabelEncoder LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg Normalizer Not
    Reciprocal Relu Round Scaler ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign
    Sqrt Swish Tan Tanh ThresholdedRelu Trilu
"""
# What has entries if all inputs have; the shape that Reshape is given does not matter.
_FULL_NAMES = """
    Add And ArgMax ArgMin ArrayFeatureExtractor Attention BatchNormalization BiasAdd BiasGelu BiasSoftmax BitShift
    BitwiseAnd BitwiseOr BitwiseXor CastMap Concat DequantizeLinear Div DynamicQuantizeLinear DynamicQuantizeMatMul
    Einsum Equal FastGelu FeatureVectorizer Flatten FusedGemm FusedMatMul FusedMatMulActivation GatherElements
    GatherND Gemm
    Greater GreaterOrEqual LayerNormalization Less LessOrEqual LinearClassifier LinearRegressor MatMul MatMulInteger
    MatMulIntegerToFloat MatMulNBits Max Mean Min Mod Mul OneHotEncoder Or PRelu Pow QGemm QLinearAdd QLinearMatMul
    QLinearMul QuantizeLinear QuickGelu RMSNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape SVMClassifier SVMRegressor Size
    SkipLayerNormalization SkipSimplifiedLayerNormalization Squeeze StringConcat Sub Sum Transpose TreeEnsemble
    TreeEnsembleClassifier TreeEnsembleRegressor Unsqueeze Where Xor
"""
_BROADCAST = frozenset(("Add", "And", "Div", "Equal", "Max", "Min", "Mul", "Or", "Pow", "Sub", "Sum", "Where"))
_SAME_SHAPE, _FULL_OF_FULL = frozenset(_SAME_SHAPE_NAMES.split()), frozenset(_FULL_NAMES.split())


# Sizes that are computed: what only moves whole numbers that are not 0 gives such numbers. Sums and products may
# overflow to 0. (A negative size is an error, or stands for that of the input.)
_MOVES_SIZES = frozenset(("Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"))


def gives_sizes(node: Message, axes_of: Callable[[str], Axes], is_size: Callable[[str], bool]) -> bool:
    """Return whether the outputs of a node are whole numbers other than 0; ``is_size`` says it of a name."""
    kind = node.get("op_type", "")
    inputs = node.get("input", [])
    if kind == "Shape":
        return axes_of(inputs[0]) == FULL if inputs else False
    if kind == "ConstantOfShape":
        values = [each.get("t", {}) for each in node.get("attribute", []) if each.get("name") == "value"]
        return len(values) == 1 and are_sizes(whole_numbers(values[0]))
    if kind in _MOVES_SIZES:
        return bool(inputs) and is_size(inputs[0])
    chosen = inputs[1:] if kind == "Where" else inputs if kind == "Concat" else []
    return bool(chosen) and all(is_size(name) for name in chosen)


def are_sizes(numbers: list[int] | None) -> bool:
    """Return whether a constant holds whole numbers other than 0."""
    return bool(numbers) and 0 not in numbers  # type: ignore[operator]


def whole_numbers(tensor: Message) -> list[int] | None:
    """Return the numbers of a tensor of int64; None if it is none."""
    if tensor.get("data_type") != _INT64 or not {"raw_data", "int64_data"} & tensor.keys():
        return None
    if "int64_data" in tensor:
        return unpack_integers(tensor["int64_data"], 64)
    raw = bytes(tensor["raw_data"])
    return list(struct.unpack(f"<{len(raw) // 8}q", raw)) if len(raw) % 8 == 0 else None


def empty_axes(
    node: Message,
    axes_of: Callable[[str], Axes],
    numbers_of: Callable[[str], list[int] | None],
    is_size: Callable[[str], bool],
    rank_of: Callable[[str], int | None],
) -> Axes:
    """Return along which axes the outputs of a node may be empty; ``numbers_of`` gives a constant of whole numbers."""
    kind = node.get("op_type", "")
    inputs = [name for name in node.get("input", []) if name]
    given = [axes_of(name) for name in inputs]
    axis = next((each.get("i", 0) for each in node.get("attribute", []) if each.get("name") == "axis"), 0)
    first = given[0] if given else None
    if kind == "Constant" and not given:
        return FULL if any(has_entries(each.get("t", {})) for each in node.get("attribute", [])) else None
    if kind == "Shape":
        return frozenset([0])
    if kind == "ConstantOfShape" and len(inputs) == 1:
        return FULL if is_size(inputs[0]) else None
    if kind in ("Expand", "OneHot", "Tile", "TopK") and len(inputs) > 1:  # the second input is about sizes
        return FULL if first == FULL and is_size(inputs[1]) else None
    if kind == "Scan" and all(each == FULL for each in given):  # there is a step for each entry of an axis
        return _of_steps(node, axes_of)
    if kind in _SAME_SHAPE:
        return first
    if kind == "Gather" and len(given) == 2 and first is not None and given[1] == FULL:
        return FULL if first <= {axis} else None
    if kind == "Split" and first is not None:
        return first if len(inputs) > 1 and is_size(inputs[1]) else first | {axis}
    if kind == "Slice" and first is not None:
        along = numbers_of(inputs[3]) if len(inputs) > 3 else None
        return None if along is None else first | set(along)
    if kind == "Concat":
        return FULL if FULL in given else frozenset([axis])
    if kind in _FULL_OF_FULL and all(each == FULL for each in given):
        return FULL
    ranks = [rank_of(name) for name in inputs]
    if kind not in _BROADCAST or None in given or None in ranks:
        return None
    from_end = [(axes, rank) for axes, rank in zip(given, ranks, strict=True) if axes is not None and rank is not None]
    return frozenset(axis if axis < 0 else axis - rank for axes, rank in from_end for axis in axes)


def _of_steps(node: Message, axes_of: Callable[[str], Axes]) -> Axes:
    """Return FULL if the graph of a Scan gives outputs with entries whenever its inputs have some."""
    graph: Message = next((each["g"] for each in node.get("attribute", []) if "g" in each), {})
    found: dict[str, Axes] = {each.get("name", ""): FULL for each in graph.get("input", [])}
    found |= {each.get("name", ""): FULL if has_entries(each) else None for each in graph.get("initializer", [])}
    inner = {name for each in graph.get("node", []) for name in each.get("output", [])}

    def axes_in(name: str) -> Axes:
        return found[name] if name in found else None if name in inner else axes_of(name)

    for each in graph.get("node", []):
        if each.get("domain", "") not in ("", "ai.onnx", "ai.onnx.ml", MICROSOFT):
            return None
        axes = empty_axes(each, axes_in, lambda _: None, lambda _: False, lambda _: None)
        found.update(dict.fromkeys(each.get("output", []), axes))
    outputs = [found.get(each.get("name", "")) for each in graph.get("output", [])]
    return FULL if outputs and all(each == FULL for each in outputs) else None


_KEEP_RANK = frozenset(("Concat", "Slice", "Softmax", "Split", "Transpose"))


def rank(
    node: Message, rank_of: Callable[[str], int | None], numbers_of: Callable[[str], list[int] | None]
) -> int | None:
    """Return how many axes the outputs of a node have; None if that is not known."""
    kind = node.get("op_type", "")
    inputs = [name for name in node.get("input", []) if name]
    ranks = [rank_of(name) for name in inputs]
    first = ranks[0] if ranks else None
    if kind in _SAME_SHAPE or kind in _KEEP_RANK:
        return first
    if kind == "Shape":
        return 1
    if kind in _BROADCAST and None not in ranks:
        return max((each for each in ranks if each is not None), default=None)
    if kind == "Unsqueeze" and first is not None and len(inputs) == 2:
        added = numbers_of(inputs[1])
        return None if added is None else first + len(added)
    if kind == "Gather" and first is not None and len(ranks) == 2 and ranks[1] is not None:
        return first + ranks[1] - 1
    return None


def check_concat(
    node: Message, what: str, axes_of: Callable[[str], Axes], rank_of: Callable[[str], int | None]
) -> None:
    """Refuse a Concat of a value that may be empty along another axis."""
    axis = next((each.get("i", 0) for each in node.get("attribute", []) if each.get("name") == "axis"), 0)
    joined = (
        slice(2, None, 3) if node.get("op_type") == "QLinearConcat" else slice(None)
    )  # with a scale and a zero each
    for name in node.get("input", [])[joined]:
        axes, axes_there = axes_of(name), rank_of(name)
        same = {axis} if axes_there is None else {axis, axis % axes_there, axis % axes_there - axes_there}
        if axes_there != 1 and (axes is None or not axes <= same):
            raise CheckError(
                f'{what} joins "{name[:60]}", which may be empty along another axis than {axis}: ONNX Runtime then '
                "leaves in the output what was in memory"
            )
