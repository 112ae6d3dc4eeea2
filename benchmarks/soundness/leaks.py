"""Plants leaks in ONNX models with an entry, and counts how many of them the checker calls VALID: none may be.

    python benchmarks/soundness/leaks.py --leaks 10000

Every case is a random spec, an entry for it and an honest model behind it, which must be VALID. Then it gets a leak:
the file, the data of the certificate or both are changed so that the output may depend on more than the class. The
digest of the file in the certificate is always the right one, because whoever writes a leak writes both. Where ONNX
Runtime loads the file, it is run as well, to count the leaks that show in bits: they are leaks and not only odd files.
Random changes may be harmless: of these, only those may not be VALID that show.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2]))

import fairmend_check
from benchmarks.soundness.entry_cases import (
    ELEMENTS,
    RELATIONS,
    EntryCase,
    classes_of,
    encoded,
    random_case,
    with_entry,
)
from fairmend.prove.certificate import certificate_of_classes
from fairmend.spec import Spec
from fairmend_check.kernel.entry import read_entry
from fairmend_check.kernel.spec import read_spec
from fairmend_check.run.compare import class_members

Rng = np.random.Generator
Leak = Callable[[EntryCase, Rng], "bytes | None"]
ENTRY = "fairmend_entry/"
LEAKS: dict[str, Leak] = {}


def leak(function: Leak) -> Leak:
    """Register a leak: it changes a case and returns None, or returns the bytes of the file."""
    LEAKS[function.__name__.lstrip("_")] = function
    return function


class NotPossibleError(Exception):
    """A case has nothing that this leak needs."""


# Helpers


def _protected(case: EntryCase, rng: Rng) -> tuple[dict[str, Any], int, int]:
    """Return a feature that is ignored, its port and its first column there."""
    names = [f["name"] for f in case.spec["feature"] if f.get("protected")]
    name = str(rng.choice(names))
    return case.feature(name), *case.port_of(name)


def _signal(case: EntryCase, source: str, rng: Rng, tag: str = "leak") -> tuple[list[Any], list[Any], str]:
    """Return nodes and constants that make one number for each row of a protected column of a value like a port."""
    feature, number, column = _protected(case, rng)
    port = case.entry["ports"][number]
    source = source or port["name"]
    nodes, constants = [], []

    def constant(name: str, array: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(array), f"{tag}_{name}"))
        return f"{tag}_{name}"

    if port["type"] == "string":
        texts = feature["categories"]
        nodes.append(
            helper.make_node(
                "LabelEncoder", [source], [f"{tag}_numbers"], domain="ai.onnx.ml", keys_strings=texts,
                values_floats=[float(at + 1) for at in range(len(texts))], default_float=0.0,
            )
        )  # fmt: skip
    else:
        nodes.append(helper.make_node("Cast", [source], [f"{tag}_numbers"], to=TensorProto.FLOAT))
    shape = constant("shape", np.array([-1, port["width"]]))
    nodes.append(helper.make_node("Reshape", [f"{tag}_numbers", shape], [f"{tag}_rows"]))
    index = constant("index", np.array(column))
    nodes.append(helper.make_node("Gather", [f"{tag}_rows", index], [f"{tag}_signal"], axis=1))
    return nodes, constants, f"{tag}_signal"


def _count_of_entry(case: EntryCase) -> int:
    return sum(node.name.startswith(ENTRY) for node in case.model.graph.node)


def _add_to_score(case: EntryCase, nodes: list[Any], constants: list[Any], signal: str) -> None:
    """Let the output be the raw score plus a signal, through a sigmoid."""
    graph = case.model.graph
    graph.initializer.extend(constants)
    last = graph.node.pop()
    graph.node.extend(nodes)
    graph.node.append(helper.make_node("Add", ["raw_score", signal], ["leaking_score"]))
    last.input[0] = "leaking_score"
    graph.node.append(last)


def _float(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _node(case: EntryCase, end: str, rng: Rng) -> Any:
    """Return a node of the entry whose name ends like this."""
    found = [node for node in case.model.graph.node if node.name.startswith(ENTRY) and node.name.endswith(end)]
    if not found:
        raise NotPossibleError
    return found[int(rng.integers(len(found)))]


def _constant(case: EntryCase, end: str, rng: Rng) -> Any:
    found = [each for each in case.model.graph.initializer if each.name.startswith(ENTRY) and each.name.endswith(end)]
    if not found:
        raise NotPossibleError
    return found[int(rng.integers(len(found)))]


def _rewrite(case: EntryCase) -> None:
    """Write the entry of the data into the file again."""
    case.model = with_entry(case.bare, case.entry)


def _lookup(case: EntryCase, *, banded: bool = False) -> dict[str, Any]:
    """Return the look-up of what links set, or that of a feature with bands."""
    place = case.port_of("savings")
    for each in case.entry["lookups"]:
        if ((each["port"], each["columns"][0]) == place) == banded:
            found: dict[str, Any] = each
            return found
    raise NotPossibleError


# Other ways to the inputs


@leak
def _another_path(case: EntryCase, rng: Rng) -> None:
    _add_to_score(case, *_signal(case, "", rng))


@leak
def _identity_chain(case: EntryCase, rng: Rng) -> None:
    nodes, constants, signal = _signal(case, "chain_0", rng)
    source = _source_of(case, constants)
    links = int(rng.integers(1, 6))
    chain = [
        helper.make_node("Identity", [source if at == links else f"chain_{at + 1}"], [f"chain_{at}"])
        for at in range(links, -1, -1)
    ]
    _add_to_score(case, [*chain, *nodes], constants, signal)


def _source_of(case: EntryCase, constants: list[Any]) -> str:
    """Return the name of the port whose width a signal has."""
    width = int(numpy_helper.to_array(constants[0])[1])
    names = {f["name"] for f in case.spec["feature"] if f.get("protected")}
    for port in case.entry["ports"]:
        if port["width"] == width and names & set(port["features"]):
            return str(port["name"])
    raise NotPossibleError


@leak
def _shape_of_the_input(case: EntryCase, rng: Rng) -> None:
    port = case.entry["ports"][_protected(case, rng)[1]]["name"]
    nodes = [
        helper.make_node("Shape", [port], ["leak_shape"]),
        helper.make_node("Cast", ["leak_shape"], ["leak_sizes"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["leak_sizes"], ["leak_signal"], keepdims=0),
    ]
    _add_to_score(case, nodes, [], "leak_signal")


@leak
def _gather_of_a_protected_index(case: EntryCase, rng: Rng) -> None:
    _, number, column = _protected(case, rng)
    port = case.entry["ports"][number]
    if port["type"] == "string" or port["rank"] == 1:
        raise NotPossibleError
    index = numpy_helper.from_array(np.array(column), "leak_index")
    nodes = [
        helper.make_node("Gather", [port["name"], "leak_index"], ["leak_column"], axis=1),
        helper.make_node("Cast", ["leak_column"], ["leak_signal"], to=TensorProto.FLOAT),
    ]
    _add_to_score(case, nodes, [index], "leak_signal")


@leak
def _a_branch_captures_the_input(case: EntryCase, rng: Rng) -> None:
    nodes, constants, signal = _signal(case, "", rng)
    yes = numpy_helper.from_array(np.array(True), "leak_yes")
    inner = helper.make_graph(nodes, "leak_then", [], [_float(signal)])
    other = helper.make_graph([helper.make_node("Neg", ["raw_score"], ["leak_else"])], "no", [], [_float("leak_else")])
    node = helper.make_node("If", ["leak_yes"], ["leak_branch"], then_branch=inner, else_branch=other)
    _add_to_score(case, [node], [*constants, yes], "leak_branch")


@leak
def _a_loop_in_a_branch_captures_the_input(case: EntryCase, rng: Rng) -> None:
    nodes, constants, signal = _signal(case, "", rng)
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["leak_in"], ["leak_out"]),
            *nodes,
            helper.make_node("Add", ["leak_state", signal], ["leak_next"]),
        ],
        "leak_body",
        [
            helper.make_tensor_value_info("leak_number", TensorProto.INT64, []),
            helper.make_tensor_value_info("leak_in", TensorProto.BOOL, []),
            _float("leak_state"),
        ],
        [helper.make_tensor_value_info("leak_out", TensorProto.BOOL, []), _float("leak_next")],
    )
    loop = helper.make_node("Loop", ["leak_times", "leak_yes", "raw_score"], ["leak_looped"], body=body)
    inner = helper.make_graph([loop], "leak_then", [], [_float("leak_looped")])
    other = helper.make_graph([helper.make_node("Neg", ["raw_score"], ["leak_else"])], "no", [], [_float("leak_else")])
    node = helper.make_node("If", ["leak_yes"], ["leak_branch"], then_branch=inner, else_branch=other)
    more = [numpy_helper.from_array(np.array(True), "leak_yes"), numpy_helper.from_array(np.array(2), "leak_times")]
    _add_to_score(case, [node], [*constants, *more], "leak_branch")


@leak
def _a_second_input(case: EntryCase, rng: Rng) -> None:
    case.model.graph.input.append(helper.make_tensor_value_info("again", TensorProto.FLOAT, ["N"]))
    _add_to_score(case, [], [], "again")


@leak
def _string_columns(case: EntryCase, rng: Rng) -> None:
    for _ in range(20):
        nodes, constants, signal = _signal(case, "", rng)
        if nodes[0].op_type == "LabelEncoder":
            _add_to_score(case, nodes, constants, signal)
            return
    raise NotPossibleError


@leak
def _dynamic_weights(case: EntryCase, rng: Rng) -> None:
    nodes, constants, signal = _signal(case, "", rng)
    nodes.append(helper.make_node("Mul", ["raw_score", signal], ["leak_product"]))
    _add_to_score(case, nodes, constants, "leak_product")


@leak
def _another_output(case: EntryCase, rng: Rng) -> None:
    port = case.entry["ports"][_protected(case, rng)[1]]
    case.model.graph.output.append(helper.make_tensor_value_info("copy", ELEMENTS[port["type"]], None))
    case.model.graph.node.append(helper.make_node("Identity", [port["name"]], ["copy"]))


@leak
def _the_input_is_an_output(case: EntryCase, rng: Rng) -> None:
    port = case.entry["ports"][_protected(case, rng)[1]]
    case.model.graph.output.append(helper.make_tensor_value_info(port["name"], ELEMENTS[port["type"]], None))


@leak
def _a_value_inside_the_entry(case: EntryCase, rng: Rng) -> None:
    inner = [
        node
        for node in case.model.graph.node
        if node.name.startswith(ENTRY) and node.name.rsplit("/", 1)[1] in ("code", "sum", "part", "index_1")
    ]
    if not inner:
        raise NotPossibleError
    source = inner[int(rng.integers(len(inner)))].output[0]
    nodes = [helper.make_node("Cast", [source], ["leak_signal"], to=TensorProto.FLOAT)]
    _add_to_score(case, nodes, [], "leak_signal")


@leak
def _raw_columns_inside_the_entry(case: EntryCase, rng: Rng) -> None:
    node = _node(case, "/read", rng)
    kind = next(
        each.data_type for each in case.model.graph.initializer if each.name == node.name.replace("/read", "/with")
    )
    if kind == TensorProto.STRING:
        raise NotPossibleError
    axes = numpy_helper.from_array(np.array([1]), "leak_axes")
    nodes = [
        helper.make_node("Cast", [node.output[0]], ["leak_columns"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["leak_columns", "leak_axes"], ["leak_signal"], keepdims=0),
    ]
    _add_to_score(case, nodes, [axes], "leak_signal")


@leak
def _an_attribute_graph_of_another_operator(case: EntryCase, rng: Rng) -> None:
    nodes, constants, signal = _signal(case, "", rng)
    node = helper.make_node("Identity", ["raw_score"], ["leak_same"])
    node.attribute.append(helper.make_attribute("body", helper.make_graph(nodes, "leak", [], [_float(signal)])))
    _add_to_score(case, [node], constants, "leak_same")


# Functions, domains, state


def _call(case: EntryCase, function: Any, inputs: list[str], domain: str, constants: list[Any]) -> None:
    case.model.functions.append(function)
    if all(each.domain != domain for each in case.model.opset_import):
        case.model.opset_import.append(helper.make_opsetid(domain, 1))
    node = helper.make_node(function.name, inputs, ["leak_called"], domain=domain)
    _add_to_score(case, [node], constants, "leak_called")


def _opset(case: EntryCase) -> Any:
    return next(each for each in case.model.opset_import if not each.domain)


@leak
def _a_function_captures_the_input(case: EntryCase, rng: Rng) -> None:
    nodes, constants, signal = _signal(case, "", rng)
    imports = [helper.make_opsetid("", _opset(case).version), helper.make_opsetid("ai.onnx.ml", 3)]
    body = [helper.make_node("Constant", [], [each.name], value=each) for each in constants]
    body += [*nodes, helper.make_node("Add", ["x", signal], ["y"])]
    function = helper.make_function("hidden", "Copy", ["x"], ["y"], body, imports)
    _call(case, function, ["raw_score"], "hidden", [])


@leak
def _a_function_gets_the_input(case: EntryCase, rng: Rng) -> None:
    nodes, constants, signal = _signal(case, "z", rng)
    imports = [helper.make_opsetid("", _opset(case).version), helper.make_opsetid("ai.onnx.ml", 3)]
    body = [helper.make_node("Constant", [], [each.name], value=each) for each in constants]
    body += [*nodes, helper.make_node("Add", ["x", signal], ["y"])]
    function = helper.make_function("hidden", "Both", ["x", "z"], ["y"], body, imports)
    _call(case, function, ["raw_score", _source_of(case, constants)], "hidden", [])


@leak
def _a_function_reads_a_name_before_it_is_computed(case: EntryCase, rng: Rng) -> None:
    """ONNX Runtime gives new names to the values of a function as it meets them; before, a name is one of the graph."""
    nodes, constants, signal = _signal(case, "", rng)
    port = next(name for name in nodes[0].input if name)
    imports = [helper.make_opsetid("", _opset(case).version), helper.make_opsetid("ai.onnx.ml", 3)]
    body = [helper.make_node("Constant", [], [each.name], value=each) for each in constants]
    body += [*nodes, helper.make_node("Add", ["x", signal], ["y"]), helper.make_node("Identity", ["x"], [port])]
    function = helper.make_function("hidden", "Early", ["x"], ["y"], body, imports)
    _call(case, function, ["raw_score"], "hidden", [])


@leak
def _dropout_switched_by_an_attribute(case: EntryCase, rng: Rng) -> None:
    ratio, off = np.array(0.5, np.float32), np.array(False)
    body = [
        helper.make_node("Constant", [], ["ratio"], value=numpy_helper.from_array(ratio)),
        helper.make_node("Constant", [], ["switch"], value=numpy_helper.from_array(off)),
        helper.make_node("Dropout", ["x", "ratio", "switch"], ["y"]),
    ]
    body[1].attribute[0].ref_attr_name = "mode"
    imports = [helper.make_opsetid("", _opset(case).version)]
    _call(
        case, helper.make_function("hidden", "Drop", ["x"], ["y"], body, imports, ["mode"]), ["raw_score"], "hidden", []
    )
    call = next(node for node in case.model.graph.node if node.op_type == "Drop")
    call.attribute.append(helper.make_attribute("mode", numpy_helper.from_array(np.array(True))))


@leak
def _a_graph_given_to_a_function(case: EntryCase, rng: Rng) -> None:
    """In the function, the switch of the dropout is another value than in the graph that gives it."""
    branch = onnx.AttributeProto(name="then_branch", ref_attr_name="branch", type=onnx.AttributeProto.GRAPH)
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["else"])], "no", [], [_float("else")])
    node = helper.make_node("If", ["switch"], ["y"], else_branch=other)
    node.attribute.append(branch)
    imports = [helper.make_opsetid("", _opset(case).version)]
    function = helper.make_function("hidden", "Choose", ["x", "switch"], ["y"], [node], imports, ["branch"])
    constants = [
        numpy_helper.from_array(np.array(0.5, np.float32), "leak_ratio"),
        numpy_helper.from_array(np.array(True), "leak_yes"),
        numpy_helper.from_array(np.array(False), "switch"),
    ]
    _call(case, function, ["raw_score", "leak_yes"], "hidden", constants)
    drop = helper.make_node("Dropout", ["raw_score", "leak_ratio", "switch"], ["leak_dropped"])
    graph = helper.make_graph([drop], "leak_then", [], [_float("leak_dropped")])
    call = next(node for node in case.model.graph.node if node.op_type == "Choose")
    call.attribute.append(helper.make_attribute("branch", graph))


@leak
def _a_function_replaces_an_operator(case: EntryCase, rng: Rng) -> None:
    kind = str(rng.choice(["Where", "Gather"]))
    arity = 3 if kind == "Where" else 2
    names = ["a", "b", "c"][:arity]
    body = [helper.make_node("Identity", [names[-1] if kind == "Where" else "a"], ["y"])]
    domain = str(rng.choice(["", "ai.onnx"]))
    function = helper.make_function(domain, kind, names, ["y"], body, [helper.make_opsetid("", _opset(case).version)])
    case.model.functions.append(function)


@leak
def _a_custom_domain(case: EntryCase, rng: Rng) -> None:
    domain = str(rng.choice(["custom", "ai.onnx.contrib", "com.microsoft", "ai.onnx.preview.training"]))
    if all(each.domain != domain for each in case.model.opset_import):
        case.model.opset_import.append(helper.make_opsetid(domain, 1))
    node = helper.make_node("Remember", ["raw_score"], ["leak_same"], domain=domain)
    _add_to_score(case, [node], [], "leak_same")


@leak
def _random_numbers(case: EntryCase, rng: Rng) -> None:
    later = ["Bernoulli"] if _opset(case).version >= 15 else []
    kind = str(rng.choice(["RandomNormalLike", "RandomUniformLike", *later]))
    nodes = [
        helper.make_node("Sigmoid", ["raw_score"], ["leak_chance"]),
        helper.make_node(kind, ["leak_chance"], ["leak_random"]),
    ]
    _add_to_score(case, nodes, [], "leak_random")


@leak
def _dropout_in_training(case: EntryCase, rng: Rng) -> None:
    constants = [
        numpy_helper.from_array(np.array(0.5, np.float32), "leak_ratio"),
        numpy_helper.from_array(np.array(True), "leak_training"),
    ]
    switch, nodes = "leak_training", []
    if rng.random() < 0.5:
        nodes.append(helper.make_node("IsNaN", ["raw_total"], ["leak_nan"]))
        nodes.insert(0, helper.make_node("ReduceMax", ["raw_score"], ["raw_total"], keepdims=0))
        nodes.append(helper.make_node("Not", ["leak_nan"], ["leak_switch"]))
        switch = "leak_switch"
    nodes.append(helper.make_node("Dropout", ["raw_score", "leak_ratio", switch], ["leak_dropped"]))
    _add_to_score(case, nodes, constants, "leak_dropped")


# Memory that a node leaves as it was: there may be columns of other people in it, or of this one


def _empty_product(case: EntryCase, nodes: list[Any], kind: Any) -> None:
    """Add to the score what a product of whole numbers over no columns leaves in memory; weights are of a kind."""
    given = {"leak_0": np.array([0]), "leak_1": np.array([1]), "leak_column": np.array([-1, 1])}
    given |= {"leak_w": np.zeros((0, 1 + len(case.entry["cuts"])), kind), "leak_zero": np.array(0, kind)}
    given["leak_scale"] = np.array(0.1, np.float32)
    before = [
        helper.make_node("Reshape", ["raw_score", "leak_column"], ["leak_rows"]),
        helper.make_node("Slice", ["leak_rows", "leak_0", "leak_0", "leak_1"], ["leak_empty"]),
    ]
    after = helper.make_node("ReduceSum", ["leak_product", "leak_1"], ["leak_signal"], keepdims=0)
    tensors = [numpy_helper.from_array(array, name) for name, array in given.items()]
    _add_to_score(case, [*before, *nodes, after], tensors, "leak_signal")


@leak
def _a_product_over_no_columns(case: EntryCase, rng: Rng) -> None:
    node = helper.make_node(
        "DynamicQuantizeMatMul", ["leak_empty", "leak_w", "leak_scale"], ["leak_product"], domain="com.microsoft"
    )
    _import_microsoft(case)
    _empty_product(case, [node], np.int8)


@leak
def _a_product_of_integers_over_no_columns(case: EntryCase, rng: Rng) -> None:
    nodes = [
        helper.make_node("Cast", ["leak_empty"], ["leak_bytes"], to=TensorProto.UINT8),
        helper.make_node("MatMulInteger", ["leak_bytes", "leak_w"], ["leak_whole"]),
        helper.make_node("Cast", ["leak_whole"], ["leak_product"], to=TensorProto.FLOAT),
    ]
    _empty_product(case, nodes, np.uint8)


@leak
def _a_product_of_floats_that_becomes_one_of_integers(case: EntryCase, rng: Rng) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["leak_empty", "leak_scale", "leak_zero"], ["leak_bytes"]),
        helper.make_node("DequantizeLinear", ["leak_bytes", "leak_scale", "leak_zero"], ["leak_left"]),
        helper.make_node("DequantizeLinear", ["leak_w", "leak_scale", "leak_zero"], ["leak_right"]),
        helper.make_node("MatMul", ["leak_left", "leak_right"], ["leak_product"]),
    ]
    _empty_product(case, nodes, np.uint8)


@leak
def _rows_that_are_joined_with_no_rows(case: EntryCase, rng: Rng) -> None:
    """ONNX Runtime makes room for the columns of an input without rows, and writes nothing there."""
    nodes = [
        helper.make_node("Slice", ["hidden_0", "leak_0", "leak_0", "leak_0"], ["leak_no_rows"]),
        helper.make_node("Concat", ["hidden_0", "leak_no_rows"], ["leak_joined"], axis=1),
        helper.make_node("ReduceSum", ["leak_joined", "leak_1"], ["leak_signal"], keepdims=0),
    ]
    tensors = [numpy_helper.from_array(np.array([at]), f"leak_{at}") for at in range(2)]
    _add_to_score(case, nodes, tensors, "leak_signal")


@leak
def _quantised_rows_that_are_joined_with_no_rows(case: EntryCase, rng: Rng) -> None:
    """The same as a product of ONNX Runtime's own quantisation."""
    _import_microsoft(case)
    point = ["leak_scale", "leak_zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["hidden_0", *point], ["leak_bytes"]),
        helper.make_node("Slice", ["leak_bytes", "leak_0", "leak_0", "leak_0"], ["leak_no_rows"]),
        helper.make_node(
            "QLinearConcat", [*point, "leak_bytes", *point, "leak_no_rows", *point], ["leak_joined"], axis=1,
            domain="com.microsoft",
        ),
        helper.make_node("DequantizeLinear", ["leak_joined", *point], ["leak_numbers"]),
        helper.make_node("ReduceSum", ["leak_numbers", "leak_1"], ["leak_signal"], keepdims=0),
    ]  # fmt: skip
    given = {"leak_0": np.array([0]), "leak_1": np.array([1])}
    given |= {"leak_scale": np.array(0.1, np.float32), "leak_zero": np.array(0, np.uint8)}
    _add_to_score(case, nodes, [numpy_helper.from_array(array, name) for name, array in given.items()], "leak_signal")


