"""The names of devices."""

import subprocess
import sys

import pytest

from fairmend.base.device import check_device_name, device_of_workers, is_device_name
from fairmend.base.errors import FairmendError


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda", "cuda:1"])
def test_known_names(name):
    assert is_device_name(name)
    check_device_name(name)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "CPU", "", None, 0])
def test_other_names_are_refused_with_those_to_use(name):
    with pytest.raises(FairmendError, match="it must be auto, cpu, cuda, or cuda:1"):
        check_device_name(name)


def test_workers_compute_on_the_cpu():
    assert device_of_workers("auto") == device_of_workers("cpu") == "cpu"
    with pytest.raises(FairmendError, match="leave out device cuda:1, or jobs and cluster"):
        device_of_workers("cuda:1")


def test_names_do_not_import_pytorch():
    program = "import sys, fairmend.base.device, fairmend.base.device; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
