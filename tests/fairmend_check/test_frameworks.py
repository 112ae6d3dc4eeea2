"""Files that frameworks read otherwise than they look: an honest reader refuses them, and so does the checker."""

import io
import json
import zipfile

import h5py
import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper
from sklearn.compose import ColumnTransformer
from sklearn.impute import KNNImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import fairmend
from fairmend.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.prove.certificate import certificate_of_blindness, certificate_of_fair
from fairmend.sklearn import FairRepairClassifier
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


def test_runtimes_take_any_trans_b_but_0_for_1(tmp_path):
    stored, path = np.array([[0, 0], [1, 1]], np.float32), tmp_path / "m.onnx"
    network = Network([affine(stored.T, [0, 0]), affine([[1, 1]], [-0.5])], [Activation("relu")])
    network.save(path)
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tuple(tensor.dims) == (2, 2):
            tensor.CopyFrom(numpy_helper.from_array(stored, tensor.name))
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "transB":
            attribute.i = 2
    onnx.save(model, path)
    certificate_of_blindness(network, SPEC, [0], method="blind").save(tmp_path / "c.json", path)
    assert not fairmend.check(tmp_path / "c.json", path).valid


def test_a_label_that_is_above_a_half_of_no_probability_is_refused(tmp_path):
    nodes = [
        helper.make_node("Gemm", ["X", "W", "b"], ["p"]),
        helper.make_node("Sub", ["one", "p"], ["q"]),
        helper.make_node("Concat", ["q", "p"], ["both"], axis=1),
        helper.make_node("ArgMax", ["both"], ["label"], axis=1, keepdims=0),
        helper.make_node("Identity", ["both"], ["probabilities"]),
    ]
    arrays = {"W": [[0.4], [0.0]], "b": [0.3], "one": [1.0]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 2]),
        ],
        [numpy_helper.from_array(np.array(values, np.float32), name) for name, values in arrays.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(FairmendError, match="Concat"):
        fairmend.load_network(path)


def test_a_protected_feature_with_one_value_claims_nothing(tmp_path):
    network, path = Network([affine([[1, 0]], [0]), affine([[1]], [-0.5])], [Activation("relu")]), tmp_path / "m.onnx"
    network.save(path)
    certificate, _ = certificate_of_fair(network, SPEC, np.array([[1, 0]], np.float32))
    certificate.save(tmp_path / "c.json", path)
    assert "for these values: g 1 to 2." in fairmend.check(tmp_path / "c.json", path).claim
    forged = json.loads((tmp_path / "c.json").read_text())
    forged["spec"]["content"]["feature"][0]["range"] = [1, 1]
    (tmp_path / "c.json").write_text(json.dumps(forged))
    report = fairmend.check(tmp_path / "c.json", path)
    assert not report.valid
    assert "one value only" in report.reasons[0]


def test_weights_alone_hold_only_with_the_activation_they_were_proven_with(tmp_path):
    import torch

    network = Network([affine([[1, 0]], [0]), affine([[1]], [-0.1])], [Activation("tanh")])
    path = tmp_path / "m.pth"
    torch.save({f"{i}.{k}": torch.from_numpy(np.array(getattr(a, k))) for i, a in enumerate(network.affines) for k in ("weight", "bias")}, path)  # noqa: E501  # fmt: skip
    certificate, _ = certificate_of_fair(network, SPEC, np.array([[1, 0]], np.float32))
    certificate.save(tmp_path / "c.json", path)
    report = fairmend.check(tmp_path / "c.json", path)
    assert report.valid
    assert "all this holds if tanh stands between its layers" in report.claim


def test_a_step_that_looks_at_other_columns_is_refused_beside_a_spec_too():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.integers(1, 3, 80).astype(float), "v": rng.uniform(-1, 1, 80)})
    pipeline = make_pipeline(KNNImputer(), MLPClassifier((4,), max_iter=5, random_state=0))
    with pytest.warns(UserWarning, match="iterations"), pytest.raises(FairmendError, match="KNNImputer"):
        FairRepairClassifier(pipeline, spec=SPEC, method="blind").fit(X, X["v"] > 0)


def test_a_scaler_that_clips_is_refused():
    if "clip" not in MaxAbsScaler().get_params():
        pytest.skip("this scikit-learn's MaxAbsScaler does not clip")
    frame = pd.DataFrame({"g": [0.0, 1, 0, 1], "v": [-1.0, 2, 3, 4]})
    fitted = ColumnTransformer([("a", MaxAbsScaler(clip=True), ["g", "v"])]).fit(frame)
    with pytest.raises(FairmendError, match="clips"):
        Spec.from_sklearn(fitted, "g", data=frame)
