"""The page in a real browser: it draws, sorts, filters and prints, and nothing leaves it."""

import pytest

from support.browser import NO_CHROMIUM, Opened, launch
from support.report_cases import SCRIPT, audit_of, hostile, repair_of

pytestmark = pytest.mark.skipif(NO_CHROMIUM is not None, reason=str(NO_CHROMIUM))

REPORTS = {
    "repair": lambda: repair_of("auto"),
    "prof": lambda: repair_of("prof"),
    "audit": audit_of,
    "hostile repair": lambda: hostile()[0],
    "hostile audit": lambda: hostile()[1],
}
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def browser():
    with launch() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, report in REPORTS.items():
        report().save(folder / f"{name}.html")
    return folder


@pytest.fixture
def open_page(browser, files):
    opened = []

    def open_(name, **options):
        one = Opened(browser, files / f"{name}.html", **options)
        opened.append(one)
        return one

    yield open_
    for one in opened:
        one.context.close()


def visible_rows(page):
    """The texts of the cells of each row that is shown, in order."""
    return page.evaluate(
        "() => [...document.querySelectorAll('#pair-table tbody tr')].filter(r => r.offsetParent !== null)"
        ".map(r => [...r.cells].map(c => c.dataset.v ?? c.textContent.trim()))"
    )


@pytest.mark.parametrize("name", REPORTS)
def test_it_draws_without_a_word_and_without_a_request(open_page, name):
    opened = open_page(name)
    for scheme in SCHEMES:
        opened.page.emulate_media(color_scheme=scheme)
        opened.page.wait_for_load_state("networkidle")
        assert opened.said == []
        assert opened.dialogs == []
        assert [url for url in opened.requests if not url.startswith("file:") and url != "data:,"] == []
        assert len([url for url in opened.requests if url.startswith("file:")]) == 1
        assert opened.page.locator("svg.chart").first.bounding_box()["height"] > 100
        assert opened.page.locator("h1").is_visible()


def test_hostile_names_are_seen_and_nothing_of_them_runs(open_page):
    for name in ("hostile repair", "hostile audit"):
        opened = open_page(name)
        assert opened.page.locator(".about").inner_text().startswith(SCRIPT)
        assert opened.page.locator("img").count() == 0
        assert opened.page.locator("script").count() == 1
        opened.page.fill(".query", "onerror")
        assert len(visible_rows(opened.page)) > 0
        opened.page.select_option(".attribute", SCRIPT)
        assert (opened.dialogs, opened.said) == ([], [])


def test_columns_sort_up_and_down_by_mouse_and_by_keyboard(open_page):
    page = open_page("prof").page
    heads = page.locator("#pair-table thead th")
    names = [text.strip() for text in heads.all_inner_texts()]
    pairs = repair_of("prof").document.page.pairs.rows
    for name, numeric in (("Row", True), ("age", True), ("gender", False), ("Scores before", True)):
        column = names.index(name)
        button = heads.nth(column).locator("button")
        for turn, (sort, press) in enumerate((("ascending", button.click), ("descending", None))):
            if press:
                press()
            else:
                button.focus()
                page.keyboard.press("Enter")
            assert heads.nth(column).get_attribute("aria-sort") == sort
            others = [heads.nth(i).get_attribute("aria-sort") for i in range(len(names)) if i != column]
            assert set(others) == {"none"}
            shown = [row[column] for row in visible_rows(page)]
            keys = [float(value) for value in shown] if numeric else shown
            assert keys == sorted(keys, reverse=turn == 1)
    page.locator("#pair-table thead th button").first.click()
    expected = sorted(pair.row for pair in pairs)[:25]
    assert [int(row[0]) for row in visible_rows(page)] == expected


