"""The callback by which long operations report progress."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the stage, the number of steps done and the total number of steps, which is 0 while it is unknown."""
