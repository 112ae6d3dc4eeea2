"""Every module has its tests in the mirrored place: src/fairmend/a/b.py in tests/a/test_b.py."""

from pathlib import Path

ROOT = Path(__file__).parents[1]

# Declarations and entry points, which have nothing of their own to test.
WITHOUT_TESTS = {
    "src/fairmend/_version.py",
    "src/fairmend/arrays.py",
    "src/fairmend/errors.py",
    "src/fairmend/evaluate/document.py",
    "src/fairmend/progress.py",
    "src/fairmend_check/_version.py",
}


def has_tests(module: Path) -> bool:
    """A private module may be tested with its package instead."""
    parts = module.relative_to(ROOT / "src").parts
    folder = parts[1:-1] if parts[0] == "fairmend" else parts[:-1]
    own = ROOT.joinpath("tests", *folder, f"test_{module.stem.lstrip('_')}.py")
    package = ROOT.joinpath("tests", *folder).with_name(f"test_{folder[-1]}.py") if folder else own
    return own.exists() or (module.stem.startswith("_") and package.exists())


def missing() -> list[str]:
    modules = (path for path in sorted((ROOT / "src").rglob("*.py")) if path.name not in ("__init__.py", "__main__.py"))
    return [
        str(path.relative_to(ROOT))
        for path in modules
        if not has_tests(path) and str(path.relative_to(ROOT)) not in WITHOUT_TESTS
    ]


def test_every_module_has_a_test_file_in_the_mirrored_place():
    assert missing() == []
