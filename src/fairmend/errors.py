"""The one error class of fairmend: every message says what was wrong, where, and what to do about it."""


class FairmendError(Exception):
    """Something the caller can put right: a bad file, a bad spec, a bad value, a missing extra."""
