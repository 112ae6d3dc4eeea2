"""What run.py has tried, and what went wrong."""

from __future__ import annotations

from collections import Counter


class Tally:
    """Counts what was tried, and keeps every disagreement with the place where it happened."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.disagreements: list[str] = []
        self.place = ""

    def add(self, what: str, count: int = 1) -> None:
        self.tried[what] += count

    def fail(self, what: str) -> None:
        self.disagreements.append(f"{self.place}: {what}")
