"""Nodes of ONNX graphs: operators with the attributes that ONNX defines for them."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import fairmend
from fairmend.network import load_network
from fairmend.prove.certificate import certificate_of_fair
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend.spec import Feature, Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import point_bounds
from fairmend_check.kernel.model import Activation, Product, weights_digest
from fairmend_check.readers import onnx_nodes, protobuf
from fairmend_check.readers.read_model import read_model
from fairmend_check.readers.read_onnx import read_onnx
from support.fuzzing.onnx import FORMAT, difference
from support.onnx_files import A, node, runtime, save
from support.onnx_functions import NEAR_MISSES, PRODUCTS, WRITTEN, between_layers, function_of_function

# The checker finds the functions that exporters write as several nodes, and refuses near misses.


REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_function_of_several_nodes_is_one_for_the_checker_too(name, tmp_path):
    _, nodes, constants = WRITTEN[name]
    path = save(tmp_path / "m.onnx", between_layers(nodes), outputs=1, **(A | REST | constants))
    assert weights_digest(read_model(path)[0]) == digest_of_network(load_network(path))


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_refused(name, tmp_path):
    nodes, constants = NEAR_MISSES[name]
    path = save(tmp_path / "m.onnx", between_layers(nodes), outputs=1, **(A | REST | constants))
    with pytest.raises(CheckError):
        read_model(path)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_function_of_another_value_is_a_product(name, tmp_path):
    nodes, constants = PRODUCTS[name]
    path = save(tmp_path / "m.onnx", between_layers(nodes), outputs=1, **(A | REST | constants))
    model, _ = read_model(path)
    assert any(isinstance(each.operation, Product) for each in model.nodes)
    X = np.random.default_rng(0).normal(size=(20, model.inputs)).astype(np.float32)
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": X})
    low, high, _ = point_bounds(model, X.astype(np.float64))
    assert (np.abs(found - low) < 1e-5).all()
    assert (low <= high).all()


@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "gelu_tanh", "hardswish"])
def test_a_function_of_a_product_is_read(name, tmp_path):
    function_of_function(name).save(tmp_path / "m.onnx")
    model, _ = read_model(tmp_path / "m.onnx")
    functions = [node.operation.name for node in model.nodes if isinstance(node.operation, Activation)]
    assert functions == [name, name]


# The decision after a classifier's probabilities: read in the form that skl2onnx writes, and in no other.


CORPUS = Path(__file__).parents[2] / "corpus" / "onnx"
CLASSIFIERS = sorted(path for path in CORPUS.glob("skl2onnx-*.onnx") if b"ArrayFeatureExtractor" in path.read_bytes())
VARIED = [path for path in CLASSIFIERS if path.stem in ("skl2onnx-1.20.0-numbers", "skl2onnx-1.20.0-class-names")]
WITHOUT_MAPS = [path for path in CLASSIFIERS if b"ZipMap" not in path.read_bytes()]  # which onnx.reference does not run
X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)


SPEC = Spec([Feature(f"f{i}", "continuous", range=(-1, 1), protected=i == 0) for i in range(4)])


def stem(path):
    return path.stem


def load(name):
    return onnx.load(CORPUS / f"skl2onnx-1.20.0-{name}.onnx")


def node_of(model, kind):
    return next(node for node in model.graph.node if node.op_type == kind)


def tensor_of(model, name):
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def test_classifiers_of_all_versions_are_read():
    assert len(CLASSIFIERS) == 3 * 7 + 3
    for path in CLASSIFIERS:
        read_model(path)


@pytest.mark.parametrize("path", WITHOUT_MAPS, ids=stem)
def test_the_reference_implementation_gives_the_same_labels_and_probabilities(path):
    model, _ = read_model(path)
    rows = X.astype(model.dtype)
    found = ReferenceEvaluator(onnx.load(path)).run(None, {"X": rows})
    assert difference(found, path.read_bytes(), model, rows) is None


@pytest.mark.parametrize("unit", [np.float32, np.float64])
def test_rounding_1_minus_p_does_not_change_the_larger_one(unit):
    half, rng = unit(0.5), np.random.default_rng(0)
    near = np.concatenate([half + np.arange(-1000, 1000) * np.finfo(unit).epsneg / 2, rng.random(100_000)]).astype(unit)
    near = near[near != half]
    assert np.array_equal(unit(1) - near < near, near > half)
    assert not np.any(unit(1) - near == near)


@pytest.mark.parametrize("name", ["binary", "names", "class-names", "binary-float64"])
def test_a_certificate_is_valid_for_a_file_of_skl2onnx(name, tmp_path):
    path = CORPUS / f"skl2onnx-1.20.0-{name}.onnx"
    network = fairmend.load_network(path)
    rows = SPEC.sample_inputs(20, np.random.default_rng(0), network.dtype.name)
    certificate, covered = certificate_of_fair(network, SPEC, rows)
    assert len(covered) > 0
    certificate.save(tmp_path / "c.json", path)
    result = fairmend.check(tmp_path / "c.json", path)
    assert result.valid, result.reasons


REFUSED = {}


def refused(reason, *names):
    """Register a change to the files of these names."""

    def register(change):
        for name in names or ("binary",):
            REFUSED[f"{change.__name__}, {name}"] = (change, name, reason)
        return change

    return register


@refused("node ArgMax has axis = 0", "binary", "class-names")
def largest_of_a_column(model):
    node_of(model, "ArgMax").attribute[0].i = 0


@refused("node ArgMax has keepdims = 0")
def without_the_dimension(model):
    node_of(model, "ArgMax").attribute.append(helper.make_attribute("keepdims", 0))


@refused("node ArgMax has select_last_index = 1")
def the_last_of_equals(model):
    node_of(model, "ArgMax").attribute.append(helper.make_attribute("select_last_index", 1))


@refused("node Concat has axis = 0")
def one_below_the_other(model):
    node_of(model, "Concat").attribute[0].i = 0


@refused("the label is not chosen by probabilities")
def the_other_way_round(model):
    inputs = node_of(model, "Concat").input
    inputs[:] = inputs[::-1]


@refused("must end with an affine layer")
def the_same_twice(model):
    node_of(model, "Concat").input[0] = node_of(model, "Concat").input[1]


@refused("node Sub cannot be checked at this place")
def two_minus_p(model):
    tensor_of(model, "unity").float_data[0] = 2


@refused("must end with an affine layer")
def p_minus_one(model):
    inputs = node_of(model, "Sub").input
    inputs[:] = inputs[::-1]


@refused("must end with an affine layer")
def one_minus_the_logit(model):
    node_of(model, "Sub").input[1] = node_of(model, "Sigmoid").input[0]


@refused("the label is not chosen by probabilities", "classes")
def largest_logit(model):
    node_of(model, "ArgMax").input[0] = node_of(model, "Softmax").input[0]


@refused("the label depends on several values of the model")
def largest_input(model):
    node_of(model, "ArgMax").input[0] = "X"


@refused("node 'ArgMin' cannot be checked")
def the_smallest(model):
    node_of(model, "ArgMax").op_type = "ArgMin"


@refused("node ArrayFeatureExtractor cannot be checked at this place", "binary", "numbers")
def one_label_for_both(model):
    tensor_of(model, "classes").int32_data[:] = [1, 1]


@refused("node ArrayFeatureExtractor cannot be checked at this place", "names", "class-names")
def one_text_for_all(model):
    strings = tensor_of(model, "classes").string_data
    strings[:] = [b"yes"] * len(strings)


@refused("node ArrayFeatureExtractor cannot be checked at this place")
def more_labels_than_classes(model):
    tensor_of(model, "classes").int32_data.append(2)
    tensor_of(model, "classes").dims[0] = 3


@refused("node ArrayFeatureExtractor cannot be checked at this place")
def labels_in_two_dimensions(model):
    tensor_of(model, "classes").dims[:] = [1, 2]


@refused("node ArrayFeatureExtractor cannot be checked at this place")
def labels_from_the_input(model):
    node_of(model, "ArrayFeatureExtractor").input[0] = "X"


@refused("node Reshape cannot be checked at this place")
def labels_in_a_column(model):
    tensor = tensor_of(model, "shape_tensor")
    tensor.dims[0] = 2
    tensor.int64_data[:] = [-1, 1]


@refused("node Cast has to = 9", "binary", "numbers")
def labels_as_truth_values(model):
    """1 and -2 are both true."""
    model.graph.node[-1].attribute[0].i = TensorProto.BOOL


@refused("node Cast cannot be checked after labels that are texts", "names")
def texts_as_numbers(model):
    last = model.graph.node[-1]
    last.op_type = "Cast"
    last.attribute.append(helper.make_attribute("to", TensorProto.INT64))


@refused("node ZipMap has other classes than the labels", "names")
def keys_in_another_order(model):
    keys = node_of(model, "ZipMap").attribute[0].strings
    keys[:] = keys[::-1]


@refused("node ZipMap has other classes than the labels", "names")
def one_key(model):
    del node_of(model, "ZipMap").attribute[0].strings[1]


@refused("node ZipMap has other classes than the labels", "names")
def keys_that_are_numbers(model):
    node_of(model, "ZipMap").attribute[0].CopyFrom(helper.make_attribute("classlabels_int64s", [0, 1]))


@refused("node ZipMap has other classes than the labels", "names")
def keys_of_two_kinds(model):
    node_of(model, "ZipMap").attribute.append(helper.make_attribute("classlabels_int64s", [0, 1]))


@refused("node ZipMap has other classes than the labels", "names")
def keys_under_the_name_of_the_other_kind(model):
    node_of(model, "ZipMap").attribute[0].name = "classlabels_int64s"


@refused("the outputs must be the labels")
def outputs_in_another_order(model):
    outputs = [*model.graph.output][::-1]
    del model.graph.output[:]
    model.graph.output.extend(outputs)


@refused("the outputs must be the labels")
def labels_alone(model):
    del model.graph.output[1]


@refused("the outputs must be the labels")
def p_for_the_probabilities(model):
    model.graph.output[1].name = node_of(model, "Sigmoid").output[0]


@refused("which no node before it computes", "binary")
def no_decision(model):
    del model.graph.node[-6:]


@refused("the label is not chosen by probabilities", "classes")
def labels_of_logits(model):
    node_of(model, "Softmax").op_type = "Identity"


@refused("not used", "binary")
def unused_labels(model):
    model.graph.node.append(helper.make_node("Identity", ["label"], ["copy"]))


@refused("the outputs must be the labels")
def nodes_in_another_order(model):
    last = model.graph.node.pop()
    model.graph.node.insert(8, last)


@refused("two values have the name 'classes'")
def two_constants_of_one_name(model):
    model.graph.initializer.append(numpy_helper.from_array(np.array([5, 6], np.int32), "classes"))


@refused("must import one version of ONNX's operators")
def operators_that_are_not_imported(model):
    del model.opset_import[1]


@refused("must import one version of ONNX's operators")
def operators_that_are_imported_twice(model):
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))


@refused("operators of ai.onnx.ml is not one of 1 to 5")
def operators_of_the_future(model):
    model.opset_import[1].version = 6


@refused("node 'ArrayFeatureExtractor' cannot be checked")
def an_operator_of_another_domain(model):
    node_of(model, "ArrayFeatureExtractor").domain = ""


@refused("node 'ArgMax' cannot be checked")
def an_operator_in_the_domain_of_others(model):
    node_of(model, "ArgMax").domain = "ai.onnx.ml"


@refused("the type or shape of 'label'")
def labels_declared_as_texts(model):
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING


@refused("the type or shape of 'probabilities'")
def probabilities_declared_too_wide(model):
    model.graph.output[1].type.tensor_type.shape.dim[1].dim_value = 3


@refused("the type or shape of 'probabilities'")
def probabilities_declared_as_a_map(model):
    model.graph.output[1].type.CopyFrom(load("names").graph.output[1].type)


@refused("the type or shape of 'output_probability'", "names")
def keys_declared_as_numbers(model):
    model.graph.output[1].type.sequence_type.elem_type.map_type.key_type = TensorProto.INT64


@refused("the type or shape of 'output_probability'", "names")
def a_map_declared_as_a_tensor(model):
    model.graph.output[1].type.CopyFrom(load("binary").graph.output[1].type)


@pytest.mark.parametrize("name", REFUSED)
def test_another_decision_is_refused(name):
    change, file, reason = REFUSED[name]
    model = load(file)
    change(model)
    with pytest.raises(CheckError, match=reason):
        read_onnx(model.SerializeToString(), CORPUS)


def single_changes(model):
    """Yield the model with one change: to an input, an operator, an attribute or an output, or a node less or twice."""
    names = ["X", *(tensor.name for tensor in model.graph.initializer), *(one.output[0] for one in model.graph.node)]
    kinds = sorted({(node.op_type, node.domain) for node in model.graph.node})

    def changed(change, *arguments):
        copy = onnx.ModelProto.FromString(model.SerializeToString())
        change(copy.graph, *arguments)
        return copy

    def set_input(graph, i, k, name):
        graph.node[i].input[k] = name

    def set_kind(graph, i, kind, domain):
        graph.node[i].op_type, graph.node[i].domain = kind, domain

    def set_attribute(graph, i, name, value):
        attributes = [one for one in graph.node[i].attribute if one.name != name]
        del graph.node[i].attribute[:]
        graph.node[i].attribute.extend([*attributes, helper.make_attribute(name, value)])

    def set_output(graph, k, name):
        graph.output[k].name = name

    def pass_on(graph, i, k, kind):
        graph.node.insert(i, helper.make_node(kind, [graph.node[i].input[k]], ["between"]))
        graph.node[i + 1].input[k] = "between"

    tail = next(i for i, node in enumerate(model.graph.node) if node.op_type in ("Sigmoid", "Softmax"))
    for i in range(tail, len(model.graph.node)):
        for k in range(len(model.graph.node[i].input)):
            yield from (changed(set_input, i, k, name) for name in names)
            yield from (changed(pass_on, i, k, kind) for kind in ("Identity", "Neg", "Relu", "Sigmoid", "ArgMax"))
        yield from (changed(set_kind, i, *kind) for kind in kinds)
        for name in ("axis", "keepdims", "select_last_index", "to", "allowzero"):
            yield from (changed(set_attribute, i, name, value) for value in (-1, 0, 1, 7))
        yield changed(lambda graph, number: graph.node.pop(number), i)
    for k in range(2):
        yield from (changed(set_output, k, name) for name in names)


@pytest.mark.parametrize("path", VARIED, ids=stem)
def test_no_single_change_is_read_as_the_same_network_and_run_as_another(path, tmp_path):
    original, changes, same = onnx.load(path), 0, 0
    for model in single_changes(original):
        content = model.SerializeToString()
        if content == original.SerializeToString():
            continue
        changes += 1
        (tmp_path / "m.onnx").write_bytes(content)
        try:
            network, _ = read_model(tmp_path / "m.onnx")
        except CheckError:
            continue
        assert FORMAT.disagreement(network, content, tmp_path / "m.onnx") is None
        same += 1
    assert changes > 300
    assert same < 20


def test_a_label_by_one_of_two_probabilities_is_refused(tmp_path):
    """The largest number of a single column is always the first one."""
    nodes = [
        node("Gemm", "x w", "z"),
        node("Softmax", "z", "s"),
        node("Gather", "s i", "q", axis=1),
        node("ArgMax", "q", "k", axis=1),
        node("ArrayFeatureExtractor", "classes k", "r", domain="ai.onnx.ml"),
        node("Reshape", "r rows", "label"),
    ]
    constants = {"i": np.array([1]), "classes": np.array([0, 1]), "rows": np.array([-1])}
    path = save(tmp_path / "m.onnx", nodes, w=np.float32([[1, 2], [3, -1], [0, 1], [1, 0]]), **constants)
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("label", 7, ["n"]))
    model.graph.output.append(helper.make_tensor_value_info("q", 1, ["n", 1]))
    onnx.save(model, path)
    assert not runtime(path, X).any()
    with pytest.raises(CheckError, match="not chosen by probabilities"):
        read_model(path)


VERSIONS = {"": range(7, 24), onnx_nodes.ML: range(1, 5)}
WITHOUT_DEFAULT = {
    "axis": 0, "to": 0, "seed": 0, "classlabels_int64s": [], "classlabels_strings": [], "axes": [], "perm": [],
    "end": 0, "equation": "", "num_outputs": 0, "num_groups": 0,
    "offset": (), "scale": (), "value": {}, "value_float": 0.0, "value_floats": (), "value_int": 0, "value_ints": [],
}  # fmt: skip


def read(*arguments, **options):
    node = helper.make_node(*arguments, **options)
    return onnx_nodes.read_node(protobuf.read_message("Node", node.SerializeToString()))


@pytest.mark.parametrize("kind", onnx_nodes._OPERATORS)
def test_the_values_of_missing_attributes_are_those_of_onnx(kind):
    domain = onnx_nodes._DOMAINS.get(kind, "")
    _, attributes = onnx_nodes._OPERATORS[kind]
    for version in VERSIONS[domain]:
        if not onnx.defs.has(kind, version, domain):
            continue  # the operator came later
        defined = onnx.defs.get_schema(kind, version, domain).attributes
        for name, value in attributes.items():
            if kind == "Clip":
                continue  # its old limits, the largest numbers, are as good as none
            if kind in ("Softmax", "LogSoftmax"):
                assert helper.get_attribute_value(defined[name].default_value) == (1 if version < 13 else value)
            elif name in defined and isinstance(value, str) and defined[name].default_value.type:
                assert helper.get_attribute_value(defined[name].default_value).decode() == value
            elif name in defined and defined[name].default_value.type:
                assert np.float32(helper.get_attribute_value(defined[name].default_value)) == np.float32(value)
            elif name in defined:
                assert WITHOUT_DEFAULT[name] == value


def test_attributes_are_read():
    node = read("ArgMax", ["p"], ["i"], axis=1)
    assert node.attributes == {"axis": 1, "keepdims": 1, "select_last_index": 0}
    node = read("ZipMap", ["p"], ["m"], domain=onnx_nodes.ML, classlabels_strings=["no", "yes"])
    assert node.attributes == {"classlabels_int64s": [], "classlabels_strings": ["no", "yes"]}
    node = read("ZipMap", ["p"], ["m"], domain=onnx_nodes.ML, classlabels_int64s=[-1, 2])
    assert node.attributes == {"classlabels_int64s": [-1, 2], "classlabels_strings": []}


@pytest.mark.parametrize(
    ("arguments", "options", "why"),
    [
        (("Conv", ["x"], ["y"]), {}, "node 'Conv' cannot be checked"),
        (("ZipMap", ["x"], ["y"]), {}, "node 'ZipMap' cannot be checked"),
        (("Relu", ["x"], ["y"]), {"domain": onnx_nodes.ML}, "node 'Relu' cannot be checked"),
        (("Relu", ["x"], ["y"]), {"domain": "ai.onnx"}, "node 'Relu' cannot be checked"),
        (("Relu", ["x", "z"], ["y"]), {}, "node Relu has 2 inputs and 1 outputs"),
        (("Relu", ["x"], ["y", "z"]), {}, "node Relu has 1 inputs and 2 outputs"),
        (("Add", ["x", "y", "z"], ["c"]), {}, "node Add has 3 inputs"),
        (("Relu", ["x"], ["y"]), {"alpha": 1.0}, "node Relu has the attribute 'alpha'"),
        (("ArgMax", ["x"], ["y"]), {"axis": [1]}, "node ArgMax has the attribute 'axis'"),
        (("ArgMax", ["x"], ["y"]), {"axis": 1.0}, "node ArgMax has the attribute 'axis'"),
    ],
)
def test_other_nodes_are_refused(arguments, options, why):
    with pytest.raises(CheckError, match=why):
        read(*arguments, **options)


def test_an_attribute_of_another_value_is_named():
    with pytest.raises(CheckError, match="node ArgMax has keepdims = 0, which cannot be checked"):
        read("ArgMax", ["x"], ["y"], keepdims=0).expect("keepdims", 1)
