"""The JSON description of a Keras model: what its layers read, in the order of Keras; anything else is named."""

import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.keras_files import FUNCTIONAL_WEIGHTS, functional, import_keras, quiet, sequential, write_h5


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"b": [[["a", 0, 0, {}], ["in", 0, 0, {}]]]}, r"'b' \(Dense\) reads the outputs of 2 layers instead of one"),
        ({"b": [[["a", 0, 0, {"training": True}]]]}, r"'b' \(Dense\) is called with options \(training\)"),
        ({"b": [[["b", 0, 0, {}]]]}, "form a circle"),
        ({"b": [[["x", 0, 0, {}]]]}, "names no layer 'x'"),
        ({"b": []}, "reads nothing and is not an input"),
        ({"b": 3}, "reads nothing and is not an input"),
        ({"b": [[["a", 3, 0, {}]]]}, r"'a' \(Dense\) is used 1 times, but use 4 is read"),
        ({"b": [[["a", 0, 1, {}]]]}, "does not read the outputs of other layers alone"),
        ({"b": [[["a", 0]]]}, "does not read the outputs of other layers alone"),
        ({"b": [[["a", 0, 0, 5]]]}, "is called with options"),
        ({"input_layers": [["a", 0, 0]]}, "the model's input 'a' is not an InputLayer"),
        ({"input_layers": [["in", 0, 0], ["in", 0, 0]]}, "an input twice"),
        ({"output_layers": [["b", 0, 0], ["a", 0, 0]]}, r"2 outputs \(b, a\).*get_layer\(\"NAME\"\)"),
        ({"input_layers": 3}, "no usable 'input_layers'"),
        ({"layers": {}}, "no usable 'layers'"),
    ],
)
def test_functional_models_that_do_not_fit_together(changed, words, tmp_path):
    with pytest.raises(FairmendError, match=words):
        load_network(write_h5(tmp_path / "m.h5", functional(**changed), FUNCTIONAL_WEIGHTS))


def operation(kind, *arguments, **changed):
    """A functional model of Keras 3 whose layer "b" is an operation on tensors."""
    model = functional()
    tensors = [{"class_name": "__keras_tensor__", "config": {"keras_history": ["a", 0, 0]}}, *arguments]
    entry = {"class_name": kind, "module": "keras.src.ops.numpy", "registered_name": kind, "config": {"name": "b"}}
    model["config"]["layers"][-1] = {
        **entry, "name": "b", "inbound_nodes": [{"args": tensors, "kwargs": {}}], **changed
    }  # fmt: skip
    return model


SLICE = {"class_name": "__slice__", "config": {"start": None, "stop": None, "step": None}}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (operation("Power", 2.0), "is a function on tensors, not a layer"),
        (operation("Multiply", "x"), "something else than a number"),
        (operation("Divide", 0), "divides by 0"),
        (operation("Add"), "reads the output of one layer instead of several"),
        (operation("GetItem", 1), "something else than columns"),
        (operation("GetItem", [SLICE, 9]), "chooses what rows of shape"),
        (operation("GetItem", [0, SLICE]), "something else than columns"),
        (operation("GetItem", [SLICE, {"class_name": "__slice__", "config": {"start": 9}}]), "chooses no column"),
        (operation("Add", 1.0, inbound_nodes=3), "reads nothing and is not an input"),
    ],
)
def test_operations_that_are_not_read_are_refused(model, words, tmp_path):
    with pytest.raises(FairmendError, match=words):
        load_network(write_h5(tmp_path / "m.h5", model, FUNCTIONAL_WEIGHTS))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"class_name": "MyModel", "config": {}}, "the model is a MyModel, .* export it to ONNX"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "no usable 'class_name'"),
        (sequential(), "holds no affine layer"),
    ],
)
def test_configs_that_are_none(model, words, tmp_path):
    with pytest.raises(FairmendError, match=words):
        load_network(write_h5(tmp_path / "m.h5", model, {}))


@quiet
@pytest.mark.parametrize("suffix", [".h5", ".keras"])
def test_one_input_may_have_a_name(suffix, tmp_path):
    keras = import_keras()
    row = keras.Input((4,), name="row")
    keras.Model({"row": row}, {"score": keras.layers.Dense(1)(row)}).save(tmp_path / f"m{suffix}")
    assert repr(load_network(tmp_path / f"m{suffix}")) == "Network(4 → 1 logit, float32)"
