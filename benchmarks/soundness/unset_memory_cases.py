"""Models of one operator, and of some that ONNX Runtime fuses, that ONNX's node tests lack; for unset_memory.py."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from fairmend_check.readers.onnx_operators import MICROSOFT, ML

Named = tuple[str, onnx.ModelProto, list[Any]]
_RNG = np.random.default_rng(0)
_OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3), helper.make_opsetid(MICROSOFT, 1)]


def more_cases() -> Iterator[Named]:
    """Yield the name, the model and the inputs of each case."""
    yield from _standard()
    yield from _runtime()
    yield from _machine_learning()
    yield from _of_scikit_learn()
    yield from _chains()


def _floats(*shape: int) -> Any:
    return _RNG.normal(size=shape).astype(np.float32)


def _bytes(*shape: int, signed: bool = False) -> Any:
    return _RNG.integers(-9 if signed else 0, 9, shape).astype(np.int8 if signed else np.uint8)


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


SCALE, ZERO = np.array(0.1, np.float32), np.array(3, np.uint8)


def _value(name: str, given: Any, shapes: bool = True) -> Any:
    if isinstance(given, list):
        kind = helper.np_dtype_to_tensor_dtype(given[0].dtype)
        return helper.make_tensor_sequence_value_info(name, kind, None)
    kind = TensorProto.STRING if given.dtype == object else helper.np_dtype_to_tensor_dtype(given.dtype)
    return helper.make_tensor_value_info(name, kind, [f"{name}{axis}" for axis in range(given.ndim)])


def _model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "case",
        [_value(name, given) for name, given in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=_OPSETS, ir_version=9)


def _one(domain: str, kind: str, *given: Any, outputs: int = 1, name: str = "", **attributes: Any) -> Named:
    """Return a case of one node; None is an input that is left out."""
    inputs = {f"i{at}": each for at, each in enumerate(given) if each is not None}
    names = [f"i{at}" if each is not None else "" for at, each in enumerate(given)]
    found = [f"o{at}" for at in range(outputs)]
    node = helper.make_node(kind, names, found, domain=domain, **attributes)
    label = name or f"{kind} {' '.join(f'{key}={value}' for key, value in attributes.items())}"
    return f"{domain} {label}"[:90], _model([node], inputs, found), list(inputs.values())


def _standard() -> Iterator[Named]:
    pair = [_floats(2, 3), _floats(2, 3)]
    yield _one("", "ConcatFromSequence", pair, axis=0)
    yield _one("", "ConcatFromSequence", pair, axis=1)
    yield _one("", "ConcatFromSequence", pair, axis=1, new_axis=1)
    yield _one("", "GlobalLpPool", _floats(2, 3, 4, 4), p=2)
    yield _one("", "MaxRoiPool", _floats(1, 2, 6, 6), np.array([[0, 0, 0, 3, 3], [0, 2, 2, 9, 9]], np.float32),
               pooled_shape=[2, 2], spatial_scale=1.0)  # fmt: skip
    yield _one("", "Optional", _floats(2, 3))
    yield _one("", "SequenceAt", pair, _ints(1).reshape(()))
    yield _one("", "SequenceConstruct", *pair)
    yield _one("", "SequenceErase", pair, _ints(1).reshape(()))
    yield from _with_graphs()


def _with_graphs() -> Iterator[Named]:
    """Yield Loop, Scan and If with few or no steps, and with outputs of a step that are empty."""
    state, number, condition = "state", "number", "condition"
    for tail in ("", "Slice", "Concat"):
        nodes = [helper.make_node("Add", [state, "row"], ["next"])]
        nodes += _tail(tail, "next", "given")
        body = helper.make_graph(
            nodes,
            "body",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["width"]) for name in (state, "row")],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"{name}_width"]) for name in ("next", "given")],
        )
        yield _one("", "Scan", _floats(3), _floats(4, 3), outputs=2, name=f"Scan {tail}", body=body, num_scan_inputs=1)
        body = helper.make_graph(
            [
                helper.make_node("Identity", ["yes"], ["on"]),
                helper.make_node("Add", [state, state], ["next"]),
                *_tail(tail, "next", "given"),
            ],
            "body",
            [
                helper.make_tensor_value_info(number, TensorProto.INT64, []),
                helper.make_tensor_value_info("yes", TensorProto.BOOL, []),
                helper.make_tensor_value_info(state, TensorProto.FLOAT, None),
            ],
            [
                helper.make_tensor_value_info("on", TensorProto.BOOL, []),
                helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
                helper.make_tensor_value_info("given", TensorProto.FLOAT, None),
            ],
        )
        yield _one("", "Loop", _ints(2).reshape(()), np.array(True), _floats(2, 3), outputs=2, name=f"Loop {tail}",
                   body=body)  # fmt: skip
    branches = [
        helper.make_graph([helper.make_node("Constant", [], [name], value_floats=values)], name, [],
                          [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
        for name, values in (("one", [1.0, 2.0]), ("other", [1.0]))
    ]  # fmt: skip
    yield _one("", "If", np.array(condition == ""), then_branch=branches[0], else_branch=branches[1])


def _tail(kind: str, name: str, found: str) -> list[Any]:
    if not kind:
        return [helper.make_node("Identity", [name], [found])]
    nothing = helper.make_node("Constant", [], ["nothing"], value_ints=[0])
    ends = helper.make_node("Slice", [name, "nothing", "nothing"], [found if kind == "Slice" else "none"])
    joined = helper.make_node("Concat", ["none", name], [found], axis=0)
    return [nothing, ends, *([joined] if kind == "Concat" else [])]


def _runtime() -> Iterator[Named]:
    x, image = _floats(2, 3, 4), _floats(1, 2, 5, 5)
    quantised, quantised_image = _bytes(2, 3, 4), _bytes(1, 2, 5, 5)
    point = (SCALE, ZERO)
    yield _one(MICROSOFT, "BiasAdd", x, _floats(4), x)
    yield _one(MICROSOFT, "BiasGelu", x, _floats(4))
    yield _one(MICROSOFT, "BiasSoftmax", x, x, axis=-1, is_inner_broadcast=0)
    yield _one(MICROSOFT, "BiasSplitGelu", _floats(2, 3, 8), _floats(8))
    yield _one(MICROSOFT, "DequantizeLinear", quantised, *point)
    yield _one(MICROSOFT, "DequantizeLinear", quantised, _floats(3), _bytes(3), axis=1)
    yield _one(MICROSOFT, "QuantizeLinear", x, *point)
    yield _one(MICROSOFT, "QuantizeLinear", x, abs(_floats(3)), _bytes(3), axis=1)
    yield _one(MICROSOFT, "DynamicQuantizeMatMul", _floats(2, 3), _bytes(3, 4), SCALE, ZERO, _floats(4))
    yield _one(MICROSOFT, "DynamicQuantizeMatMul", _floats(2, 3), _bytes(3, 4, signed=True), abs(_floats(4)))
    yield _one(MICROSOFT, "FastGelu", x, _floats(4))
    yield _one(MICROSOFT, "FusedConv", image, _floats(3, 2, 3, 3), _floats(3), activation="Relu", pads=[1, 1, 1, 1])
    yield _one(MICROSOFT, "FusedConv", image, _floats(3, 2, 3, 3), _floats(3), _floats(1, 3, 3, 3), activation="Relu")
    yield _one(MICROSOFT, "FusedGemm", _floats(2, 3), _floats(3, 4), _floats(4), activation="Relu")
    yield _one(MICROSOFT, "FusedMatMul", x, _floats(2, 4, 3))
    yield _one(MICROSOFT, "FusedMatMul", x, _floats(2, 3, 4), transB=1, alpha=0.5)
    yield _one(MICROSOFT, "FusedMatMulActivation", x, _floats(2, 4, 3), activation="Relu")
    yield _one(MICROSOFT, "Gelu", x)
    yield _one(MICROSOFT, "QuickGelu", x, alpha=1.0)
    yield _one(MICROSOFT, "MatMulInteger16", _RNG.integers(0, 9, (2, 3)).astype(np.int16),
               _RNG.integers(0, 9, (3, 4)).astype(np.int16))  # fmt: skip
    yield _one(MICROSOFT, "MatMulIntegerToFloat", _bytes(2, 3), _bytes(3, 4), *(SCALE, SCALE, ZERO, ZERO), _floats(4))
    yield _one(MICROSOFT, "MatMulNBits", _floats(2, 32), _bytes(4, 2, 8), _floats(8), K=32, N=4, bits=4, block_size=16)
    yield _one(MICROSOFT, "MatMulNBits", _floats(2, 32), _bytes(4, 2, 8), _floats(8), _bytes(4), K=32, N=4, bits=4,
               block_size=16, name="MatMulNBits with zero points")  # fmt: skip
    yield _one(MICROSOFT, "QGemm", _bytes(2, 3), *point, _bytes(3, 4), *point, np.zeros(4, np.int32), *point)
    yield _one(MICROSOFT, "QGemm", _bytes(2, 3), *point, _bytes(4, 3), *point, transB=1)
    for kind in ("QLinearAdd", "QLinearMul"):
        yield _one(MICROSOFT, kind, quantised, *point, quantised, *point, *point)
        yield _one(MICROSOFT, kind, quantised, *point, _bytes(1, 4), *point, *point, name=f"{kind} broadcast")
    for last in (0, 1):
        yield _one(MICROSOFT, "QLinearAveragePool", quantised_image, *point, *point, kernel_shape=[2, 2],
                   strides=[2, 2], pads=[1, 1, 0, 0], ceil_mode=1, channels_last=last)  # fmt: skip
        yield _one(MICROSOFT, "QLinearGlobalAveragePool", quantised_image, *point, *point, channels_last=last)
    for axis in (0, 1, 2):
        yield _one(MICROSOFT, "QLinearConcat", *point, quantised, *point, quantised, *point, axis=axis)
    other = (np.array(0.3, np.float32), ZERO)
    yield _one(MICROSOFT, "QLinearConcat", *point, quantised, *point, quantised, *other, axis=1, name="two scales")
    yield _one(MICROSOFT, "QLinearLeakyRelu", quantised, *point, *point, alpha=0.1)
    yield _one(MICROSOFT, "QLinearSigmoid", quantised, *point, *point)
    yield _one(MICROSOFT, "QLinearSoftmax", quantised, *point, *point, axis=-1, opset=13)
    yield _one(MICROSOFT, "QLinearSoftmax", quantised, *point, *point, axis=1, opset=12)
    yield _one(MICROSOFT, "QLinearReduceMean", quantised, *point, *point, axes=[1], keepdims=1)
    yield _one(MICROSOFT, "QLinearWhere", quantised > 3, quantised, *point, quantised, *point, *point)
    for kind in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        beta = [_floats(4)] if kind == "SkipLayerNormalization" else []
        yield _one(MICROSOFT, kind, x, x, _floats(4), *beta, _floats(4), epsilon=1e-5)
        yield _one(MICROSOFT, kind, x, _floats(3, 4), _floats(4), outputs=4, epsilon=1e-5, name=f"{kind} four")


def _machine_learning() -> Iterator[Named]:
    x, codes = _floats(4, 3), np.array([[1, 2], [3, 9]])
    texts = np.array([["a", "b"], ["zz", ""]], object)
    yield _one(ML, "CategoryMapper", codes, cats_int64s=[1, 2, 3], cats_strings=["a", "b", "c"])
    yield _one(ML, "CategoryMapper", texts, cats_int64s=[1, 2, 3], cats_strings=["a", "b", "c"])
    yield _one(ML, "FeatureVectorizer", x, _floats(4, 2), inputdimensions=[3, 2])
    yield _one(ML, "Imputer", x, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=0.0)
    yield _one(ML, "Imputer", codes, imputed_value_int64s=[7], replaced_value_int64=9)
    yield _one(ML, "Normalizer", x, norm="L2")
    yield _one(ML, "Normalizer", x, norm="MAX")
    yield _one(ML, "OneHotEncoder", codes, cats_int64s=[1, 2, 3], zeros=1)
    yield _one(ML, "OneHotEncoder", texts, cats_strings=["a", "b"], zeros=1)
    yield _one(ML, "Scaler", x, offset=[0.0, 1.0, 2.0], scale=[1.0, 2.0, 3.0])
    for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"):
        for classes in (2, 3):
            numbers = [float(each) for each in range(3 * classes)]
            yield _one(ML, "LinearClassifier", x, outputs=2, coefficients=numbers, intercepts=numbers[:classes],
                       classlabels_ints=list(range(classes)), post_transform=transform)  # fmt: skip
        yield _one(ML, "LinearClassifier", x, outputs=2, coefficients=[1.0, 2.0, 3.0], intercepts=[1.0],
                   classlabels_strings=["a", "b"], post_transform=transform)  # fmt: skip
        yield _one(ML, "LinearRegressor", x, coefficients=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], intercepts=[1.0, 2.0],
                   targets=2, post_transform=transform)  # fmt: skip


def _of_scikit_learn() -> Iterator[Named]:
    """Yield the nodes that skl2onnx writes for small estimators."""
    from skl2onnx import to_onnx  # type: ignore[import-untyped]
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
    from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, OneClassSVM

    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 3, 60)
    estimators = [
        SVC(), SVC(kernel="linear"), SVC(kernel="poly", degree=2), SVC(kernel="sigmoid"), NuSVC(), LinearSVC(), SVR(),
        SVR(kernel="linear"), OneClassSVM(), RandomForestClassifier(5, max_depth=3, random_state=0),
        RandomForestClassifier(40, max_depth=2, random_state=0), RandomForestRegressor(5, max_depth=3, random_state=0),
        GradientBoostingRegressor(n_estimators=5, random_state=0),
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for labels in (y, y % 2):
            for estimator in estimators:
                made = to_onnx(estimator.fit(X, labels), X[:1], target_opset={"": 18, ML: 3})
                for node in made.graph.node:
                    if node.domain == ML and node.op_type[:3] in ("SVM", "Tre", "Lin"):
                        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
                        yield _one(ML, node.op_type, X[:4], outputs=len(node.output),
                                   name=f"{estimator!r:.40} {labels.max()}", **attributes)  # fmt: skip


def _chain(name: str, given: dict[str, Any], *nodes: tuple[Any, ...]) -> Named:
    made = []
    for kind, inputs, output, attributes in nodes:
        domain = MICROSOFT if kind.startswith("~") else ""
        made.append(helper.make_node(kind.lstrip("~"), inputs.split(), [output], domain=domain, **attributes))
    return f"chain {name}", _model(made, given, [nodes[-1][2]]), list(given.values())


def _chains() -> Iterator[Named]:
    """Yield what ONNX Runtime's optimiser fuses or lays out in another way."""
    x = _floats(2, 3, 4)
    image = _floats(1, 16, 5, 5)
    convolve = {"pads": [1, 1, 1, 1]}
    yield _chain("products with a bias", {"x": _floats(2, 3), "w": _floats(3, 4), "b": _floats(4)},
                 ("MatMul", "x w", "m", {}), ("Add", "m b", "y", {}))  # fmt: skip
    yield _chain("products, transposed", {"x": x, "w": _floats(2, 3, 4)},
                 ("Transpose", "w", "t", {"perm": [0, 2, 1]}), ("MatMul", "x t", "y", {}))  # fmt: skip
    yield _chain("Conv with Relu", {"x": image, "w": _floats(16, 16, 3, 3), "b": _floats(16)},
                 ("Conv", "x w b", "c", convolve), ("Relu", "c", "y", {}))  # fmt: skip
    yield _chain("Conv in blocks", {"x": image, "w": _floats(16, 16, 3, 3), "v": _floats(16, 16, 1, 1)},
                 ("Conv", "x w", "c", convolve), ("MaxPool", "c", "p", {"kernel_shape": [2, 2]}),
                 ("Conv", "p v", "d", {}), ("GlobalAveragePool", "d", "y", {}))  # fmt: skip
    yield _chain("residual normalisation", {"x": x, "s": x, "g": _floats(4), "b": _floats(4)},
                 ("Add", "x s", "a", {}), ("LayerNormalization", "a g b", "y", {"axis": -1}))  # fmt: skip
    yield _chain("softmax with a bias", {"x": x, "s": x}, ("Add", "x s", "a", {}), ("Softmax", "a", "y", {"axis": -1}))
    yield _chain("attention", {"q": _floats(2, 2, 3, 4), "k": _floats(2, 2, 4, 3), "v": _floats(2, 2, 3, 4)},
                 ("MatMul", "q k", "s", {}), ("Softmax", "s", "p", {"axis": -1}),
                 ("MatMul", "p v", "y", {}))  # fmt: skip
    scaled = {"s": SCALE, "z": ZERO}
    for kind, arity in (("Relu", 1), ("Sigmoid", 1), ("Add", 2), ("Mul", 2), ("Concat", 2), ("Where", 2), ("MatMul", 2),
                        ("Softmax", 1), ("GlobalAveragePool", 1), ("AveragePool", 1), ("ReduceMean", 1), ("Gemm", 2),
                        ("Conv", 2), ("Transpose", 1), ("Split", 1), ("ArgMax", 1)):  # fmt: skip
        yield _quantised(kind, arity, scaled)
    yield _chain("cuts joined", {"x": _floats(3, 4), "n": _ints(0)},
                 ("Slice", "x n n", "e", {}), ("Concat", "x e", "y", {"axis": 1}))  # fmt: skip


