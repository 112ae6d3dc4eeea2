"""Ctrl-C during a solve: the solver runs in a worker thread while the main thread waits for signals.

In the main thread, Python would handle Ctrl-C only after the solve. The handlers of highspy and SCIP do not help: both
print, and highspy's also swallows the exception and holds one lock for all solves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_PATIENCE = 5.0  # seconds that a solve has to stop before KeyboardInterrupt is raised regardless


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
        # An event, not join: if Ctrl-C interrupts a join, Python 3.11 considers the thread ended.
        # In steps: on Windows, Ctrl-C cannot interrupt a wait without a limit.
        while not done.wait(0.1):
            pass
    except BaseException:
        stop()
        if done.wait(_PATIENCE):
            worker.join()
        raise
    worker.join()
    if failure:
        raise failure[0]
