"""What the reports of repairs and of audits have in common."""

from __future__ import annotations

import pandas as pd

from fairmend.evaluate.document import Similar
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.text import as_text, short

MOST_CLASSES = 1_000


def similar(spec: Spec, *, exact: bool) -> Similar:
    """Return who counts as similar; `exact` tells whether all of them were looked at."""
    tolerances = {short(f.name): float(f.tolerance) for f in spec.features if f.tolerance and f.varies}
    return Similar([short(f.name) for f in spec.protected], tolerances, exact)


def answer_words(spec: Spec, net: Network, frame: pd.DataFrame | None) -> list[str]:
    """Return what the network's classes are called: by the label where it says so, else by number."""
    if net.outputs > 2 or spec.label is None:
        return [f"class {number}" for number in range(min(MOST_CLASSES, max(2, net.outputs)))]
    positive = spec.label.positive
    others: set[str] = set()
    if frame is not None and spec.label.column in frame.columns:
        others = {as_text(value) for value in frame[spec.label.column].dropna().unique()} - {positive}
    negative = others.pop() if len(others) == 1 else f"not {positive}"
    return [short(negative, 40), short(positive, 40)]
