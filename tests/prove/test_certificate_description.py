"""Steps that a certificate names for a PyTorch model: the checker must build the same network from them."""

import numpy as np
import pytest
import torch

import fairmend
from fairmend.network import Lookup, load_network
from fairmend.network.formats.torch.state_dict import description_of, to_tensors
from fairmend.prove.certificate import certificate_of_fair
from fairmend.prove.certificate_description import steps_of_description
from fairmend.spec import Spec
from support.torch_graphs import GRAPHS, SKIPS


def spec_of(network):
    """Whole numbers in ranges that every table has; the last column is protected."""
    tables = [len(node.operation.table) for node in network.nodes if isinstance(node.operation, Lookup)]
    most = min([3, *(rows - 1 for rows in tables)])
    features = [{"name": f"f{i}", "kind": "integer", "range": [0, most]} for i in range(network.inputs)]
    return Spec.from_dict({"feature": [*features[:-1], {**features[-1], "range": [0, 1], "protected": True}]})


@pytest.mark.parametrize("suffix", ["pth", "ckpt", "safetensors"])
@pytest.mark.parametrize(
    "graph",
    [
        *("two inputs", "one-hot", "matrix", "buffers", "unused layer", "stacked", "PReLU(6)", "ELU(0.7)"),
        *(f"skip, {text}" for text in SKIPS),
    ],
)
def test_the_certificate_of_a_saved_graph_is_valid(graph, suffix, tmp_path):
    torch.manual_seed(0)
    network = load_network(GRAPHS[graph]())
    spec = spec_of(network)
    X = np.random.default_rng(0).integers(0, 2, (25, network.inputs)).astype(np.float32)
    certificate, _ = certificate_of_fair(network, spec, X)
    path = tmp_path / f"m.{suffix}"
    network.save(path)
    certificate.save(tmp_path / "c.json", path)
    result = fairmend.check(tmp_path / "c.json", path)
    assert result.valid, result.reasons
    assert "The claim is about a module that computes in float32" in result.condition


@pytest.mark.parametrize("text", SKIPS)
def test_the_certificate_of_an_exported_graph_is_valid(text, tmp_path):
    """PyTorch rounds the slope 0.1 to float32, and so do the network and the checker."""
    torch.manual_seed(0)
    program = torch.export.export(GRAPHS[f"skip, {text}"]().eval(), (torch.zeros(2, 4),))
    torch.export.save(program, tmp_path / "m.pt2")
    network = load_network(tmp_path / "m.pt2")
    X = np.random.default_rng(0).integers(0, 2, (25, 4)).astype(np.float32)
    certificate, _ = certificate_of_fair(network, spec_of(network), X)
    certificate.save(tmp_path / "c.json", tmp_path / "m.pt2")
    result = fairmend.check(tmp_path / "c.json", tmp_path / "m.pt2")
    assert result.valid, result.reasons


def test_tensors_that_no_step_names_are_listed_as_unused():
    network = load_network(GRAPHS["unused layer"]())
    steps = steps_of_description(description_of(network), to_tensors(network))
    assert steps[0]["unused"] == ["unused.weight", "unused.bias"]
    assert [step["kind"] for step in steps] == ["input", "affine", "function", "affine"]


def test_what_closes_a_network_is_left_out():
    network = load_network(GRAPHS["softmax of class 1"]())
    entries = [
        {"kind": "input", "columns": 4, "sources": []},
        {"kind": "affine", "weight": "a.weight", "bias": "a.bias", "sources": [0]},
        {"kind": "softmax", "sources": [1]},
        {"kind": "columns", "indices": [1], "sources": [2]},
    ]
    assert [step["kind"] for step in steps_of_description(entries, to_tensors(network))] == ["input", "affine"]
