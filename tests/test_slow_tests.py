"""The list of slow tests names tests that exist."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTED = [line for line in (ROOT / "tests" / "slow_tests.txt").read_text().splitlines() if not line.startswith("#")]


def test_every_slow_test_exists():
    missing = []
    for name in LISTED:
        file, _, test = name.partition("::")
        if not (ROOT / file).is_file() or f"def {test}(" not in (ROOT / file).read_text():
            missing.append(name)
    assert missing == []
