"""A recipe ends in a proven network, or in an error."""

import re
from dataclasses import replace

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError, Feature, Spec
from fairmend.network import Affine
from fairmend.prove.proof import prove_inputs
from fairmend.repairing import recipe
from fairmend.repairing.blind import columns_of
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.recipe import _blind_regions
from fairmend.repairing.task import prepare_task
from support.link_cases import expected_unequal, family_case
from support.prof_cases import SPECS, case, check, repair
from support.strategies import random_network


def test_a_margin_that_was_asked_for_is_kept():
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=10)
    result = repair(network, spec, X, X_cal, y_cal, steps=5, margin=0.1)
    assert (result.proof.margin > 0.0999).all()
    assert result.margin >= 0.1
    proof = prove_inputs(result.network, spec, X)
    np.testing.assert_array_equal(proof.margin, result.proof.margin)
    np.testing.assert_array_equal(proof.classes, result.classes)


@pytest.mark.parametrize("features", ["linear", "points"])
def test_margins_grow_where_float32_needs_them_to(features):
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=11)
    first, factor = network.affines[0], np.float32(1e5)
    rest = [Affine(affine.weight, affine.bias * factor) for affine in network.affines[1:]]
    large = network.with_affines([Affine(first.weight * factor, first.bias * factor), *rest])
    result = repair(large, spec, X, X_cal, y_cal, steps=0, features=features)
    check(large, result, spec, X)
    assert result.attempts > 1 or features == "linear"  # boxes that are split need no larger margin
    assert result.margin > 1e-6


def test_real_arithmetic_alone_costs_no_more():
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=12)
    covering = repair(network, spec, X, X_cal, y_cal, steps=0)
    real = repair(network, spec, X, X_cal, y_cal, steps=0, cover_inference=False, margin=1e-9)
    assert real.proof.holds.all()
    assert real.objective <= covering.objective + 1e-6


def test_a_network_that_float32_cannot_tell_apart_is_an_error_not_a_proof():
    spec = Spec([Feature("a", "integer", range=(0, 1), protected=True), Feature("x", "continuous", range=(0, 1))])
    rng = np.random.default_rng(0)
    network = random_network(rng, 2, [3, 3])
    huge = [Affine(affine.weight * np.float32(1e30), affine.bias) for affine in network.affines[:-1]]
    X = spec.sample_inputs(4, rng)
    with pytest.raises(FairmendError, match=r"could not be proven.*scale the inputs"):
        repair(network.with_affines([*huge, network.head]), spec, X, X * 0, [0, 1, 0, 1], steps=0)


def test_a_tiny_time_limit_still_ends_in_a_proof():
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=16, repairs=40)
    check(network, repair(network, spec, X, X_cal, y_cal, steps=0, time_limit=1e-6), spec, X)


@pytest.mark.parametrize("method", ["prof", "blind"])
@pytest.mark.parametrize("patience", [None, 3])
def test_the_time_limit_ends_training_but_not_the_proof(method, patience):
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=16)
    options = {"steps": 40, "method": method, "patience": patience}
    result = repair(network, spec, X, X_cal, y_cal, **options, time_limit=1e-6)
    check(network, result, spec, X)
    assert len(result.history) == 1
    assert "ended the training after 1 of 40 steps" in str(result.warnings)
    unlimited = repair(network, spec, X, X_cal, y_cal, **options, time_limit=1e6)
    assert len(unlimited.history) > 1
    assert "ended the training" not in str(unlimited.warnings)


def test_steps_take_parts_of_the_repair_inputs_where_all_of_them_do_not_fit_the_time_limit(monkeypatch):
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=16)
    monkeypatch.setattr(recipe, "_MUCH_WORK", 0)
    monkeypatch.setattr(recipe, "expected_seconds", lambda *_, **__: 600_000.0)

    def run(**options):
        result = repair(network, spec, X, X_cal, y_cal, steps=4, **options)
        check(network, result, spec, X)
        return result, "one of 2 parts" in str(result.warnings)

    whole, warned = run()
    assert not warned, "there is no limit"
    parts, warned = run(time_limit=1e6)
    assert warned
    assert len(parts.history) == 4
    assert parts.history != whole.history
    roomy, warned = run(time_limit=1.3e6)
    assert not warned
    assert roomy.history == whole.history


