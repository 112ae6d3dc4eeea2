"""SVG elements: attributes and texts are escaped, and every picture has a label."""

from fairmend.report.svg import drawing, element, line, path, strip, text
from support.html_page import Page


def test_attributes_and_children_are_escaped():
    made = element("text", "<b>", title='"><script>', class_="a", stroke_width=1.5, fill=None)
    assert made == '<text title="&#34;&gt;&lt;script&gt;" class="a" stroke-width="1.5">&lt;b&gt;</text>'


def test_children_that_are_elements_stay_elements():
    assert "<line " in drawing(10, 20, "a label", line(0, 0, 1, 1, "grid"))


def test_pictures_have_a_role_and_a_label():
    for picture in (drawing(10, 20, "about <this>"), strip("about <this>")):
        (attributes,) = Page(picture).all("svg")
        assert (attributes["role"], attributes["aria-label"]) == ("img", "about <this>")


def test_a_path_without_steps_is_nothing():
    assert path([], "bar") == ""
    assert path(["M0 0", "L1 1"], "bar") == '<path d="M0 0L1 1" class="bar"></path>'


def test_text_is_anchored():
    assert text(1.0, 2.5, "x", anchor="end") == '<text x="1" y="2.5" text-anchor="end">x</text>'