def test_search_and_filters_leave_exactly_what_matches(open_page):
    page = open_page("prof").page
    pairs = repair_of("prof").document.page.pairs.rows
    total = len(pairs)
    assert len(visible_rows(page)) == min(25, total)
    for name in ("age", "gender"):
        page.select_option(".attribute", name)
        expected = [pair for pair in pairs if name in pair.differs]
        assert f"of {len(expected)} shown" in page.locator("output").inner_text()
        rows = visible_rows(page)
        assert len(rows) == min(25, len(expected))
        assert all(name in row[1] for row in rows)
    page.select_option(".attribute", "")
    for state, equal in (("equal", True), ("unequal", False)):
        page.select_option(".state", state)
        expected = [pair for pair in pairs if (pair.answers_after[0] == pair.answers_after[1]) == equal]
        assert f"of {len(expected)} shown" in page.locator("output").inner_text()
    page.select_option(".state", "")
    page.fill(".query", "no such thing anywhere")
    assert visible_rows(page) == []
    assert "0 of 0" in page.locator("output").inner_text()
    word = pairs[0].values[2]
    page.fill(".query", word.upper())
    assert 0 < len(visible_rows(page)) <= total
    assert all(word in " ".join(row) for row in visible_rows(page))
    page.fill(".query", "")
    assert len(visible_rows(page)) == min(25, total)


def test_more_can_be_shown_and_sorting_keeps_it(open_page):
    page = open_page("prof").page
    total = len(repair_of("prof").document.page.pairs.rows)
    assert total > 25
    page.click(".show-more")
    assert len(visible_rows(page)) == min(125, total)
    page.locator("#pair-table thead button").first.click()
    assert len(visible_rows(page)) == min(125, total)


@pytest.mark.parametrize("name", REPORTS)
def test_a_phone_shows_it_without_scrolling_sideways(open_page, name):
    page = open_page(name, viewport={"width": 360, "height": 740}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    outside = page.evaluate(
        "() => [...document.querySelectorAll('p, h1, h2, h3, figure, svg.chart, .card, label, input, select, dd')]"
        ".filter(e => !e.closest('.scroll') && e.getBoundingClientRect().right > 361)"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert outside == []
    sizes = page.evaluate(
        "() => [...document.querySelectorAll('svg.chart text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 7


def test_dark_is_dark_and_light_is_light(open_page):
    page = open_page("repair").page

    def brightness(scheme):
        page.emulate_media(color_scheme=scheme)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour[4:-1].split(",")))

    assert brightness("light") > 700
    assert brightness("dark") < 120


CONTRAST = """
() => {
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => { const [r, g, b] = c.map(v => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0.5) return c.slice(0, 3); } return [255, 255, 255]; };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    const words = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    // A key in a chosen candidate's disc stands on the disc, which is no ancestor of it.
    if (!words || e.closest('script, style, .sr, .key.chosen') || !e.getClientRects().length) continue;
    const inside = e.closest('svg');
    const style = getComputedStyle(e);
    const a = light(parse(inside ? style.fill : style.color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([ratio, e.outerHTML.slice(0, 100)]);
  }
  return found;
}
"""


@pytest.mark.parametrize("name", ["repair", "prof", "audit"])
def test_every_word_stands_out_from_its_ground(open_page, name):
    page = open_page(name).page
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) == [], scheme


@pytest.mark.parametrize("name", ["prof", "audit"])
def test_on_paper_there_are_no_controls_and_the_table_is_short(open_page, name):
    page = open_page(name, color_scheme="dark").page
    assert page.pdf()[:5] == b"%PDF-"
    page.emulate_media(media="print")
    assert not page.locator(".controls").is_visible()
    assert not page.locator(".show-more").is_visible()
    assert page.locator(".printed").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown = page.evaluate("[...document.querySelectorAll('#pair-table tbody tr')].filter(r => r.offsetParent).length")
    assert shown == 30
    page.set_viewport_size({"width": 688, "height": 970})
    assert page.evaluate("document.documentElement.scrollWidth") <= 688


def test_without_scripts_everything_is_there(open_page):
    page = open_page("prof", java_script_enabled=False).page
    assert not page.locator(".controls").is_visible()
    rows = page.locator("#pair-table tbody tr")
    assert rows.count() == len(repair_of("prof").document.page.pairs.rows)
    assert rows.last.is_visible()
