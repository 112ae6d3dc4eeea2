"""Processes that tests interrupt."""

import signal


def take_interrupts() -> None:
    """In a new process, end with Ctrl-C: what a shell starts in the background ignores it, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
