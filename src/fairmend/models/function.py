"""Python functions that score people: on rows as the spec encodes them, or on a data frame with the user's values."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.models.estimator import fitted_names
from fairmend.models.known_values import DataValues, all_categories, known_values
from fairmend.models.people_runner import PeopleRunner, people_of
from fairmend.models.ports import Port
from fairmend.spec import Spec

TAKES = ("encoded", "people")
"""What a function takes: an array (rows, width), or a data frame with a column for each feature."""


class FunctionRunner(PeopleRunner):
    """Calls a function that returns probabilities: of class 1 (rows,), or of every class (rows, classes)."""

    kind = "probability"
    batch = 65_536

    def __init__(self, function: Callable[[Any], Any], takes: str | None = None) -> None:
        """Take a function; `takes` is "encoded", by default, or "people"."""
        if takes is not None and takes not in TAKES:
            raise FairmendError(f"takes={takes!r}: a function takes {' or '.join(TAKES)}")
        self._function, self._people = function, takes == "people"
        self.name = getattr(function, "__name__", type(function).__name__)
        owner = getattr(function, "__self__", None)  # of a method, such as predict_proba of a pipeline
        self.fitted, self.data = known_values(owner, fitted_names(owner)), DataValues()
        self.encoders = [] if owner is None else all_categories(owner)
        self.runtime = f"Python {platform.python_version()}"
        self.dtype = np.dtype(np.float64)

    def digest(self) -> str:
        """Refuse: a function can be told from another by its name alone."""
        raise FairmendError(f"{self.name} is a function, which may change under its name; leave out resume")

    def takes_people(self, spec: Spec) -> bool:
        """Return whether it takes people."""
        return self._people

    def ports(self, spec: Spec) -> tuple[Port, ...]:
        """Return the one port that reads all columns of the spec."""
        return (Port("X", self.dtype.name, 2, tuple(f.name for f in spec.features)),)

    def run(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> NDArray[Any]:
        """Call the function with rows of its own, which it must leave as they are."""
        given: Any = people_of(spec, X, self.known_of(spec), self.data) if self._people else X.copy()
        kept = given.copy()
        found = self._function(given)
        changed = not given.equals(kept) if self._people else not np.array_equal(given, kept)
        if changed:
            raise FairmendError(f"{self.name} changes the rows that it is given; let it work on a copy")
        return found  # type: ignore[no-any-return]  # checked by as_scores
