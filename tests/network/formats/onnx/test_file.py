"""ONNX files: the runtime agrees with what is written, and both of PyTorch's exporters load."""

import warnings

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.onnx_files import A, X, node, runtime, save
from support.strategies import networks, random_network


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks())
def test_the_runtime_computes_what_the_network_computes(network, tmp_path):
    network.save(tmp_path / "m.onnx")
    rows = np.random.default_rng(0).normal(size=(20, network.inputs)).astype(network.dtype)
    got = runtime(tmp_path / "m.onnx", rows)
    expected = network.logits(rows) if network.closing == "none" else network.probabilities(rows)
    assert got.dtype == network.dtype
    assert got.shape == (20, network.outputs)
    tight = 1e-5 if network.dtype == np.float32 else 1e-12
    assert np.allclose(got.reshape(expected.shape), expected, rtol=tight, atol=tight)


def test_what_is_written_is_plain_and_old_enough(tmp_path):
    network = random_network(np.random.default_rng(0), 4, [5], 2, closing="softmax")
    network.save(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version <= 10
    assert [n.op_type for n in model.graph.node] == ["Gemm", "Relu", "Gemm", "Softmax"]
    assert [t.name for t in model.graph.initializer][:2] == ["layers.0.weight", "layers.0.bias"]
    assert (model.graph.input[0].name, model.graph.output[0].name) == ("input", "output")
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def mlp() -> nn.Module:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Flatten(),
        nn.Linear(4, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(8, 6, bias=False),
        nn.LeakyReLU(0.1),
        nn.Linear(6, 5),
        nn.Tanh(),
        nn.Linear(5, 4),
        nn.Sigmoid(),
    )
    module[2].running_mean.normal_()
    return module


class Squeezed(nn.Sequential):
    def forward(self, x):
        return super().forward(x).squeeze(-1)


MODELS = {
    "sigmoid": lambda: nn.Sequential(mlp(), nn.Linear(4, 1), nn.Sigmoid()),
    "softmax": lambda: nn.Sequential(mlp(), nn.Linear(4, 3), nn.Softmax(-1)),
    "logits": lambda: nn.Sequential(mlp(), nn.Linear(4, 2)),
    "squeezed": lambda: Squeezed(mlp(), nn.Linear(4, 1), nn.Sigmoid()),
    "double": lambda: nn.Sequential(mlp(), nn.Linear(4, 1)).double(),
}


# Every model with each exporter and each exporter with each kind of batch; dynamo takes seconds, so not all with all.
EXPORTS = [(model, False, batch) for model in MODELS for batch in ("fixed", "dynamic")]
EXPORTS += [(model, True, "fixed") for model in ("logits", "double", "squeezed")]
EXPORTS += [(model, True, "dynamic") for model in ("sigmoid", "softmax", "squeezed")]


@pytest.mark.parametrize(("model", "dynamo", "batch"), EXPORTS)
def test_what_torch_exports_loads(model, dynamo, batch, tmp_path):
    if dynamo:
        pytest.importorskip("onnxscript")
    module = MODELS[model]().eval()
    dtype = next(module.parameters()).dtype
    options = {"external_data": False, "verbose": False} if dynamo else {"input_names": ["x"]}
    if batch == "dynamic" and dynamo:
        options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
    elif batch == "dynamic":
        options["dynamic_axes"] = {"x": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own deprecations
        torch.onnx.export(module, (torch.zeros(3, 4, dtype=dtype),), tmp_path / "m.onnx", dynamo=dynamo, **options)
    network = load_network(tmp_path / "m.onnx")
    assert network.depth == 5
    with torch.no_grad():
        expected = module(torch.tensor(X).to(dtype)).numpy()
    got = network.logits(X) if network.closing == "none" else network.probabilities(X)
    assert np.allclose(got.reshape(expected.shape), expected, atol=1e-5)


def test_a_model_the_checker_refuses_is_refused(tmp_path):
    path = save(tmp_path / "m.onnx", [node("Gemm", "x w nowhere")], **A)
    with pytest.raises(FairmendError, match="not a valid ONNX model"):
        load_network(path)


def test_a_checker_that_says_nothing_still_gives_a_reason(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    random_network(np.random.default_rng(0), 3, [2]).save(path)

    def silent(_):
        raise onnx.checker.ValidationError("")

    monkeypatch.setattr(onnx.checker, "check_model", silent)
    with pytest.raises(FairmendError, match="not a valid ONNX model: ValidationError"):
        load_network(path)
