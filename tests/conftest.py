"""What every test shares: the settings of a run, where the reference data lies, and the skip where it does not."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

# In CI the same examples each time, so that a failure comes from the change; elsewhere new ones in every run.
# No deadlines: the time that an example takes depends on the machine.
settings.register_profile("fairmend", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "fairmend")

# Workers that run side by side take one thread each: with more, the threads of one wait for the cores of the others.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED = Path(os.environ.get("FAIRMEND_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect the tests without garbage collection: nearly all that the imports make stays, and takes long to scan."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data; a test that needs it skips where it is absent."""
    if not (SHARED / "reference").is_dir():
        pytest.skip(f"no reference data at {SHARED}; point FAIRMEND_SHARED at it")
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def _own_configuration(tmp_path_factory):
    """Keep the key for resume out of the user's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("configuration"))
        patch.setenv("XDG_CONFIG_HOME", folder)
        patch.setenv("APPDATA", folder)
        yield
