"""`fairmend.audit`: how many inputs have a neighbour with another answer (IDI-D on data, IDI-S on samples)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray
from fairmend.audit.look import Around, Everywhere, enumerable
from fairmend.audit.result import AuditPair, AuditResult, make_pairs, wilson
from fairmend.audit.stream import Inputs, blocks, known_length, sample_blocks
from fairmend.errors import FairmendError
from fairmend.network import Network, NetworkSource, load_network
from fairmend.progress import Progress
from fairmend.prove.witness import keep_ignored_features
from fairmend.spec import Spec

_logger = logging.getLogger(__name__)


Witnesses = Callable[[npt.NDArray[np.int64], FloatArray, FloatArray], None]
"""Called with rows (k,), their inputs (k, width) and for each its worst neighbour (k, width)."""


def audit(
    net: NetworkSource,
    spec: Spec,
    X: Inputs | None = None,
    samples: int = 100_000,
    seed: int = 0,
    *,
    per_row: int = 64,
    pairs: int = 20,
    progress: Progress | None = None,
    witnesses: Witnesses | None = None,
) -> AuditResult:
    """Count the inputs that have a neighbour with another answer, and show the worst.

    Parameters
    ----------
    net, spec : the network, and which people count as similar.
    X : inputs, encoded or as a DataFrame, or an iterator of chunks of either; memory does not grow with it. None:
        uniform samples of the spec's input space.
    samples, seed : how many samples, where X is None, and the seed of every random choice.
    per_row : how many random neighbours to look at where a neighbourhood is no finite set (or one of more than ten
        million points); all others are looked at whole.
    pairs : how many of the worst pairs to keep.
    progress : called with the stage, the inputs done and the inputs in all.
    witnesses : called, block by block, with every unequal input and its worst neighbour.
    """
    network = load_network(net)
    started = time.perf_counter()
    _check(network, spec, X is None, samples=samples, per_row=per_row, pairs=pairs)
    look = Everywhere(network, spec) if enumerable(spec) else Around(network, spec, per_row, seed)
    stream: Iterator[FloatArray]
    if X is None:
        stream, expected = sample_blocks(spec, samples, seed, network.dtype), samples
    else:
        stream, expected = blocks(spec, X, network.dtype), known_length(X)
    # Twice as many as asked for, because their order is only known up to rounding yet.
    _logger.info("audit by looking %s", "at every neighbour" if look.exact else f"at {per_row} random neighbours each")
    leaders = _Leaders(2 * pairs)
    count = total = evaluations = 0
    for block in stream:
        found = look.look(block)
        rows = np.flatnonzero(found.unequal)
        leaders.add(total + rows, block[rows], found.gap[rows])
        if witnesses is not None and len(rows):
            worst = look.worst(block[rows])
            # Whose score is 0 up to its last bits may have lost the other answer in another batch.
            sure = worst.found.unequal
            people = block[rows[sure]]
            witnesses(total + rows[sure], people, keep_ignored_features(network, spec, people, worst.other[sure]))
        count, total, evaluations = count + len(rows), total + len(block), evaluations + found.points
        if progress is not None:
            progress("audit", total, expected)
    _logger.info("audit: %d of %d treated unequally, %d scores computed", count, total, evaluations)
    return AuditResult(
        count=count,
        total=total,
        pairs=_pairs(network, spec, look, leaders, pairs),
        exact=look.exact,
        sampled=X is None,
        interval=wilson(count, total) if X is None else None,
        evaluations=evaluations,
        seconds=time.perf_counter() - started,
    )


class _Leaders:
    """The inputs with the largest gaps so far, equal inputs once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[bytes, tuple[float, int, FloatArray]] = {}
        self._least = -np.inf

    def add(self, rows: npt.NDArray[np.int64], X: FloatArray, gap: npt.NDArray[np.float64]) -> None:
        """Take in some of the inputs X (k, width), which are the rows (k,) of all."""
        chosen = np.flatnonzero(gap >= self._least)
        if len(chosen) == 0 or self._most == 0:
            return
        # Equal inputs stand together, the first row first; of each the first is kept.
        _, first = np.unique(X[chosen], axis=0, return_index=True)
        for i in chosen[np.sort(first)][np.argsort(-gap[chosen[np.sort(first)]], kind="stable")[: self._most]]:
            self._kept.setdefault(X[i].tobytes(), (float(gap[i]), int(rows[i]), X[i].copy()))
        best = sorted(self._kept.items(), key=lambda item: (-item[1][0], item[1][1]))[: self._most]
        self._kept = dict(best)
        if len(best) == self._most:
            self._least = best[-1][1][0]

    def kept(self) -> tuple[list[int], list[FloatArray]]:
        """Return their rows, and the inputs (width,) themselves."""
        return [row for _, row, _ in self._kept.values()], [x for _, _, x in self._kept.values()]


def _pairs(net: Network, spec: Spec, look: Everywhere | Around, leaders: _Leaders, most: int) -> tuple[AuditPair, ...]:
    """Look once more at the leaders, with the network itself at every point."""
    rows, inputs = leaders.kept()
    if not rows:
        return ()
    X = np.stack(inputs)
    worst = look.worst(X)
    sure = np.flatnonzero(worst.found.unequal)
    return tuple(make_pairs(net, spec, [rows[i] for i in sure], X[sure], worst.other[sure])[:most])


def _check(net: Network, spec: Spec, sampling: bool, *, samples: int, per_row: int, pairs: int) -> None:
    spec.require_inputs(net.inputs)
    least = {"samples": (samples, 1 if sampling else 0), "per_row": (per_row, 1), "pairs": (pairs, 0)}
    for name, (value, lowest) in least.items():
        if value < lowest:
            raise FairmendError(f"{name} is {value}; it must be at least {lowest}")
