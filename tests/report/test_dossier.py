"""What a dossier says of a document and a proof, and that no name in it is markup."""

import re
from dataclasses import replace

import pytest

from fairmend.evaluate.document import CheckDocument
from fairmend.report.dossier import dossier_markdown, dossier_page
from fairmend.report.dossier.content import NOT_CLAIMED, Evidence, Proof, Statement, chapters
from support.html_page import Page
from support.report_cases import HOSTILE, audit_of, repair_of


def statements(text, mark):
    return re.findall(rf"^- \*\*\[{mark}\]\*\* (.*)$", text, re.MULTILINE)


def check_document(**changed):
    content = {"verdict": "valid", "valid": True, "reasons": [], "claim": "The claim.", "condition": "", "regions": 0}
    content |= {
        "covers_inference": True,
        "least_margin": None,
        "largest_difference": None,
        "fair": None,
        "unfair": None,
    }
    content |= {"boxes": 0, "runs": [], "not_run": "no runtime", "model_read": True, "seconds": 0.1}
    return CheckDocument(**content | changed)


def test_a_linked_feature_and_a_column_that_is_not_read_are_named_by_their_basis():
    document = repair_of().document
    similar = replace(document.similar, linked=["marital_status"], links=["With gender f, marital_status is any."])
    table = replace(document.outcomes.tables[0], features=["nativeCountry"])
    outcomes = replace(document.outcomes, tables=[table])
    text = dossier_markdown(replace(document, similar=similar, outcomes=outcomes), Evidence([], None, []))
    known = " ".join(statements(text, "recomputable"))
    assert "Marital status: “marital\\_status” changes along with protected features" in known
    assert "The links of the spec: With gender f, marital\\_status is any." in known
    assert "National origin: the model does not read “nativeCountry”." in known


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Geschlecht", "Sex: the output does not depend on “Geschlecht”"),
        ("Nationalität", "National origin: the output does not depend on “Nationalität”"),
        ("column 7", "Under names that say no basis: the output does not depend on column 7"),
    ],
)
def test_what_is_proven_of_a_feature_in_another_language_or_under_another_name_is_said(name, said):
    document = repair_of().document
    document = replace(document, similar=replace(document.similar, protected=[name]))
    text = dossier_markdown(document, Evidence([], Proof(check_document(), [name], [], None), []))
    assert said in " ".join(statements(text, "proven"))
    assert name not in " ".join(statements(text, "not claimed"))


def test_what_does_not_hold_is_no_proof():
    with pytest.raises(ValueError, match="only a certificate that holds"):
        Proof(check_document(valid=False, verdict="invalid"), [], [], None)


def test_a_condition_and_exact_arithmetic_are_said_beside_the_proof():
    check = check_document(condition="the program does it.", covers_inference=False)
    evidence = Evidence([], Proof(check, [], ["age"], None), [])
    parts = [part for part in chapters(repair_of().document, evidence)[0].parts if isinstance(part, Statement)]
    open_ = " ".join(part.text for part in parts if part.mark == NOT_CLAIMED)
    assert "which the files do not show: the program does it." in open_
    assert "That the claim holds in inference" in open_
    assert "That a program computes what was proven: no runtime." in open_


def test_no_name_is_markup_in_the_page_or_in_markdown():
    document = replace(audit_of().document, title=HOSTILE[0], warnings=list(HOSTILE))
    document = replace(document, similar=replace(document.similar, protected=[f"sex {name}" for name in HOSTILE]))
    evidence = Evidence([], Proof(check_document(claim=" ".join(HOSTILE)), [], [], None), [f"check {HOSTILE[1]}"])
    page = Page(dossier_page(document, evidence))
    assert page.all("script") == page.all("img") == page.all("svg") == []
    text = dossier_markdown(document, evidence)
    shown = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    assert "<" not in shown.replace("\\<", "")


@pytest.mark.parametrize("outputs", [1, 3])
def test_samples_and_several_classes_have_no_selection_rates(outputs):
    document = audit_of(outputs, sampled=outputs == 1).document
    text = dossier_markdown(document, Evidence([], None, []))
    assert any("The result has no selection rates" in each for each in statements(text, "not claimed"))
