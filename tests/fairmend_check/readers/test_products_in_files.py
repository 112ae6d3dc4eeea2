"""Files that end in products or shared heads, and that normalise channels or multiply several factors."""

import numpy as np
import pytest
import torch

import fairmend
from benchmarks.zoo.product_networks import PRODUCTS
from fairmend import Feature, Spec
from fairmend.network import Affine
from fairmend.prove.certificate import certificate_of_fair
from support.torch_graphs import Model

NAMES = (
    *("shared head", "two towers", "DeepFM", "DCN-v2, experts of low rank", "soft trees", "groups of channels"),
    *("instances", "cross attention"),
)
COLUMNS = [Feature(name=f"x{i}", kind="continuous", range=(-2, 2)) for i in range(5)]
SEX = Feature(name="sex", kind="categorical", categories=["a", "b"], encoding="ordinal", protected=True)


@pytest.mark.filterwarnings("ignore::Warning")  # of PyTorch's older exporter
@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
@pytest.mark.parametrize("name", NAMES)
def test_what_a_file_computes_is_proven_and_a_changed_file_is_not(name, suffix, tmp_path):
    X = np.random.default_rng(0).uniform(-2, 2, (30, 6)).astype(np.float32)
    X[:, 0] = X[:, 0] > 0
    torch.manual_seed(0)
    module, path = PRODUCTS[name]().eval(), tmp_path / f"m{suffix}"
    rows = (torch.tensor(X[:3]),)
    if suffix == ".pt2":
        program = torch.export.export(module, rows, dynamic_shapes=({0: torch.export.Dim("rows")},))
        torch.export.save(program, path)
    else:
        axes = {"x": {0: "n"}, "y": {0: "n"}}
        torch.onnx.export(module, rows, path, dynamo=False, dynamic_axes=axes, input_names=["x"], output_names=["y"])
    network = fairmend.load_network(path)
    np.testing.assert_allclose(network.logits(X), module(torch.tensor(X)).detach().numpy().reshape(-1), atol=1e-5)
    certificate, covered = certificate_of_fair(network, Spec(features=[SEX, *COLUMNS]), X)
    assert covered.sum() > 5
    certificate.save(tmp_path / "c.json", path)
    assert fairmend.check(tmp_path / "c.json", path).valid
    first, *others = network.affines
    network.with_affines([Affine(first.weight * np.float32(1.01), first.bias), *others]).save(path)
    assert not fairmend.check(tmp_path / "c.json", path).valid


@pytest.mark.parametrize("name", ["two towers", "soft trees", "DeepFM"])
def test_a_file_in_another_form_ends_as_the_network_does_that_was_proven(name, tmp_path):
    torch.manual_seed(0)
    X = np.random.default_rng(0).uniform(-2, 2, (5, 6)).astype(np.float32)
    X[:, 0] = X[:, 0] > 0
    network = fairmend.load_network(PRODUCTS[name]().eval())
    network.save(tmp_path / "m.onnx")
    certificate, covered = certificate_of_fair(network, Spec(features=[SEX, *COLUMNS]), X)
    assert covered.any()
    certificate.save(tmp_path / "c.json", tmp_path / "m.onnx")
    assert fairmend.check(tmp_path / "c.json", tmp_path / "m.onnx").valid


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_layer_that_is_used_twice_has_names_that_a_certificate_can_hold(suffix, tmp_path):
    torch.manual_seed(0)
    b, c, w = torch.nn.Linear(6, 1), torch.nn.Linear(6, 6), torch.nn.Parameter(torch.randn(6, 6))
    module = Model(lambda m, x: m.b(m.c(x).relu() * (m.c(x.tanh()) @ m.w)), b=b, c=c, w=w)
    network, path = fairmend.load_network(module), tmp_path / f"m{suffix}"
    network.save(path)
    certificate, covered = certificate_of_fair(network, Spec(features=[SEX, *COLUMNS]), np.zeros((1, 6), np.float32))
    assert covered.all()
    certificate.save(tmp_path / "c.json", path)
    assert fairmend.check(tmp_path / "c.json", path).valid
