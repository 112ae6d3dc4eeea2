"""The score disparity of a repair's data is that of an audit of the same rows."""

from dataclasses import asdict, replace

import pytest

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.evaluate.compare import measure
from fairmend.evaluate.split import split_data
from fairmend.spec import Claim, Spec
from support.cli_case import small_network, small_people, small_spec
from support.report_cases import repair_of, repaired

SPEC = small_spec()


def data(net, spec=SPEC):
    return split_data(spec, net, small_people(120), repair_rows=10, calibration_rows=60)


@pytest.mark.parametrize("claim", [Claim(), Claim("score", 0.05, "probability")], ids=["classes", "scores"])
def test_it_is_that_of_an_audit(claim):
    net, spec = small_network(), Spec(SPEC.features, SPEC.label, claim=claim)
    found, expected = measure(net, data(net, spec), stage="").disparity, fairmend.audit(net, spec, small_people(120))
    assert found.quantiles == pytest.approx(expected.disparity.quantiles, abs=1e-6)
    assert found.above == expected.disparity.above
    assert found.largest == pytest.approx(expected.disparity.largest, abs=1e-6)
    assert found.curve.counts.tolist() == expected.disparity.curve.counts.tolist()
    assert found.worst.row == expected.disparity.worst.row + 2  # as a spreadsheet counts
    assert set(found.worst.answer_names) <= {"yes", "no"}


def test_rounding_is_no_disparity():
    net = small_network(3)
    weight = net.affines[0].weight.copy()
    for feature in SPEC.varying:
        weight[:, SPEC.columns(feature.name)] = 0
    blind = net.with_affines([replace(net.affines[0], weight=weight), *net.affines[1:]])
    X = SPEC.encode(small_people(120))
    spread = find_unequal(blind, SPEC, X, batch=7).spread
    assert not spread.difference.any()
    assert find_unequal(net, SPEC, X).spread.difference.all()


def test_the_report_has_it_before_and_after():
    repair = repair_of("prof").document
    result, spec, net, frame, _ = repaired("prof")
    for figures, network in ((repair.before, net), (repair.after, result.network)):
        expected = fairmend.audit(network, spec, frame, pairs=0).disparity
        assert figures.disparity.largest == pytest.approx(expected.largest, abs=1e-6)
        assert sum(figures.disparity.counts) == len(frame)
        assert asdict(figures.disparity)["worst"]["scores"] == pytest.approx(expected.worst.scores, abs=1e-6)
    assert repair.before.disparity.edges == repair.after.disparity.edges
    page, card = repair_of("prof").html, repair_of("prof").markdown
    assert page.count("The two similar people whose scores differ most") == 2
    assert "Largest score disparity before, row" in card
    assert "Score disparity: more than 10 points" in card
