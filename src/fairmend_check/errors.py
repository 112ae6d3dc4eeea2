"""The two ways in which a check ends without a verdict of VALID."""

from __future__ import annotations


class CheckError(Exception):
    """Something in a file is wrong or cannot be confirmed. The text becomes a reason of the result: INVALID."""


class CannotAnswerError(Exception):
    """The check cannot run here, for example because a file does not exist. There is no verdict."""
