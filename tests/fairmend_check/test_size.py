"""What the documentation says about the size of the checker, and the order of its files, is true."""

import re
from pathlib import Path

import pytest

import fairmend_check

ROOT = Path(__file__).parents[2]
KERNEL = Path(fairmend_check.__file__).parent / "kernel"
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


ROWS = re.findall(
    r"^\| (?:\d|outside) \| `([\w./]+\.py)` \| (\d+) \| \d+ \|$", (ROOT / "docs/kernel.md").read_text(), re.MULTILINE
)
AHEAD = {("claim.py", "functions/__init__.py"), ("claim.py", "rounding.py"), ("rescaling.py", "rounding.py")}
AHEAD |= {("certificate.py", "model.py")}


def imported(text):
    """The files of the kernel that a file imports."""
    for name in re.findall(r"^from fairmend_check\.kernel\.([\w.]+) import", text, re.MULTILINE):
        path = name.replace(".", "/")
        yield f"{path}.py" if (KERNEL / f"{path}.py").exists() else f"{path}/__init__.py"


def test_the_page_about_the_kernel_has_every_file_and_its_lines():
    texts = {name: (KERNEL / name).read_text() for name, _ in ROWS}
    kernel = {path.relative_to(KERNEL).as_posix() for path in KERNEL.rglob("*.py")} - {"__init__.py"}
    assert {name for name in texts if not name.startswith("..")} == kernel
    assert len(texts) == len(ROWS)
    for name, lines in ROWS:
        assert int(lines) == pytest.approx(len(texts[name].splitlines()), rel=0.1, abs=10), name


def test_files_of_the_kernel_need_only_those_before_them():
    seen, ahead = set(), set()
    for name, _ in ROWS:
        text = (KERNEL / name).read_text()
        seen.add(name)
        ahead |= {(name, each) for each in imported(text) if each not in seen} if not name.startswith("..") else set()
    assert ahead == AHEAD
