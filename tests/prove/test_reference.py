"""On the paper's settings every engine finds the original networks as unfair as the original run did."""

import csv

import numpy as np
import pytest

import fairmend
from fairmend.datasets import load

SETTINGS = {
    "compas-race+age": ("compas1", ["Race", "Age"], None),
    "adult-age": ("AC1", ["age"], None),
    "german-sex-G1": ("GC1", ["sex"], {"credit_amount": 100}),
    "bank-age-B1": ("BM0", ["age"], {"duration": 1}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_unfair_rate_is_the_original_cur_with_every_engine(shared, name):
    model, protected, tolerance = SETTINGS[name]
    net = fairmend.load_network(shared / "models" / f"{model}.pth")
    spec = load(name.split("-")[0], shared / "data").spec(protected, tolerance)
    X = np.load(shared / "reference" / "splits" / f"{name}.npz")["X_r"]
    with (shared / "reference" / "original_results.csv").open() as file:
        expected = next(float(row["orig_cur"]) for row in csv.DictReader(file) if row["setting"] == name)
    reports = [fairmend.certify(net, spec, X, engine) for engine in ("enumerate", "branch", "milp")]
    for report in reports:
        assert 100 * report.unfair_rate == pytest.approx(expected)
        assert report.counts["unknown"] == 0
        assert report.verdicts == reports[0].verdicts
