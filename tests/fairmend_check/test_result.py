"""The result of a check."""

import json

import fairmend
from support.checker_cases import case


def test_reports_are_worth_reading(tmp_path):
    certificate, model = case().save(tmp_path)
    report = fairmend.check(str(certificate), str(model))
    assert isinstance(report, fairmend.CheckResult)
    assert "VALID" in repr(report)
    assert "whatever its sex or age" in repr(report)
    assert json.loads(json.dumps(report.as_dict()))["valid"] is True
    assert "INVALID" in repr(fairmend.check(certificate, tmp_path / "none.onnx"))
