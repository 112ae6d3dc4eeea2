"""Neighbourhoods of inputs: all of each is covered, by boxes or by whole numbers one by one, and within limits."""

import numpy as np
import pytest

from fairmend.network import Activation as NetworkActivation
from fairmend.network import Affine, Network
from fairmend.prove.certificate import certificate_of_inputs
from fairmend.prove.kernel_bounds import kernel_model
from fairmend.prove.proof import Proof, kernel_spec
from fairmend.spec import Feature, Spec
from fairmend_check import check
from fairmend_check.errors import CheckError
from fairmend_check.kernel import regions
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.claim import Score, Threshold
from fairmend_check.kernel.model import Activation
from fairmend_check.kernel.regions import Boxes, Cover
from fairmend_check.kernel.spec import read_spec
from fairmend_check.readers.read_model import read_model
from support.checker_cases import case, class_of, margin_of, neighbours, outputs_of, write
from support.checker_cases import read as read_file
from support.checker_models import make_model
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people
from support.strategies import random_network


def read(kind, folder):
    """Return a case, its spec and model as the checker reads them, and its inputs."""
    made = case(**kind)
    model, _ = read_model(made.save(folder)[1])
    return made, read_spec(made.content["spec"], "spec"), model, made.content["inputs"].astype(np.float64)


POINTS = {"features": "points", "outputs": 3}


def test_margins_are_no_larger_than_those_of_the_worst_point(tmp_path):
    made, spec, model, X = read(POINTS, tmp_path)
    proven = regions.prove(Cover(model, spec), X, 0)
    for x, margin in zip(X, proven.margin, strict=True):
        points = neighbours(made.spec, x, "float32", np.random.default_rng(0))
        assert 0 < margin <= margin_of(made.network, points, class_of(made.network, x))
    assert proven.covers.all()


@pytest.mark.parametrize("batch", [1, 50, 2**20])
@pytest.mark.parametrize("kind", [POINTS, {"outputs": 3}, {"spec": "tolerance"}])
def test_batches_do_not_change_what_is_proven(batch, kind, tmp_path, monkeypatch):
    _, spec, model, X = read(kind, tmp_path)
    whole = regions.prove(Cover(model, spec), X, 0)
    monkeypatch.setattr(regions, "_BATCH", batch)
    again = regions.prove(Cover(model, spec), X, 0)
    assert again.margin.min() == pytest.approx(whole.margin.min(), abs=1e-12)  # others may be quick bounds
    assert (again.covers == whole.covers).all()


def wave(count, high=0.9):
    """A network of one column whose output is a wave: positive at whole numbers from 0 to count, negative between."""
    kinks = np.arange(0, count, 0.5)
    slopes = np.where(np.arange(len(kinks)) % 2 == 0, -1.0, 1.0) * 2 * (high + 1)
    steps = np.diff(slopes, prepend=0.0)
    first = Affine(np.ones((len(kinks), 1)), -kinks)
    return Network([first, Affine(steps[None], np.array([high]))], [NetworkActivation("relu")])


def wave_files(folder, top, **how):
    """Save a wave and the claim about someone at 3, beside a column of which nothing depends."""
    net = wave(top)
    age = Feature("age", "integer", range=(0, top), **(how or {"protected": True}))
    others = [] if age.protected else [Feature("sex", "categorical", categories=("f", "m"), protected=True)]
    spec = Spec([age, *others, Feature("pay", "continuous", range=(0, 1), tolerance=0.25)])
    first = Affine(np.pad(net.affines[0].weight, ((0, 0), (0, spec.width - 1))), net.affines[0].bias)
    net = Network([first, net.affines[1]], net.activations)
    X = np.array([[3.0, *[0.0] * len(others), 0.5]])
    net.save(folder / "model.onnx")
    nothing = Proof(np.ones(1), np.zeros(1), np.ones(1, np.bool_), np.ones(1, np.bool_))
    certificate_of_inputs(net, spec, X, nothing, method="certify").save(folder / "certificate.json")
    return folder / "certificate.json", folder / "model.onnx"


@pytest.mark.parametrize("top", [4, 15, 16, 40, 200])
@pytest.mark.parametrize("how", [{"protected": True}, {"tolerance": 3.0}])
def test_whole_numbers_by_themselves_prove_what_boxes_do_not(top, how, tmp_path, monkeypatch):
    """Between whole numbers the output is negative, so no box proves it; beside them a tolerance is continuous."""
    files = wave_files(tmp_path, top, **how)
    result = check(*files)
    assert result.valid, result.reasons
    assert 0 < result.least_margin <= 0.9
    monkeypatch.setattr(regions, "_FEW", 0)
    assert check(*files).valid
    monkeypatch.setattr(Cover, "_can_separate", lambda *arguments: False)
    refused = check(*files)
    assert (refused.verdict, refused.least_margin is None or refused.least_margin < 0) == ("invalid", True)


