"""An .onnx file with an entry: honest ones are VALID whatever is behind the entry, and no planted leak is."""

import re
import time
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

import fairmend_check
from benchmarks.soundness import leaks
from benchmarks.soundness.entry_cases import EntryCase, random_case, with_entry
from fairmend_check.errors import CheckError
from fairmend_check.readers.onnx_memory import Products, check_memory
from fairmend_check.readers.onnx_operators import DETERMINISTIC, ML
from fairmend_check.readers.onnx_shapes import sizes_of_outputs

SEEDS = range(6)
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
UNSET = {"Col2Im", "RotaryEmbedding"}


def verdict(tmp_path, case, raw=None):
    return fairmend_check.check(*leaks.write(tmp_path, case, leaks.honest_certificate(case), raw), run=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_leak_is_valid_and_the_honest_model_is(seed, tmp_path):
    assert leaks.attack(seed, tmp_path, Counter(), run=False) == []


def is_possible(name, seed):
    try:
        leaks.LEAKS[name](random_case(np.random.default_rng(seed)), np.random.default_rng(seed))
    except leaks.NotPossibleError:
        return False
    return True


@pytest.mark.parametrize("name", leaks.LEAKS)
def test_every_leak_can_be_planted(name):
    assert any(is_possible(name, seed) for seed in range(60))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("another_path", "reads"),
        ("a_branch_captures_the_input", "then_branch of node"),
        ("a_loop_in_a_branch_captures_the_input", "body of node"),
        ("a_second_input", 'an input "again"'),
        ("a_constant_that_callers_replace", "callers can replace|no port"),
        ("random_numbers", "is not known to compute the same"),
        ("dropout_in_training", "training mode"),
        ("a_function_replaces_an_operator", "replaces an operator"),
        ("a_function_reads_a_name_before_it_is_computed", "nothing computes before"),
        ("dropout_switched_by_an_attribute", "training mode"),
        ("a_graph_given_to_a_function", "gives a graph to a function"),
        ("a_product_over_no_columns", "DynamicQuantizeMatMul .* no factor of it is a constant with entries"),
        ("a_product_of_integers_over_no_columns", "MatMulInteger .* no factor of it is a constant with entries"),
        ("a_product_of_floats_that_becomes_one_of_integers", "may become a constant without entries"),
        ("a_sequence_of_no_steps", "lengths of sequences"),
        ("rows_that_are_joined_with_no_rows", "may be empty along another axis than 1"),
        ("quantised_rows_that_are_joined_with_no_rows", "QLinearConcat .* may be empty along another axis than 1"),
        ("a_product_with_a_constant_without_entries", "may become a constant without entries"),
        ("a_classifier_with_too_few_intercepts", "one intercept for each of its 2 classes"),
        ("a_mask_with_a_hole", "mask"),
        ("a_node_before_the_entry", "node 0 is not"),
        ("training_information", "training_info"),
        ("a_custom_domain", "domain"),
    ],
)
def test_a_leak_is_named(name, said, tmp_path):
    case = random_case(np.random.default_rng(1))
    content = leaks.honest_certificate(case)
    leaks.LEAKS[name](case, np.random.default_rng(0))
    result = fairmend_check.check(*leaks.write(tmp_path, case, content), run=False)
    (reason,) = result.reasons
    assert re.search(said, reason), reason


def test_operators_are_those_of_onnx_but_the_random_ones():
    schemas = defs.get_all_schemas_with_history()
    for domain in ("", ML):
        known = {schema.name for schema in schemas if schema.domain == domain}
        assert DETERMINISTIC[domain] >= known - RANDOM - UNSET
        assert not DETERMINISTIC[domain] & (RANDOM | UNSET)


@pytest.mark.parametrize(
    ("domain", "kind"), [("", "NonMaxSuppression"), ("", "RoiAlign"), ("", "LSTM"), ("com.microsoft", "BiasAdd")]
)
def test_what_may_be_unset_reads_values_with_entries_only(domain, kind):
    node = {"op_type": kind, "domain": domain, "input": ["x", "w"], "output": ["y"]}
    axes = {"x": frozenset([0]), "w": frozenset()}
    with pytest.raises(CheckError, match='reads "x", which may be empty'):
        check_memory(node, (domain, kind), "node 1", lambda _: False, lambda _: False, axes.get, Products())
    axes["x"] = frozenset()
    check_memory(node, (domain, kind), "node 1", lambda _: False, lambda _: False, axes.get, Products())


