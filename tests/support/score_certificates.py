"""Certificates of claims about scores, made by hand from those of claims about classes, and the truth about them."""

import mpmath
import numpy as np

from fairmend_check.kernel.claim import ScoreClaim
from fairmend_check.kernel.regions import Cover, ProvenScores, prove_scores
from fairmend_check.kernel.spec import read_spec
from support.checker_cases import Case, neighbours, outputs_of
from support.checker_models import checked_model


def score_content(made: Case, on: str = "probability", delta: float = 0.9, arithmetic: str = "float32") -> dict:
    """Return the claim that scores differ by at most delta, about the inputs of a claim about classes."""
    content = made.content
    spec = {"claim": {"kind": "score", "delta": delta, "on": on}, **content["spec"]}
    return {**content, "arithmetic": arithmetic, "spec": spec}


def score_bounds(made: Case, on: str) -> ProvenScores:
    """Return the bounds that the checker finds for the scores around each input of a case."""
    model, content = checked_model(made.network), made.content
    score = ScoreClaim(on=on, delta=0.9).score(model.outputs)
    cover = Cover(model, read_spec(content["spec"], "spec"))
    return prove_scores(cover, content["inputs"].astype(np.float64), 0, score, 0.9)


def probabilities(outputs: np.ndarray) -> np.ndarray:
    """Return the sigmoid of one output, or the softmax of several, for each row; in double precision."""
    if outputs.shape[1] == 1:
        return 1 / (1 + np.exp(-outputs))
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def scores_of(made: Case, x: np.ndarray, on: str, count: int = 400) -> np.ndarray:
    """Return the scores of many neighbours of x (neighbours, outputs), in double precision."""
    points = neighbours(made.spec, x, made.network.dtype.name, np.random.default_rng(0), count)
    found = outputs_of(made.network, points)
    return probabilities(found) if on == "probability" else found


def exact_probabilities(outputs: list[float]) -> list[mpmath.mpf]:
    """Do as `probabilities` does for one row, to 60 digits."""
    with mpmath.workdps(60):
        powers = [mpmath.exp(mpmath.mpf(z)) for z in ([0.0, *outputs] if len(outputs) == 1 else outputs)]
        found = [power / mpmath.fsum(powers) for power in powers]
        return found[1:] if len(outputs) == 1 else found
