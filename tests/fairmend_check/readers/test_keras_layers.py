"""The checker's own reading of Keras layers: the numbers that they compute, and what is refused."""

import json

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Softmax
from fairmend_check.readers.keras_config import read_config
from fairmend_check.readers.keras_layers import KerasGraph
from support.keras_files import dense, sequential

KERNELS = {"a": (4, 3), "b": (3, 1)}


def layer(kind, **options):
    return {"class_name": kind, "config": {"name": kind.lower(), **options}}


def read(*layers, keras="3", **given):
    first = dense("a", 3, batch_input_shape=[None, 4])

    def weights(path, found):
        arrays = [np.ones(KERNELS[found.name]), np.ones(KERNELS[found.name][1])] if found.name in KERNELS else []
        return [array.astype(np.float32) for array in given.get(found.name, arrays)]

    config = sequential(first, *layers, dense("b", 1, "sigmoid"))
    return KerasGraph(read_config(json.dumps(config).encode()), weights, keras).finish()


FUNCTIONS = {
    "clip with 0.0, 1.5": layer("ReLU", max_value=1.5),
    "leaky_relu with slope 0.25": layer("ReLU", negative_slope=0.25),
    "leaky_relu with slope 1.5": layer("LeakyReLU", negative_slope=1.5),
    "elu with 0.5": layer("ELU", alpha=0.5),
    "gelu": layer("Activation", activation="gelu"),
    "silu": layer("Activation", activation="swish"),
    "hardswish": layer("Activation", activation="hard_silu"),
    "clip with 0.0, 6.0": layer("Activation", activation={"class_name": "ReLU", "config": {"max_value": 6.0}}),
}


@pytest.mark.parametrize("words", FUNCTIONS)
def test_functions_of_layers(words):
    model = read(FUNCTIONS[words])
    assert str(model.activations[0]) == words
    assert model.condition == ""


def test_prelu_has_a_slope_for_each_unit_or_for_all():
    assert read(layer("PReLU"), prelu=[np.array([0.5, -1, 2])]).activations[0].parameters == (0.5, -1, 2)
    assert read(layer("PReLU", shared_axes=[1]), prelu=[np.array([0.5])]).activations[0].slope == 0.5
    with pytest.raises(CheckError, match="1 slopes for 3 values"):
        read(layer("PReLU"), prelu=[np.array([0.5])])


@pytest.mark.parametrize(("keras", "slope"), [("2", 0.2), ("3", 1 / 6)])
def test_a_hard_sigmoid_is_that_of_the_keras_that_wrote_the_file(keras, slope):
    model = read(layer("Activation", activation="hard_sigmoid"), keras=keras)
    assert model.activations[0].parameters == (float(np.float32(slope)), 0.5)
    assert model.condition == f"the file is run by Keras {keras}, as hard_sigmoid differs in others"


def tensor(name):
    return {"class_name": "__keras_tensor__", "config": {"shape": [None, 3], "keras_history": [name, 0, 0]}}


def read_operation(kind, *arguments):
    """A functional model in -> a -> operation -> b of Keras 3."""
    entry = {"class_name": kind, "module": "keras.src.ops.numpy", "registered_name": kind, "config": {"name": "o"}}
    layers = [
        {"class_name": "InputLayer", "config": {"name": "in", "batch_shape": [None, 4]}, "inbound_nodes": []},
        dense("a", 3) | {"inbound_nodes": [[["in", 0, 0]]]},
        entry | {"inbound_nodes": [{"args": list(arguments), "kwargs": {}}]},
        dense("b", 1) | {"inbound_nodes": [[["o", 0, 0]]]},
    ]
    for each in layers:
        each["name"] = each["config"]["name"]
    content = {"layers": layers, "input_layers": [["in", 0, 0]], "output_layers": [["b", 0, 0]]}
    config = json.dumps({"class_name": "Functional", "config": content}).encode()
    return KerasGraph(
        read_config(config),
        lambda path, found: [np.ones(KERNELS[found.name], np.float32)] if found.name in KERNELS else [],
        "3",
    ).finish()


def cut(**ends):
    return [{"class_name": "__slice__", "config": {}}, {"class_name": "__slice__", "config": ends}]


def test_operations_on_tensors():
    halved = read_operation("Divide", tensor("a"), 2).layers[0].weight
    assert (halved == 0.5).all()
    negative = read_operation("Subtract", 1.0, tensor("a")).layers[0]
    assert (negative.weight == -1).all()
    assert (negative.bias == 1).all()
    assert read_operation("GetItem", tensor("a"), cut(start=0)).is_chain


@pytest.mark.parametrize(
    ("reason", "given"),
    [
        ("cannot be checked", ("Power", tensor("a"), 2)),
        ("divides by 0", ("Divide", tensor("a"), 0)),
        ("must be a number", ("Add", tensor("a"), "x")),
        ("does not combine", ("Add", tensor("a"), 1, 2)),
        ("chooses something else", ("GetItem", tensor("a"), 1)),
        ("chooses something else", ("GetItem", tensor("a"), cut(step=2))),
        ("columns are chosen", ("GetItem", tensor("a"), cut(start=9))),
        ("reads nothing", ("Add", 1, 2)),
        ('has no "axis"', ("Concatenate", [tensor("a"), tensor("a")])),  # over the rows, unless it says otherwise
    ],
)
def test_operations_that_cannot_be_checked_are_refused(reason, given):
    with pytest.raises(CheckError, match=reason):
        read_operation(*given)


REFUSED = [
    ("cannot be checked", layer("Activation", activation="hard_sigmoid"), {"keras": ""}),
    ("cannot be checked", layer("Activation", activation="squareplus"), {}),
    ("cannot be checked", layer("ReLU", threshold=1.0), {}),
    ("cannot be checked", layer("ReLU", max_value=6.0, negative_slope=0.5), {}),
    ("max_value that is not positive", layer("ReLU", max_value=0.0), {}),
    ("another number of numbers", layer("Reshape", target_shape=[2]), {}),
    ("has a target_shape", layer("Reshape", target_shape=[-1, -1]), {}),
    ("reads rows of shape", layer("Reshape", target_shape=[3, 1, 1]), {}),
    ("two or more values", layer("Add"), {}),
    ("table of shape", layer("Embedding", input_dim=2, output_dim=2), {"embedding": [np.ones((2, 1))]}),
    ("is built for other rows", layer("ELU") | {"build_config": {"input_shape": [None, 3, 2]}}, {}),
]


@pytest.mark.parametrize(("reason", "entry", "given"), REFUSED)
def test_what_cannot_be_checked_is_refused(reason, entry, given):
    with pytest.raises(CheckError, match=reason):
        read(entry, **given)


@pytest.mark.parametrize("softmax", ["softmax", {"class_name": "Softmax", "config": {}}])
def test_a_softmax_of_single_numbers_has_groups_of_one(softmax):
    """Keras gives 1 for each of them."""
    model = read(layer("Reshape", target_shape=[3, 1]), layer("Activation", activation=softmax), layer("Flatten"))
    assert [node.operation.size for node in model.nodes if isinstance(node.operation, Softmax)] == [1]


def test_only_columns_of_the_input_are_looked_up():
    table = layer("Embedding", input_dim=2, output_dim=1)
    with pytest.raises(CheckError, match="by a column of the inputs"):
        read(table, layer("Flatten"), embedding=[np.ones((2, 1))])
