"""The spec of a certificate: what it must say, and how two specs differ."""

import json

import numpy as np

import fairmend
from fairmend.network import Activation, Network
from fairmend.prove.certificate import certificate_of_fair
from support.checker_cases import TWO_FEATURES, affine


def test_a_protected_feature_with_one_value_claims_nothing(tmp_path):
    network, path = Network([affine([[1, 0]], [0]), affine([[1]], [-0.5])], [Activation("relu")]), tmp_path / "m.onnx"
    network.save(path)
    certificate, _ = certificate_of_fair(network, TWO_FEATURES, np.array([[1, 0]], np.float32))
    certificate.save(tmp_path / "c.json", path)
    assert "for these values: g 1 to 2." in fairmend.check(tmp_path / "c.json", path).claim
    forged = json.loads((tmp_path / "c.json").read_text())
    forged["spec"]["content"]["feature"][0]["range"] = [1, 1]
    (tmp_path / "c.json").write_text(json.dumps(forged))
    report = fairmend.check(tmp_path / "c.json", path)
    assert not report.valid
    assert "only one value" in report.reasons[0]