def _import_microsoft(case: EntryCase) -> None:
    if all(each.domain != "com.microsoft" for each in case.model.opset_import):
        case.model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


@leak
def _a_product_with_a_constant_without_entries(case: EntryCase, rng: Rng) -> None:
    """ONNX Runtime does not write a product of floats over no columns if it laid out a constant factor beforehand."""
    given = {"leak_0": np.array([0]), "leak_1": np.array([1]), "leak_column": np.array([-1, 1])}
    given["leak_w"] = np.zeros(0, np.float32)
    nodes = [
        helper.make_node("Reshape", ["raw_score", "leak_column"], ["leak_rows"]),
        helper.make_node("Slice", ["leak_rows", "leak_0", "leak_0", "leak_1"], ["leak_empty"]),
        helper.make_node("MatMul", ["leak_empty", "leak_w"], ["leak_signal"]),
    ]
    _add_to_score(case, nodes, [numpy_helper.from_array(array, name) for name, array in given.items()], "leak_signal")


@leak
def _a_classifier_with_too_few_intercepts(case: EntryCase, rng: Rng) -> None:
    """ONNX Runtime writes one score for each row, and has room for two."""
    if all(each.domain != "ai.onnx.ml" for each in case.model.opset_import):
        case.model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    nodes = [
        helper.make_node("Reshape", ["raw_score", "leak_column"], ["leak_rows"]),
        helper.make_node(
            "LinearClassifier", ["leak_rows"], ["leak_label", "leak_both"], domain="ai.onnx.ml", coefficients=[1.0],
            intercepts=[0.0], classlabels_strings=["no", "yes"], post_transform="SOFTMAX",
        ),
        helper.make_node("ReduceSum", ["leak_both", "leak_1"], ["leak_signal"], keepdims=0),
    ]  # fmt: skip
    given = {"leak_column": np.array([-1, 1]), "leak_1": np.array([1])}
    _add_to_score(case, nodes, [numpy_helper.from_array(array, name) for name, array in given.items()], "leak_signal")


