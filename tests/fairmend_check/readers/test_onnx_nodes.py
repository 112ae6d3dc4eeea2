"""Nodes of ONNX graphs: operators with the attributes that ONNX defines for them."""

import numpy as np
import onnx
import pytest
from onnx import helper

from fairmend_check.errors import CheckError
from fairmend_check.readers import onnx_nodes, protobuf

VERSIONS = {"": range(7, 24), onnx_nodes.ML: range(1, 5)}
WITHOUT_DEFAULT = {
    "axis": 0, "to": 0, "seed": 0, "classlabels_int64s": [], "classlabels_strings": [], "axes": [], "perm": [],
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
            elif name in defined and isinstance(value, str):
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
