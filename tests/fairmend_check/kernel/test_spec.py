"""The spec of a certificate: what it must say, and how two specs differ."""

import numpy as np
import pytest

import fairmend
from fairmend.network import Activation, Network
from fairmend.prove.certificate import certificate_of_fair
from fairmend_check.errors import CheckError
from fairmend_check.kernel.spec import read_spec
from support.checker_cases import TWO_FEATURES, affine, read, write


def test_a_protected_feature_with_one_value_claims_nothing(tmp_path):
    network, path = Network([affine([[1, 0]], [0]), affine([[1]], [-0.5])], [Activation("relu")]), tmp_path / "m.onnx"
    network.save(path)
    certificate, _ = certificate_of_fair(network, TWO_FEATURES, np.array([[1, 0]], np.float32))
    certificate.save(tmp_path / "c.json", path)
    assert "for these values: g 1 to 2." in fairmend.check(tmp_path / "c.json", path).claim
    forged = read(tmp_path / "c.json")
    forged["spec"]["feature"][0]["range"] = [1, 1]
    report = fairmend.check(write(tmp_path, forged), path)
    assert not report.valid
    assert "only one value" in report.reasons[0]


@pytest.mark.parametrize("value", ["1) and all other people (2", "3", "-0", "٢"])
def test_names_are_those_of_values(value):
    """They are a part of the claim that `check` prints."""
    feature = {"name": "g", "kind": "integer", "range": [-1, 2], "protected": True}
    assert read_spec({"feature": [{**feature, "names": {"-1": "minus", "2": "two"}}]}, "spec")
    with pytest.raises(CheckError, match="not one of its values"):
        read_spec({"feature": [{**feature, "names": {value: "x"}}]}, "spec")
    ordinal = {"name": "g", "kind": "categorical", "categories": ["a", "b"], "protected": True}
    with pytest.raises(CheckError, match="not one of its values"):
        read_spec({"feature": [{**ordinal, "names": {value: "x"}}]}, "spec")
