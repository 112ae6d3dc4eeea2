"""Every package has its tests in the mirrored place: src/fairmend/a/b in tests/a/b, or in tests/a/test_b.py."""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def has_tests(package: Path) -> bool:
    parts = package.relative_to(ROOT / "src").parts
    folder = ROOT.joinpath("tests", *(parts[1:] if parts[0] == "fairmend" else parts))
    return any(folder.glob("test_*.py")) or folder.with_name(f"test_{folder.name}.py").exists()


def test_every_package_has_tests_in_the_mirrored_place():
    packages = {path.parent for path in (ROOT / "src").rglob("*.py")} - {ROOT / "src"}
    assert [str(package.relative_to(ROOT)) for package in sorted(packages) if not has_tests(package)] == []