def test_scores_are_proven_at_whole_numbers_as_well(tmp_path, monkeypatch):
    """All scores at whole numbers are 0.9; between them they fall to -1."""
    files = wave_files(tmp_path, 40)
    content = read_file(files[0])
    content["spec"] = {"claim": {"kind": "score", "delta": 1e-3, "on": "output"}, **content["spec"]}
    result = check(write(tmp_path, content), files[1])
    assert result.valid, result.reasons
    assert result.largest_difference < 1e-3
    monkeypatch.setattr(Cover, "_can_separate", lambda *arguments: False)
    assert check(write(tmp_path, content), files[1]).verdict == "invalid"


def test_whole_numbers_have_boxes_of_their_own_within_a_limit_for_all_inputs(tmp_path, monkeypatch):
    """The box of the input is within the limit, its whole numbers are not: there is an answer, and no endless work."""
    files = wave_files(tmp_path, 200)
    model, _ = read_model(files[1])
    for work, valid in ((201 * regions.box_work(model), True), (200 * regions.box_work(model), False)):
        monkeypatch.setattr(regions, "MAX_WORK", work)
        assert check(*files, run=False).verdict == ("valid" if valid else "invalid")
    content = read_file(files[0])
    content["inputs"] = np.repeat(content["inputs"], 3, axis=0)
    monkeypatch.setattr(regions, "MAX_WORK", 2 * 201 * regions.box_work(model))
    reasons = check(write(tmp_path, content), files[1], run=False).reasons
    assert [reason.split(":")[0] for reason in reasons] == ["input 2"]  # the others had used up the limit


def test_points_are_counted_over_all_inputs(tmp_path, monkeypatch):
    _, spec, model, X = read(POINTS, tmp_path)
    cover = Cover(model, spec)
    some = [len(boxes.owner) for boxes in cover.batches_again(X, np.arange(len(X)), each_whole=True)]
    assert (sum(some), cover.points) == (2 * 43 * 4, 2 * 43 * 4)  # sex and age of four inputs
    monkeypatch.setattr(regions, "MAX_WORK", 2 * 43 * 3 * regions.point_work(model))
    cover = Cover(model, spec)
    few = [boxes.owner for boxes in cover.batches_again(X, np.arange(len(X)), each_whole=True)]
    assert np.unique(np.concatenate(few)).tolist() == [0, 1, 2]


def test_there_are_no_more_boxes_than_a_limit(tmp_path, monkeypatch):
    _, spec, model, X = read({"spec": "one-hot"}, tmp_path)  # 3 races of 2 sexes
    monkeypatch.setattr(regions, "MAX_WORK", 23 * regions.box_work(model))
    monkeypatch.setattr(regions, "_BOXES_EACH", 0)
    with pytest.raises(CheckError, match=r"more boxes to check than the limit for this model \(23\)"):
        regions.prove(Cover(model, spec), X, 0)
    monkeypatch.setattr(regions, "MAX_WORK", 24 * regions.box_work(model))
    assert regions.prove(Cover(model, spec), X, 0).covers.all()


@pytest.mark.parametrize("threshold", [1e-6, 0.2, 0.5, 0.5 + 1e-9, 0.7, 1 - 1e-6])
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_class_of_an_input_is_found_at_every_threshold(threshold, outputs):
    """On each side of the log-odds, however close: what is found there has a margin, and no other class has."""
    side = np.array([-1.0, -1e-3, -1e-12, 1e-12, 1e-3, 1.0])
    log_odds = float(np.log(threshold) - np.log1p(-threshold))
    X = (log_odds + side)[:, None]
    last = np.array([[1.0]]) if outputs == 1 else np.array([[0.25], [1.25]])
    model = make_model([(last, np.zeros(outputs))], [])
    assert regions._classes(model, Threshold.of(threshold, "float64"), X).tolist() == [0, 0, 0, 1, 1, 1]


def test_the_class_is_that_of_the_largest_of_several_outputs():
    model = make_model([(np.eye(3), np.zeros(3))], [])
    X = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.1, 0.3, 0.2]])
    assert regions._classes(model, Threshold.of(0.5, "float64"), X).tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("batch", [1, 3, 2**20])
