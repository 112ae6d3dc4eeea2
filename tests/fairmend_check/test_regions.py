"""Regions: every neighbourhood is covered, and its margin is that of its worst neighbour."""

import numpy as np
import pytest

from fairmend.network import Affine, Network
from fairmend.prove.certificate import certificate_of_regions
from fairmend.prove.proof import Proof
from fairmend.spec.neighbourhoods import Regions
from fairmend_check import check, regions
from fairmend_check.assemble import Graph
from fairmend_check.certificate import read_certificate
from fairmend_check.errors import CheckError
from fairmend_check.model import Activation, make_model
from fairmend_check.read_model import read_model
from fairmend_check.region_lists import read_listed
from fairmend_check.regions import Boxes, Cover
from fairmend_check.scores import Score
from fairmend_check.spec import read_spec
from fairmend_check.threshold import Threshold
from support.checker_cases import case, margin_of, neighbours, outputs_of
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people
from support.strategies import random_network


def read(kind, folder):
    made = case(**kind)
    certificate, path = made.save(folder)
    claimed, (model, _) = read_certificate(certificate), read_model(path)
    return made, claimed.spec, model, read_listed(claimed.listed, model)


def test_margins_by_points_are_those_of_the_worst_point(tmp_path):
    made, spec, model, found = read({"features": "points", "outputs": 3}, tmp_path)
    proven = regions.prove(Cover(model, spec), found)
    for x, label, margin in zip(found.x, found.classes, proven.margin, strict=True):
        points = neighbours(made.spec, x, "float32", np.random.default_rng(0))
        truth = margin_of(made.network, points, label)
        assert 0 <= truth - margin < 1e-9
    assert proven.covers.all()


