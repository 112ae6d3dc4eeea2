"""Random graphs with every operation: no bound is above the truth, and no program is further off than it may be."""

import flint
import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fairmend import Feature, Spec, check
from fairmend.network import Activation, Affine, Concatenate, Input, Network, Node, load_network
from fairmend.prove.certificate import certificate_of_fair
from fairmend_check.kernel.bounds import form_bounds, interval_layers, interval_margins, leads
from fairmend_check.kernel.inference_error import output_errors
from support.checker_graphs import FUNCTIONS, checker_model, exact_outputs, program_outputs
from support.enclosures import DIGITS, arb
from support.examples import examples
from support.graph_files import with_names
from support.graphs import graph_boxes, graphs, hard_graphs, points_of

SEEDS = st.integers(0, 2**32 - 1)


@examples(40)
@given(graphs(FUNCTIONS), SEEDS)
def test_margins_are_below_those_of_every_point(network, seed):
    rng = np.random.default_rng(seed)
    model = checker_model(with_names(network))
    lower, upper = graph_boxes(network, rng)
    for label in range(max(2, model.outputs)):
        classes = np.full(len(lower), label)
        with np.errstate(all="ignore"):
            quick = interval_margins(model, classes, *interval_layers(model, lower, upper)[-1])
        bounds = form_bounds(model, leads(model, classes), lower, upper)[0].min(axis=1)
        for box in range(len(lower)):
            for x in points_of(network, lower[box], upper[box], rng)[::3]:
                for margin in margins(exact_outputs(model, x), label):
                    assert not margin < arb(max(bounds[box], quick[box]))


def test_a_layer_whose_units_are_all_off_is_bounded():
    off = Affine(np.ones((2, 1), np.float32), np.full(2, -9, np.float32))
    head = Affine(np.float32([[1, 1, 0]]), np.float32([1]))
    nodes = [Node(Input(1)), Node(off, (0,), "off"), Node(Activation("relu"), (1,)), Node(Concatenate(), (2, 0))]
    model = checker_model(with_names(Network.from_nodes([*nodes, Node(head, (3,), "head")])))
    bounds = form_bounds(model, leads(model, np.array([1])), np.array([[-1.0]]), np.array([[1.0]]))[0].min(axis=1)
    assert 0.999 < bounds[0] <= 1


def margins(outputs, label):
    """How far a class is from changing: exactly."""
    with flint.ctx.workprec(DIGITS):
        if len(outputs) == 1:
            return [outputs[0] if label == 1 else -outputs[0]]
        return [outputs[label] - other for number, other in enumerate(outputs) if number != label]


@examples(40)
@given(st.one_of(graphs(FUNCTIONS), hard_graphs(FUNCTIONS)), SEEDS, st.booleans(), st.booleans())
def test_programs_stay_within_the_error_of_inference(network, seed, thorough, flush):
    rng = np.random.default_rng(seed)
    network = with_names(network)
    model = checker_model(network)
    lower, upper = (ends.astype(network.dtype) for ends in graph_boxes(network, rng, radius=0.1))
    X = np.stack([points_of(network, low, high, rng)[rng.integers(8)] for low, high in zip(lower, upper, strict=True)])
    X = np.clip(X.astype(network.dtype), lower, upper)
    wide = lower.astype(np.float64), upper.astype(np.float64)
    with np.errstate(all="ignore"):
        nodes = interval_layers(model, *wide)
    forms = np.broadcast_to(np.eye(model.outputs), (len(X), model.outputs, model.outputs))
    allowed = output_errors(model, *wide, nodes, forms, thorough=thorough)
    computed = program_outputs(network, X, rng, flush)
    for row, x in enumerate(X):
        for output, exact in enumerate(exact_outputs(model, x)):
            if np.isfinite(allowed[row, output]):
                assert not abs(arb(computed[row, output]) - exact) > arb(allowed[row, output])


def test_a_file_with_norms_folded_into_its_layers_is_the_same_network(tmp_path):
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.c, self.head = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x):
            h = torch.relu(self.norm(self.a(x)))
            return self.head(h + torch.relu(self.c(h)))

    torch.manual_seed(0)
    module = Skip()
    module(torch.randn(50, 3))
    network = load_network(module.eval())
    features = [Feature(name, "continuous", range=(-1, 1), tolerance=0.001) for name in "ab"]
    spec = Spec([*features, Feature("c", "continuous", range=(-1e-3, 1e-3), protected=True)])
    X = (np.random.default_rng(0).uniform(-1, 1, (5, 3)) * [1, 1, 0.001]).astype(np.float32)
    certificate, _ = certificate_of_fair(network, spec, X)
    certificate.save(tmp_path / "c.json")
    network.save(tmp_path / "m.onnx")
    assert check(tmp_path / "c.json", tmp_path / "m.onnx").valid
    other = network.with_affines([affine if i else replace_bit(affine) for i, affine in enumerate(network.affines)])
    other.save(tmp_path / "m.onnx")
    assert "weights_sha256 differs" in str(check(tmp_path / "c.json", tmp_path / "m.onnx"))


def replace_bit(affine):
    """The layer with the last bit of a weight changed."""
    weight = affine.weight.copy()
    weight[0, 0] = np.nextafter(weight[0, 0], np.float32(9))
    return Affine(weight, affine.bias)