def test_classes_are_found_in_batches(batch, tmp_path, monkeypatch):
    made, _, model, X = read({"outputs": 3}, tmp_path)
    monkeypatch.setattr(regions, "_BATCH", batch)
    found = regions._classes(model, Threshold.of(0.5, "float32"), X)
    assert found.tolist() == [class_of(made.network, x) for x in X]


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_halved_boxes_have_tighter_bounds_that_are_still_true(activation):
    rng = np.random.default_rng(3)
    network = random_network(rng, 3, (6, 5), 1, activation, np.float32)
    lower = rng.normal(size=(40, 3))
    boxes = Boxes(np.arange(40), lower, lower + rng.uniform(0, 2, (40, 3)))
    points = boxes.lower[:, None] + rng.random((40, 500, 3)) * (boxes.upper - boxes.lower)[:, None]
    truth = outputs_of(network, points.reshape(-1, 3)).reshape(40, 500).min(axis=1)
    classes, half, improved = np.ones(40, dtype=int), Threshold.of(0.5, "float32"), 0
    for shift in -truth[truth < 0]:  # one box after the other is just not decided
        layers = [(affine.weight, affine.bias) for affine in network.affines]
        layers[-1] = layers[-1][0], layers[-1][1] + np.float32(shift + 0.05)
        model = make_model(layers, [Activation(activation)] * 2)
        whole, tighter = (regions.box_margins(model, half, classes, boxes, np.inf, times)[0] for times in (0, 3))
        assert (tighter >= whole).all()
        assert (tighter <= truth + shift + 0.05 + 1e-5).all()
        improved += int((tighter > whole + 1e-3).sum())
    assert improved > 5
    halves = boxes.halved(model)
    assert (np.minimum(halves.lower[:40], halves.lower[40:]) == boxes.lower).all()
    assert (np.maximum(halves.upper[:40], halves.upper[40:]) == boxes.upper).all()
    assert ((halves.upper[:40] == halves.lower[40:]).sum(axis=1) >= 1).all()


def test_an_input_without_boxes_is_not_confirmed(tmp_path, monkeypatch):
    """Nobody may find a way to claim something about nothing."""
    _, spec, model, X = read(POINTS, tmp_path)
    for name in ("batches", "batches_again"):
        monkeypatch.setattr(Cover, name, lambda *arguments, **options: iter(()))
    proven = regions.prove(Cover(model, spec), X, 0)
    assert (proven.margin == -np.inf).all()
    assert not proven.covers.any()
    scores = regions.prove_scores(Cover(model, spec), X, 0, Score("output", 3), 0.5)
    assert (scores.high - scores.low == np.inf).all()


def test_a_margin_below_the_error_of_inference_does_not_cover_it():
    excess = regions._above(np.array([1.0, 1.0, np.inf, -1.0]), np.array([0.5, 1.0, np.inf, 0.1]))
    assert (excess > 0).tolist() == [True, False, False, False]


@pytest.mark.parametrize("name", HUGE)
def test_huge_neighbourhoods_get_an_answer(name, tmp_path):
    """A number needs one box however many values it has; too many combinations of categories are refused at once."""
    spec, (net, X, _) = HUGE[name], people(HUGE[name], 2)
    affines = [*net.affines[:-1], Affine(net.affines[-1].weight * np.float32(1e-3), np.full(1, 500, np.float32))]
    net = Network(affines, net.activations)
    net.save(tmp_path / "model.onnx")
    nothing = Proof(np.ones(2), np.zeros(2), np.ones(2, np.bool_), np.ones(2, np.bool_))
    certificate = certificate_of_inputs(net, spec, X, nothing, method="certify")
    certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    result = check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert result.verdict == ("unreadable" if "one-hot" in name else "valid"), result.reasons
    assert result.valid or "there are more boxes to check than the limit" in result.reasons[0]
    unfair = net.with_affines([affines[0], Affine(net.affines[-1].weight * np.float32(1e9), np.zeros(1, np.float32))])
    unfair.save(tmp_path / "model.onnx")
    certificate_of_inputs(unfair, spec, X, nothing, method="certify").save(tmp_path / "certificate.json")
    assert not check(tmp_path / "certificate.json", tmp_path / "model.onnx").valid


