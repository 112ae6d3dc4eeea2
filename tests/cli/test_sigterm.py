"""SIGTERM ends a command like Ctrl-C."""

import os
import signal
import threading

import click
import pytest

from fairmend.cli.group import Command
from fairmend.cli.sigterm import sigterm_as_ctrl_c


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_sigterm_ends_a_command_like_ctrl_c():
    before = signal.getsignal(signal.SIGTERM)
    command = Command("wait", callback=lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        command.invoke(click.Context(command))
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_command_in_another_thread_leaves_signals_alone():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def run():
        with sigterm_as_ctrl_c():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
