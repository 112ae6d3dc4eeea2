"""Bands in the checker: what it refuses, what it claims, and certificates with bands, true and forged."""

import json

import numpy as np
import pytest

import fairmend
from fairmend.prove.certificate import certificate_of_fair
from fairmend.spec import Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.neighbourhood import neighbourhood
from fairmend_check.kernel.spec import first_difference, read_spec
from support.band_cases import band_case
from support.neighbourhood_cases import points_of

SEX = {"name": "sex", "kind": "categorical", "categories": ["m", "f"], "protected": True}
PAY = {"name": "pay", "kind": "integer", "range": [0, 10], "bands": [0, 4, 8]}
RATE = {"name": "rate", "kind": "continuous", "range": [0, 1], "bands": [0, 0.5]}
JOB = {"name": "job", "kind": "categorical", "categories": ["a", "b", "c"], "bands": [["a", "c"], ["b"]]}


def read(**changes):
    """Read a spec with one feature with bands, in which something is changed."""
    base = JOB if "categories" in str(changes.get("bands")) or changes.pop("job", False) else PAY
    return read_spec({"feature": [SEX, {**base, **changes}]}, "spec")


@pytest.mark.parametrize(
    "changes",
    [
        {"bands": [0, 4, 4]},
        {"bands": [0, 4, 3]},
        {"bands": [1, 4]},
        {"bands": [-1, 4]},
        {"bands": [0, 11]},
        {"bands": [0]},
        {"bands": []},
        {"bands": None},
        {"bands": [0, 2.5]},
        {"bands": [0, True]},
        {"bands": "0, 4"},
        {"bands": {"width": 0}},
        {"bands": {"width": -1}},
        {"bands": {"width": 1}},
        {"bands": {"width": 1e-9}},
        {"bands": {"width": 100}},
        {"bands": {"width": 2, "more": 1}},
        {"bands": list(range(11))},
        {"protected": True},
        {"tolerance": 1},
        {"scale": {"mean": 1e12, "std": 1.0}},
        {"job": True, "bands": [["a", "b"]]},
        {"job": True, "bands": [["a"], ["b"], ["c"]]},
        {"job": True, "bands": [["a", "b", "c"]]},
        {"job": True, "bands": [["a", "b"], ["b", "c"]]},
        {"job": True, "bands": [["a", "x"], ["b", "c"]]},
        {"job": True, "bands": [[], ["a", "b", "c"]]},
        {"job": True, "bands": {"width": 2}},
        {"job": True, "scale": {"mean": 1e12, "std": 1.0}},
    ],
)
def test_bands_are_refused(changes):
    with pytest.raises(CheckError):
        read(**changes)


def test_the_same_bands_are_read_as_by_fairmend():
    for feature in (PAY, RATE, JOB, {**PAY, "bands": {"width": 4}}, {**RATE, "bands": {"width": 1 / 49}}):
        theirs = read_spec({"feature": [SEX, feature]}, "spec")
        ours = Spec.from_dict({"feature": [SEX, feature]})
        again = read_spec(json.loads(json.dumps(ours.to_dict())), "spec")
        assert first_difference(theirs, again) is None
        assert theirs.features[1].bands == ours.features[1].lower_ends


def test_other_bands_are_a_difference():
    first, second = read(), read(bands=[0, 4, 9])
    assert first_difference(first, second) == 'feature "pay": bands is [0, 4, 9] instead of [0, 4, 8]'
    groups = read(job=True), read(job=True, bands=[["a", "b"], ["c"]])
    assert first_difference(*groups) == 'feature "job": groups is [["a", "b"], ["c"]] instead of [["a", "c"], ["b"]]'


def test_a_neighbourhood_is_the_own_band():
    spec = read_spec({"feature": [SEX, PAY, JOB]}, "spec")
    points = np.concatenate(points_of(neighbourhood(spec, np.array([0.0, 8.0, 2.0]), "float32"), 100))
    assert {tuple(p) for p in points.tolist()} == {(s, p, j) for s in (0, 1) for p in (8, 9, 10) for j in (0, 2)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_continuous_band_ends_below_the_next(dtype):
    spec = read_spec({"feature": [SEX, {**RATE, "scale": {"mean": 0.3, "std": 0.7}}]}, "spec")
    kind = np.dtype(dtype).type
    edge = kind((0.5 - 0.3) / 0.7)
    for x, expected in ((edge, (edge, kind(1.0))), (np.nextafter(edge, kind(-1)), (kind(-0.3 / 0.7), None))):
        (product,) = neighbourhood(spec, np.array([0.0, float(x)]), dtype)
        axis = product.axes[1]
        assert axis.low == float(expected[0])
        assert axis.high == float(np.nextafter(edge, kind(-1)) if expected[1] is None else expected[1])


@pytest.mark.parametrize("continuous", [False, True])
def test_certificates_with_bands(continuous, tmp_path):
    spec, net, X = band_case(rows=40, continuous=continuous)
    certified = fairmend.certify(net, spec, X)
    fair = np.array([verdict.name == "FAIR" for verdict in certified.verdicts])
    assert fair.any()
    assert not fair.all()
    model, path = tmp_path / "model.onnx", tmp_path / "certificate.json"
    net.save(model)
    certificate, covered = certificate_of_fair(net, spec, X[fair])
    assert covered.any()
    certificate.save(path)
    result = fairmend.check(path, model)
    assert result.valid, result
    assert "age within its band" in result.claim
    assert "age 20 to 31 in bands from 20, 24, 29" in result.claim
    assert "job a, b, c, d in the bands a and c | b and d" in result.claim
