"""A notebook shows the report's own page, sections of it, and the groups as Fairlearn's MetricFrame has them."""

import html

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, selection_rate

import fairmend
from fairmend.base import progress
from fairmend.base.errors import FairmendError
from fairmend.report.build import audit_report
from fairmend.workflows import audit_files
from support.cli_case import Case, small_network, small_people, small_spec
from support.price_case import price_network, price_people, price_spec


@pytest.fixture(scope="module")
def report():
    net, spec, people = small_network(), small_spec(), small_people()
    return audit_report(fairmend.audit(net, spec, people), net, spec, people)


def test_the_output_of_a_cell_is_the_page(report):
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert report.html in html.unescape(shown)
    assert 'sandbox="allow-scripts"' in shown


def test_groups_are_those_of_fairlearn(report):
    people = small_people()
    predicted = small_network().predict(small_spec().encode(people))
    expected = MetricFrame(
        metrics={"selection_rate": selection_rate},
        y_true=predicted,
        y_pred=predicted,
        sensitive_features=people["gender"],
    ).by_group
    found = report.by_group.loc["gender"]
    assert found["selection_rate"].to_dict() == pytest.approx(expected["selection_rate"].to_dict())
    assert found["rows"].sum() == len(people)


def test_groups_of_a_regression_network_have_means():
    net, spec, people = price_network(), price_spec(), price_people()
    found = audit_report(fairmend.audit(net, spec, people), net, spec, people).by_group.loc["sex"]
    means = people.assign(out=net.logits(spec.encode(people)).ravel()).groupby("sex")["out"].mean()
    assert found["mean_output"].to_dict() == pytest.approx(means.to_dict())


def test_a_section_is_drawn_alone(report):
    plot = report.plot("groups")
    assert "<svg" in plot.html
    assert 'id="pairs"' not in plot.html
    assert plot._repr_html_().startswith("<iframe")
    with pytest.raises(FairmendError, match='no section "grups"'):
        report.plot("grups")


def test_files_show_their_report(tmp_path):
    case = Case(tmp_path)
    done = audit_files(case.model, case.spec, case.data, report=tmp_path / "report")
    assert (tmp_path / "report" / "report.html").read_text() == done.report.html
    assert done._repr_html_() == done.report._repr_html_()


def test_progress_in_a_notebook_is_no_error_output(monkeypatch):
    class Stream:
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

        def isatty(self):
            return False

    Stream.__module__ = "ipykernel.iostream"
    out, err = Stream(), Stream()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr(progress, "QUIET_SECONDS", -1.0)
    monkeypatch.setattr(progress, "EVERY_SECONDS", -1.0)

    @progress.shows_progress
    def work(*, progress=None):
        progress("stage", 1, 2)
        return np.ones(1)

    work()
    assert "stage, 50%" in out.text
    assert err.text == ""