def _quantised(kind: str, arity: int, scaled: dict[str, Any]) -> Named:
    """Return an operator between numbers that are dequantised and quantised."""
    flat = kind in ("MatMul", "Gemm")
    first = _bytes(2, 3) if flat else _bytes(1, 2, 5, 5)
    second = _bytes(3, 4) if flat else _bytes(3, 2, 3, 3) if kind == "Conv" else _bytes(1, 2, 5, 5)
    given = {"x": first, **({"w": second} if arity == 2 else {}), **scaled}
    attributes = {"Concat": {"axis": 1}, "AveragePool": {"kernel_shape": [2, 2]}, "ReduceMean": {"keepdims": 1}}
    nodes: list[tuple[Any, ...]] = [("DequantizeLinear", "x s z", "dx", {})]
    inputs = "dx"
    if arity == 2:
        nodes.append(("DequantizeLinear", "w s z", "dw", {}))
        inputs = "dx dw"
    if kind == "Where":
        given["c"] = first > 3
        inputs = "c dx dw"
    nodes.append((kind, inputs, "r", attributes.get(kind, {"num_outputs": 1} if kind == "Split" else {})))
    if kind != "ArgMax":
        nodes.append(("QuantizeLinear", "r s z", "q", {}))
    return _chain(f"quantised {kind}", given, *nodes)
