"""Every page runs: what it shows as Python and shell is executed, in a folder of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.doc_page import CHECKED, RUN, SHOWN, blocks, needs_demo, run

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("changelog.d/README.md")])
DEMO = ("applicants.csv", "spec.toml", "model.onnx")


@pytest.fixture(scope="session")
def demo_files(tmp_path_factory):
    from fairmend.cli.demo import run_demo

    folder = tmp_path_factory.mktemp("pages") / "demo"
    run_demo(folder, json_output=True, method="blind")  # the fastest: the pages take only what the repair starts from
    return folder


@pytest.mark.runs_models
@pytest.mark.filterwarnings("default")  # what other libraries warn of is no fault of the page
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if needs_demo(page):
        folder = request.getfixturevalue("demo_files")
        for name in DEMO:
            shutil.copy(folder / name, tmp_path)
    run(page, tmp_path)


def test_every_block_says_its_language():
    for page in PAGES:
        for block in blocks(page):
            assert block.language in RUN | CHECKED | SHOWN, f"{page.name}, line {block.line}"


def test_what_is_not_run_says_why_and_is_little():
    skipped = [(page.name, b.line) for page in PAGES for b in blocks(page) if "not run" in b.notes]
    assert len(skipped) <= 10, skipped


def test_a_page_that_lies_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    for text, error in {
        "```python\nassert False\n```\n": AssertionError,
        "```bash\nexit 3\n```\n": AssertionError,
        "```bash\nfairmend spec check nowhere.toml\n```\n": AssertionError,
        "```bash\nfairmend spec check nowhere.toml\nfairmend --version\n```\n": AssertionError,
        "<!-- exit: 2 -->\n```bash\nfairmend --version\n```\n": AssertionError,
        "```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n": AssertionError,
    }.items():
        page.write_text(text)
        with pytest.raises(error):
            run(page, tmp_path)
    page.write_text("<!-- exit: 3 -->\n```bash\nexit 3\n```\n\n<!-- file: a.txt -->\n```text\nhello\n```\n")
    run(page, tmp_path)
    assert (tmp_path / "a.txt").read_text() == "hello\n"


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site needs the extra docs: pip install 'fairmend[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    method = (tmp_path / "site" / "method" / "index.html").read_text()
    assert "<math" in method
    assert not re.search(r"\$\$|formula\d+here|<p>,", method)
    listed = (ROOT / "mkdocs.yml").read_text()
    for page in ROOT.glob("docs/**/*.md"):
        assert str(page.relative_to(ROOT / "docs")) in listed, f"{page.name} is not in the navigation"


def test_every_path_in_the_map_for_contributors_exists():
    """A short name in a row is a file below the folder, or in one of the parts, that the row or the table names."""
    missing = []
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines():
        if not line.startswith("| ") or line.startswith("| you want"):
            continue
        named = re.findall(r"`([\w./-]+(?:\.py|\.md|\.json|\.toml|/))`", line.partition(" | ")[2])
        folders = [ROOT, ROOT / "src", ROOT / "src" / "fairmend"]
        folders += [(ROOT / name).parent if "." in Path(name).name else ROOT / name for name in named]
        missing += [name for name in named if not any((folder / name).exists() for folder in folders)]
    assert missing == []


def test_every_benchmark_is_listed_and_every_page_that_names_one_has_its_path():
    scripts = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "benchmarks").rglob("*.py")}
    listed = (ROOT / "benchmarks" / "README.md").read_text()
    assert [name for name, text in scripts.items() if f"python {name}" in text and Path(name).name not in listed] == []
    pages = [*PAGES, ROOT / "benchmarks" / "README.md", *ROOT.glob("tests/corpus/**/README.md")]
    named = {name for page in pages for name in re.findall(r"benchmarks/[\w/]+\.\w+", page.read_text())}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_notebook_runs(tmp_path):
    """It has no outputs in the repository: a reader makes them, and they cannot be out of date."""
    source = ROOT / "docs" / "tutorial.ipynb"
    assert not any(cell.get("outputs") for cell in json.loads(source.read_text(encoding="utf-8"))["cells"])
    shutil.copy(source, tmp_path)
    execute = [sys.executable, "-m", "jupyter", "execute", "--inplace", source.name]
    done = subprocess.run(execute, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / source.name).read_text(encoding="utf-8"))["cells"]
    shown = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    assert sum("text/html" in data for data in shown) >= 7
