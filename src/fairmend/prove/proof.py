"""Prove what a spec claims about whole neighbourhoods, for the network as saved.

The kernel of the checker decides, with the same calls as `fairmend check`: what is proven here is what a check of the
certificate finds. A repair ends with it. Nothing relies on a solver, on the margin that step 2 asked for, or on the
arithmetic of either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.network import Network
from fairmend.prove.kernel_model import kernel_model
from fairmend.spec import Claim, Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.claim import Score
from fairmend_check.kernel.regions import MAX_WORK, Cover, point_work, prove, prove_scores
from fairmend_check.kernel.rounding import Precision
from fairmend_check.kernel.spec import Spec as KernelSpec
from fairmend_check.kernel.spec import read_spec

_BLOCK = 1000  # inputs that are proven at once


@dataclass(frozen=True)
class Proof:
    """For each input what is proven about its neighbourhood, each ``(count,)``.

    ``margin`` is how far the claim is from failing in real arithmetic: the lead of the class at the threshold, or what
    the differences of scores leave of delta. ``error`` is what inference in the network's own precision can take from
    it, whether you decide on logits or on the probabilities of a closing sigmoid or softmax. The claim ``holds`` in
    real arithmetic, and perhaps ``covers_inference``. ``classes`` are those of the inputs, for claims about classes.
    """

    margin: Floats
    error: Floats
    holds: Bools
    covers_inference: Bools
    classes: Ints | None = None

    @staticmethod
    def by_blindness(network: Network, claim: Claim, X: FloatArray) -> Proof:
        """Return the proof for a network that ignores all in which similar people differ: their outputs are equal."""
        everywhere, nothing = np.ones(len(X), np.bool_), np.zeros(len(X))
        room = np.full(len(X), claim.limit if claim.is_score else np.inf)
        return Proof(room, nothing, everywhere, everywhere, None if claim.is_score else network.predict(X))

    def subset(self, rows: Ints) -> Proof:
        """Return the proof for some of the inputs."""
        classes = None if self.classes is None else self.classes[rows]
        return Proof(self.margin[rows], self.error[rows], self.holds[rows], self.covers_inference[rows], classes)


@contextmanager
def kernel_errors() -> Iterator[None]:
    """Raise what the kernel refuses as an error of fairmend."""
    try:
        yield
    except CheckError as error:
        raise FairmendError(f"nothing can be proven here: {error}") from error


def kernel_spec(spec: Spec) -> KernelSpec:
    """Return the spec as the kernel reads it from a certificate."""
    with kernel_errors():
        return read_spec(spec.with_about(None).to_dict(), "the spec")


def most_points(network: Network) -> int:
    """Return how many points all neighbourhoods of a certificate may have together: minutes of work for the kernel."""
    return MAX_WORK // point_work(kernel_model(network))


def prove_inputs(network: Network, spec: Spec, X: FloatArray, progress: Progress | None = None) -> Proof:
    """Prove the claim of the spec for the neighbourhood of each input ``(inputs, width)``.

    ``progress`` is called with "certificate", the inputs done and all inputs.
    """
    cover = Cover(kernel_model(network), kernel_spec(spec))
    decide = _decide_scores(cover) if spec.claim.is_score else _decide_classes(cover)
    wide = X.astype(network.dtype).astype(np.float64)
    parts = []
    for first in range(0, max(len(X), 1), _BLOCK):
        block = wide[first : first + _BLOCK]
        with kernel_errors():
            parts.append(decide(block, first))
        cover.reasons.clear()  # an input that is none has no margin; that of the others is worth more work
        if progress is not None:
            progress("certificate", min(first + _BLOCK, len(X)), len(X))
    margin, error, holds, covers = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Proof(margin, error, holds, covers, None if spec.claim.is_score else network.predict(X))


_Found = tuple[Floats, Floats, Bools, Bools]


def _decide_classes(cover: Cover) -> Callable[[Floats, int], _Found]:
    def decide(X: Floats, first: int) -> _Found:
        found = prove(cover, X, first)
        error = np.where(np.isfinite(found.margin), found.margin - found.excess, np.inf)
        return found.margin, error, found.margin > 0, found.covers

    return decide


def _decide_scores(cover: Cover) -> Callable[[Floats, int], _Found]:
    claim, model = cover.spec.claim, cover.model
    assert claim is not None

    def decide(X: Floats, first: int) -> _Found:
        score = Score.of(claim, model.outputs)
        found = prove_scores(cover, X, first, score, claim.delta)
        exact, computed = (
            score.difference(found.low, found.high, found.error, kind) for kind in (None, Precision.of(model.dtype))
        )
        with np.errstate(invalid="ignore"):
            error = np.where(np.isfinite(computed), computed - exact, np.inf)
        return claim.delta - exact, error, exact <= claim.delta, computed <= claim.delta

    return decide
