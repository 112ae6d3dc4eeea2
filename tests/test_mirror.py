"""Every module has its tests where you look for them: src/fairmend/a/b.py in tests/a/test_b.py."""

from pathlib import Path

ROOT = Path(__file__).parents[1]

# Declarations and entry points, which have nothing of their own to test.
WITHOUT_TESTS = {
    "src/fairmend/_version.py",
    "src/fairmend/arrays.py",
    "src/fairmend/errors.py",
    "src/fairmend/progress.py",
}


def expected(module: Path) -> Path:
    parts = module.relative_to(ROOT / "src").parts
    folder = parts[1:-1] if parts[0] == "fairmend" else parts[:-1]
    return ROOT.joinpath("tests", *folder, f"test_{module.stem.lstrip('_')}.py")


def missing() -> list[str]:
    modules = (path for path in sorted((ROOT / "src").rglob("*.py")) if path.name not in ("__init__.py", "__main__.py"))
    return [
        str(path.relative_to(ROOT))
        for path in modules
        if not expected(path).exists() and str(path.relative_to(ROOT)) not in WITHOUT_TESTS
    ]


def test_every_module_has_a_test_file_where_you_look_for_it():
    assert missing() == []
