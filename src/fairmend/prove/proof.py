"""Prove what a spec claims about whole neighbourhoods, for the network as saved.

The kernel of the checker decides, with the same calls as `fairmend check`: what is proven here is what a check of the
certificate finds. A repair ends with it. Nothing relies on a solver, on the margin that step 2 asked for, or on the
arithmetic of either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.network import Model, Network
from fairmend.prove.kernel_bounds import kernel_model
from fairmend.spec import Claim, Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import Intervals, form_bounds, interval_layers, leads
from fairmend_check.kernel.claim import ScoreClaim
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import Model as KernelModel
from fairmend_check.kernel.regions import LARGE, MAX_WORK, Cover, box_work, point_work, prove, prove_scores
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
    def by_blindness(network: Model, claim: Claim, X: FloatArray) -> Proof:
        """Return the proof for a network that ignores all in which similar people differ: their outputs are equal."""
        everywhere, nothing = np.ones(len(X), np.bool_), np.zeros(len(X))
        prover = _prover(network, claim)
        return Proof(np.full(len(X), prover.room), nothing, everywhere, everywhere, prover.classes(X))

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
    prover = _prover(network, spec.claim)
    wide = X.astype(network.dtype).astype(np.float64)
    parts = []
    for first in range(0, max(len(X), 1), _BLOCK):
        block = wide[first : first + _BLOCK]
        with kernel_errors():
            parts.append(prover.decide(cover, block, first))
        cover.reasons.clear()  # an input that is none has no margin; that of the others is worth more work
        if progress is not None:
            progress("certificate", min(first + _BLOCK, len(X)), len(X))
    margin, error, holds, covers = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Proof(margin, error, holds, covers, prover.classes(X))


def error_guess(network: Network, spec: Spec, X: FloatArray) -> float:
    """Return about how large a margin must be to cover inference in the neighbourhoods of inputs ``(inputs, width)``.

    It is the largest error over the neighbourhoods of these inputs: over the people in them if they are finite. To find
    it takes as long as a proof for each of them, so give a few.
    """
    model, wide = kernel_model(network), X.astype(network.dtype).astype(np.float64)
    largest = 0.0
    for row in range(len(wide)):
        if spec.finite:
            points = np.concatenate([part for _, part in spec.points(X[[row]], dtype=network.dtype)]).astype(np.float64)
            nodes = [(low.min(axis=0)[None], high.max(axis=0)[None]) for low, high in _point_layers(model, points)]
            lower, upper = points.min(axis=0)[None], points.max(axis=0)[None]
        else:
            lower, upper = (ends.astype(np.float64) for ends in spec.hull(X[[row]], network.dtype))
            _, nodes = form_bounds(model, leads(model, np.zeros(1, np.int64)), lower, upper, quick=True)
        forms = leads(model, np.zeros(1, np.int64))
        largest = max(largest, float(output_errors(model, lower, upper, nodes, forms, thorough=True).max()))
    return largest


def _point_layers(model: KernelModel, points: Floats) -> Intervals:
    with np.errstate(all="ignore"):
        return interval_layers(model, points, points)[:-1]


def is_large(network: Network) -> bool:
    """Return whether a proof with linear bounds takes long for each neighbourhood: a tenth of a second and more."""
    return box_work(kernel_model(network)) >= LARGE


_Found = tuple[Floats, Floats, Bools, Bools]


class _ClassProver:
    """Proves that similar people get one class."""

    def __init__(self, network: Model, claim: Claim) -> None:
        self._network = network
        self.room = np.inf  # how far the claim is from failing where all outputs are equal

    def classes(self, X: FloatArray) -> Ints | None:
        """Return the classes of the inputs."""
        return self._network.predict(X)

    def decide(self, cover: Cover, X: Floats, first: int) -> _Found:
        """Return margins, what inference can take from them, and where they prove the claim, and in inference."""
        found = prove(cover, X, first)
        error = np.where(np.isfinite(found.margin), found.margin - found.excess, np.inf)
        return found.margin, error, found.margin > 0, found.covers


class _ScoreProver:
    """Proves that the scores of similar people differ by at most delta."""

    def __init__(self, network: Model, claim: Claim) -> None:
        self.room = claim.limit

    def classes(self, X: FloatArray) -> Ints | None:
        """Return None: nothing is proven about classes."""
        return None

    def decide(self, cover: Cover, X: Floats, first: int) -> _Found:
        """Return what differences leave of delta, what inference can take, and where this proves the claim."""
        claim, model = cover.spec.claim, cover.model
        assert isinstance(claim, ScoreClaim)
        score = claim.score(model.outputs, model.slack)
        found = prove_scores(cover, X, first, score, claim.delta)
        exact, computed = (
            score.difference(found.low, found.high, found.error, kind) for kind in (None, Precision.of(model.dtype))
        )
        with np.errstate(invalid="ignore"):
            error = np.where(np.isfinite(computed), computed - exact, np.inf)
        return claim.delta - exact, error, exact <= claim.delta, computed <= claim.delta


def _prover(network: Model, claim: Claim) -> _ClassProver | _ScoreProver:
    kinds: dict[str, type[_ClassProver | _ScoreProver]] = {"class": _ClassProver, "score": _ScoreProver}
    return claim.choose(kinds, "a proof for listed inputs")(network, claim)
