"""The score disparity of a network on the rows of a repair's data, from the comparison that counted unequal rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairmend.auditing.disparity import DisparityCollector, ScoreDisparity, disparity_score
from fairmend.auditing.neighbours import ExhaustiveScan, RandomScan, UnequalInputs
from fairmend.auditing.result import AuditPair, make_pairs
from fairmend.evaluate.split import DataSplit
from fairmend.network import Network

_SAMPLES = 64


def data_disparity(net: Network, split: DataSplit, found: UnequalInputs, seed: int = 0) -> ScoreDisparity:
    """Return how far the scores of similar people differ, for each row of the data that was `found` equal or not."""
    assert found.spread is not None
    collector = DisparityCollector(disparity_score(split.spec), net.threshold)
    collector.add(found.spread)
    disparity = collector.disparity(_widest_pair(net, split, found, seed))
    if disparity.curve is None or split.spec.claim.is_score:
        return disparity
    return replace(disparity, curve=disparity.curve.with_decided(found.count))


def _widest_pair(net: Network, split: DataSplit, found: UnequalInputs, seed: int) -> AuditPair | None:
    """Return the two similar people whose scores differ most, under the row number and id; None if no scores differ."""
    assert found.spread is not None
    if not found.spread.difference.any():
        return None
    row, on = int(np.argmax(found.spread.difference)), disparity_score(split.spec)
    scanner = ExhaustiveScan(net, split.spec) if found.exact else RandomScan(net, split.spec, _SAMPLES, seed)
    widest = scanner.widest(split.X[row : row + 1], on)
    if not widest.difference[0] > 0:
        return None
    pair = make_pairs(net, split.spec, [row], widest.first, widest.other, on=on)[0]
    return replace(_with_names(pair, net, split), row=int(split.rows.numbers([row])[0]), id=split.rows.ids([row])[0])


def _with_names(pair: AuditPair, net: Network, split: DataSplit) -> AuditPair:
    """Return the pair with class 0 named for the other of two values of the label in the data, if there are two."""
    label = split.spec.label
    if label is None or label.positive is None or net.outputs > 2 or label.column not in split.frame.columns:
        return pair
    return pair.with_names((label.name_negative(split.frame[label.column].dropna().unique()), label.positive))
