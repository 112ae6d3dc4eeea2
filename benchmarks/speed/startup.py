"""Measure `import fairmend` and `fairmend --help`: the median over fresh processes.

python benchmarks/speed/startup.py [--runs 9]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from statistics import median

from rich.console import Console

HELP = "import sys; sys.argv = ['fairmend', '--help']; from fairmend.cli.main import main; main(prog_name='fairmend')"
# The code of each case, and the limit in seconds.
CASES = {
    "python alone": ("pass", None),
    "import fairmend": ("import fairmend", 2.0),
    "fairmend --help": (HELP, 0.5),
    "fairmend repair --help": (HELP.replace("'--help'", "'repair', '--help'"), 0.5),
    "import fairmend and PyTorch": ("import fairmend; fairmend.RepairResult", None),
}


def seconds(code: str, runs: int) -> float:
    taken = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - started)
    return median(taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    console, exceeded = Console(), False
    for name, (code, limit) in CASES.items():
        taken = seconds(code, runs)
        late = limit is not None and taken > limit
        exceeded |= late
        against = "" if limit is None else f", limit {limit:g}: {'EXCEEDED' if late else 'ok'}"
        console.print(f"{name:38s} {taken:6.3f} s{against}")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
