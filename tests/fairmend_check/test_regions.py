"""Regions: every neighbourhood is covered, and its margin is that of its worst neighbour."""

import numpy as np
import pytest

from fairmend_check import regions
from fairmend_check.certificate import read_certificate, read_region
from fairmend_check.read_model import read_model
from support.checker_cases import case, margin_of, neighbours


def read(kind, folder):
    made = case(**kind)
    certificate, path = made.save(folder)
    claimed, (model, _) = read_certificate(certificate), read_model(path)
    found = [read_region(entry, number, model) for number, entry in enumerate(claimed.regions)]
    return made, claimed.spec, model, found


def test_margins_by_points_are_those_of_the_worst_point(tmp_path):
    made, spec, model, found = read({"features": "points", "outputs": 3}, tmp_path)
    proven = regions.prove(model, spec, found)
    for region, margin in zip(found, proven.margin, strict=True):
        points = neighbours(made.spec, region.x, "float32", np.random.default_rng(0))
        truth = margin_of(made.network, points, region.label)
        assert 0 <= truth - margin < 1e-9
    assert proven.covers.all()


def test_points_are_counted_over_all_regions(tmp_path, monkeypatch):
    _, spec, model, found = read({"features": "points", "outputs": 3}, tmp_path)
    assert regions.check_coverage(model, spec, found) == []
    work = sum(weight.size + 200 * sum(weight.shape) for weight in model.weights)
    monkeypatch.setattr(regions, "MAX_WORK", 2 * 43 * 3 * work)  # sex and age of three of the four inputs
    (reason,) = regions.check_coverage(model, spec, found)
    assert reason == "regions: there are more points to check than the limit for this model, 258"
    monkeypatch.setattr(regions, "MAX_WORK", 2 * 43 * 4 * work)
    assert regions.check_coverage(model, spec, found) == []


@pytest.mark.parametrize("batch", [1, 50, 2**20])
def test_batches_do_not_change_margins(batch, tmp_path, monkeypatch):
    _, spec, model, found = read({"features": "points", "outputs": 3}, tmp_path)
    whole = regions.prove(model, spec, found).margin
    monkeypatch.setattr(regions, "_BATCH", batch)
    assert np.allclose(regions.prove(model, spec, found).margin, whole, atol=1e-12, rtol=0)


def test_a_margin_below_the_error_of_inference_does_not_cover_it():
    excess = regions._excess(np.array([1.0, 1.0, np.inf, -1.0]), np.array([0.5, 1.0, np.inf, 0.1]))
    assert (excess > 0).tolist() == [True, False, False, False]
