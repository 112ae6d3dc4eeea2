"""Every format, from a model as its own tools make it to a repaired, certified, saved and checked one."""

import warnings
from collections import OrderedDict

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file
from torch import nn

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.network.formats.sklearn import to_estimator
from support.cli_case import small_people, small_spec
from support.keras_files import import_keras, predictions, quiet

SPEC = small_spec()
PEOPLE = small_people(120)
X, Y = SPEC.as_inputs(PEOPLE, np.float32), SPEC.labels(PEOPLE)


def module() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(X.shape[1], 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 1), nn.Sigmoid())


class Traced(nn.Module):
    """Nothing that nn.Sequential could express: a forward() of one's own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.hidden, self.drop, self.last = nn.Linear(X.shape[1], 8), nn.Dropout(), nn.Linear(8, 1)

    def forward(self, x):
        return torch.sigmoid(self.last(self.drop(torch.relu(self.hidden(x))))).squeeze(-1)


def weights() -> OrderedDict:
    return OrderedDict((key, value.detach().numpy().copy()) for key, value in module().state_dict().items())


def keras_model(keras):
    """Return a model with biases other than 0: Keras leaves out those that are 0 when it exports to ONNX."""
    keras.utils.set_random_seed(3)
    layers, biases = keras.layers, {"bias_initializer": "random_normal"}
    return keras.Sequential(
        [
            keras.Input((X.shape[1],)),
            layers.Dense(8, activation="relu", **biases),
            layers.Dropout(0.2),
            layers.Dense(6, activation="relu", **biases),
            layers.Dense(1, activation="sigmoid", **biases),
        ]
    )


def by_keras(path):
    keras_model(import_keras()).save(path)


def by_keras_export(path):
    model = keras_model(import_keras())
    model(X)
    model.export(path, format="onnx", verbose=False)


def by_torch(dynamo):
    def export(path):
        if dynamo:
            pytest.importorskip("onnxscript")
        options = {"external_data": False, "verbose": False} if dynamo else {}
        torch.onnx.export(module().eval(), (torch.zeros(2, X.shape[1]),), path, dynamo=dynamo, **options)

    return export


def by_torch_by_default(path):
    """Weights in a file beside the model, which small tensors do not reach: all of them are moved there."""
    by_torch(True)(path)
    onnx.save(onnx.load(path), path, save_as_external_data=True, size_threshold=0, location=f"{path.name}.data")


def by_tf2onnx(path):
    """As tf2onnx writes a Keras model: weights (in, out) under TensorFlow's names, MatMul, Add, and an Identity."""
    parts = list(weights().values())
    nodes, tensors, value = [], [], "dense_input:0"
    for i, (weight, bias) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        stem = f"StatefulPartitionedCall/sequential/dense_{i}"
        names = [f"{stem}/{kind}/ReadVariableOp:0" for kind in ("MatMul", "BiasAdd")]
        tensors += [numpy_helper.from_array(np.ascontiguousarray(weight.T), names[0])]
        tensors += [numpy_helper.from_array(bias, names[1])]
        nodes += [helper.make_node("MatMul", [value, names[0]], [f"{stem}/MatMul:0"], f"{stem}/MatMul")]
        nodes += [helper.make_node("Add", [f"{stem}/MatMul:0", names[1]], [f"{stem}/BiasAdd:0"], f"{stem}/BiasAdd")]
        kind, value = ("Relu" if i < 2 else "Sigmoid"), f"{stem}/activation:0"
        nodes += [helper.make_node(kind, [f"{stem}/BiasAdd:0"], [value], f"{stem}/{kind}")]
    nodes += [helper.make_node("Identity", [value], ["dense_2"], "Identity")]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["unk__6", width])]
        for name, width in (("dense_input:0", X.shape[1]), ("dense_2", 1))
    ]
    graph = helper.make_graph(nodes, "tf2onnx", *ends, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)


def estimator(dtype):
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPClassifier((8, 6), max_iter=15, random_state=0).fit(X.astype(dtype), Y)


def by_skl2onnx(path):
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed (extra: dev)")
    onnx.save(skl2onnx.to_onnx(estimator(np.float32), X[:1]), path)


def by_hand_nnet(path):
    parts = list(weights().values())
    widths = [X.shape[1], 8, 6, 1]
    rows = [[3, widths[0], 1, 8], widths, [0], [-9] * widths[0], [9] * widths[0], [0] * (widths[0] + 1)]
    rows += [[1] * (widths[0] + 1)]
    for weight, bias in zip(parts[::2], parts[1::2], strict=True):
        rows += [*weight.tolist(), *bias[:, None].tolist()]
    path.write_text("// by hand\n" + "".join(",".join(map(str, row)) + ",\n" for row in rows))