@pytest.mark.parametrize(
    ("kind", "given", "numbers", "sizes"),
    [
        ("Slice", [(-1, 32)], {"s": [16], "e": [2**63 - 1], "a": [1]}, (-1, 16)),
        ("Slice", [(-1, 32)], {"s": [32], "e": [2**63 - 1], "a": [1]}, (-1, 0)),
        ("Slice", [(-1, 32)], {"s": [0], "e": [4], "a": [0]}, (-1, 32)),
        ("Slice", [(-1, 32)], {"s": [1], "e": [4], "a": [0]}, (None, 32)),
        ("Add", [(-1, 1), (1, 8)], {}, (-1, 8)),
        ("Add", [(-1, 1), (1, None)], {}, (-1, None)),
        ("Add", [(-1, 0), (1, 1)], {}, (-1, 0)),
        ("MatMul", [(-1, 3), (3, 5)], {}, (-1, 5)),
        ("Concat", [(None, 2), (None, 2)], {}, (None, 2)),
        ("Unsqueeze", [(-1, 3)], {"s": [1]}, (-1, 1, 3)),
        ("Reshape", [(-1, 6)], {"s": [-1, 2, 3]}, (-1, 2, 3)),
        ("Reshape", [(None, 6)], {"s": [-1, 2, 3]}, (None, 2, 3)),
        ("Tile", [(1, 3)], {"s": [0, 2]}, (0, 6)),
        ("TopK", [(-1, 3)], {"s": [0]}, (-1, 0)),
        ("Range", [(), (), ()], {}, None),
    ],
)
def test_sizes_are_followed_where_they_are_certain(kind, given, numbers, sizes):
    names = [f"x{at}" for at in range(len(given))]
    node = {"op_type": kind, "input": [*names, *numbers], "output": ["y"]}
    full = all(all(each) for each in given)
    shapes = [*given, *[(len(each),) for each in numbers.values()]]

    def listed(name):
        return tuple(each if each >= 0 else None for each in numbers[name]) if name in numbers else None

    assert sizes_of_outputs(node, shapes, numbers.get, listed, full=full) == [sizes]


def test_dropout_that_is_off_is_honest(tmp_path):
    honest = 0
    for seed in range(40):
        case = random_case(np.random.default_rng(seed))
        if any(node.op_type == "Dropout" for node in case.model.graph.node):
            assert verdict(tmp_path, case).valid
            honest += 1
    assert honest


def test_an_input_named_like_a_value_of_a_function_is_refused(tmp_path):
    """ONNX Runtime turns the constant of the function into one of the graph, and takes the input for its value."""
    port, hidden = "_inlfunc_Shift_shift", "hidden_input"
    features = [
        {"name": "income", "kind": "continuous", "range": [0, 9]},
        {"name": "sex", "kind": "integer", "range": [0, 1], "protected": True},
    ]
    ports = [{"name": port, "type": "float32", "rank": 2, "width": 2, "features": ["income", "sex"]}]
    entry = {"ports": ports, "cuts": [{"port": 0, "column": 1, "value": 0.0}], "lookups": []}
    shift = helper.make_tensor("shift", TensorProto.FLOAT, [1, 2], [1.0, 1.0])
    body = [
        helper.make_node("Constant", [], ["shift"], value=shift),
        helper.make_node("Add", ["x", "shift"], ["y"]),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    function = helper.make_function("local", "Shift", ["x"], ["y"], body, opsets[:1])
    for name in (port, hidden):
        ports[0]["name"] = name
        graph = helper.make_graph(
            [helper.make_node("Shift", [name], ["score"], domain="local")],
            "shifted",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2])],
            [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N", 2])],
        )
        bare = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=9)
        case = EntryCase({"feature": features}, entry, bare, with_entry(bare, entry))
        result = verdict(tmp_path, case)
        assert result.valid == (name == hidden), result.reasons


def quantised(weights):
    """Return a random case whose score is added to a product of whole numbers with these weights."""
    case = random_case(np.random.default_rng(1))
    graph = case.model.graph
    tensors = {"one": np.array([-1, 1]), "scale": np.array(0.5, np.float32), "zero": np.array(0, np.uint8)}
    if weights is not None:
        tensors["weights"] = weights
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in tensors.items())
    right = "bytes" if weights is None else "columns"
    graph.node.extend(
        [
            helper.make_node("Reshape", ["raw_score", "one"], ["raw_column"]),
            helper.make_node("QuantizeLinear", ["raw_column", "scale", "zero"], ["bytes"]),
            *([helper.make_node("Transpose", ["weights"], ["columns"])] if weights is not None else []),
            helper.make_node("MatMulInteger", ["bytes", right], ["more"]),
        ]
    )
    return case


