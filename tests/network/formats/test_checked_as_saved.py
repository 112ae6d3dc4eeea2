"""A model as its own tools save it, untouched: whatever load_network reads, `certify` certifies and `check` confirms.

After a repair, the file has the same signature: it goes where the original was.
"""

import shutil
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from safetensors.torch import load_file, save_file
from skl2onnx import to_onnx
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from torch import nn

import fairmend
from fairmend.spec import Feature, Label, Spec
from support.cli_case import run
from support.keras_files import dense, kernel_and_bias, write_h5
from support.torch_modules import adam_state, trained_norm

CORPUS = Path(__file__).parents[2] / "corpus"
SPEC = Spec(
    [
        Feature("group", "integer", range=(0, 1), protected=True),
        Feature("income", "continuous", range=(-3, 3)),
        Feature("debt", "continuous", range=(-3, 3)),
    ],
    Label("good", "yes"),
)
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.integers(0, 2, 60), RNG.normal(size=(60, 2)).clip(-3, 3)]).astype(np.float32)
Y = np.where(X[:, 1] + 0.1 * X[:, 0] > 0.2, "yes", "no")


def module(last=nn.Sigmoid):
    torch.manual_seed(1)
    layers = [
        nn.Linear(3, 5, bias=False),
        trained_norm(5),
        nn.LeakyReLU(),
        nn.Dropout(),
        nn.Linear(5, 4),
        nn.LeakyReLU(),
    ]
    return nn.Sequential(*layers, nn.Linear(4, 1), *([last()] if last else [])).eval()


def state_dict(path):
    torch.save(module(None).state_dict(), path)


def checkpoint(path):
    """What training scripts save to go on later."""
    trained = module(None)
    state = {"epoch": 3, "model_state_dict": trained.state_dict(), "optimizer_state_dict": adam_state(trained)}
    torch.save(state | {"best": None, "losses": [0.5, 0.25], "args": {"seed": 1}}, path)


def tensors(path):
    save_file(module(None).state_dict(), path, metadata={"format": "pt"})


