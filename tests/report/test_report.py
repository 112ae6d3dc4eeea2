"""A report: what it is about, and the two files that hold it."""

import json
from dataclasses import asdict

from support.report_cases import audit_of


def test_its_repr_names_the_kind_the_network_and_the_date():
    report = audit_of()
    assert repr(report) == f"Report(audit of model.onnx, {report.document.origin.created})"


def test_the_page_and_the_data_are_saved(tmp_path):
    report = audit_of()
    report.save(tmp_path / "page.html")
    report.save_data(tmp_path / "data.json")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html
    assert json.loads((tmp_path / "data.json").read_text()) == asdict(report.document)
