"""The JSON description of a Keras model: one chain is read, anything else is named."""

import pytest

from fairmend.errors import FairmendError
from fairmend.network import load_network
from support.keras_files import FUNCTIONAL_WEIGHTS, functional, import_keras, quiet, sequential, write_h5


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"b": [[["a", 0, 0, {}], ["in", 0, 0, {}]]]}, r"'b' \(Dense\) does not read the output of exactly one layer"),
        ({"b": [[["a", 0, 0, {}]], [["in", 0, 0, {}]]]}, r"'b' \(Dense\) is not used exactly once"),
        ({"b": [[["a", 0, 0, {"training": True}]]]}, r"'b' \(Dense\) is called with options \(training\)"),
        ({"b": [[["b", 0, 0, {}]]]}, "form a circle"),
        ({"b": [[["x", 0, 0, {}]]]}, "names no layer 'x'"),
        ({"b": []}, "not used exactly once"),
        ({"b": 3}, "not used exactly once"),
        ({"output_layers": [["b", 0, 0], ["a", 0, 0]]}, r"2 outputs \(b, a\)"),
        ({"input_layers": 3}, "no usable 'input_layers'"),
        ({"layers": {}}, "no usable 'layers'"),
    ],
)
def test_functional_models_that_are_no_chain(changed, words, tmp_path):
    with pytest.raises(FairmendError, match=words):
        load_network(write_h5(tmp_path / "m.h5", functional(**changed), FUNCTIONAL_WEIGHTS))


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
@pytest.mark.parametrize("named", [True, False])
def test_a_model_with_several_inputs_is_refused_by_their_names(suffix, named, tmp_path):
    keras = import_keras()
    age, sex = keras.Input((1,), name="age"), keras.Input((2,), name="sex")
    out = keras.layers.Dense(1)(keras.layers.Concatenate()([age, sex]))
    keras.Model({"age": age, "sex": sex} if named else [age, sex], out).save(tmp_path / f"m{suffix}")
    with pytest.raises(FairmendError, match=r"2 inputs \(age, sex\).*one keras\.Input\(\(columns,\)\)") as caught:
        load_network(tmp_path / f"m{suffix}")
    assert "damaged" not in str(caught.value)


@quiet
@pytest.mark.parametrize("suffix", [".h5", ".keras"])
def test_one_input_may_have_a_name(suffix, tmp_path):
    keras = import_keras()
    row = keras.Input((4,), name="row")
    keras.Model({"row": row}, {"score": keras.layers.Dense(1)(row)}).save(tmp_path / f"m{suffix}")
    assert repr(load_network(tmp_path / f"m{suffix}")) == "Network(4 → 1 logit, float32)"
