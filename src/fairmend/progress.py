"""How long work reports its progress."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the stage, the steps done and the steps in total; the total is 0 where it is not known yet."""
