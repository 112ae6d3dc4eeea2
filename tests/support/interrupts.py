"""Programs that a test interrupts."""

import signal


def take_interrupts():
    """Let the program that a process becomes end on Ctrl-C: what a shell starts in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
