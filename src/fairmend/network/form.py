"""The form of a file or module: all that is in it beside the weights, so that a repaired network goes back into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fairmend.base.errors import FairmendError

if TYPE_CHECKING:
    from fairmend.network.network import Network


class FormError(FairmendError):
    """A network does not fit the form that it came in."""


class Form(Protocol):
    """How the file or module looked that a network was read from."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of the files that it can write."""

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`; raise FormError if it has no place for them."""