@leak
def _a_sequence_of_no_steps(case: EntryCase, rng: Rng) -> None:
    """ONNX Runtime 1.22 does not write the last state of a sequence of length 0."""
    constants = {"leak_shape": np.array([-1, 1, 1]), "leak_lengths": np.array([0], np.int32)}
    constants |= {"leak_w": np.ones((1, 8, 1), np.float32), "leak_r": np.ones((1, 8, 8), np.float32)}
    nodes = [
        helper.make_node("Reshape", ["raw_score", "leak_shape"], ["leak_steps"]),
        helper.make_node(
            "RNN", ["leak_steps", "leak_w", "leak_r", "", "leak_lengths"], ["", "leak_state"], hidden_size=8
        ),
        helper.make_node("ReduceMax", ["leak_state"], ["leak_signal"], keepdims=0),
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    _add_to_score(case, nodes, tensors, "leak_signal")


@leak
def _randomness_in_a_function(case: EntryCase, rng: Rng) -> None:
    body = [helper.make_node("RandomUniformLike", ["x"], ["y"])]
    function = helper.make_function(
        "hidden", "Noise", ["x"], ["y"], body, [helper.make_opsetid("", _opset(case).version)]
    )
    _call(case, function, ["raw_score"], "hidden", [])


@leak
def _training_information(case: EntryCase, rng: Rng) -> None:
    case.model.training_info.add().algorithm.CopyFrom(case.bare.graph)


@leak
def _settings_in_a_note(case: EntryCase, rng: Rng) -> None:
    case.model.metadata_props.add(key="ort_config", value="{}")


# Constants and names


@leak
def _a_constant_that_callers_replace(case: EntryCase, rng: Rng) -> None:
    chosen = case.model.graph.initializer[int(rng.integers(len(case.model.graph.initializer)))]
    case.model.graph.input.append(helper.make_tensor_value_info(chosen.name, chosen.data_type, list(chosen.dims)))


@leak
def _an_old_format_with_replaceable_constants(case: EntryCase, rng: Rng) -> None:
    case.model.ir_version = 3
    for each in case.model.graph.initializer:
        case.model.graph.input.append(helper.make_tensor_value_info(each.name, each.data_type, list(each.dims)))


@leak
def _a_name_twice(case: EntryCase, rng: Rng) -> None:
    entry = [node for node in case.model.graph.node if node.name.startswith(ENTRY)]
    name = entry[int(rng.integers(len(entry)))].output[0]
    port = case.entry["ports"][_protected(case, rng)[1]]["name"]
    at = int(rng.integers(len(entry), len(case.model.graph.node)))
    node = helper.make_node("Identity", [port if rng.random() < 0.5 else "hidden_0"], [name])
    case.model.graph.node.insert(at, node)


@leak
def _a_constant_twice(case: EntryCase, rng: Rng) -> None:
    chosen = _constant(case, "", rng)
    other = copy.deepcopy(chosen)
    if other.data_type == TensorProto.STRING:
        other.string_data[0] = b"other"
    else:
        array = numpy_helper.to_array(other).copy()
        array.reshape(-1)[0] = not array.reshape(-1)[0]
        other.CopyFrom(numpy_helper.from_array(array, other.name))
    case.model.graph.initializer.insert(int(rng.integers(2)) * len(case.model.graph.initializer), other)


@leak
def _a_name_shadowed_in_a_branch(case: EntryCase, rng: Rng) -> None:
    results = [node.output[0] for node in case.model.graph.node if node.name.startswith(ENTRY)]
    name = str(rng.choice([*results, *(port["name"] for port in case.entry["ports"]), "hidden_0"]))
    inner = helper.make_graph([helper.make_node("Neg", ["raw_score"], [name])], "leak_then", [], [_float(name)])
    other = helper.make_graph([helper.make_node("Abs", ["raw_score"], ["leak_else"])], "no", [], [_float("leak_else")])
    node = helper.make_node("If", ["leak_yes"], ["leak_branch"], then_branch=inner, else_branch=other)
    _add_to_score(case, [node], [numpy_helper.from_array(np.array(True), "leak_yes")], "leak_branch")


@leak
def _a_name_like_those_of_the_entry(case: EntryCase, rng: Rng) -> None:
    name = ENTRY + str(rng.choice(["0/more", "9/where", "lookup_7/found", "0/wher\u0435"]))
    _add_to_score(case, [helper.make_node("Neg", ["raw_score"], [name])], [], name)


@leak
def _a_declared_value_of_the_entry(case: EntryCase, rng: Rng) -> None:
    node = _node(case, "", rng)
    case.model.graph.value_info.append(helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, [1, 1]))