def torchscript(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls its exporter old
        options = {"input_names": ["people"], "output_names": ["risk"], "dynamic_axes": {"people": {0: "N"}}}
        torch.onnx.export(module(), (torch.zeros(2, 3),), str(path), dynamo=False, **options)


def with_weights_as_inputs(version):
    """Return a writer of an ONNX file that lists its weights as inputs too, as old exporters did."""

    def write(path):
        torchscript(path)
        model = onnx.load(path)
        model.ir_version = version
        for one in model.graph.initializer:
            model.graph.input.append(helper.make_tensor_value_info(one.name, one.data_type, list(one.dims)))
        onnx.save(model, path)

    return write


def by_skl2onnx(scaler, **options):
    def write(path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = make_pipeline(scaler, MLPClassifier((4,), max_iter=50, random_state=0)).fit(X, Y)
        path.write_bytes(to_onnx(model, X[:1], options={id(model): options} if options else None).SerializeToString())

    return write


def like_tf2onnx(path):
    """Weights in Constant nodes, products and sums, and a Squeeze at the end."""
    rng = np.random.default_rng(5)
    arrays = {"w": rng.normal(size=(3, 4)), "b": rng.normal(size=4), "v": rng.normal(size=(4, 1)), "c": [0.25]}
    stored = {name: numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in arrays.items()}
    stored["axes"] = numpy_helper.from_array(np.array([1]), "axes")
    nodes = [helper.make_node("Constant", [], [name], value=tensor) for name, tensor in stored.items()]
    for kind, inputs, output in [
        *(("MatMul", "x w", "p"), ("Add", "p b", "q"), ("Relu", "q", "r"), ("MatMul", "r v", "s"), ("Add", "s c", "t")),
        *(("Sigmoid", "t", "u"), ("Squeeze", "u axes", "score")),
    ]:
        nodes.append(helper.make_node(kind, inputs.split(), [output]))
    ends = [helper.make_tensor_value_info("x", 1, [None, 3])], [helper.make_tensor_value_info("score", 1, [None])]
    graph = helper.make_graph(nodes, "tf2onnx", *ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    helper.set_model_props(model, {"model": "v3"})
    onnx.save(model, path)


def nnet(means, ranges):
    """Return a writer of a .nnet file as other programs write it, with float32 numbers in six digits."""

    def write(path):
        rng = np.random.default_rng(3)
        lines = ["// a network", "2,3,1,4,", "3,4,1,", "0,", "0,-3,-3,", "1,3,3,", means, ranges]
        for after, before in ((4, 3), (1, 4)):
            lines += ["".join(f"{value:.5e}," for value in row) for row in rng.normal(size=(after, before))]
            lines += [f"{value:.5e}," for value in rng.normal(size=after)]
        path.write_text("\r\n".join([*lines, ""]))

    return write


def old_keras(path):
    """A Sequential whose config is a list, as Keras wrote it before 2.2.3."""
    layers = [dense("a", 4, "relu", batch_input_shape=[None, 3]), dense("b", 1, "sigmoid")]
    weights = {"a": kernel_and_bias("a", 3, 4), "b": kernel_and_bias("b", 4, 1)}
    write_h5(path, {"class_name": "Sequential", "config": layers}, weights)


def from_corpus(pattern):
    def copy(path):
        (found,) = CORPUS.glob(pattern)
        shutil.copy(found, path)

    return copy


FILES = {
    "state dict": ("m.pth", state_dict),
    "checkpoint": ("m.pth", checkpoint),
    "safetensors": ("m.safetensors", tensors),
    "torchscript": ("m.onnx", torchscript),
    "torchscript, weights as inputs": ("m.onnx", with_weights_as_inputs(8)),
    "torchscript, an old format": ("m.onnx", with_weights_as_inputs(3)),
    "tf2onnx": ("m.onnx", like_tf2onnx),
    "scikit-learn": ("m.onnx", by_skl2onnx(StandardScaler())),
    "scikit-learn without a map": ("m.onnx", by_skl2onnx(MinMaxScaler(), zipmap=False)),
    "nnet of ACAS Xu": ("m.nnet", nnet("0.5,0.1,-0.2,0.3,", "1.0,2.5,3.0,1.7,")),
    "nnet of FairQuant": ("m.nnet", nnet("0.5,0.0,0.0,0.5,", "1.0,6.0,6.0,1.0,")),
    "keras .h5": ("m.h5", from_corpus("keras/keras3.15.1*norms.h5")),
    "keras before 2.2.3": ("m.h5", old_keras),
    "keras .keras": ("m.keras", from_corpus("keras/keras3.15.1*norms.keras")),
    "keras graph .h5": ("m.h5", from_corpus("keras/keras3.15.1*graph.h5")),
    "keras graph .keras": ("m.keras", from_corpus("keras/keras3.15.1*graph.keras")),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SPEC.save("spec.toml")
    rows = [",".join(map(str, [int(row[0]), *row[1:]])) + f",{y}" for row, y in zip(X, Y, strict=True)]
    Path("people.csv").write_text("\n".join(["group,income,debt,good", *rows]) + "\n")
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_a_certificate_of_an_untouched_file_is_valid(name, folder):
    file, write = FILES[name]
    write(Path(file))
    activation = ["--activation", "leaky_relu"] if "." not in name and file.endswith(("pth", "safetensors")) else []
    result = run("certify", file, "--spec", "spec.toml", "--data", "people.csv", "--certificate", "c.json", *activation)
    assert result.exit_code in (0, 1), result.output
    checked = fairmend.check("c.json", file, "spec.toml")
    assert checked.valid, checked.reasons
    assert checked.covers_inference


def signature(path):
    """What a program that loads the file relies on."""
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path)
        ends = [[(v.name, v.shape, v.type) for v in side] for side in (session.get_inputs(), session.get_outputs())]
        return ends, session.get_modelmeta().custom_metadata_map
    state = torch.load(path, weights_only=True) if path.suffix == ".pth" else load_file(path)
    return {key: (tensor.shape, tensor.dtype) for key, tensor in state.items()}


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith(("keras", "nnet", "checkpoint"))])
def test_a_repaired_file_has_the_same_signature_and_a_valid_certificate(name, folder):
    file, write = FILES[name]
    write(Path(file))
    before = signature(Path(file))
    network = fairmend.load_network(file, "leaky_relu")
    result = fairmend.repair(network, SPEC, X[:10], X, (Y == "yes").astype(int), method="blind", seed=0)
    path = folder / f"repaired{Path(file).suffix}"
    result.network.save(path)
    result.certificate.save("c.json", path)
    assert signature(path) == before
    checked = fairmend.check("c.json", path)
    assert checked.valid, checked.reasons
    assert fairmend.load_network(path).affines == result.network.affines
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path)
        scores = session.run(None, {session.get_inputs()[0].name: X})[-1]
        scores = (
            [row["yes"] for row in scores]
            if isinstance(scores, list)
            else np.asarray(scores).reshape(len(X), -1)[:, -1]
        )
        assert np.allclose(scores, result.network.probabilities(X), atol=1e-5)
    else:
        strict = module(None)
        strict.load_state_dict(torch.load(path, weights_only=True) if file.endswith("pth") else load_file(path))
        with torch.no_grad():
            assert np.allclose(strict(torch.tensor(X)).numpy()[:, 0], result.network.logits(X), atol=1e-5)
