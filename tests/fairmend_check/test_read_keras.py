"""The .h5 and .keras readers: files that Keras reads in another way than they look are refused."""

import io
import json
import zipfile

import h5py
import numpy as np
import pytest

import fairmend
from fairmend.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.prove.certificate import certificate_of_blindness, certificate_of_fair
from fairmend.spec import Feature, Spec

SPEC = Spec(
    features=[
        Feature(name="g", kind="integer", range=(1, 2), protected=True),
        Feature(name="v", kind="continuous", range=(-1, 1)),
    ]
)


def affine(weight, bias):
    return Affine(np.array(weight, np.float32), np.array(bias, np.float32))


def leaky():
    slopes = [Activation("leaky_relu", 0.5), Activation("leaky_relu", 0.25)]
    return Network([affine([[-1, 0]], [0]), affine([[1]], [0]), affine([[1]], [0.3])], slopes)


def edited_keras(path, network, edit):
    """The network as a .keras file whose config was changed by hand."""
    network.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    edit(config["config"]["layers"])
    members["config.json"] = json.dumps(config).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    path.write_bytes(out.getvalue())


def set_in(kind, **values):
    def edit(layers):
        for layer in layers:
            if layer["class_name"] == kind:
                layer["config"].update(values)

    return edit


def share(layers):
    for layer in layers:
        if layer["class_name"] == "LeakyReLU":
            layer["shared_object_id"] = 5


EDITS = {
    "two slopes": set_in("LeakyReLU", alpha=0.75),
    "an activation in float16": set_in("LeakyReLU", dtype="float16"),
    "inputs as whole numbers": set_in("InputLayer", dtype="int32"),
    "one object twice": share,
    "an unknown option": set_in("Dense", something_new=1),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_keras_config_that_keras_reads_otherwise_is_not_valid(name, tmp_path):
    path, network = tmp_path / "m.keras", leaky()
    certificate, _ = certificate_of_fair(network, SPEC, np.array([[1, 0]], np.float32))
    network.save(path)
    certificate.save(tmp_path / "c.json", path)
    assert fairmend.check(tmp_path / "c.json", path).valid
    edited_keras(path, network, EDITS[name])
    certificate.save(tmp_path / "c.json", path)  # the forger's certificate names the forged file
    assert not fairmend.check(tmp_path / "c.json", path).valid
    if name != "an unknown option":
        with pytest.raises(FairmendError):
            fairmend.load_network(path)


def swap_listed(file):
    group = file["model_weights"]
    names = list(group.attrs["layer_names"])
    first, second = [i for i, name in enumerate(names) if len(group[name.decode()].attrs["weight_names"])][:2]
    names[first], names[second] = names[second], names[first]
    group.attrs["layer_names"] = np.array(names)


def swap_entries(file):
    config = json.loads(file.attrs["model_config"])
    dense = [layer for layer in config["config"]["layers"] if layer["class_name"] == "Dense"]
    dense[0]["name"], dense[1]["name"] = dense[1]["config"]["name"], dense[0]["config"]["name"]
    file.attrs["model_config"] = json.dumps(config)


@pytest.mark.parametrize("edit", [swap_listed, swap_entries])
def test_weights_that_keras_would_give_to_another_layer(edit, tmp_path):
    relu = Activation("relu")
    affines = [affine([[0, 1], [0, 1]], [0, 0]), affine([[1, 0], [1, 0]], [0, 0]), affine([[1, 0]], [-0.5])]
    network, path = Network(affines, [relu, relu]), tmp_path / "m.h5"
    network.save(path)
    with h5py.File(path, "r+") as file:
        edit(file)
    certificate_of_blindness(network, SPEC, [0], method="blind").save(tmp_path / "c.json", path)
    assert not fairmend.check(tmp_path / "c.json", path).valid
    with pytest.raises(FairmendError):
        fairmend.load_network(path)
