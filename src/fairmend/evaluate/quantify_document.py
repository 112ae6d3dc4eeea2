"""The document of a report on shares of all people, from the result of `fairmend.quantify`."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fairmend._version import __version__
from fairmend.base.text import listed, short
from fairmend.evaluate.document import (
    FORMAT,
    QUANTIFY,
    VERSION,
    DecisiveFeatures,
    Document,
    Origin,
    PairTable,
    Quantification,
    RowShares,
    ScoreRanges,
    UnequalBox,
)
from fairmend.evaluate.score_ranges import score_kind
from fairmend.evaluate.spec_summary import class_names, describe_similarity
from fairmend.network import Network
from fairmend.quantifying.result import QuantifyBox, QuantifyResult
from fairmend.spec import Spec
from fairmend.spec.out_of_range import OutOfRange


def quantify_document(
    net: Network,
    spec: Spec,
    found: QuantifyResult,
    origin: Origin,
    *,
    title: str,
    boxes: int,
    frame: pd.DataFrame | None = None,
    out_of_range: OutOfRange | None = None,
    warnings: Sequence[str] = (),
) -> Document:
    """Return everything the report says, with so many boxes at most; `frame` holds rows of the data."""
    names = class_names(spec, net, frame)
    rows = None
    if found.rows is not None:
        rows = RowShares(found.rows.fair, found.rows.unfair, found.rows.undecided)
    return Document(
        FORMAT,
        VERSION,
        QUANTIFY,
        __version__,
        short(title),
        names,
        origin,
        describe_similarity(spec, exact=True),
        [],
        PairTable(0, True, [], 0, 0, []),
        DecisiveFeatures(0, True, {}, 0),
        ScoreRanges(score_kind(net), 0, True, [], []),
        threshold=spec.threshold,
        warnings=[short(warning, 2_000) for warning in warnings],
        notes=[] if out_of_range is None or not out_of_range.rows else [short(out_of_range.describe(), 2_000)],
        about=spec.about,
        condition=found.condition,
        quantify=Quantification(
            found.fair,
            found.unfair,
            found.undecided,
            net.dtype.name,
            [_box(box, names) for box in found.boxes[:boxes]],
            len(found.boxes[boxes:]),
            found.leaves,
            found.seconds,
            found.sampled,
            found.samples,
            rows,
            [
                short(feature.name)
                for feature in spec.protected
                if any(feature.name in link.when for link in spec.links)
            ],
            spec.claim.delta,
        ),
    )


def _box(box: QuantifyBox, names: Sequence[str]) -> UnequalBox:
    changes = ""
    if box.classes is not None:
        sides = zip(box.classes, (box.positive, box.negative), strict=True)
        changes = "; ".join(f"{_class(label, names)} with {_values(box, values)}" for label, values in sides)
    elif box.decides:  # a claim about scores
        changes = f"higher with {_values(box, box.positive)}; lower with {_values(box, box.negative)}"
    return UnequalBox(short(box.text, 2_000), box.share, box.of_box, box.rows, short(changes, 1_000))


def _class(label: int, names: Sequence[str]) -> str:
    return names[label] if label < len(names) else f"class {label}"


def _values(box: QuantifyBox, values: dict[str, object]) -> str:
    """Return the protected values that differ: "sex Female"."""
    return listed([f"{name} {value}" for name, value in values.items() if name in box.decides])
