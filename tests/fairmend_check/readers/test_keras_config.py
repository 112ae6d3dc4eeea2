"""Configs of Keras models: nothing in them may be read otherwise by another version of Keras."""

import copy
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import fairmend
from fairmend.base.errors import FairmendError
from fairmend_check.errors import CheckError
from fairmend_check.readers.keras_config import read_config
from fairmend_check.readers.read_model import read_model
from support.keras_files import import_keras, quiet

(NORMS,) = (Path(__file__).parents[2] / "corpus" / "keras").glob("keras3.15.1*norms.keras")
with zipfile.ZipFile(NORMS) as archive:
    CONFIG = json.loads(archive.read("config.json"))
NAMES = [layer["config"]["name"] for layer in CONFIG["config"]["layers"]]


def read(config):
    return [layer.name for layer in read_config(json.dumps(config).encode()).layers]


def test_a_chain_is_read_in_its_order():
    assert read(CONFIG) == NAMES


def entry(config, kind):
    return next(layer for layer in config["config"]["layers"] if layer["class_name"] == kind)


def reads(config, kind, *source):
    tensor = entry(config, kind)["inbound_nodes"][0]["args"][0]
    tensor["config"]["keras_history"] = list(source)


EDITS = {
    "is not a part of what the model computes": lambda config: reads(config, "Dropout", NAMES[0], 0, 0),
    "reads a use of layer": lambda config: reads(config, "Dropout", NAMES[5], 1, 0),
    "listed in the order": lambda config: config["config"]["layers"].insert(1, config["config"]["layers"].pop(3)),
    "called with options": lambda config: entry(config, "Dropout")["inbound_nodes"][0]["kwargs"].update(training=True),
    'unknown key "attention"': lambda config: entry(config, "Dense")["inbound_nodes"][0]["kwargs"].update(
        attention=None
    ),
    "is not a part of": lambda config: config["config"].update(output_layers=[NAMES[3], 0, 0]),
    "input_layers are not": lambda config: config["config"].update(input_layers=[[NAMES[0], 0, 0], [NAMES[1], 0, 0]]),
    "does not read one value, or a list": lambda config: entry(config, "Dense")["inbound_nodes"][0].update(args=[]),
    "not a part of Keras": lambda config: config.update(registered_name="My>Functional"),
    "neither a Sequential nor functional": lambda config: config.update(class_name="MyModel"),
    "option renorm": lambda config: entry(config, "BatchNormalization")["config"].update(renorm=True),
    'unknown key "something"': lambda config: entry(config, "Rescaling")["config"].update(something=1),
    "computes in float16": lambda config: entry(config, "Normalization")["config"].update(dtype="float16"),
    "has the activation Dense": lambda config: entry(config, "Dense")["config"].update(
        activation={"class_name": "Dense", "config": {}}
    ),
}


@pytest.mark.parametrize("reason", EDITS)
def test_what_could_be_read_otherwise_is_refused(reason):
    config = copy.deepcopy(CONFIG)
    EDITS[reason](config)
    with pytest.raises(CheckError, match=reason):
        read(config)


def test_keras_2_names_the_source_in_a_list():
    config = copy.deepcopy(CONFIG)
    for before, layer in zip(NAMES, config["config"]["layers"][1:], strict=False):
        layer["inbound_nodes"] = [[[before, 0, 0, {}]]]
    config["config"]["input_layers"] = [[NAMES[0], 0, 0]]
    assert read(config) == NAMES


def test_an_activation_may_be_a_layer():
    config = copy.deepcopy(CONFIG)
    entry(config, "Dense")["config"]["activation"] = {
        "class_name": "LeakyReLU", "config": {"name": "l", "negative_slope": {"type": "ndarray", "value": 0.25}}
    }  # fmt: skip
    assert read(config) == NAMES


@quiet
@pytest.mark.parametrize("base", ["in a list", "alone"])
@pytest.mark.parametrize("axis", [1, -1])
def test_one_more_axis_after_a_functional_model_in_a_sequential(base, axis, tmp_path):
    """Until Keras 3.10 its output is in a list, of which Keras 3.11 makes an axis; axis 1 is then that of people."""
    keras = import_keras()
    start = keras.Input((3,))
    inner = keras.Model(start, keras.layers.Dense(3, activation="tanh")(start), name="base")
    model = keras.Sequential([keras.Input((3,)), inner, keras.layers.Dense(2), keras.layers.Softmax(axis=axis)])
    path = tmp_path / "m.keras"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    (content,) = [layer["config"] for layer in config["config"]["layers"] if layer["class_name"] == "Functional"]
    assert type(content["output_layers"][0]) is str
    if base == "in a list":
        content["output_layers"], content["input_layers"] = [content["output_layers"]], [content["input_layers"]]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (members | {"config.json": json.dumps(config).encode()}).items():
            archive.writestr(zipfile.ZipInfo(name), data)
    rows = np.array([[1, 2, 3], [-1, 0, 2]], np.float32)
    found, expected = (np.asarray(each.predict_on_batch(rows)) for each in (keras.models.load_model(path), model))
    assert found.shape == ((1, 2, 2) if base == "in a list" else (2, 2))
    if base == "in a list" and axis == 1:
        assert np.abs(found[0].sum(axis=0) - 1).max() < 1e-5  # over the people
        for refuse, error in ((read_model, CheckError), (fairmend.load_network, FairmendError)):
            with pytest.raises(error, match=r"Use axis=-1, or save the model with the Keras that runs it"):
                refuse(path)
    else:
        np.testing.assert_allclose(found.reshape(2, 2), expected, rtol=1e-5)
        np.testing.assert_allclose(fairmend.load_network(path).probabilities(rows), expected, rtol=1e-5)
        read_model(path)
