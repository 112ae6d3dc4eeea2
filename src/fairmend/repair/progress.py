"""How long work reports where it is."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the stage, the steps done and the steps in all."""
