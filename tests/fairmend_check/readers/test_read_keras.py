"""The .h5 and .keras readers: files that Keras reads in another way than they look are refused."""

import io
import json
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.prove.certificate import certificate_of_blindness, certificate_of_fair
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend.spec import Feature, Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import weights_digest
from fairmend_check.readers.keras_config import Layer
from fairmend_check.readers.keras_layers import _normalization
from fairmend_check.readers.read_model import read_model
from support.checker_cases import TWO_FEATURES as SPEC
from support.checker_cases import affine
from support.fuzzing.hdf5_layout import fields
from support.keras_files import dense, import_keras, quiet, sequential, write_h5

CORPUS = Path(__file__).parents[2] / "corpus" / "keras"


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


def capped(value):
    def edit(layers):
        for layer in layers:
            if layer["class_name"] == "LeakyReLU":
                layer["class_name"] = "ReLU"
                layer["config"]["max_value"] = value

    return edit


def policy(**changes):
    described = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}, "registered_name": None}
    return set_in("Dense", dtype={**described, **changes})


def initializer(**changes):
    described = {"module": "keras.initializers", "class_name": "Zeros", "config": {}, "registered_name": None}
    return set_in("Dense", kernel_initializer={**described, **changes})


def of_each(**values):
    def edit(layers):
        for layer in layers:
            layer.update(values)

    return edit


EDITS = {
    "two slopes": set_in("LeakyReLU", alpha=0.75),
    "an activation in float16": set_in("LeakyReLU", dtype="float16"),
    "inputs as whole numbers": set_in("InputLayer", dtype="int32"),
    "one object twice": share,
    "an unknown option": set_in("Dense", something_new=1),
    "activations capped at 0": capped(0),
    "activations capped at false": capped(False),
    "a policy for each layer": policy(class_name="DTypePolicyMap"),
    "a quantized policy": policy(class_name="QuantizedDTypePolicy", config={"name": "float32", "source_name": "int8"}),
    "a policy of one's own": policy(registered_name="My>DTypePolicy"),
    "an initializer of one's own": initializer(registered_name="My>Zeros"),
    "an initializer that is a function": initializer(class_name="__lambda__"),
    "an initializer of another module": initializer(module="keras.ops"),
    "layers that are operations": of_each(module="keras.ops"),
    "layers of one's own": of_each(registered_name="LeakyReLU"),
    "an adapted layer": set_in("Dense", lora_rank=2),
    "a quantized layer": set_in("Dense", quantization_config={"mode": "int8"}),
    "rows of matrices": of_each(build_config={"input_shape": [None, 3, 2]}),
    "a name that is a path": set_in("Dense", name="a/b"),
}
# What fairmend's own reader ignores, because it does not change what the layers compute at inference.
IGNORED = [name for name in EDITS if name.startswith(("an unknown", "a policy", "an initializer", "layers that"))]
IGNORED += ["an adapted layer", "rows of matrices", "a quantized policy", "layers of one's own"]


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
    if name not in IGNORED:
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


# Files that Keras reads as FORGED and that look like HONEST, which ignores the protected feature.
HONEST, FORGED = np.float32([[0], [1]]), np.float32([[5], [1]])
BIAS = np.float32([0])


def two_kernels(path, names, other="other"):
    """A model of one layer, whose group holds a second kernel; `names` are its weight_names."""
    write_h5(path, sequential(dense("a", 1, batch_input_shape=[None, 2])), {"a": {"kernel": FORGED, "bias": BIAS}})
    with h5py.File(path, "r+") as file:
        group = file["model_weights/a"]
        group[other] = HONEST
        del group.attrs["weight_names"]
        if isinstance(names, tuple):
            kind, texts = names
            created = h5py.h5a.create(group.id, b"weight_names", kind, h5py.h5s.create_simple((2,)))
            created.write(texts, mtype=kind)
        else:
            group.attrs["weight_names"] = names


def padded_with_spaces(path):
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(8)
    kind.set_strpad(h5py.h5t.STR_SPACEPAD)
    two_kernels(path, (kind, np.array([b"kernel  ", b"bias    "], "S8")), other="kernel  ")
    with h5py.File(path, "r+") as file:
        file["model_weights/a/bias    "] = BIAS


def link_named_dot(path):
    two_kernels(path, np.array([b"./kernel", b"bias"]), other="-/kernel")
    content = path.read_bytes()
    place = next(f for f in fields(content) if f.label == "name" and f.path.endswith("/-"))
    path.write_bytes(content[: place.start] + b"." + content[place.start + 1 :])


ATTACKS = {"padded with spaces": padded_with_spaces, "a link named dot": link_named_dot}


def kernel_by_h5py(path):
    """The kernel of layer "a" as Keras takes it from h5py."""
    with h5py.File(path) as file:
        group = file["model_weights/a"]
        name = group.attrs["weight_names"][0]
        return group[name][()]