# The entry in the file is another one than in the certificate


@leak
def _a_mask_with_a_hole(case: EntryCase, rng: Rng) -> None:
    mask = _constant(case, "/mask", rng)
    array = numpy_helper.to_array(mask).copy()
    cut = np.flatnonzero(array.reshape(-1))
    array.reshape(-1)[rng.choice(cut)] = False
    mask.CopyFrom(numpy_helper.from_array(array, mask.name))


@leak
def _another_constant(case: EntryCase, rng: Rng) -> None:
    chosen = _constant(case, "", rng)
    if chosen.data_type == TensorProto.STRING:
        at = int(rng.integers(len(chosen.string_data)))
        chosen.string_data[at] = chosen.string_data[at] + b"x"
        return
    array = numpy_helper.to_array(chosen).copy()
    flat = array.reshape(-1)
    at = int(rng.integers(len(flat)))
    if array.dtype.kind == "f":
        flat[at] = rng.choice([np.nan, np.inf, np.nextafter(flat[at], 1e9), -flat[at] if flat[at] else -0.0])
    else:
        flat[at] = not flat[at] if array.dtype == bool else flat[at] + int(rng.choice([-1, 1]))
    chosen.CopyFrom(numpy_helper.from_array(array, chosen.name))


@leak
def _another_shape_of_a_constant(case: EntryCase, rng: Rng) -> None:
    chosen = _constant(case, "", rng)
    dims = list(chosen.dims)
    del chosen.dims[:]
    chosen.dims.extend([*dims, 1] if rng.random() < 0.5 else [1, *dims])