def test_a_product_of_whole_numbers_needs_a_constant_with_entries(tmp_path):
    """ONNX Runtime leaves in memory what was there if a sum has no terms: protected columns, for example."""
    assert verdict(tmp_path, quantised(np.ones((3, 1), np.uint8))).valid
    for weights in (np.ones((3, 0), np.uint8), None):
        assert "no factor of it is a constant with entries" in verdict(tmp_path, quantised(weights)).reasons[0]


def test_a_product_over_no_columns_shows_what_the_entry_takes_away():
    """That is why it is refused: ONNX Runtime gives members of a class other bits."""
    pytest.importorskip("onnxruntime")
    shown = Counter()
    for seed in range(4):
        case = random_case(np.random.default_rng(seed))
        content = leaks.honest_certificate(case)
        leaks.LEAKS["a_product_over_no_columns"](case, np.random.default_rng(seed))
        shown[leaks.shows(case, content["spec"], None, seed)] += 1
    assert sum(shown.values()) == 4
    assert set(shown) <= set(leaks.SHOWN), "ONNX Runtime crashes"


def test_products_of_floats_are_not_restricted_without_dequantised_numbers(tmp_path):
    """Attention multiplies values that are no constants; only DequantizeLinear lets ONNX Runtime make them whole."""
    case = random_case(np.random.default_rng(1))
    graph = case.model.graph
    graph.initializer.append(numpy_helper.from_array(np.array([-1, 1]), "one"))
    graph.initializer.append(numpy_helper.from_array(np.array([1, -1]), "other"))
    graph.node.extend(
        [
            helper.make_node("Reshape", ["raw_score", "one"], ["left"]),
            helper.make_node("Reshape", ["raw_score", "other"], ["right"]),
            helper.make_node("MatMul", ["left", "right"], ["attention"]),
        ]
    )
    assert verdict(tmp_path, case).valid
    graph.initializer.append(numpy_helper.from_array(np.ones((1, 2), np.uint8), "stored"))
    graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "scale"))
    graph.node.append(helper.make_node("DequantizeLinear", ["stored", "scale"], ["weights"]))
    graph.node.append(helper.make_node("MatMul", ["left", "weights"], ["dense"]))
    assert "may become a product of whole numbers" in verdict(tmp_path, case).reasons[0]
    del graph.node[-3]
    assert verdict(tmp_path, case).valid


@pytest.mark.parametrize(("axis", "joined"), [(1, True), (0, False)])
def test_columns_that_are_cut_out_may_be_joined_again_and_rows_may_not(axis, joined, tmp_path):
    """ONNX Runtime leaves in memory what was there if an input of Concat is empty along another axis."""
    case = random_case(np.random.default_rng(1))
    numbers = {"start": np.array([1 - axis]), "end": np.array([2 - axis]), "along": np.array([axis])}  # the second row
    case.model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in numbers.items())
    case.model.graph.node.extend(
        [
            helper.make_node("Slice", ["hidden_0", "start", "end", "along"], ["part"]),
            helper.make_node("Relu", ["part"], ["more"]),
            helper.make_node("Concat", ["more", "hidden_0"], ["joined"], axis=1),
        ]
    )
    result = verdict(tmp_path, case)
    assert result.valid == joined
    assert joined or "may be empty along another axis" in result.reasons[0]


def text_case(categories):
    """Return a case with a text input, in which the last two of three categories are one band."""
    features = [
        {"name": "job", "kind": "categorical", "categories": categories, "bands": [categories[:1], categories[1:]]},
        {"name": "sex", "kind": "categorical", "categories": ["f", "m"], "protected": True},
    ]
    code = {"port": 0, "columns": [0], "compare": "==", "with": categories[:1], "weights": [1]}
    entry = {
        "ports": [{"name": "X", "type": "string", "rank": 2, "width": 2, "features": ["job", "sex"]}],
        "cuts": [{"port": 0, "column": 1, "value": "f"}],
        "lookups": [{"port": 0, "columns": [0], "codes": [code], "table": [["other"], categories[:1]]}],
    }
    graph = helper.make_graph(
        [helper.make_node("Identity", ["X"], ["Y"])],
        "texts",
        [helper.make_tensor_value_info("X", TensorProto.STRING, ["N", 2])],
        [helper.make_tensor_value_info("Y", TensorProto.STRING, ["N", 2])],
    )
    bare = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return EntryCase({"feature": features}, entry, bare, with_entry(bare, entry))


