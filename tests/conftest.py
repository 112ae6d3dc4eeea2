"""What every test shares: the settings of a run, where the reference data lies, and the skip where it does not."""

import gc
import logging
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from fairmend.network.formats.keras import hdf5
from fairmend.workers import local
from support.forks import Hdf5Forks, forked_context

# The same examples each time, so that a failure comes from the change. `make test-random` tries new ones; what it finds
# becomes a case. No deadlines: the time that an example takes depends on the machine.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("random", deadline=None)
settings.load_profile("same")

# Workers that run side by side take one thread each: with more, the threads of one wait for the cores of the others.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED = Path(os.environ.get("FAIRMEND_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect the tests without garbage collection: nearly all that the imports make stays, and takes long to scan.

    What is there after it is never scanned again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Mark the tests in slow_tests.txt, which `make check` leaves out."""
    slow = set((Path(__file__).parent / "slow_tests.txt").read_text().splitlines())
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    """Say in one line what was skipped, and why."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])
    )
    if reasons:
        said = "; ".join(f"{count} ({reason})" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"Not run here: {said}")


@pytest.fixture(autouse=True)
def _run_no_model(request, _process_as_it_was, monkeypatch):  # what `monkeypatch` changes is undone before the check
    """Let `check` not run models, which starts a process each time, but in tests marked with ``runs_models``."""
    if request.node.get_closest_marker("runs_models") is None:
        monkeypatch.setattr("fairmend_check.run.compare._is_installed", lambda module: False)


@pytest.fixture(scope="session", autouse=True)
def _fork_processes():
    """Fork the processes that read HDF5 files, several hundred, and those of pools, instead of starting each."""
    if not hasattr(os, "fork"):
        yield
        return
    forks = Hdf5Forks()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hdf5, "subprocess", forks.subprocess)
        patch.setattr(local, "get_context", forked_context)
        yield
    forks.end()


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


@pytest.fixture(autouse=True)
def _process_as_it_was():
    """Fail the test that changes what all tests of a process share, not a later one that depends on it."""
    before = _shared_state()
    yield
    after = _shared_state()
    changed = [what for what, value in before.items() if after[what] != value]
    assert not changed, f"the test changed {', '.join(changed)} for later tests"


_SETTINGS = ("FAIRMEND_", "XDG_", "KERAS_", "PATH", "PYTHON", "HOME", "COLUMNS")  # libraries set others when imported


def _shared_state() -> dict[str, Any]:
    state: dict[str, Any] = {
        "the level of all loggers": (logging.root.level, logging.root.manager.disable),
        "the current folder": os.getcwd(),
        "the environment": {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)},
        "NumPy's handling of errors": np.geterr(),
    }
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch, "get_num_threads"):
        state["PyTorch's default type"] = torch.get_default_dtype()
        state["PyTorch's threads"] = torch.get_num_threads()
        state["whether PyTorch records gradients"] = torch.is_grad_enabled()
    return state
