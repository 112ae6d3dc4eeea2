"""The ways in which a check ends other than with VALID."""

from __future__ import annotations


class CheckError(Exception):
    """A file cannot be read, or cannot be checked within the limits. The result is UNREADABLE, and this is why."""


class NotConfirmedError(CheckError):
    """The files can be read, but the claim does not hold for them. The result is INVALID, and this is why."""


class CannotAnswerError(Exception):
    """The check cannot run here, for example because a file does not exist. There is no verdict."""
