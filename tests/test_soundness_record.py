"""The soundness record names tests and files that exist, and counts its own rows."""

import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "soundness-record.md").read_text()
ROWS = re.findall(r"^\| ([A-Z]\d+) \|(.*)\|$", PAGE, re.MULTILINE)
LAYERS = {"R": "readers-of-files", "M": "what-runtimes-make-of-a-model", "I": "rounding-and-the-error-of-inference"}
LAYERS |= {"P": "neighbourhoods-bounds-proofs-and-counts", "S": "settings-and-words"}


def exists(name):
    file, _, test = name.partition("::")
    return (TESTS / file).is_file() and (not test or f"\ndef {test}(" in (TESTS / file).read_text())


def test_what_keeps_a_finding_out_exists():
    named = set(re.findall(r"`([\w/.-]+\.py::\w+|corpus/[\w/.-]+)`", PAGE))
    assert [name for name in sorted(named) if not exists(name)] == []


def test_every_finding_has_a_test_and_a_date():
    for number, row in ROWS:
        *_, kept_out_by, date = (cell.strip() for cell in row.split("|"))
        if kept_out_by != "to be filled":
            assert re.search(r"`([\w/.-]+\.py::\w+|corpus/findings/[\w/.-]+)`", kept_out_by), number
            assert re.fullmatch(r"\d{4}-\d\d-\d\d(, \d{4}-\d\d-\d\d)*", date), number


def test_the_findings_are_counted():
    found = Counter(number[0] for number, _ in ROWS)
    counted = {key: re.search(rf"\(#{anchor}\) \| (\d+) \| (\d+) \|", PAGE).groups() for key, anchor in LAYERS.items()}
    assert {key: int(first) for key, (first, _) in counted.items()} == {key: found[key] for key in LAYERS}
    assert sum(int(second) for _, second in counted.values()) == found["C"]
    both = sum(int(part) for key in "RM" for part in counted[key])
    assert f"Most findings, {both} of {len(ROWS)}," in PAGE