@pytest.mark.parametrize("text", ["a\0", "a\0x"])
def test_a_category_with_a_nul_character_is_refused(text, tmp_path):
    """In an array of texts, ONNX Runtime takes it for what is before that character: a category of another band."""
    honest = text_case(["a", "ax", "b"])
    assert verdict(tmp_path, honest).valid
    content = leaks.honest_certificate(honest)
    content["spec"]["feature"][0].update(text_case(["a", text, "b"]).spec["feature"][0])
    result = fairmend_check.check(*leaks.write(tmp_path, text_case(["a", text, "b"]), content), run=False)
    assert "has a NUL character" in result.reasons[0]


def test_a_list_of_numbers_that_is_interrupted_often_is_refused_at_once(tmp_path):
    """Time that grows with the square of the interruptions would let a small file keep the checker busy for hours."""
    case = random_case(np.random.default_rng(1))
    numbers = b"\x40\x01\x3d\0\0\0\0" * 100_000  # a whole number and a float, again and again
    started = time.perf_counter()
    result = verdict(tmp_path, case, case.model.SerializeToString() + _nested(b"\x0a\x01a" + numbers))
    assert time.perf_counter() - started < 20
    assert "more than one way" in result.reasons[0]


def _nested(attribute):
    """Return a graph with one node that has this attribute, as a field of a model."""
    content = attribute
    for tag in (5, 1, 7):  # of an attribute in a node, of a node in a graph, of a graph in a model
        size, number = b"", len(content)
        while number >= 0x80:
            size += bytes([number & 0x7F | 0x80])
            number >>= 7
        content = bytes([tag << 3 | 2]) + size + bytes([number]) + content
    return content


def test_weights_may_be_in_another_file_of_the_folder_and_nowhere_else(tmp_path):
    case = random_case(np.random.default_rng(1))
    weight = next(each for each in case.model.graph.initializer if not each.name.startswith("fairmend_entry/"))
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    assert verdict(tmp_path, case).valid
    weight.external_data[0].value = "../weights.bin"
    assert "folder of the model" in verdict(tmp_path, case).reasons[0]


def test_a_forest_of_many_nodes_is_read(tmp_path):
    """The numbers of an attribute are not read one by one; those in an unusual form are refused all the same."""
    case = random_case(np.random.default_rng(1))
    count = 20_000
    node = helper.make_node("Identity", ["raw_score"], ["same"], numbers=[-1, 2**40, 7] * count, floats=[0.5] * count)
    case.model.graph.node.append(node)
    data = case.model.SerializeToString()
    assert verdict(tmp_path, case, data).valid
    number = b"\x40\x80\x80\x80\x80\x80\x20"  # 2**40 with its tag
    assert number in data
    longer = data.replace(number, b"\x40\x80\x80\x80\x80\xa0\x00", 1)
    assert onnx.load_from_string(longer) is not None
    assert "more than one way" in verdict(tmp_path, case, longer).reasons[0]


def test_the_file_of_a_claim_about_classes_is_bound(tmp_path):
    case = random_case(np.random.default_rng(1))
    certificate, model = leaks.write(tmp_path, case, leaks.honest_certificate(case))
    case.model.doc_string = "another"
    model.write_bytes(case.model.SerializeToString())
    result = fairmend_check.check(certificate, model, run=False)
    assert result.verdict == "invalid"
    assert "file_sha256" in result.reasons[0]


def test_another_format_and_no_file_have_no_verdict(tmp_path):
    case = random_case(np.random.default_rng(1))
    certificate, model = leaks.write(tmp_path, case, leaks.honest_certificate(case))
    other = model.rename(tmp_path / "model.pth")
    assert ".onnx" in fairmend_check.check(certificate, other, run=False).reasons[0]
    assert "pass that" in fairmend_check.check(certificate, None).reasons[0]


def test_a_model_without_the_entry_is_refused(tmp_path):
    case = random_case(np.random.default_rng(1))
    content = leaks.honest_certificate(case)
    case.model = case.bare
    result = fairmend_check.check(*leaks.write(tmp_path, case, content), run=False)
    assert "node 0 is not" in result.reasons[0]