@pytest.mark.parametrize("name", ATTACKS)
def test_another_kernel_than_the_one_that_h5py_reads(name, tmp_path):
    path = tmp_path / "m.h5"
    ATTACKS[name](path)
    assert np.array_equal(kernel_by_h5py(path), FORGED)
    certificate = certificate_of_blindness(Network([affine(HONEST.T, BIAS)], []), SPEC, [0], method="blind")
    certificate.save(tmp_path / "c.json", path)
    assert not fairmend.check(tmp_path / "c.json", path).valid


def rezipped(path, edit):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    weights = io.BytesIO(members["model.weights.h5"])
    with h5py.File(weights, "r+") as file:
        edit(file)
    members["model.weights.h5"] = weights.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_numbers_with_an_attribute_dtype_which_keras_obeys(tmp_path):
    path = tmp_path / "m.keras"
    Network([affine([[0, 1 + 2**-20]], [0])], []).save(path)
    rezipped(path, lambda file: file["layers/dense/vars/0"].attrs.create("dtype", "bfloat16"))
    with pytest.raises(CheckError, match="have attributes"):
        read_model(path)


@pytest.mark.parametrize(
    "place", ["_functional/layers/dense/vars", "_layer_checkpoint_dependencies/dense/vars", "layers/dense_1/vars"]
)
def test_weights_beside_those_of_the_layers(place, tmp_path):
    path = tmp_path / "m.keras"
    Network([affine([[0, 1]], [0])], []).save(path)
    read_model(path)
    rezipped(path, lambda file: file.create_dataset(f"{place}/0", data=FORGED))
    with pytest.raises(CheckError, match="does not write"):
        read_model(path)


def test_a_file_that_is_a_zip_archive_as_well(tmp_path):
    path = tmp_path / "m.h5"
    Network([affine([[0, 1]], [0])], []).save(path)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("config.json", "{}")
    path.write_bytes(path.read_bytes() + archive.getvalue())
    with pytest.raises(CheckError, match="can also be read as a zip archive"):
        read_model(path)


def test_the_networks_of_the_literature(shared):
    for path in sorted((shared / "models").glob("*.h5")):
        assert weights_digest(read_model(path)[0]) == digest_of_network(fairmend.load_network(path))


# A float64 network that gives everyone class 1 and is proven to: g = 7 is 0.7, and 0.7 in float32 is below 0.7.
DOUBLE = Network([Affine(np.array([[1.0, 0.0]]), np.array([1e-9 - 0.7]))], [])
AGES = Spec(
    features=[
        Feature(name="g", kind="integer", range=(7, 10), protected=True, scale={"mean": 0, "std": 10}),
        Feature(name="v", kind="continuous", range=(-1, 1)),
    ]
)
PEOPLE = np.array([[0.7, 0.0], [1.0, 0.0]])  # they differ in g only


def double_file(path):
    """DOUBLE as Keras itself saves it, with float64 policies."""
    keras = import_keras()
    model = keras.Sequential(
        [keras.layers.InputLayer(shape=(2,), dtype="float64"), keras.layers.Dense(1, dtype="float64")]
    )
    model.set_weights([DOUBLE.affines[0].weight.T, DOUBLE.affines[0].bias])
    model.save(path)
    return keras.models.load_model(path)


@quiet
@pytest.mark.parametrize("suffix", [".h5", ".keras"])
def test_a_float64_model_treats_people_unequally_in_keras_and_is_refused(suffix, tmp_path):
    path = tmp_path / f"m{suffix}"
    certificate, _ = certificate_of_fair(DOUBLE, AGES, PEOPLE[:1])
    DOUBLE.save(tmp_path / "m.onnx")
    certificate.save(tmp_path / "c.json", tmp_path / "m.onnx")
    assert fairmend.check(tmp_path / "c.json", tmp_path / "m.onnx").valid
    assert (DOUBLE.predict(PEOPLE) == 1).all()
    answers = double_file(path).predict(PEOPLE, verbose=0)[:, 0]
    assert answers[0] < 0 < answers[1]
    certificate.save(tmp_path / "c.json", path)
    found = fairmend.check(tmp_path / "c.json", path)
    assert not found.valid
    assert "only float32 models can be checked" in found.reasons[0]
    for refuse in (lambda: DOUBLE.save(path), lambda: fairmend.load_network(path)):
        with pytest.raises(FairmendError, match="Keras rounds its inputs to float32"):
            refuse()
    DOUBLE.astype(np.float32).save(path)
    assert not fairmend.check(tmp_path / "c.json", path).valid


@pytest.mark.parametrize("variance", [-1.0, [1.0, -1e-9]])
def test_the_root_of_a_negative_variance_is_not_taken_for_0(variance):
    """Keras divides by it, and every score is NaN."""
    with pytest.raises(CheckError, match="negative variance"):
        _normalization(Layer("Normalization", "n", {"mean": 0.0, "variance": variance}), [], 1)
