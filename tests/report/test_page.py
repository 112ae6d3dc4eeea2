"""The page: escaped, self-contained, small, and readable for machines that read aloud."""

import base64
import hashlib
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairmend.base.text import in_points, printable, probabilities
from fairmend.evaluate.document import NearestPair
from fairmend.report.page import LARGEST, render
from support.examples import examples
from support.html_page import Page
from support.report_cases import HOSTILE, audit_of, hostile, repair_of

PAGES = {
    "repair": lambda: repair_of().html,
    "prof": lambda: repair_of("prof").html,
    "baseline": lambda: repair_of("flip").html,
    "three classes": lambda: repair_of("prof", 3).html,
    "continuous": lambda: repair_of("prof", kind="continuous").html,
    "audit": lambda: audit_of().html,
    "samples": lambda: audit_of(sampled=True).html,
    "audit of three": lambda: audit_of(3).html,
    "audit, continuous": lambda: audit_of(kind="continuous").html,
    "hostile repair": lambda: hostile()[0].html,
    "hostile audit": lambda: hostile()[1].html,
}


@pytest.fixture(params=PAGES)
def html(request):
    return PAGES[request.param]()


def test_everything_is_closed_and_nothing_is_loaded(html):
    page = Page(html)
    assert "http://" not in html
    assert "https://" not in html
    assert {"img", "iframe", "object", "embed", "base", "video", "audio"}.isdisjoint(name for name, _ in page.elements)
    assert page.all("link") == [{"rel": "icon", "href": "data:,"}]
    assert page.all("script") == [{}]
    assert page.all("style") == [{}]
    for _, attributes in page.elements:
        assert not {"src", "style", "srcset", "action"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in page.raw["style"]
    assert "@import" not in page.raw["style"]


def test_the_policy_names_this_script_and_this_style_and_nothing_else(html):
    page = Page(html)
    (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    for name in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.raw[name].encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"


def test_headings_tables_and_pictures_can_be_read_aloud(html):
    page = Page(html)
    assert page.all("html") == [{"lang": "en"}]
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(head.get("scope") in ("col", "row", "colgroup") for head in page.all("th"))
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.all("svg"))
    assert "None" not in page.text.replace("None of", "")
    assert not re.search(r"\bnan\b|\binf\b", page.text)


@pytest.mark.parametrize("number", [0, 1])
def test_hostile_names_are_shown_and_not_run(number):
    report = hostile()[number]
    page = Page(report.html)
    shown = "".join(page.words)
    for name in HOSTILE:
        assert name in shown
        assert name not in report.html
    assert page.raw["script"].count("alert") == 0
    assert "49" not in re.findall(r"</style>(.*?) &amp;", shown)


@examples(25)
@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=60))
@example("a\N{VARIATION SELECTOR-17}b")  # shows nothing, and is escaped
def test_any_name_comes_out_as_it_went_in(name):
    document = replace(audit_of().document, title=name, warnings=[name])
    page = Page(render(document))
    assert printable(name) in "".join(page.words)
    assert len(page.elements) == len(Page(render(replace(document, title="x", warnings=["x"]))).elements)


def test_a_hundred_thousand_pairs_stay_below_five_megabytes_and_that_is_said():
    document = repair_of().document
    page = document.page
    pair = page.pairs.rows[0]
    wide = replace(pair, values=["&" * 80] * 16, others=["<" * 80] + [None] * 15)
    for rows in ([pair] * 100_000, [wide] * 100_000):
        columns = [f"c{i}" for i in range(len(rows[0].values))]
        many = replace(page.pairs, total=len(rows), rows=rows, columns=columns)
        html = render(replace(document, page=replace(page, pairs=many)))
        assert len(html.encode()) <= LARGEST < 5_000_000
        shown = int(re.search(r"The ([\d,]+) shown are", Page(html).text)[1].replace(",", ""))
        assert 100 < shown < 100_000
        assert html.count("data-now=") == shown


