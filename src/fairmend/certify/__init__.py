"""Verdicts on individual fairness: who is treated unequally, and who provably is not."""

from fairmend.certify.enumerate import Unequal, find_unequal, sample_unequal

__all__ = ["Unequal", "find_unequal", "sample_unequal"]
