"""The headline of a report: it claims what is proven or found, and no more."""

import fairmend
from fairmend.evaluate.claims import summarize
from fairmend.report.page import render
from support.cli_case import small_spec
from support.report_cases import people, repair_of, repaired


def test_the_verdict_claims_what_is_proven_and_no_more():
    everyone = summarize(repair_of("auto").document)
    assert (everyone.status, everyone.tag) == ("good", "Proven for everyone")
    some = summarize(repair_of("prof").document)
    assert some.tag == "Proven for 30 repair inputs"
    assert "still treated unequally" in some.sections[2].paragraphs[0]
    assert not any("still treated unequally" in paragraph for paragraph in everyone.sections[2].paragraphs)
    baseline = repair_of("flip").document
    left = baseline.repair.after.unfair_inputs
    none = summarize(baseline)
    assert baseline.repair.proven < baseline.repair.inputs
    assert (none.status, none.tag) == ("bad", "Not proven")
    assert none.headline.startswith(f"{left} of the 30" if left else "The method flip gives no guarantee")


def test_nobody_unequal_and_nobody_found_are_two_things():
    spec, frame = small_spec(), people()
    blind = repaired("auto")[0].network
    fair = fairmend.report.audit_report(fairmend.audit(blind, spec, frame), blind, spec, frame).document
    assert summarize(fair).status == "good"
    assert "There are none" in render(fair)
    vague = small_spec(kind="continuous")
    unknown = fairmend.report.audit_report(fairmend.audit(blind, vague, frame), blind, vague, frame).document
    assert summarize(unknown).status == "open"
    assert "not every possibility could be tried" in summarize(unknown).headline
