"""What if?, between result.json and the page: nothing that the page's script cannot compute with is read."""

import json
from dataclasses import asdict, replace
from importlib.resources import files

import pytest

from fairmend.base.errors import FairmendError
from fairmend.network.operations.elementwise import ACTIVATIONS
from fairmend.report import load_report
from fairmend.report.consistency import what_if_problems
from fairmend.report.page import what_if_data
from support.html_page import Page
from support.report_cases import audit_of, hostile, repair_of
from support.what_if_cases import asked_audit


def test_the_script_reads_ascii_with_the_names_of_the_classes():
    what_if = repair_of().document.page.what_if
    text = what_if_data(what_if, ["no", "yes"])
    assert text.isascii()
    assert json.loads(text) == {**asdict(what_if), "answers": ["no", "yes"]}


@pytest.mark.parametrize("report", [repair_of, audit_of, lambda: asked_audit()[0], lambda: hostile()[0]])
def test_report_json_gives_the_same_page_again(tmp_path, report):
    made = report()
    made.save_data(tmp_path / "result.json")
    assert load_report(tmp_path).html == made.html


def test_without_networks_the_page_has_neither_their_script_nor_their_style():
    bare = audit_of().without_what_if()
    assert "whatIfModel" not in bare.html
    assert ".ask" not in Page(bare.html).raw["style"]
    assert len(bare.html) < len(audit_of().html)


def test_the_reason_why_it_is_missing_is_on_the_page():
    document = audit_of().without_what_if().document
    left_out = replace(document, page=replace(document.page, what_if_left_out="the network is <b>large</b>"))
    page = Page(type(audit_of())(left_out).html)
    assert "This page does not compute the scores of other people: the network is <b>large</b>." in page.text


def test_the_script_knows_every_activation():
    script = (files("fairmend.report") / "templates" / "what_if_functions.js").read_text()
    assert all(f"\n    {name}: (z" in script for name in ACTIVATIONS)


CHANGES = {
    "features": lambda w: replace(w, features=[replace(w.features[0], low=99.0), *w.features[1:]]),
    "kind": lambda w: replace(w, features=[replace(w.features[0], kind="text"), *w.features[1:]]),
    "factor": lambda w: replace(w, features=[replace(w.features[0], factor=0.0), *w.features[1:]]),
    "missing": lambda w: replace(w, features=[replace(w.features[0], missing=17.5), *w.features[1:]]),
    "dropped": lambda w: replace(w, features=[replace(w.features[0], dropped=0), *w.features[1:]]),
    "categories": lambda w: replace(
        w, features=[w.features[0], replace(w.features[1], categories=["f"]), *w.features[2:]]
    ),
    "names": lambda w: replace(w, features=[replace(w.features[0], names={"18": "young"}), *w.features[1:]]),
    "width": lambda w: replace(w, features=w.features[:-1], links=[], people=[]),
    "no network": lambda w: replace(w, before=replace(w.before, steps=[])),
    "precision": lambda w: replace(w, before=replace(w.before, precision="float16")),
    "weights": lambda w: replace(w, before=_with_bias(w, "AAAA")),
    "shape": lambda w: replace(w, before=_with_bias(w, shape=[2])),
    "type": lambda w: replace(w, before=_with_bias(w, dtype="float64")),
    "base64": lambda w: replace(w, before=_with_bias(w, "!!!!")),
    "not finite": lambda w: replace(w, before=_with_bias(w, "AADAfw==")),
    "no tensor": lambda w: replace(w, before=_with_step(w, 1, weight="other")),
    "kind of a step": lambda w: replace(w, before=_with_step(w, 2, kind="maximum")),
    "function": lambda w: replace(w, before=_with_step(w, 2, name="swish")),
    "parameters": lambda w: replace(w, before=_with_step(w, 2, name="clip", parameters=[1.0])),
    "slopes in a tensor": lambda w: replace(w, before=_with_step(w, 2, name="prelu", parameters="layers.0.bias")),
    "the other way round": lambda w: replace(w, before=_with_step(w, 1, transposed=True)),
    "columns": lambda w: replace(w, before=_with_step(w, 2, kind="columns", indices=[12])),
    "sources": lambda w: replace(w, before=_with_step(w, 2, sources=[2])),
    "source before the first": lambda w: replace(w, before=_with_step(w, 2, sources=[-1])),
    "no sum": lambda w: replace(w, before=_with_step(w, 2, kind="sum")),
    "no head": lambda w: replace(w, before=replace(w.before, steps=w.before.steps[:-1])),
    "bound": lambda w: replace(w, before=replace(w.before, margin_error=-1.0)),
    "scores": lambda w: replace(w, scores=["a", "b", "c"], threshold=None),
    "threshold": lambda w: replace(w, threshold=None),
    "threshold 1": lambda w: replace(w, threshold=1.0),
    "after": lambda w: replace(w, after=w.before),
    "person": lambda w: replace(w, people=[replace(w.people[0], values=w.people[0].values[:-1])]),
    "value": lambda w: replace(w, people=[replace(w.people[0], values=[17.0, *w.people[0].values[1:]])]),
    "link when": lambda w: replace(w, links=[replace(w.links[0], when=[replace(w.links[0].when[0], feature=99)])]),
    "link run": lambda w: replace(w, links=[replace(w.links[0], when=[replace(w.links[0].when[0], runs=[[1.0]])])]),
    "link then": lambda w: replace(w, links=[_with_change(w.links[0], feature=99)]),
    "link how": lambda w: replace(w, links=[_with_change(w.links[2], how="twice")]),
    "link ends": lambda w: replace(w, links=[_with_change(w.links[2], ends=[1.0])]),
    "link codes": lambda w: replace(w, links=[_with_change(w.links[0], replaces={"0": [7]})]),
    "link kind": lambda w: replace(w, links=[_with_change(w.links[0], how="offset", ends=[1.0, 2.0])]),
}


def _with_bias(what_if, values=None, **changed):
    """Change the numbers of the last bias."""
    key = what_if.before.steps[-1]["bias"]
    entry = what_if.before.tensors[key]
    changed = changed if values is None else {"values": values}
    return replace(what_if.before, tensors={**what_if.before.tensors, key: replace(entry, **changed)})


def _with_step(what_if, number, **changed):
    steps = list(what_if.before.steps)
    steps[number] = {**steps[number], **changed}
    return replace(what_if.before, steps=steps)


def _with_change(link, **changed):
    return replace(link, then=[replace(link.then[0], **changed)])


@pytest.mark.parametrize("name", CHANGES)
def test_what_the_script_cannot_compute_with_is_refused(name):
    what_if = asked_audit()[0].document.page.what_if
    assert list(what_if_problems(what_if, repaired=False)) == []
    assert list(what_if_problems(CHANGES[name](what_if), repaired=False)) != []


def test_a_file_with_such_a_fault_is_refused_and_the_field_named(tmp_path):
    report = asked_audit()[0]
    broken = CHANGES["weights"](report.document.page.what_if)
    type(report)(replace(report.document, page=replace(report.document.page, what_if=broken))).save_data(
        tmp_path / "result.json"
    )
    with pytest.raises(FairmendError, match=r"what_if\.before: not a network that reads 13 columns"):
        load_report(tmp_path)
