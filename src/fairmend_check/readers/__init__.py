"""Readers: from the bytes of a model file to the form of a network that the kernel proves; no mathematics."""