def test_points_are_counted_over_all_regions(tmp_path, monkeypatch):
    _, spec, model, found = read({"features": "points", "outputs": 3}, tmp_path)
    work = 3 * sum(weight.size + 200 * sum(weight.shape) for weight in model.weights)  # for each output
    monkeypatch.setattr(regions, "MAX_WORK", 2 * 43 * 3 * work)  # sex and age of three of the four inputs
    with pytest.raises(CheckError, match=r"more points to check than the limit for this model \(258\)"):
        regions.prove(Cover(model, spec), found)
    monkeypatch.setattr(regions, "MAX_WORK", 2 * 43 * 4 * work)
    cover = Cover(model, spec)
    regions.prove(cover, found)
    assert (cover.points, cover.reasons) == (258 * 4 // 3, [])


@pytest.mark.parametrize("batch", [1, 50, 2**20])
def test_batches_do_not_change_margins(batch, tmp_path, monkeypatch):
    _, spec, model, found = read({"features": "points", "outputs": 3}, tmp_path)
    whole = regions.prove(Cover(model, spec), found).margin
    monkeypatch.setattr(regions, "_BATCH", batch)
    assert np.allclose(regions.prove(Cover(model, spec), found).margin, whole, atol=1e-12, rtol=0)


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_halved_boxes_have_tighter_bounds_that_are_still_true(activation):
    rng = np.random.default_rng(3)
    network = random_network(rng, 3, (6, 5), 1, activation, np.float32)
    layers = [(affine.weight, affine.bias) for affine in network.affines]
    model = make_model(layers, [Activation(activation)] * 2)
    lower = rng.normal(size=(40, 3))
    boxes = Boxes(np.arange(40), lower, lower + rng.uniform(0, 2, (40, 3)))
    classes, half = np.ones(40, dtype=int), Threshold.of(0.5, "float32")
    whole, tighter = (regions._margins(model, half, classes, boxes, np.inf, np.zeros(40), times)[0] for times in (0, 3))
    assert (tighter >= whole).all()
    assert (tighter > whole + 1e-3).sum() > 5
    points = boxes.lower[:, None] + rng.random((40, 500, 3)) * (boxes.upper - boxes.lower)[:, None]
    truth = outputs_of(network, points.reshape(-1, 3)).reshape(40, 500).min(axis=1)
    assert (tighter <= truth).all()
    halves = boxes.halved(model)
    assert (np.minimum(halves.lower[:40], halves.lower[40:]) == boxes.lower).all()
    assert (np.maximum(halves.upper[:40], halves.upper[40:]) == boxes.upper).all()
    assert ((halves.upper[:40] == halves.lower[40:]).sum(axis=1) >= 1).all()


def test_a_region_without_boxes_is_not_confirmed(tmp_path, monkeypatch):
    """Nobody may find a way to claim something about nothing."""
    _, spec, model, found = read({"features": "points", "outputs": 3}, tmp_path)
    monkeypatch.setattr(Cover, "batches", lambda *arguments: iter(()))
    proven = regions.prove(Cover(model, spec), found)
    assert (proven.margin == -np.inf).all()
    assert not proven.covers.any()
    scores = regions.prove_scores(Cover(model, spec), found, Score("output", 3))
    assert (scores.high - scores.low == np.inf).all()


def test_a_margin_below_the_error_of_inference_does_not_cover_it():
    excess = regions._above(np.array([1.0, 1.0, np.inf, -1.0]), np.array([0.5, 1.0, np.inf, 0.1]))
    assert (excess > 0).tolist() == [True, False, False, False]


@pytest.mark.parametrize("name", HUGE)
def test_huge_neighbourhoods_get_an_answer_whatever_the_proof(name, tmp_path):
    """One box around the neighbourhood covers it, however many pieces it would have; its points are too many."""
    spec, (net, X, _) = HUGE[name], people(HUGE[name], 2)
    affines = [*net.affines[:-1], Affine(net.affines[-1].weight * np.float32(1e-3), np.full(1, 500, np.float32))]
    net = Network(affines, net.activations)
    proof = Proof(np.ones(2, np.int64), np.ones(2), np.zeros(2))
    boxes = Regions(*spec.hull(X), np.arange(2), 2)
    net.save(tmp_path / "model.onnx")
    for hull, valid in ((boxes, True), (None, False)):
        certificate = certificate_of_regions(net, spec, X, proof, method="certify", regions=hull)
        certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
        result = check(tmp_path / "certificate.json", tmp_path / "model.onnx")
        assert result.valid == valid, result.reasons
    assert "more points to check than the limit" in result.reasons[0]


def test_links_that_divide_the_neighbourhoods_into_too_many_parts_are_refused(monkeypatch):
    role = {"name": "role", "kind": "integer", "range": [0, 3]}
    sex = {"name": "sex", "kind": "integer", "range": [0, 4], "protected": True}
    link = {"when": {"sex": 2}, "then": {"role": {"offset": 1}}}
    spec = read_spec({"feature": [sex, role], "link": [link]}, "spec")
    model = make_model([(np.ones((1, 2)), np.ones(1))], [])
    entry = {"input": [0.0, 1.0], "class": 1, "margin": 0.1, "proof": "points"}
    everyone = read_listed([entry] * 3, model)  # 4 parts each
    monkeypatch.setattr(regions, "MAX_PARTS", 23)
    with pytest.raises(CheckError, match=r"links divide the neighbourhoods into more parts than the limit \(23\)"):
        regions.prove(Cover(model, spec), everyone)
    monkeypatch.setattr(regions, "MAX_PARTS", 24)
    cover = Cover(model, spec)
    regions.prove(cover, everyone)
    assert (cover.parts, cover.reasons) == (24, [])


@pytest.mark.parametrize("batch", [1, 50])
def test_batches_do_not_change_margins_of_listed_boxes(batch, tmp_path, monkeypatch):
    _, spec, model, found = read({"outputs": 3}, tmp_path)
    assert not found.points.any()
    whole = regions.prove(Cover(model, spec), found)
    monkeypatch.setattr(regions, "_BATCH", batch)
    again = regions.prove(Cover(model, spec), found)
    assert np.allclose(again.margin, whole.margin, atol=1e-12, rtol=0)
    assert (again.covers == whole.covers).all()


@pytest.mark.parametrize("proof", ["linear", "points"])
def test_a_model_of_very_many_outputs_is_refused_before_it_needs_memory(proof):
    """The leads of 100,000 classes over each other would be 80 GB."""
    model = make_model([(np.zeros((100_000, 1), np.float32), np.zeros(100_000, np.float32))], [])
    entry = {"input": [0.0], "class": 0, "margin": 0.5, "proof": proof}
    pieces = {} if proof == "points" else {"pieces": [{"lower": [0.0], "upper": [1.0], "slopes": []}]}
    spec = read_spec({"feature": [{"name": "g", "kind": "integer", "range": [0, 1], "protected": True}]}, "spec")
    with pytest.raises(CheckError, match="more than"):
        regions.prove(Cover(model, spec), read_listed([entry | pieces], model))


def test_a_box_is_halved_between_two_rows_of_a_table():
    """Between two whole numbers there is no input, and a box of one row stays as it is."""
    graph = Graph(2)
    rows = graph.lookup(graph.columns(graph.input, [0]), np.arange(8.0).reshape(4, 2))
    model = graph.finish(graph.affine(graph.concatenate(rows, graph.input), np.ones((1, 4))))
    lower, upper = np.array([[0.0, 0.5], [2.0, 0.5]]), np.array([[3.0, 0.5], [2.0, 0.5]])
    halves = Boxes(np.arange(2), lower, upper).halved(model)
    assert halves.lower[:, 0].tolist() == [0, 2, 2, 2]
    assert halves.upper[:, 0].tolist() == [1, 2, 3, 2]


def test_fewer_points_of_deep_models_are_evaluated_at_once():
    """Else a small file with a thousand narrow layers needs the memory of a large machine."""
    spec = read_spec({"feature": [{"name": "age", "kind": "integer", "range": [0, 10**6], "protected": True}]}, "s", 5)
    layer = np.ones((1, 1), np.float32), np.ones(1, np.float32)
    deep = make_model([layer] * 500, [Activation("relu")] * 499)
    found = regions.Regions(0, np.zeros((1, 1)), np.array([True]), None, np.array([1]), None, None)
    boxes = next(Cover(deep, spec).batches(found))
    assert len(boxes.owner) * sum(deep.widths) <= 2**23
