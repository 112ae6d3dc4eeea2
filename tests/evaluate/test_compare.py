"""A comparison measures both networks on the same people, and claims what is proven."""

import json
from dataclasses import asdict, replace
from importlib import import_module

import numpy as np
import pytest

import fairmend
from fairmend.auditing import plan
from fairmend.auditing.neighbours import find_unequal
from fairmend.base.files import to_json
from fairmend.evaluate import compare
from fairmend.evaluate.compare import measure, repair_and_compare
from fairmend.evaluate.document_parts import describe_origin
from fairmend.evaluate.repair_document import repair_document
from fairmend.evaluate.split import split_data
from fairmend.evaluate.utility import utility
from fairmend.spec import Claim, Spec
from fairmend.tables import FIRST_ROW
from support.cli_case import small_network, small_people, small_spec
from support.group_metrics import group_metrics
from support.report_cases import repair_of, repaired

SPEC, NET = small_spec(), small_network()


def split(spec=SPEC, rows=300):
    return split_data(spec, NET, small_people(rows), repair_rows=20, calibration_rows=100)


def compared(method, spec=SPEC, **options):
    data = split(spec)
    before = measure(NET, data, stage="before")
    return repair_and_compare(NET, data, before, options={"method": method, **options})


@pytest.fixture(scope="module")
def prof():
    return compared("prof", steps=10)


@pytest.fixture(scope="module")
def blind():
    return compared("blind")


def test_a_measurement_is_of_the_repair_inputs_all_data_and_the_scored_rows():
    data, seen = split(), []
    found = measure(NET, data, stage="audit original", progress=lambda *step: seen.append(step))
    assert np.array_equal(found.repair.rows, find_unequal(NET, SPEC, data.X_repair).rows)
    assert np.array_equal(found.data.unequal, find_unequal(NET, SPEC, data.X).rows)
    scored = data.X[data.scored], data.y[data.scored]
    assert found.utility == utility(NET, *scored)
    assert found.groups == group_metrics(NET, SPEC, *scored)
    assert seen[-1] == ("audit original", 300, 300)
    assert found.data.idi_rate == found.data.count / 300


TOLERANT = [replace(f, tolerance=f.tolerance or 0.05) if f.kind == "continuous" else f for f in SPEC.features]


@pytest.mark.parametrize(
    ("spec", "method"),
    [
        (SPEC, "enumerate"),
        (Spec(SPEC.features, SPEC.label, claim=Claim("score", 0.05, "probability")), "enumerate"),
        (Spec(TOLERANT, SPEC.label), "branch"),
        (Spec(TOLERANT, SPEC.label), "sample"),
    ],
    ids=["classes", "scores", "bounds", "samples"],
)
def test_there_is_one_audit(spec, method, monkeypatch):
    """What a repair says about the data is what `fairmend.audit` says about it, to the digit."""
    if method == "sample":
        monkeypatch.setattr(plan, "EXACT_SECONDS", 0.0)
        monkeypatch.setattr(plan._Costs, "sampling", lambda _: 0.0)
    frame = small_people(120)
    audited = fairmend.audit(NET, spec, frame, pairs=0)
    data = split_data(spec, NET, frame, repair_rows=10, calibration_rows=60)
    found = measure(NET, data, stage="")
    assert found.data.method == audited.method == method
    assert audited.count > 0
    one, other = found.data.as_dict(), audited.as_dict()
    for figure in ("count", "total", "idi_rate", "exact", "unknown", "method", "evaluations", "scores"):
        assert one[figure] == other[figure], figure
    assert found.data.unequal.tolist() == audited.unequal.tolist()
    assert repr(found.data) == repr(audited)
    worst = other["disparity"]["worst"]
    expected = {**other["disparity"], "worst": {**worst, "row": worst["row"] + FIRST_ROW}}  # as a spreadsheet counts
    assert one["disparity"] == expected
    inputs = fairmend.audit(NET, spec, data.X_repair, pairs=0)
    assert found.repair.rows.tolist() == inputs.unequal.tolist()
    assert found.repair.exact == inputs.exact == (method != "sample")


