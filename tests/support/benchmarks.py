"""The scripts of benchmarks/, which are no package: they import each other by name."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "benchmarks"


@contextmanager
def benchmark(name: str) -> Iterator[ModuleType]:
    """Import a script; it and what it imports from its folder are forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))
        for other in set(sys.modules) - before:
            if str(getattr(sys.modules[other], "__file__", "")).startswith(str(FOLDER)):
                del sys.modules[other]
