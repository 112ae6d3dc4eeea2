"""The documents of an audit and of quantify: their figures are those of the result and of brute force."""

from dataclasses import replace

import numpy as np
import pytest

import fairmend
from fairmend.auditing.neighbours import ExhaustiveScan, find_unequal
from fairmend.base.errors import FairmendError
from fairmend.evaluate.build_document import quantify_document
from fairmend.evaluate.document import QUANTIFY
from fairmend.evaluate.document_parts import Context, describe_origin
from fairmend.evaluate.summary import summarize
from fairmend.report import load_report
from fairmend.report.page import describe_box, describe_pair
from fairmend.report.report import Report
from support.cli_case import small_network, small_spec
from support.price_case import price_network, price_people, price_spec
from support.quantify_cases import SMALL, linear
from support.report_cases import audit_of, people
from support.strategies import random_network


def test_an_audit_says_what_was_found():
    document = audit_of().document
    spec, frame, net = small_spec(), people(), small_network()
    found = fairmend.audit(net, spec, frame)
    unequal = find_unequal(net, spec, frame)
    assert (document.count, document.total) == (found.count, found.total) == (unequal.count, len(frame))
    pairs, flips = document.page.pairs, document.page.flips
    assert pairs.total == found.count == len(pairs.rows) == flips.looked_at
    gender = next(f for f in document.groups if f.feature == "gender")
    for group in gender.groups:
        members = (frame["gender"] == group.name).to_numpy()
        assert group.rows == members.sum()
        assert group.unfair_rate == pytest.approx(unequal.rows[members].mean())
        assert group.selection_rate == pytest.approx(net.predict(spec.encode(frame))[members].mean())
    headline = summarize(document).headline
    assert headline.startswith(f"{found.count} of 600 people (")
    assert headline.endswith("would get a different prediction if only their age or gender were different.")


def test_the_worst_pairs_name_the_classes_and_the_scores():
    spec, frame, net = small_spec(), people(), small_network()
    pair = fairmend.audit(net, spec, frame).pairs[0]
    first = describe_pair(audit_of().document.pairs[0], audit_of().document)
    names = ["no", "yes"]
    assert first.startswith(f"Row {pair.row}: “{names[pair.answers[0]]}” (score ")
    assert f". The same person, {pair.difference.removeprefix('the same person, ')}: " in first
    assert f"“{names[pair.answers[1]]}” (score " in first


def test_the_verdicts_are_those_of_the_audit_and_nothing_is_scanned_again(monkeypatch):
    spec, frame, net = small_spec(), people(), small_network()
    result = fairmend.audit(net, spec, frame)
    for scan in ("scan", "worst", "widest"):
        monkeypatch.delattr(ExhaustiveScan, scan)
    document = fairmend.report.audit_report(result, net, spec, frame).document
    assert document.page.looked_at == len(result.examined.X) == 600
    assert [entry.state == "two" for entry in document.page.ranges.before].count(True) > 0
    assert document.page.flips.looked_at == result.examined.unequal.sum()


def test_samples_are_not_drawn_again():
    spec, net = small_spec(), small_network()
    result = fairmend.audit(net, spec, samples=300, seed=11)
    document = fairmend.report.audit_report(result, net, spec).document
    shown = {pair.row for pair in document.page.pairs.rows}
    assert shown == set(result.examined.unequal.nonzero()[0].tolist())


def test_an_audit_of_scores_says_how_far_they_differ():
    spec, frame, net = price_spec(30.0), price_people(), price_network()
    found = fairmend.audit(net, spec, frame, pairs=3)
    report = fairmend.report.audit_report(found, net, spec, frame)
    scores = report.document.scores
    assert (scores.on, scores.delta, scores.largest) == ("output", 30, 40)
    assert (sum(scores.counts), scores.counts[-1], scores.edges[-1]) == (60, 60, 40)
    assert report.document.utility.r2 > 0.99
    headline = summarize(report.document).headline
    assert headline.startswith("60 of 60 people (100")
    assert "have similar people whose scores differ by more than 30 (output). The largest difference is 40" in headline
    worst = [describe_pair(pair, report.document) for pair in report.document.pairs]
    assert "sex m instead of f" in worst[0]
    assert "class" not in " ".join(worst)
    page = report.html
    assert "Largest difference" in page
    assert "delta 30" in page
    good = fairmend.audit(net, price_spec(50.0), frame)
    assert summarize(fairmend.report.audit_report(good, net, price_spec(50.0), frame).document).status == "good"


def test_an_audit_of_sampled_scores_proves_nothing():
    spec = small_spec(kind="continuous")
    spec = fairmend.Spec(spec.features, spec.label, fairmend.Claim("score", 0.9, "probability"))
    net = small_network()
    report = fairmend.report.audit_report(fairmend.audit(net, spec, samples=50, method="sample"), net, spec)
    summary = summarize(report.document)
    assert summary.status == "open"
    assert "at least" in summary.headline
    assert "Largest difference" in report.html


# The report on shares says what is proven, and where people are treated unequally.


def document_of(net, spec=SMALL, **options):
    found = fairmend.quantify(net, spec, seconds=5, samples=500, **options)
    return quantify_document(net, spec, found, Context(describe_origin(seed=0), "the network"), boxes=3)


def unequal():
    """Class 1 if age and hours together are high."""
    return linear([1, 3, 0, 0, 0, 0], -26.5)


def test_the_page_and_the_card_show_shares_and_boxes_in_words(tmp_path):
    X = np.zeros((4, SMALL.width), np.float32)
    X[:, 0], X[:, 2] = 20, 1
    report = Report(document_of(unequal(), X=X))
    document = report.document
    assert document.kind == QUANTIFY
    assert document.rows.fair + document.rows.unfair == 4
    (box, *_) = document.boxes
    assert "age decides" in box.text
    assert describe_box(box, document) == "class 1 with age 24; class 0 with age 20"
    for text in (report.html, report.markdown.replace("\\", "")):
        assert box.text in text
        assert "are treated unequally; this is proven" in text
    report.save_data(tmp_path / "result.json")
    assert load_report(tmp_path).document == document
    broken = replace(document, fair=2.0)
    Report(broken).save_data(tmp_path / "result.json")
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
    shares = replace(document, fair=0.123456789, unfair=0.123456789, undecided=0.753086422)
    headline = summarize(shares).headline.replace("\u00a0", " ")
    assert headline.startswith("At least 12.345 % and at most 87.655 % of all people")


def test_the_page_warns_that_the_result_is_partial():
    found = fairmend.quantify(unequal(), SMALL, seconds=5, samples=0)
    context = Context(describe_origin(seed=0), "it", warnings=["the result is partial"])
    document = quantify_document(unequal(), SMALL, found, context, boxes=1)
    assert "The result is partial." in Report(document).html
