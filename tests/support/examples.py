"""How many random examples a property is tried with."""

from hypothesis import settings


def examples(most: int, parent: settings | None = None, **more) -> settings:
    """Return settings of so many examples for `make test-random`, which draws new ones, and of 40 % otherwise.

    Without it the examples are the same each time: the last of a hundred equal ones hardly finds what the others miss.
    """
    fewer = min(most, max(10, most * 2 // 5))
    return settings(parent, max_examples=fewer if settings().derandomize else most, **more)
