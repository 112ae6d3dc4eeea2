"""Fairness testers: they search for people who are treated unequally, instead of waiting for data to show them.

`run` holds the public call, `adf`, `eidig`, `neuronfair` and `grft` what is particular to each published algorithm;
`values`, `oracle`, `gradients`, `seeds`, `walk` and `found` are what they share.

Light to import: `fairmend.search` is also the public function, and what it needs comes once it runs.
"""

from typing import Any

__all__ = ["SearchResult", "search"]


def __getattr__(name: str) -> Any:
    if name == "search":
        from fairmend.search.run import search

        return search
    if name == "SearchResult":
        from fairmend.search.result import SearchResult

        return SearchResult
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
