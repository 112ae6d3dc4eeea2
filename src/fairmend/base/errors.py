"""The one error class of fairmend: every message says what was wrong, where, and what to do about it."""

from fairmend.base.text import printable


class FairmendError(Exception):
    """Something the caller can put right: a bad file, a bad spec, a bad value, a missing extra."""

    def __str__(self) -> str:
        """Return the message on one line; names in it come from files, so control characters are escaped."""
        return printable(super().__str__())