@leak
def _another_type_of_a_constant(case: EntryCase, rng: Rng) -> None:
    chosen = _constant(case, str(rng.choice(["/order", "/kept", "/weights", "/columns", "/reference"])), rng)
    if chosen.data_type == TensorProto.STRING:
        raise NotPossibleError
    array = numpy_helper.to_array(chosen)
    chosen.CopyFrom(
        numpy_helper.from_array(array.astype(np.int32 if array.dtype == np.int64 else np.int64), chosen.name)
    )


@leak
def _another_axis(case: EntryCase, rng: Rng) -> None:
    found = [n for n in case.model.graph.node if n.name.startswith(ENTRY) and n.attribute]
    if not found:
        raise NotPossibleError
    attribute = found[int(rng.integers(len(found)))].attribute[0]
    attribute.i = int(rng.choice([each for each in (-1, 0, 1, 2, 6, 9) if each != attribute.i]))


@leak
def _another_attribute(case: EntryCase, rng: Rng) -> None:
    node = _node(case, str(rng.choice(["/sum", "/counted", "/all", "/ordered", "/where"])), rng)
    name = {"ReduceSum": "noop_with_empty_axes", "Cast": "saturate"}.get(node.op_type, "hidden")
    node.attribute.append(helper.make_attribute(name, 1))


@leak
def _another_operator(case: EntryCase, rng: Rng) -> None:
    node = _node(case, "", rng)
    others = {
        "GreaterOrEqual": "Greater",
        "Min": "Max",
        "Add": "Sub",
        "Mul": "Add",
        "Where": "Add",
        "Or": "And",
        "And": "Or",
        "ReduceSum": "ReduceMax",
    }
    node.op_type = others.get(node.op_type, "Identity")


@leak
def _another_input_of_a_node(case: EntryCase, rng: Rng) -> None:
    node = _node(case, "", rng)
    at = int(rng.integers(len(node.input)))
    values = [each.output[0] for each in case.model.graph.node if each.name.startswith(ENTRY)]
    values += [each.name for each in case.model.graph.initializer] + [port["name"] for port in case.entry["ports"]]
    node.input[at] = str(rng.choice([each for each in values if each != node.input[at]]))


@leak
def _inputs_of_where_swapped(case: EntryCase, rng: Rng) -> None:
    node = _node(case, "/where", rng)
    first, second = (1, 2) if node.op_type == "Where" else (0, 1)  # an And of truth values has two
    node.input[first], node.input[second] = node.input[second], node.input[first]


@leak
def _a_domain_for_a_node_of_the_entry(case: EntryCase, rng: Rng) -> None:
    node = _node(case, "", rng)
    node.domain = str(rng.choice(["custom", "com.microsoft", "ai.onnx.ml"]))


@leak
def _a_node_of_the_entry_is_missing(case: EntryCase, rng: Rng) -> None:
    node = _node(case, str(rng.choice(["/where", "/ordered"])), rng)
    source = node.input[2] if node.op_type == "Where" else node.input[0]
    case.model.graph.node.remove(node)
    for each in case.model.graph.node:
        for at, name in enumerate(each.input):
            each.input[at] = source if name == node.output[0] else name