def test_no_audit_of_a_repair_takes_longer_than_the_limit(monkeypatch):
    """What is not decided by then is left open, and said to be."""
    limits = []

    def spied(*arguments, time_limit, **options):
        limits.append(time_limit)
        found = fairmend.audit(*arguments, time_limit=time_limit, **options)
        return replace(found, exact=False, unknown=1)

    monkeypatch.setattr(compare, "audit", spied)
    found = measure(NET, split(), stage="")
    assert limits == [compare.AUDIT_SECONDS] * 2  # all rows, and the repair inputs, because those are not decided
    assert not found.data.exact
    assert not found.repair.exact


def test_the_report_has_the_disparity_before_and_after():
    repair = repair_of("prof").document
    result, spec, net, frame, _ = repaired("prof")
    for figures, network in ((repair.before, net), (repair.after, result.network)):
        expected = fairmend.audit(network, spec, frame, pairs=0).disparity
        assert figures.disparity.largest == expected.largest
        assert sum(figures.disparity.counts) == len(frame)
        assert asdict(figures.disparity)["worst"]["scores"] == list(expected.worst.scores)
    assert repair.before.disparity.edges == repair.after.disparity.edges
    page, card = repair_of("prof").html, repair_of("prof").markdown
    assert page.count("The two similar people whose scores differ most") == 2
    assert "Largest score disparity before, row" in card
    assert "Score disparity: more than 10 points" in card


def test_the_repaired_network_is_measured_on_the_same_people(prof):
    after = prof.result.network
    assert np.array_equal(prof.after.data.unequal, find_unequal(after, SPEC, prof.split.X).rows)
    assert prof.after.repair.count == 0
    assert prof.before.repair.count > 0
    X = prof.split.X
    assert prof.changed == pytest.approx((NET.predict(X) != after.predict(X)).mean())


def test_a_proof_for_the_repair_inputs_says_what_is_left(prof):
    assert prof.claim.startswith("Proven: each of the 20 repair inputs")
    assert f"of the 300 rows of the data, {prof.after.data.count}" in prof.beyond
    assert prof.statement == f"{prof.claim} {prof.beyond}"
    assert prof.guarantee.proven == prof.guarantee.inputs == 20
    assert prof.guarantee.arithmetic == ("float32" if prof.covers_inference else "real")


def test_a_proof_for_everyone_leaves_nothing_to_say(blind):
    assert blind.guarantee.covers_everyone
    assert (
        blind.claim
        == "Proven: for every input within the ranges of the spec, the output of the network does not depend on age or "
        "gender."
    )
    assert blind.beyond == ""
    assert blind.statement == blind.claim


def test_what_is_not_proven_is_not_claimed():
    found = compared("flip", steps=2)
    assert found.result.proven < 20
    assert found.claim.startswith("Not proven: flip gives no guarantee.")
    assert f"{found.after.repair.count} are still treated unequally" in found.claim


def test_the_document_holds_the_figures_and_the_sentence(prof):
    document = repair_document(NET, prof, describe_origin(seed=0), title="the network")
    plain = json.loads(to_json(document.as_dict()))
    assert plain["guarantee"] == prof.statement
    assert plain["proven"] is True
    assert plain["proof_covers_inference"] == prof.covers_inference
    assert plain["after"]["data"]["count"] == prof.after.data.count
    assert plain["repair_rows"] == (prof.split.repair + FIRST_ROW).tolist()
    assert plain["data_rows"] == 300


def test_a_proof_that_enumeration_contradicts_is_an_error(monkeypatch, prof):
    """Neither the proof nor the enumeration is trusted alone."""
    unfair = replace(prof.after, repair=prof.before.repair)
    monkeypatch.setattr(compare, "measure", lambda *_, **__: unfair)
    monkeypatch.setattr(import_module("fairmend.repairing.run"), "repair", lambda *_, **__: prof.result)
    with pytest.raises(RuntimeError, match="although the opposite was proven"):
        repair_and_compare(NET, prof.split, prof.before, options={})
