"""Measure the peak memory of `fairmend.repair` for each of the paper's settings, each in a process of its own.

python benchmarks/speed/memory.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings

LIMIT = 1024.0


def peak(name: str) -> float:
    """Return the peak memory, in megabytes, of a new process that repairs this setting."""
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    names = settings.parse_arguments(__doc__).names
    if names:  # the process that is measured
        import fairmend

        s = settings.setting(names[0])
        fairmend.repair(s.network, s.spec, s.X_repair, s.X_cal, s.y_cal, method="prof")
        print(settings.peak_megabytes())
        return 0
    console = Console()
    peaks = {name: peak(name) for name in track(settings.names(), "settings", console=Console(stderr=True))}
    for name, megabytes in peaks.items():
        console.print(f"{name:16s} {megabytes:7.0f} MB")
    worst = max(peaks.values())
    console.print(f"largest {worst:.0f} MB, limit {LIMIT:.0f}: {'ok' if worst < LIMIT else 'EXCEEDED'}")
    return 0 if worst < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
