"""Ctrl-C during a solve: a solver runs in a worker thread while the main thread stays awake.

In the main thread, Python would see Ctrl-C only when the solve is over. The handlers of highspy and SCIP do
not serve: both print, and highspy's also swallows the exception and holds one lock for all solves there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

PATIENCE = 5.0  # seconds that a solve has to stop before Ctrl-C is passed on regardless


def run_interruptibly(solve: Callable[[], object], stop: Callable[[], object]) -> None:
    """Run `solve`, which must release the GIL; on Ctrl-C call `stop`, wait, and raise KeyboardInterrupt."""
    done = threading.Event()
    failure: list[BaseException] = []

    def work() -> None:
        try:
            solve()
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=work, name="milp", daemon=True)
    worker.start()
    try:
        # An event, not join: where Ctrl-C breaks a join off, Python 3.11 takes the thread for ended.
        # In steps: on Windows a wait without limit cannot be broken off.
        while not done.wait(0.1):
            pass
    except BaseException:
        stop()
        if done.wait(PATIENCE):
            worker.join()
        raise
    worker.join()
    if failure:
        raise failure[0]