FILES = {
    ".h5": (by_keras, "m.h5"),
    ".keras": (by_keras, "m.keras"),
    ".nnet": (by_hand_nnet, "m.nnet"),
    "onnx by torch.export": (by_torch(True), "m.onnx"),
    "onnx with external data": (by_torch_by_default, "m.onnx"),
    "onnx by TorchScript": (by_torch(False), "m.onnx"),
    "onnx by Keras": (by_keras_export, "m.onnx"),
    "onnx by tf2onnx": (by_tf2onnx, "m.onnx"),
    "onnx by skl2onnx": (by_skl2onnx, "m.onnx"),
    ".safetensors": (lambda path: save_file(weights(), path), "m.safetensors"),
    ".pth": (lambda path: torch.save(module().state_dict(), path), "m.pth"),
}


def repaired(source, saved, certificate, rows=X):
    """Repair, save, certify again and check; the saved file gives the same predictions, bit by bit."""
    result = fairmend.repair(
        source, SPEC, rows[:12], rows[12:], Y[12:], method="prof", training=fairmend.TrainingOptions(steps=5)
    )
    result.network.save(saved)
    result.certificate.save(certificate, saved)
    report = fairmend.check(certificate, saved)
    assert report.valid, report.reasons
    assert report.regions == 12
    again = fairmend.load_network(saved)
    assert again.logits(rows).tobytes() == result.network.logits(rows).tobytes()
    assert {verdict.name for verdict in fairmend.certify(saved, SPEC, rows[:12]).verdicts} == {"FAIR"}
    return result.network


@quiet
@pytest.mark.parametrize("case", FILES)
def test_from_a_file_to_a_repaired_file_of_the_same_format(case, tmp_path):
    make, name = FILES[case]
    make(tmp_path / name)
    bare = case in (".safetensors", ".pth")
    before = fairmend.load_network(tmp_path / name, "relu") if bare else fairmend.load_network(tmp_path / name)
    saved = tmp_path / f"repaired-{name}"
    network = repaired(before if bare else tmp_path / name, saved, tmp_path / "certificate.json")
    assert network.affines != before.affines
    assert network.closing == before.closing
    expected = network.probabilities(X) if network.closing == "sigmoid" else network.logits(X)
    if name.endswith(".onnx"):
        assert np.allclose(scores_of(saved), expected, atol=1e-5)
    if case in (".h5", ".keras"):
        assert np.allclose(predictions(import_keras().models.load_model(saved), X), expected, atol=1e-5)
    if case == ".pth":
        other = module()
        other.load_state_dict(torch.load(saved, weights_only=True))
        with torch.no_grad():
            assert np.allclose(other(torch.tensor(X))[:, 0].numpy(), network.probabilities(X), atol=1e-5)


