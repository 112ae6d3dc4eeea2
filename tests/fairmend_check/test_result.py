"""The result of a check."""

import json
from itertools import product

import pytest

import fairmend
from support.checker_cases import case

NOTHING = {"claim": "", "regions": 0, "covers_inference": None, "least_margin": None, "seconds": 0.0}


def test_reports_are_worth_reading(tmp_path):
    certificate, model = case().save(tmp_path)
    report = fairmend.check(str(certificate), str(model))
    assert isinstance(report, fairmend.CheckResult)
    assert "VALID" in repr(report)
    assert "whatever its sex or age" in repr(report)
    assert json.loads(json.dumps(report.as_dict()))["valid"] is True
    assert "UNREADABLE" in repr(fairmend.check(certificate, tmp_path / "none.onnx"))


def test_a_result_cannot_contradict_itself():
    """Nothing that cannot be read is valid, and nothing is without a verdict that follows from the rest."""
    kinds = {(True, True, ()): "valid", (False, True, ("why",)): "invalid", (False, False, ("why",)): "unreadable"}
    for valid, readable, reasons in product((True, False), (True, False), ((), ("why",))):
        arguments = {"valid": valid, "reasons": reasons, "readable": readable, **NOTHING}
        if (valid, readable, reasons) in kinds:
            result = fairmend.CheckResult(**arguments)
            assert result.verdict == result.as_dict()["verdict"] == kinds[valid, readable, reasons]
        elif valid or readable:
            with pytest.raises(ValueError, match="valid only if"):
                fairmend.CheckResult(**arguments)