def test_links_that_divide_the_neighbourhoods_into_too_many_parts_are_refused(monkeypatch):
    role = {"name": "role", "kind": "integer", "range": [0, 3]}
    sex = {"name": "sex", "kind": "integer", "range": [0, 4], "protected": True}
    link = {"when": {"sex": 2}, "then": {"role": {"offset": 1}}}
    spec = read_spec({"feature": [sex, role], "link": [link]}, "spec")
    model = make_model([(np.ones((1, 2)), np.ones(1))], [])
    everyone = np.array([[0.0, 1.0]] * 3)  # 4 parts each
    monkeypatch.setattr(regions, "MAX_PARTS", 23)
    with pytest.raises(CheckError, match=r"links divide the neighbourhoods into more parts than the limit \(23\)"):
        regions.prove(Cover(model, spec), everyone, 0)
    monkeypatch.setattr(regions, "MAX_PARTS", 24)
    cover = Cover(model, spec)
    regions.prove(cover, everyone, 0)
    assert (cover.parts, cover.reasons) == (24, [])


def test_a_model_of_very_many_outputs_is_refused_before_it_needs_memory():
    """The leads of 100,000 classes over each other would be 80 GB."""
    model = make_model([(np.zeros((100_000, 1), np.float32), np.zeros(100_000, np.float32))], [])
    spec = read_spec({"feature": [{"name": "g", "kind": "integer", "range": [0, 1], "protected": True}]}, "spec")
    with pytest.raises(CheckError, match="more than"):
        regions.prove(Cover(model, spec), np.zeros((1, 1)), 0)


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
    spec = read_spec({"feature": [{"name": "age", "kind": "integer", "range": [0, 10**6], "protected": True}]}, "s")
    layer = np.ones((1, 1), np.float32), np.ones(1, np.float32)
    deep = make_model([layer] * 500, [Activation("relu")] * 499)
    boxes = next(Cover(deep, spec).batches_again(np.zeros((1, 1)), np.array([0]), each_whole=True))
    assert len(boxes.owner) * sum(deep.widths) <= 2**23


def large(monkeypatch):
    """Let every network count as one whose boxes take much work, so that points come first."""
    monkeypatch.setattr(regions, "LARGE", 0)
    monkeypatch.setattr(regions, "_FEW", 0)
    monkeypatch.setattr(regions, "box_work", lambda model: 10**9)


@pytest.mark.parametrize("kind", [POINTS, {"spec": "tolerance"}, {"outputs": 3}])
def test_points_before_boxes_prove_no_more_than_the_worst_point_allows(kind, tmp_path, monkeypatch):
    made, spec, model, X = read(kind, tmp_path)
    whole = regions.prove(Cover(model, spec), X, 0)
    large(monkeypatch)
    proven = regions.prove(Cover(model, spec), X, 0)
    assert (proven.covers >= whole.covers).all()
    for x, margin in zip(X, proven.margin, strict=True):
        points = neighbours(made.spec, x, "float32", np.random.default_rng(0))
        assert 0 < margin <= margin_of(made.network, points, class_of(made.network, x))


def test_points_before_boxes_find_the_person_of_another_class(monkeypatch):
    """The output is negative at one of 21 values: near others it is proven, and near this one never."""
    values = np.arange(21.0)
    kinks = np.array([9.0, 10.0, 11.0], np.float32)
    first = Affine(np.array([[1.0, 0.0]] * 3, np.float32), -kinks)
    head = Affine(np.array([[-2.0, 4.0, -2.0]], np.float32), np.array([1.0], np.float32))
    network = Network([first, head], [NetworkActivation("relu")])
    spec = Spec(
        [Feature("value", "integer", (0, 20), tolerance=3), Feature("group", "integer", (0, 1), protected=True)]
    )
    large(monkeypatch)
    cover = Cover(kernel_model(network), kernel_spec(spec))
    proven = regions.prove(cover, np.column_stack([values, np.zeros(21)]), 0)
    assert np.array_equal(proven.covers, np.abs(values - 10) > 3)
    assert not (proven.margin[~proven.covers] > 0).any()
    assert cover.boxes == 0, "points decided all"


def test_inputs_that_are_none_have_a_reason_also_where_points_come_first(monkeypatch):
    network = random_network(np.random.default_rng(0), 1, [3])
    spec = Spec([Feature("value", "integer", (0, 20), protected=True)])
    large(monkeypatch)
    cover = Cover(kernel_model(network), kernel_spec(spec))
    proven = regions.prove(cover, np.array([[3.0], [99.0]]), 0)
    assert len(cover.reasons) == 1
    assert not proven.margin[1] > 0
