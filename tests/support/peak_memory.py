"""The peak memory of a test's own process.

Not getrusage: its maximum survives exec, so a child of a large process would start with the parent's.
"""

from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")
SCRIPT = """
def peak_megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
"""

needs_proc = pytest.mark.skipif(not STATUS.exists(), reason="peak memory is read from /proc")
