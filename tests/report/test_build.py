"""Reports from Python: from arrays and frames, with every warning, and with bad arguments refused."""

from dataclasses import replace

import numpy as np
import pytest

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import Affine, Network
from fairmend.report import audit_report, repair_report
from support.cli_case import small_spec
from support.html_page import Page
from support.report_cases import people, repair_of, repaired


def test_arrays_do_as_well_as_frames():
    result, spec, net, frame, y = repaired("prof")
    X = spec.encode(frame)
    report = repair_report(result, spec, net, X[:30], X, y)
    ours, theirs = report.document, repair_of("prof").document
    assert replace(ours.after, disparity=None) == replace(theirs.after, disparity=None)
    assert replace(ours.after.disparity, worst=None) == replace(theirs.after.disparity, worst=None)
    assert ours.after.disparity.worst.values == pytest.approx(theirs.after.disparity.worst.values)  # read in float32
    assert ours.page.ranges == theirs.page.ranges
    for mine, own in zip(ours.page.pairs.rows, theirs.page.pairs.rows, strict=True):
        assert (mine.values[:2], mine.values[3]) == (own.values[:2], own.values[3])
        assert float(mine.values[2]) == pytest.approx(float(own.values[2]), rel=1e-4)  # a frame shows its own digits
    assert {file.role for file in ours.origin.files} == {"data", "repair inputs"}


def test_bad_arguments_of_a_repair_report_are_refused():
    result, spec, net, frame, y = repaired("prof")
    X = spec.encode(frame)
    with pytest.raises(FairmendError, match="X_repair has 29 rows, but the result is for 30"):
        repair_report(result, spec, net, X[:29], X, y)
    with pytest.raises(FairmendError, match="Pass y, or data as a DataFrame"):
        repair_report(result, spec, net, X[:30], X)
    with pytest.raises(FairmendError, match="y has shape"):
        repair_report(result, spec, net, X[:30], X, y[:5])


def test_an_audit_from_python_warns_that_the_spec_does_not_fit_the_network():
    spec, frame = small_spec(), people()
    constant = Network([Affine(np.zeros((1, spec.width), np.float32), np.ones(1, np.float32))], [])
    result = fairmend.audit(constant, spec, frame)
    report = audit_report(result, constant, spec, frame)
    assert "gives all 600 people the same prediction" in report.document.warnings[0]
    assert "gives all 600 people the same prediction" in Page(report.html).text
    samples = fairmend.audit(constant, spec, samples=100)
    assert audit_report(samples, constant, spec).document.warnings == []


def test_bad_arguments_of_an_audit_report_are_refused():
    spec, frame, net = small_spec(), people(), repaired("prof")[2]
    with pytest.raises(FairmendError, match="the data has 599 rows, but the audit was of 600"):
        audit_report(fairmend.audit(net, spec, frame), net, spec, frame[1:])
    with pytest.raises(FairmendError, match="Leave out data and y"):
        audit_report(fairmend.audit(net, spec, samples=10), net, spec, frame)


def test_an_audit_without_its_data_is_reported_without_accuracy():
    spec, frame, net = small_spec(), people(), repaired("prof")[2]
    result = fairmend.audit(net, spec, frame)
    bare, full = audit_report(result, net, spec).document, audit_report(result, net, spec, frame).document
    assert (bare.utility, full.labelled_rows) == (None, 600)
    assert bare.page.pairs == full.page.pairs
    assert bare.origin.files == []


def test_reports_from_python_have_columns_that_the_model_does_not_read():
    result, spec, net, frame, y = repaired("prof")
    frame = frame.assign(district=np.where(np.arange(len(frame)) % 2, "north", "south"))
    repair = repair_report(result, spec, net, frame[:30], frame, y, group=["district"]).document
    audit = audit_report(fairmend.audit(net, spec, frame), net, spec, frame, y, group=["district"]).document
    for document, groups in ((repair, repair.after.groups), (audit, audit.groups)):
        assert [proxy.column for proxy in document.proxies] == ["district"]
        assert [feature.feature for feature in groups] == [*document.similar.protected, "district"]
    with pytest.raises(FairmendError, match="Pass the data as a DataFrame"):
        repair_report(result, spec, net, frame[:30], spec.encode(frame), y, group=["district"])
    with pytest.raises(FairmendError, match="no such column"):
        repair_report(result, spec, net, frame[:30], frame, y, group=["distrct"])


def test_a_repair_of_a_model_that_is_only_run_has_a_report_in_python():
    spec, frame = small_spec(), people()
    y = spec.labels(frame)
    model = fairmend.load_model(lambda X: 1 / (1 + np.exp(-X[:, 0] - X[:, -1])))
    result = fairmend.repair(model, spec, frame[:20], frame[20:120], y[20:120], method="average")
    found = repair_report(result, spec, model, frame[:20], frame, y).document
    assert found.everyone
    assert all(value.score.mean == 0 for feature in found.after.effects for value in feature.values)
