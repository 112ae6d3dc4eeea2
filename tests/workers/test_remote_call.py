"""A worker refuses other versions by name, and reports what the user can correct as text."""

from dataclasses import replace

import pytest

from fairmend._version import __version__
from fairmend.errors import FairmendError
from fairmend.workers.engine import Failure
from fairmend.workers.remote_call import call_remotely, pack


def add(shared, task):
    if task < 0:
        raise FairmendError("a negative task")
    return shared + task


def test_a_task_is_a_call_with_the_shared_part():
    assert call_remotely(pack(add, 10), 5) == 15
    assert call_remotely(pack(add, 20), 5) == 25
    assert call_remotely(pack(add, 20), -1) == Failure("a negative task")


@pytest.mark.parametrize(("place", "name"), [(0, "fairmend"), (1, "NumPy")])
def test_another_version_on_the_worker_is_refused_by_name(place, name):
    part = pack(add, 1)
    versions = [list(each) for each in part.versions]
    versions[place][1] = "0.0.1"
    found = call_remotely(replace(part, versions=tuple(map(tuple, versions))), 1)
    assert f"install {name} 0.0.1 on the workers" in found.message
    assert place or f"has fairmend {__version__}, and this program 0.0.1" in found.message