@leak
def _a_node_before_the_entry(case: EntryCase, rng: Rng) -> None:
    port = case.entry["ports"][_protected(case, rng)[1]]["name"]
    case.model.graph.node.insert(0, helper.make_node("Identity", [port], ["leak_early"]))


@leak
def _nodes_of_the_entry_in_another_order(case: EntryCase, rng: Rng) -> None:
    count = _count_of_entry(case)
    if count < 2:
        raise NotPossibleError
    first, second = rng.choice(count, 2, replace=False)
    nodes = list(case.model.graph.node)
    nodes[first], nodes[second] = nodes[second], nodes[first]
    del case.model.graph.node[:]
    case.model.graph.node.extend(nodes)


@leak
def _constants_of_the_entry_outside_the_file(case: EntryCase, rng: Rng) -> None:
    chosen = _constant(case, str(rng.choice(["/mask", "/reference", "/table"])), rng)
    chosen.ClearField("raw_data")
    chosen.data_location = TensorProto.EXTERNAL
    chosen.external_data.add(key="location", value="other.bin")


@leak
def _sparse_constants(case: EntryCase, rng: Rng) -> None:
    chosen = _constant(case, str(rng.choice(["/mask", "/reference", "/kept"])), rng)
    sparse = case.model.graph.sparse_initializer.add()
    sparse.values.CopyFrom(chosen)
    sparse.dims.extend(chosen.dims)
    case.model.graph.initializer.remove(chosen)


@leak
def _an_older_version_of_the_operators(case: EntryCase, rng: Rng) -> None:
    _opset(case).version = int(rng.choice([1, 7, 8]))


@leak
def _an_unknown_version_of_the_operators(case: EntryCase, rng: Rng) -> None:
    _opset(case).version = int(rng.choice([29, 99]))


@leak
def _two_versions_of_the_operators(case: EntryCase, rng: Rng) -> None:
    case.model.opset_import.append(helper.make_opsetid(str(rng.choice(["", "ai.onnx"])), 7))


@leak
def _an_input_of_another_width(case: EntryCase, rng: Rng) -> None:
    value = case.model.graph.input[int(rng.integers(len(case.model.graph.input)))]
    dims = value.type.tensor_type.shape.dim
    if len(dims) == 1:
        dims.add(dim_value=1)
    elif rng.random() < 0.5:
        dims[1].dim_param = "width"
    else:
        dims[1].dim_value += 1


@leak
def _an_input_of_another_type(case: EntryCase, rng: Rng) -> None:
    value = case.model.graph.input[int(rng.integers(len(case.model.graph.input)))]
    kinds = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING, TensorProto.FLOAT16]
    value.type.tensor_type.elem_type = int(rng.choice([k for k in kinds if k != value.type.tensor_type.elem_type]))


@leak
def _two_graphs_in_one_file(case: EntryCase, rng: Rng) -> bytes:
    honest = case.model.SerializeToString()
    _another_path(case, rng)
    other = onnx.ModelProto(graph=case.model.graph)
    return honest + other.SerializeToString() if rng.random() < 0.5 else other.SerializeToString() + honest


@leak
def _an_unknown_field(case: EntryCase, rng: Rng) -> bytes:
    return case.model.SerializeToString() + bytes([0xFA, 0x07, 0x03]) + b"abc"


# The data of the certificate and the file agree, and similar people are told apart


@leak
def _a_column_is_not_cut(case: EntryCase, rng: Rng) -> None:
    if not case.entry["cuts"]:
        raise NotPossibleError
    del case.entry["cuts"][int(rng.integers(len(case.entry["cuts"])))]
    _rewrite(case)


@leak
def _a_lookup_is_missing(case: EntryCase, rng: Rng) -> None:
    case.entry["lookups"].remove(_lookup(case))
    _rewrite(case)


