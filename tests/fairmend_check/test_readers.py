"""The checker's own readers: the weights that fairmend saved, bit by bit; and what they refuse."""

import io
import pickle
import zipfile

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from onnx import TensorProto, helper, numpy_helper

from fairmend.prove.certificate import weights_digest as their_digest
from fairmend_check.errors import CheckError
from fairmend_check.model import weights_digest
from fairmend_check.read_model import read_model
from support.checker_cases import outputs_of
from support.strategies import networks


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks())
def test_every_format_gives_the_same_weights(network, tmp_path):
    plain = all(activation.name == "relu" for activation in network.activations)
    for suffix in ("onnx", "pth", "safetensors", "h5", "keras", *(["nnet"] if plain else [])):
        network.save(tmp_path / f"model.{suffix}")
        model, _ = read_model(tmp_path / f"model.{suffix}")
        assert weights_digest(model) == their_digest(network)
        for weight, bias, affine in zip(model.weights, model.biases, network.affines, strict=True):
            assert np.array_equal(weight, affine.weight)
            assert np.array_equal(bias, affine.bias)


def onnx_file(path, nodes, tensors, inputs=("x",), outputs=("y",)):
    value = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in side] for side in (inputs, outputs)
    ]
    arrays = [numpy_helper.from_array(np.asarray(array, dtype=np.float32), name) for name, array in tensors.items()]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *value, arrays)), path)
    return path


W1, B1 = np.arange(6.0).reshape(2, 3), [1.0, 2.0, 3.0]  # (in, out)
W2 = np.arange(3.0).reshape(3, 1)


def test_matmul_and_add_are_an_affine_layer(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["b1", "a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "w2"], ["y"]),
    ]
    model, _ = read_model(onnx_file(tmp_path / "m.onnx", nodes, {"w1": W1, "b1": B1, "w2": W2}))
    assert np.array_equal(model.weights[0], W1.T)
    assert np.array_equal(model.biases[0], B1)
    assert np.array_equal(model.weights[1], W2.T)
    assert np.array_equal(model.biases[1], [0.0])


GEMM = helper.make_node("Gemm", ["x", "w1", "b1"], ["a"])
LAST = helper.make_node("MatMul", ["c", "w2"], ["y"])
REFUSED = {
    "alpha": [helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], alpha=2.0)],
    "transA": [helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], transA=1)],
    "not a plain chain": [GEMM, helper.make_node("Add", ["a", "x"], ["y"])],
    "Conv": [GEMM, helper.make_node("Conv", ["a", "w2"], ["c"]), LAST],
    "outside of the chain": [GEMM, helper.make_node("Relu", ["z"], ["q"]), helper.make_node("Identity", ["a"], ["y"])],
    "Softmax at place": [GEMM, helper.make_node("Softmax", ["a"], ["c"]), LAST],
    "over the outputs": [GEMM, helper.make_node("Softmax", ["a"], ["y"], axis=0)],
    "several slopes": [GEMM, helper.make_node("PRelu", ["a", "b1"], ["c"]), LAST],
    "Tanh at place": [GEMM, helper.make_node("Tanh", ["a"], ["y"])],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_graphs_that_are_no_chain_of_layers(reason, tmp_path):
    nodes = REFUSED[reason]
    ends = nodes[-1].output
    path = onnx_file(tmp_path / "m.onnx", nodes, {"w1": W1, "b1": B1, "w2": W2}, outputs=ends)
    with pytest.raises(CheckError, match=reason):
        read_model(path)


def test_a_circle_is_no_chain(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["x"])]
    with pytest.raises(CheckError):
        read_model(onnx_file(tmp_path / "m.onnx", nodes, {}))


def test_nothing_in_a_pickle_runs(tmp_path):
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self):
            return (open, (str(ran), "w"))

    for protocol in (2, 4):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("archive/data.pkl", pickle.dumps({"w": Attack()}, protocol=protocol))
        (tmp_path / "attack.pth").write_bytes(archive.getvalue())
        with pytest.raises(CheckError, match=r"pickle calls|which no state dict needs"):
            read_model(tmp_path / "attack.pth")
    (tmp_path / "bare.pth").write_bytes(pickle.dumps(Attack()))
    with pytest.raises(CheckError, match=r"not a \.pth file"):
        read_model(tmp_path / "bare.pth")
    assert not ran.exists()


def test_parameters_views_and_other_types(tmp_path):
    import torch

    weight = torch.arange(12.0).reshape(3, 4)
    torch.save({"a.weight": torch.nn.Parameter(weight.T), "a.bias": torch.zeros(4)}, tmp_path / "view.pth")
    model, _ = read_model(tmp_path / "view.pth")
    assert np.array_equal(model.weights[0], weight.numpy().T)
    assert model.activations is None
    torch.save({"a.weight": torch.zeros(1).expand(1000, 1000)}, tmp_path / "expanded.pth")
    torch.save({"a.weight": weight.half()}, tmp_path / "half.pth")
    torch.save({"a.weight": weight, "epoch": 3}, tmp_path / "more.pth")
    for name, reason in (("expanded", "repeats its storage"), ("half", "only float32"), ("more", "not a tensor")):
        with pytest.raises(CheckError, match=reason):
            read_model(tmp_path / f"{name}.pth")


def test_weights_that_are_not_finite(tmp_path):
    import torch

    torch.save({"a.weight": torch.tensor([[1.0, float("nan")]])}, tmp_path / "nan.pth")
    with pytest.raises(CheckError, match="not finite"):
        read_model(tmp_path / "nan.pth")


def test_safetensors_without_activations(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a.weight": np.ones((2, 2), np.float32)}, tmp_path / "bare.safetensors")
    with pytest.raises(CheckError, match="does not say its activations"):
        read_model(tmp_path / "bare.safetensors")


def test_the_oracle_of_these_tests_agrees_with_onnx_runtime(tmp_path):
    import onnxruntime

    from support.checker_cases import case

    for activation in ("relu", "leaky_relu", "tanh", "sigmoid", "identity"):
        made = case(activation=activation, outputs=3)
        made.network.save(tmp_path / "m.onnx")
        X = made.spec.sample_inputs(20, np.random.default_rng(0))
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {session.get_inputs()[0].name: X})
        assert np.allclose(found, outputs_of(made.network, X), atol=1e-5)
