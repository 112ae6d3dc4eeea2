"""Differential fuzzing of the checker's readers: a file that the checker reads must mean the same to its runtime."""