def test_the_time_of_step_1_is_told_before_it_starts(monkeypatch, caplog):
    network, spec, X, X_cal, y_cal = case(SPECS["tolerance"], seed=16)
    plain = repair(network, spec, X, X_cal, y_cal, steps=4)
    monkeypatch.setattr(recipe, "_MUCH_WORK", 0)
    with caplog.at_level("INFO", "fairmend"):
        told = repair(network, spec, X, X_cal, y_cal, steps=4)
    lines = [record.message for record in caplog.records]
    assert any(re.match(r"step 1 will take at most about \d+ s: 4 steps with linear bounds", line) for line in lines)
    assert told.history == plain.history, "measuring a step changes nothing"


def test_points_cost_no_more_than_linear_and_linear_no_more_than_box():
    costs = []
    for features in ("points", "linear", "box"):
        network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=4)
        costs.append(
            repair(network, spec, X, X_cal, y_cal, steps=0, features=features, cover_inference=False).objective
        )
    assert costs[0] <= costs[1] + 1e-6
    assert costs[1] <= costs[2] + 1e-6
    assert costs[0] > 0


@pytest.mark.parametrize("method", ["prof", "blind"])
def test_links_are_repaired_over_the_neighbourhoods_that_they_define(method, tmp_path):
    spec, network, X = family_case(rows=80)
    assert expected_unequal(network, spec, X[:20]).any()
    result = fairmend.repair(
        network, spec, X[:20], X[20:], network.predict(X[20:]), method, training=fairmend.TrainingOptions(steps=5)
    )
    assert result.proof.covers_inference.all()
    assert not expected_unequal(result.network, spec, X[:20]).any()
    assert result.blind_features == (("sex", "age") if method == "blind" else ())
    assert not result.everyone
    result.network.save(tmp_path / "m.onnx")
    result.certificate.save(tmp_path / "c.json", tmp_path / "m.onnx")
    assert fairmend.check(tmp_path / "c.json", tmp_path / "m.onnx").valid


def test_blind_regions_have_the_linked_pieces_once():
    spec, network, X = family_case(rows=4)
    task = prepare_task(network, spec, X, X, network.predict(X), HeadOptions(), 0)
    columns = columns_of(spec, spec.protected)
    regions = _blind_regions(task, columns)
    assert not regions.lower[:, columns].any()
    assert not regions.upper[:, columns].any()
    rows, points = next(spec.points(X))
    points[:, columns] = 0
    for row, point in zip(rows, points, strict=True):
        mine = regions.owner == row
        assert ((regions.lower[mine] <= point) & (point <= regions.upper[mine])).all(axis=1).any()
    for row in range(len(X)):
        mine = np.column_stack([regions.lower, regions.upper])[regions.owner == row]
        assert len(np.unique(mine, axis=0)) == len(mine)


@pytest.mark.parametrize("which", ["tolerance", "several"])
def test_large_networks_take_people_one_by_one_where_the_time_limit_leaves_no_time(which, monkeypatch):
    network, spec, X, X_cal, y_cal = case(SPECS[which], seed=16)
    monkeypatch.setattr(recipe, "_MUCH_WORK", 0)
    monkeypatch.setattr(recipe, "expected_seconds", lambda *_, **__: 600_000.0)
    monkeypatch.setattr(recipe, "is_large", lambda network: True)
    result = repair(network, spec, X, X_cal, y_cal, steps=4, time_limit=1e6)
    check(network, result, spec, X)
    assert ("one by one" in str(result.warnings)) == spec.finite
    unlimited = repair(network, spec, X, X_cal, y_cal, steps=4)
    assert "one by one" not in str(unlimited.warnings)


def test_training_on_the_people_of_neighbourhoods_makes_them_agree():
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=16)
    assert spec.finite
    options = HeadOptions(features="points")
    task = prepare_task(network, spec, X, X_cal, y_cal, options, 0)
    started = recipe.Calibration(network, recipe.History(), 0, 0.0)
    wide = replace(recipe.Recipe(), parts=2, learning_rate=0.01)
    settled = recipe._settle(started, wide, task, task.X_cal, task.y_cal, task.deadline)

    def unequal(network):
        points = [(rows, network.predict(points)) for rows, points in spec.points(task.X_repair, dtype=network.dtype)]
        rows, classes = (np.concatenate(part) for part in zip(*points, strict=True))
        return sum(len(np.unique(classes[rows == row])) > 1 for row in range(len(X)))

    assert unequal(settled.network) < unequal(network)
    same = recipe._settle(started, recipe.Recipe(), task, task.X_cal, task.y_cal, task.deadline)
    assert same is started, "without a time limit nothing changes"
