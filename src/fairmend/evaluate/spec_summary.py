"""What a spec says, for a report: who counts as similar, and what the classes are called."""

from __future__ import annotations

import pandas as pd

from fairmend.base.text import short
from fairmend.evaluate.document import Similarity
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.spec.describe import describe_links

_MOST_CLASSES = 1_000


def describe_similarity(spec: Spec, *, exact: bool) -> Similarity:
    """Return who counts as similar; `exact` says whether every counterfactual was examined."""
    tolerances = {short(f.name): float(f.tolerance) for f in spec.features if f.tolerance and f.varies}
    linked, links = [short(f.name) for f in spec.linked], describe_links(spec)
    return Similarity([short(f.name) for f in spec.protected], tolerances, exact, linked, links)


def class_names(spec: Spec, net: Network, frame: pd.DataFrame | None) -> list[str]:
    """Return the names of the network's classes: the values of the label, or "class 0" etc. if it does not list them.

    `frame` holds rows of the data; its label column names the negative class.
    """
    if spec.label is not None and spec.label.classes:
        return [short(name, 40) for name in spec.label.classes[:_MOST_CLASSES]]
    if net.outputs > 2 or spec.label is None or spec.label.positive is None:
        return [f"class {number}" for number in range(min(_MOST_CLASSES, max(2, net.outputs)))]
    values: list[object] = []
    if frame is not None and spec.label.column in frame.columns:
        values = frame[spec.label.column].dropna().unique().tolist()
    return [short(spec.label.name_negative(values), 40), short(spec.label.positive, 40)]