def test_the_page_shrinks_until_it_fits_whatever_a_row_costs(monkeypatch):
    monkeypatch.setattr("fairmend.report.page.LARGEST", 130_000)
    html = render(repair_of().document)
    assert len(html.encode()) <= 130_000
    assert "data-now=" in html


def test_a_pair_needs_no_answer_after():
    pair = NearestPair(0, [], [], [], [0, 1], [0.0, 1.0])
    assert pair.answers_after is None


def test_every_score_is_a_probability():
    text = " ".join(Page(repair_of().html).text.split())
    assert "The axis shows the score: the probability of “yes”." in text
    assert "Scores are probabilities of “yes”, which is the prediction from 50.0 % on" in text
    assert "logit" not in text
    pair = repair_of().document.page.pairs.rows[0]
    assert " → ".join(probabilities(pair.scores, 0.5)).replace("\N{NO-BREAK SPACE}", " ") in text
    several = " ".join(Page(repair_of("prof", 3).html).text.split())
    assert "The axis shows the score: the probability of the class that is predicted for the person." in several
    assert "Scores are the probabilities of one class for both people: the class predicted for the first." in several
    assert "cross the line" not in several
    shown = repair_of("prof", 3).document
    own = {pair.row: max(pair.scores) for pair in shown.page.pairs.rows}
    assert own
    assert all(0 <= score <= 1 for score in own.values())


def test_shares_of_a_sample_have_its_size_and_an_interval():
    document = audit_of().document
    flips = replace(document.page.flips, looked_at=10, alone={"age": 4, "gender": 3}, together=3)
    drawn = render(replace(document, page=replace(document.page, flips=flips, looked_at=50)))
    plain = " ".join(drawn.replace("\N{NO-BREAK SPACE}", " ").split())
    assert f"Of a random sample of 10 people treated unequally, of {document.count} in all" in plain
    assert "40.0 %<br><small>16.8 % to 68.7 %</small>" in plain  # Wilson, 4 of 10
    assert "in a random sample of 50" in plain
    assert f"Measured on all {document.total} people" in plain
    assert "the first " not in plain.split("What differs")[0].lower()
    everyone = render(document).replace("\N{NO-BREAK SPACE}", " ")
    assert "random sample" not in everyone


def test_the_page_of_an_audit_shows_the_score_disparity():
    for page, curve in ((audit_of().html, True), (audit_of(3).html, False)):
        assert "Score disparity: how far scores move" in page
        assert "The two similar people whose scores differ most" in page
        assert ("Treated unequally at each threshold" in page) == curve


def test_a_sampled_disparity_is_a_lower_bound():
    page = audit_of(kind="continuous").html
    assert "so all these figures are lower bounds" in page


def test_accuracy_on_held_out_rows_has_an_interval():
    document = repair_of().document
    held_out = replace(document, scored_rows_are_held_out=True, scored_rows=100, data_rows=1_000)
    page = render(held_out).replace("\N{NO-BREAK SPACE}", " ")
    assert f"Measured on {document.scored_on}" in page
    assert " % to " in page.split('id="utility"')[1].split("</section>")[0]


def test_with_three_classes_the_widest_gap_of_each_feature_is_shown():
    report = repair_of("prof", 3)
    before, after = (side.groups[0] for side in (report.document.before, report.document.after))
    assert before.widest_class is not None
    gaps = [f"{in_points(side.widest_difference)} ({side.widest_class})" for side in (before, after)]
    assert f"Widest gap of a class {' → '.join(gaps)}" in report.html


def test_a_widest_gap_that_grows_is_marked_and_named_in_the_summary():
    document = repair_of("prof", 3).document
    wider = [replace(group, widest_difference=group.widest_difference + 0.1) for group in document.before.groups]
    grown = replace(document, after=replace(document.after, groups=wider))
    assert ", wider" in render(grown)
    (feature, *_) = (group.feature for group in document.before.groups)
    assert f"some gaps for {feature}" in render(grown)
