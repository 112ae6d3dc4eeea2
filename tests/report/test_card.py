"""The model card: its head is YAML, its figures are the page's, and no name in it is Markdown or HTML."""

import re
from dataclasses import replace

import yaml

from fairmend.base.text import percent, ratio
from fairmend.report import Report
from fairmend.report.markdown import model_card
from fairmend.spec import About
from support.report_cases import HOSTILE, audit_of, hostile, repair_of

ABOUT = About(name='Credit: "A" #1', version="2.1", owner="Risk | Bank", purpose="Offers *loans*")


def head_of(card):
    start, head, rest = card.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(head), rest


def test_the_head_is_what_hugging_face_reads():
    head, _ = head_of(model_card(replace(repair_of().document, about=ABOUT)))
    assert head["library_name"] == "fairmend"
    assert head["model_name"] == 'Credit: "A" #1'
    assert head["pipeline_tag"] == "tabular-classification"
    assert {"fairness", "fairmend-repair"} <= set(head["tags"])


def test_the_card_says_what_the_page_says():
    document = replace(repair_of().document, about=ABOUT)
    card = Report(document).markdown
    assert "| Owner | Risk \\| Bank |" in card
    assert "| Contact | not given |" in card
    for figure in (document.before.utility.accuracy, document.after.utility.accuracy):
        assert percent(figure) in card
    for table in document.outcomes.tables:
        for group in table.groups:
            assert ratio(group.after.ratio).replace("<", "&lt;") in card
    assert "(below 4/5)" in card
    assert document.certificate.command in card
    assert document.certificate.claim in card


def test_every_table_has_as_many_cells_in_each_line():
    for report in (repair_of(), repair_of("prof", 3), audit_of(), audit_of(sampled=True), *hostile()):
        blocks = re.findall(r"(?:^\|.*\n)+", report.markdown, re.M)
        assert blocks
        for block in blocks:
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_hostile_names_are_text():
    for report in hostile():
        head, rest = head_of(report.markdown)
        assert set(head) == {"library_name", "model_name", "pipeline_tag", "tags"}
        prose = "\n".join(line for line in rest.splitlines() if not line.startswith("    "))
        assert not any(name in prose for name in HOSTILE)
        assert not re.search(r"<\w|</", prose)
