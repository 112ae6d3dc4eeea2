"""Counting: which shares of all people are treated equally or unequally, box by box."""
