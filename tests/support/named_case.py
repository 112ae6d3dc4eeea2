"""A case of a loop in a test: its name stands in the message if it fails."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def named_case(*name: object) -> Iterator[None]:
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"case {', '.join(map(str, name))}: {type(error).__name__}: {error}") from error
