"""What the documentation says about the size of the checker is true."""

import re
from pathlib import Path

import pytest

import fairmend_check

ROOT = Path(__file__).parents[2]
LINES = sum(len(path.read_text().splitlines()) for path in Path(fairmend_check.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("page", ["docs/certificate.md", "docs/guarantee.md"])
def test_the_number_of_lines_is_right_within_a_tenth(page):
    said = re.findall(r"about\s+([\d,]+)\s+lines\s+of\s+Python", (ROOT / page).read_text())
    assert len(said) == 1
    assert int(said[0].replace(",", "")) == pytest.approx(LINES, rel=0.1), f"the checker has {LINES:,} lines"


def test_no_page_says_something_else():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        assert not re.search(r"(few|some|several)\s+(hundred|thousand)\s+lines", page.read_text()), page
