"""The version of the checker, which is released together with fairmend and carries the same number."""

__version__ = "0.1.0"