def scores_of(path):
    """The scores of X, in batches of the size that the file was exported with; of a label and scores, the latter."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    size = given.shape[0] if isinstance(given.shape[0], int) else len(X)
    parts = [session.run(None, {given.name: X[i : i + size]})[-1] for i in range(0, len(X), size)]
    if isinstance(parts[0], list):
        return np.array([row[max(row)] for part in parts for row in part])
    return np.concatenate(parts).reshape(len(X), -1)[:, -1]


@pytest.mark.parametrize("make", [module, Traced])
def test_from_a_module_to_a_repaired_module(make, tmp_path):
    network = repaired(make(), tmp_path / "m.pth", tmp_path / "certificate.json")
    other = make()
    other.load_state_dict(torch.load(tmp_path / "m.pth", weights_only=True))
    assert fairmend.load_network(other) == network


def test_from_a_fitted_estimator_to_a_repaired_one(tmp_path):
    rows = SPEC.as_inputs(PEOPLE, np.float64)
    model = estimator(np.float64)
    network = repaired(model, tmp_path / "m.onnx", tmp_path / "certificate.json", rows)
    other = to_estimator(network, like=model)
    assert fairmend.load_network(other) == network
    assert (other.predict(rows) == network.predict(rows)).all()
    assert np.allclose(other.predict_proba(rows)[:, 1], network.probabilities(rows), atol=1e-12)


def without_biases(head_only: bool = False) -> nn.Sequential:
    torch.manual_seed(5)
    inner = (nn.Linear(X.shape[1], 6, bias=head_only), nn.Tanh(), nn.Linear(6, 4, bias=head_only), nn.Tanh())
    return nn.Sequential(*inner, nn.Linear(4, 1, bias=False)).eval()


def keras_without_biases(path):
    keras = import_keras()
    keras.utils.set_random_seed(5)
    layers = keras.layers
    inner = layers.Dense(6, "tanh", use_bias=False)
    keras.Sequential([keras.Input((X.shape[1],)), inner, layers.Dense(1, use_bias=False)]).save(path)


def onnx_without_biases(path):
    torch.onnx.export(without_biases(), (torch.zeros(2, X.shape[1]),), path, dynamo=False)


def program_without_biases(path):
    torch.export.save(torch.export.export(without_biases(), (torch.zeros(2, X.shape[1]),)), path)


WITHOUT_BIASES = {
    ".h5": (keras_without_biases, "m.h5"),
    ".keras": (keras_without_biases, "m.keras"),
    ".onnx": (onnx_without_biases, "m.onnx"),
    ".pt2": (program_without_biases, "m.pt2"),
    ".pth": (lambda path: torch.save(without_biases().state_dict(), path), "m.pth"),
    ".safetensors": (lambda path: save_file(tensors_without_biases(), path), "m.safetensors"),
    ".ckpt": (lambda path: torch.save({"state_dict": without_biases().state_dict(), "epoch": 1}, path), "m.ckpt"),
}


def tensors_without_biases() -> dict:
    return {key: value.numpy() for key, value in without_biases().state_dict().items()}


def repaired_and_checked(source, saved, method, **options):
    """Repair and save; check the certificate, and everyone that it claims by all counterfactuals."""
    result = fairmend.repair(source, SPEC, X[:12], X[12:], Y[12:], method=method, **options)
    result.network.save(saved)
    result.certificate.save(saved.with_suffix(".json"), saved)
    report = fairmend.check(saved.with_suffix(".json"), saved)
    assert report.valid, report.reasons
    return result


@quiet
@pytest.mark.parametrize("case", WITHOUT_BIASES)
def test_a_file_without_biases_stays_without_them(case, tmp_path):
    make, name = WITHOUT_BIASES[case]
    make(tmp_path / name)
    bare = case in (".pth", ".safetensors", ".ckpt")
    before = fairmend.load_network(tmp_path / name, *(["tanh"] if bare else []))
    saved = tmp_path / f"repaired-{name}"
    network = repaired_and_checked(before, saved, "blind", training=fairmend.TrainingOptions(steps=5)).network
    again = fairmend.load_network(saved)
    assert again == network
    assert not any(affine.stores_bias or affine.bias.any() for affine in again.affines)
    if name.endswith(".onnx"):
        kinds = [[node.op_type for node in onnx.load(path).graph.node] for path in (tmp_path / name, saved)]
        assert kinds[0] == kinds[1]
        assert np.allclose(scores_of(saved), network.logits(X), atol=1e-5)
    elif case in (".h5", ".keras"):
        model = import_keras().models.load_model(saved)
        assert not any(layer.use_bias for layer in model.layers)
        assert np.allclose(predictions(model, X), network.logits(X), atol=1e-5)
    else:
        tensors = load_file(saved) if case == ".safetensors" else saved_tensors(saved)
        module = without_biases()
        module.load_state_dict({key: torch.as_tensor(value) for key, value in tensors.items()}, strict=True)
        with torch.no_grad():
            assert np.allclose(module(torch.tensor(X))[:, 0].numpy(), network.logits(X), atol=1e-5)


def saved_tensors(path):
    if path.suffix == ".pt2":
        return torch.export.load(path).state_dict
    content = torch.load(path, weights_only=True)
    return content["state_dict"] if path.suffix == ".ckpt" else content


@pytest.mark.parametrize(
    ("method", "head_only"),
    [
        ("auto", False),
        ("blind", True),
        ("prof", True),
        ("prof", False),
        ("prof-concrete", True),
        ("flip", False),
        ("care", False),
        ("grft", False),
    ],
)
def test_every_method_gives_back_a_module_that_loads_strictly_without_biases(method, head_only, tmp_path):
    options = {} if method == "auto" else {"training": fairmend.TrainingOptions(steps=5)}
    result = repaired_and_checked(without_biases(head_only), tmp_path / "m.pth", method, **options)
    for tensors in (result.network.to_module().state_dict(), torch.load(tmp_path / "m.pth", weights_only=True)):
        module = without_biases(head_only)
        module.load_state_dict(tensors, strict=True)
        assert fairmend.load_network(module) == result.network
    found = find_unequal(result.network, SPEC, X[:12])
    assert not (found.rows & result.proof.holds).any()