def _two_members(case: EntryCase, lookup: dict[str, Any], rng: Rng) -> tuple[int, int]:
    """Return two rows of a table that members of one class find."""
    depends = len(lookup["codes"]) > 1
    classes = classes_of(case.spec["link"])
    own_codes = _codes_of(case, "relationship")
    sex_codes = _codes_of(case, "sex")
    size = len(lookup["table"])
    found: dict[int, set[int]] = {}
    for (sex, own), number in classes.items():
        index = own_codes[own] + (sex_codes[sex] * (size // (max(sex_codes) + 1)) if depends else 0)
        found.setdefault(number, set()).add(index)
    several = [sorted(rows) for rows in found.values() if len(rows) > 1]
    if not several:
        raise NotPossibleError
    one, other = rng.choice(several[int(rng.integers(len(several)))], 2, replace=False)
    return int(one), int(other)


def _codes_of(case: EntryCase, name: str) -> list[int]:
    feature = case.feature(name)
    if feature.get("encoding") != "one-hot":
        return list(range(len(feature["categories"])))
    kept = [each for each in feature["categories"] if each != feature.get("dropped")]
    return [kept.index(each) + 1 if each in kept else 0 for each in feature["categories"]]


@leak
def _a_table_tells_members_apart(case: EntryCase, rng: Rng) -> None:
    lookup = _lookup(case)
    one, _ = _two_members(case, lookup, rng)
    at = int(rng.integers(len(lookup["columns"])))
    value = lookup["table"][one][at]
    lookup["table"][one] = list(lookup["table"][one])
    lookup["table"][one][at] = value + "x" if isinstance(value, str) else value + type(value)(1)
    _rewrite(case)


@leak
def _a_table_with_a_negative_zero(case: EntryCase, rng: Rng) -> None:
    lookup = _lookup(case)
    one, _ = _two_members(case, lookup, rng)
    zeros = [at for at, value in enumerate(lookup["table"][one]) if isinstance(value, float) and value == 0]
    if not zeros:
        raise NotPossibleError
    lookup["table"][one] = list(lookup["table"][one])
    lookup["table"][one][int(rng.choice(zeros))] = -0.0
    _rewrite(case)


@leak
def _a_table_that_is_not_a_number(case: EntryCase, rng: Rng) -> None:
    lookup = _lookup(case)
    one, _ = _two_members(case, lookup, rng)
    if not isinstance(lookup["table"][one][0], float):
        raise NotPossibleError
    lookup["table"][one] = [float("nan") for _ in lookup["table"][one]]
    _rewrite(case)


@leak
def _a_code_reads_what_varies(case: EntryCase, rng: Rng) -> None:
    lookup = _lookup(case)
    name = str(rng.choice(["age", "hours"]))
    number, column = case.port_of(name)
    kind = case.entry["ports"][number]["type"]
    limit = 40 if kind.startswith("int") else encoded(case.feature(name), 40.5, kind)
    code = {"port": number, "columns": [column], "compare": ">=", "with": [limit], "weights": [1]}
    lookup["codes"].append(code)
    table = [row for row in lookup["table"] for _ in range(2)]
    for at in range(1, len(table), 2):
        table[at] = [each + "x" if isinstance(each, str) else each + type(each)(1) for each in table[at]]
    lookup["table"] = table
    _rewrite(case)


@leak
def _a_threshold_within_the_rounding_of_a_value(case: EntryCase, rng: Rng) -> None:
    lookup = _lookup(case)
    for code in lookup["codes"]:
        port = case.entry["ports"][code["port"]]
        if port["type"] in ("float32", "float64") and len(code["columns"]) == 1:
            name = next(f for f in port["features"] if case.port_of(f)[1] == code["columns"][0])
            if case.feature(name).get("encoding") == "one-hot":  # which holds 0 and 1 exactly
                continue
            code["with"] = [encoded(case.feature(name), at + 1, port["type"]) for at in range(len(code["with"]))]
            _rewrite(case)
            return
    raise NotPossibleError


@leak
def _a_threshold_between_other_values(case: EntryCase, rng: Rng) -> None:
    """Merge and split other categories than the links do."""
    lookup = _lookup(case)
    code = lookup["codes"][-1]
    if len(code["columns"]) > 1 or isinstance(code["with"][0], str) or set(code["weights"]) != {1}:
        raise NotPossibleError
    classes, limits = classes_of(case.spec["link"]), list(code["with"])
    if len(lookup["codes"]) > 1:
        raise NotPossibleError
    for _ in range(50):
        code["with"] = [limits[int(at)] for at in rng.integers(len(limits), size=len(limits))]
        codes = [sum(limits.index(limit) < own for limit in code["with"]) for own in range(len(RELATIONS))]
        rows = [tuple(lookup["table"][at]) for at in codes]
        if any(
            rows[own] != rows[other]
            for (_, own), mine in classes.items()
            for (_, other), theirs in classes.items()
            if mine == theirs
        ):
            _rewrite(case)
            return
    raise NotPossibleError


@leak
def _an_edge_of_a_band_at_another_number(case: EntryCase, rng: Rng) -> None:
    lookup = _lookup(case, banded=True)
    (code,) = lookup["codes"]
    feature, kind = case.feature("savings"), case.entry["ports"][lookup["port"]]["type"]
    at = int(rng.integers(len(code["with"])))
    limit = code["with"][at]
    if kind.startswith("int"):
        code["with"][at] = limit + int(rng.choice([-1, 1]))
    elif feature["kind"] == "continuous" and rng.random() < 0.5:
        code["with"][at] = float(np.nextafter(np.dtype(kind).type(limit), np.dtype(kind).type(rng.choice([-9, 99]))))
    else:
        edge = feature["bands"][1 + at]
        code["with"][at] = encoded(feature, edge + float(rng.choice([-1.5, 0.5, 1.5])), kind)
    _rewrite(case)


@leak
def _a_band_that_is_split(case: EntryCase, rng: Rng) -> None:
    lookup = _lookup(case, banded=True)
    (code,) = lookup["codes"]
    kind, feature = case.entry["ports"][lookup["port"]]["type"], case.feature("savings")
    at = int(rng.integers(len(lookup["table"])))
    inside = feature["bands"][at] + int(rng.integers(2, 8))
    limit = inside if kind.startswith("int") else encoded(feature, inside - 0.5, kind)
    code["with"] = sorted([*code["with"], limit])
    code["weights"].append(1)
    row = [value + type(value)(1) for value in lookup["table"][at]]
    lookup["table"].insert(at + 1, row)
    _rewrite(case)


@leak
def _weights_of_a_code(case: EntryCase, rng: Rng) -> None:
    """Let codes number categories in another order than the table has."""
    lookup = _lookup(case)
    code = lookup["codes"][-1]
    if set(code["weights"]) == {1} or len(lookup["codes"]) > 1:
        raise NotPossibleError
    one, other = _two_members(case, lookup, rng)
    if not one or not other or max(one, other) > len(code["weights"]):
        raise NotPossibleError
    strangers = [
        at for at, row in enumerate(lookup["table"]) if at and row != lookup["table"][one] and at in code["weights"]
    ]
    if not strangers:
        raise NotPossibleError
    third = int(rng.choice(strangers))
    swap = {one: third, third: one}
    code["weights"] = [swap.get(each, each) for each in code["weights"]]
    _rewrite(case)


@leak
def _features_in_another_order(case: EntryCase, rng: Rng) -> None:
    ports = [port for port in case.entry["ports"] if len(port["features"]) > 1]
    if not ports:
        raise NotPossibleError
    names = ports[int(rng.integers(len(ports)))]["features"]
    first, second = rng.choice(len(names), 2, replace=False)
    names[first], names[second] = names[second], names[first]


@leak
def _a_feature_at_another_input(case: EntryCase, rng: Rng) -> None:
    if len(case.entry["ports"]) < 2:
        raise NotPossibleError
    first, second = rng.choice(len(case.entry["ports"]), 2, replace=False)
    ports = case.entry["ports"]
    ports[first]["features"], ports[second]["features"] = ports[second]["features"], ports[first]["features"]


# Changes that may be harmless: VALID is wrong only if ONNX Runtime gives members of a class other bits


def _graphs(graph: Any) -> list[Any]:
    """Return a graph, or a function, and all graphs in its nodes."""
    inner = [each.g for node in graph.node for each in node.attribute if each.type == onnx.AttributeProto.GRAPH]
    return [graph, *(found for each in inner for found in _graphs(each))]


def _change_file(case: EntryCase, rng: Rng) -> None:
    """Change an edge, a name, an operator, an attribute, the order or the number of nodes, or what is given out."""
    model = case.model
    scopes = [found for each in (model.graph, *model.functions) for found in _graphs(each)]
    entry = _count_of_entry(case) if rng.random() < 0.8 else 0  # which is mostly left as it is
    places = [(each, at) for each in scopes for at in range(entry if each is model.graph else 0, len(each.node))]
    names = [name for each in scopes for node in each.node for name in (*node.input, *node.output)]
    names += [port["name"] for port in case.entry["ports"]] * 3
    graph, at = places[int(rng.integers(len(places)))]
    node, name = graph.node[at], str(rng.choice(names))
    what = str(
        rng.choice(["edge", "edge", "edge", "name", "operator", "attribute", "order", "copy", "output", "version"])
    )
    if what == "edge" and node.input:
        node.input[int(rng.integers(len(node.input)))] = name if rng.random() < 0.9 else ""
    elif what == "name" and node.output:
        old = node.output[0]
        for other in graph.node if rng.random() < 0.7 else [node]:
            for values in (other.input, other.output):
                values[:] = [name if each == old else each for each in values]
    elif what == "operator":
        alike = [each.op_type for other in scopes for each in other.node if len(each.input) == len(node.input)]
        node.op_type = str(rng.choice([*alike, "Identity", "Neg", "Add", "Concat", "Shape", "Dropout"]))
    elif what == "attribute" and node.attribute:
        attribute = node.attribute[int(rng.integers(len(node.attribute)))]
        if rng.random() < 0.3:
            node.attribute.remove(attribute)
        else:
            attribute.i = int(rng.integers(-2, 12))
    elif what == "order":
        nodes = list(graph.node)
        nodes.insert(int(rng.integers(len(nodes))), nodes.pop(at))
        del graph.node[:]
        graph.node.extend(nodes)
    elif what == "copy":
        target = scopes[int(rng.integers(len(scopes)))]
        target.node.insert(int(rng.integers(len(target.node) + 1)), copy.deepcopy(node))
    elif what == "output":
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    elif what == "version":
        each = model.opset_import[int(rng.integers(len(model.opset_import)))]
        each.version = int(rng.integers(1, 24))


def _change_entry(case: EntryCase, rng: Rng) -> None:
    """Change a number, a text or a list of the entry in the certificate, and write that entry into the file."""
    places: list[tuple[Any, Any]] = []

    def visit(data: Any) -> None:
        for key in data if isinstance(data, dict) else range(len(data)):
            places.append((data, key))
            if isinstance(data[key], dict | list):
                visit(data[key])

    visit({key: case.entry[key] for key in ("cuts", "lookups")})
    if not places:
        raise NotPossibleError
    data, key = places[int(rng.integers(len(places)))]
    value = data[key]
    if isinstance(value, bool | str | None):
        others = [held[at] for held, at in places if type(held[at]) is type(value)]
        data[key] = others[int(rng.integers(len(others)))]
    elif isinstance(value, int):
        data[key] = value + int(rng.choice([-1, 1]))
    elif isinstance(value, float):
        data[key] = float(rng.choice([-value, value + 1, np.nextafter(np.float32(value), np.float32(9)), -0.0]))
    elif isinstance(data, list) and rng.random() < 0.5:
        del data[key]
    elif isinstance(value, list) and value:
        value.insert(int(rng.integers(len(value))), copy.deepcopy(value[int(rng.integers(len(value)))]))
    try:
        _rewrite(case)
    except Exception as error:  # whatever is wrong with the data: no file can have this entry
        raise NotPossibleError from error


@leak
def _random_changes(case: EntryCase, rng: Rng) -> None:
    change = _change_file if rng.random() < 0.6 else _change_entry
    for _ in range(int(rng.integers(1, 4))):
        change(case, rng)


MAY_BE_HARMLESS = ("random_changes",)


# The campaign


def honest_certificate(case: EntryCase) -> dict[str, Any]:
    """Return the content of the certificate of a case."""
    return certificate_of_classes(Spec.from_dict(case.spec), case.entry, method="leaks").content


def write(folder: Path, case: EntryCase, content: dict[str, Any], raw: bytes | None = None) -> tuple[Path, Path]:
    """Write the model and a certificate with this content about it, and about the entry of the case."""
    data = case.model.SerializeToString() if raw is None else raw
    model, certificate = folder / "model.onnx", folder / "certificate.json"
    model.write_bytes(data)
    whole = {**content, "model": {"file_sha256": hashlib.sha256(data).hexdigest()}, "entry": case.entry, "inputs": []}
    certificate.write_text(json.dumps(whole).removesuffix("]}") + "\n]}\n", encoding="utf-8")
    return certificate, model


SHOWN = ("refuses the file", "fails", "gives members of a class the same", "gives members of a class other bits")


def shows(case: EntryCase, spec: dict[str, Any], raw: bytes | None, seed: int) -> str:
    """Return what ONNX Runtime makes of a leak; in a process of its own, because some files crash it."""
    child = os.fork()
    if child == 0:
        os._exit(SHOWN.index(_shows(case, spec, raw, seed)))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return SHOWN[code] if 0 <= code < len(SHOWN) else "crashes"


def _bits(output: np.ndarray) -> bytes:
    return repr(output.tolist()).encode() if output.dtype == object else output.tobytes()


def _shows(case: EntryCase, spec: dict[str, Any], raw: bytes | None, seed: int) -> str:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        data = case.model.SerializeToString() if raw is None else raw
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception:  # whatever ONNX Runtime has against the file
        return SHOWN[0]
    outputs, rng = [], np.random.default_rng(seed)
    read = read_spec(spec, "spec")
    honest = random_case(np.random.default_rng(seed)).entry
    for held in class_members(read, read_entry(honest, read), rng, people=64)[:3]:
        fed = {
            port["name"]: part.astype(object) if part.dtype.kind == "U" else part
            for port, part in zip(honest["ports"], held, strict=True)
        }
        for value in session.get_inputs():
            if value.name not in fed:
                fed[value.name] = np.arange(64, dtype=np.float32) + len(outputs)
        try:
            outputs.append(b"".join(_bits(np.asarray(each)) for each in session.run(None, fed)))
        except Exception:  # an error is an answer too: who gets it must depend on the class alone
            outputs.append(b"fails")
    if len(set(outputs)) > 1:
        return SHOWN[3]
    return SHOWN[1] if outputs[0] == b"fails" else SHOWN[2]


def attack(seed: int, folder: Path, tally: Counter[str], *, run: bool, names: list[str] | None = None) -> list[str]:
    """Check an honest case and all its leaks; return those that have the wrong verdict."""
    wrong = []
    case = random_case(np.random.default_rng(seed))
    content = honest_certificate(case)
    result = fairmend_check.check(*write(folder, case, content), run=False)
    tally["honest"] += 1
    if not result.valid:
        wrong.append(f"seed {seed}: the honest model is {result.verdict}: {result.reasons[0]}")
    for number, (name, plant) in enumerate(LEAKS.items()):
        if names is not None and name not in names:
            continue
        case = random_case(np.random.default_rng(seed))
        try:
            raw = plant(case, np.random.default_rng([seed, number]))
        except NotPossibleError:
            continue
        result = fairmend_check.check(*write(folder, case, content, raw), run=False)
        tally["leaks"] += 1
        tally[f"{name}: {result.verdict}"] += 1
        shown = shows(case, content["spec"], raw, seed) if run else ""
        if result.valid and (name not in MAY_BE_HARMLESS or shown == SHOWN[-1]):
            wrong.append(f"seed {seed}: {name} is VALID")
        if run:
            tally[f"ONNX Runtime {shown}"] += 1
            if name in MAY_BE_HARMLESS and result.valid:
                tally[f"{name}: valid, and ONNX Runtime {shown}"] += 1
    return wrong


def main() -> int:
    """Run the campaign and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaks", type=int, default=10_000, help="how many leaks to plant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-run", action="store_true", help="do not run the leaks in ONNX Runtime")
    options = parser.parse_args()
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    seed = options.seed
    with tempfile.TemporaryDirectory() as folder:
        while tally["leaks"] < options.leaks:
            wrong += attack(seed, Path(folder), tally, run=not options.no_run)
            seed += 1
    for name, count in sorted(tally.items()):
        print(f"{count:7,}  {name}")
    print(f"{tally['honest']:,} honest models and {tally['leaks']:,} leaks: {len(wrong)} wrong verdicts")
    print("\n".join(wrong[:50]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
