"""A long call shows a line where somebody sees it, and nothing elsewhere."""

import io
import sys

import pytest

from fairmend.base import progress
from fairmend.base.progress import ProgressLine, shows_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@shows_progress
def count(steps, *, progress=None):
    for step in range(steps):
        if progress is not None:
            progress("count", step + 1, steps)
    return progress


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_terminal_shows_a_line_that_disappears(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    count(4)
    assert "\rcount: count, 25%" in screen.getvalue()
    assert screen.getvalue().endswith(" \r")


@pytest.mark.usefixtures("at_once")
def test_a_pipe_shows_nothing(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    assert count(4) is None
    assert pipe.getvalue() == ""


def test_a_quick_call_shows_nothing(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    count(4)
    assert screen.getvalue() == ""


def test_a_callback_of_the_caller_replaces_the_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    calls = []
    count(2, progress=lambda *report: calls.append(report))
    assert calls == [("count", 1, 2), ("count", 2, 2)]


@pytest.mark.usefixtures("at_once")
def test_a_line_counts_where_the_total_is_unknown():
    screen = io.StringIO()
    ProgressLine("audit", screen)("read", 12345, 0)
    assert "audit: read, 12,345, 0 s" in screen.getvalue()


def test_a_process_without_stderr_works(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert count(1) is None
