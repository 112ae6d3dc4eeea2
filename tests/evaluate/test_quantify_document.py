"""The report on shares says what is proven, and where people are treated unequally."""

from dataclasses import replace

import numpy as np
import pytest

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.evaluate.document import QUANTIFY
from fairmend.evaluate.provenance import describe_origin
from fairmend.evaluate.quantify_document import quantify_document
from fairmend.evaluate.summary import summarize
from fairmend.report import load_report
from fairmend.report.report import Report
from support.quantify_cases import SMALL, linear
from support.strategies import random_network


def document_of(net, spec=SMALL, **options):
    found = fairmend.quantify(net, spec, seconds=5, samples=500, **options)
    return quantify_document(net, spec, found, describe_origin(seed=0), title="the network", boxes=3)


def unequal():
    """Class 1 if age and hours together are high."""
    return linear([1, 3, 0, 0, 0, 0], -26.5)


def test_the_page_and_the_card_show_shares_and_boxes_in_words(tmp_path):
    X = np.zeros((4, SMALL.width), np.float32)
    X[:, 0], X[:, 2] = 20, 1
    report = Report(document_of(unequal(), X=X))
    document = report.document
    assert document.kind == QUANTIFY
    assert document.quantify.rows.fair + document.quantify.rows.unfair == 4
    (box, *_) = document.quantify.boxes
    assert "age decides" in box.text
    assert box.changes == "class 1 with age 24; class 0 with age 20"
    for text in (report.html, report.markdown.replace("\\", "")):
        assert box.text in text
        assert "are treated unequally; this is proven" in text
    report.save_data(tmp_path / "report.json")
    assert load_report(tmp_path).document == document
    broken = replace(document, quantify=replace(document.quantify, fair=2.0))
    Report(broken).save_data(tmp_path / "report.json")
    with pytest.raises(FairmendError, match="a share is not from 0 to 1"):
        load_report(tmp_path)


@pytest.mark.parametrize(
    ("net", "status", "headline"),
    [
        (
            linear([0, 1, 0, 0, 0, 0], 0),
            "good",
            "It is proven that all people whom the spec allows are treated equally.",
        ),
        (linear([10, 0.1, 0, 0, 0, 0], -220), "bad", "100 % of all people whom the spec allows are treated unequally"),
        (linear([1e-30, 0, 0, 0, 0, 0.1], -0.3), "open", "At most 25.00"),
    ],
)
def test_the_headline_says_what_is_proven(net, status, headline):
    summary = summarize(document_of(net))
    assert summary.status == status
    assert summary.headline.replace("\u00a0", " ").startswith(headline)


def test_between_two_bounds_both_are_stated_on_their_safe_side():
    document = document_of(random_network(np.random.default_rng(0), SMALL.width, [3]))
    shares = replace(document.quantify, fair=0.123456789, unfair=0.123456789, undecided=0.753086422)
    headline = summarize(replace(document, quantify=shares)).headline.replace("\u00a0", " ")
    assert headline.startswith("At least 12.345 % and at most 87.655 % of all people")


def test_the_page_warns_that_the_result_is_partial():
    found = fairmend.quantify(unequal(), SMALL, seconds=5, samples=0)
    document = quantify_document(
        unequal(), SMALL, found, describe_origin(seed=0), title="it", boxes=1, warnings=["the result is partial"]
    )
    assert "The result is partial." in Report(document).html
