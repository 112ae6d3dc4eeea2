"""Run the checker from the command line: `python -m fairmend_check`, or the file fairmend-check.pyz."""

import sys


def _start() -> int:
    # This file also starts under a Python that is too old, or without NumPy: it then says so in one line.
    if sys.version_info < (3, 10):  # noqa: UP036
        sys.stderr.write("Error: fairmend-check needs Python 3.10 or later.\n")
        return 2
    try:
        import numpy  # noqa: F401
    except ImportError:
        sys.stderr.write("Error: fairmend-check needs NumPy. Install it: python -m pip install numpy\n")
        return 2
    from fairmend_check.main import main

    return main()


if __name__ == "__main__":
    sys.exit(_start())
