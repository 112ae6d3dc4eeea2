"""Fairness testers: algorithms that search the input space for people who are treated unequally.

`run` holds the public call. `adf`, `eidig`, `neuronfair` and `grft` hold what is particular to each algorithm; they
share the other modules.

Importing this package is cheap: `fairmend.search` is also the public function, and a call imports what it needs.
"""

from typing import Any

__all__ = ["SearchResult", "search"]


def __getattr__(name: str) -> Any:
    if name == "search":
        from fairmend.searching.run import search

        return search
    if name == "SearchResult":
        from fairmend.searching.result import SearchResult

        return SearchResult
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
