"""The error class that scikit-learn understands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fairmend.base.errors import FairmendError


class InputError(FairmendError, ValueError):
    """A `FairmendError` that is also a ValueError, as scikit-learn expects of wrong input."""


@contextmanager
def as_input_errors() -> Iterator[None]:
    """Raise every `FairmendError` as an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except FairmendError as error:
        raise InputError(str(error)) from error
