"""Networks and specs for claims about scores, and the largest differences by brute force."""

import numpy as np

from fairmend.network.model import compute_scores
from fairmend.spec import Claim, Spec
from support.audit_cases import SPEC


def score_spec(delta, on, features=SPEC.features):
    return Spec(features, claim=Claim("score", delta, on))


def largest_differences(net, spec, X):
    """Return by brute force the largest difference of scores in each neighbourhood."""
    found = []
    for x in X:
        points = np.concatenate([p for _, p in spec.points(x[None], dtype=X.dtype)])
        found.append(np.ptp(compute_scores(net, points, spec.claim.on), axis=0).max())
    return np.array(found)


def check_verdicts(net, spec, X, result, differences):
    """Check verdicts against the largest differences, and that every witness is a pair of similar people."""
    delta = spec.claim.limit
    for row, (verdict, witness) in enumerate(zip(result.verdicts, result.witnesses, strict=True)):
        if abs(differences[row] - delta) > 1e-5:
            assert verdict.value == ("unfair" if differences[row] > delta else "fair")
        if verdict.value == "unfair":
            points = np.concatenate([p for _, p in spec.points(X[row : row + 1], dtype=X.dtype)])
            for member in (witness.x, witness.other):
                assert (points == member).all(axis=1).any()
            scores = compute_scores(net, np.stack([witness.x, witness.other]), spec.claim.on)
            shown = scores[:, witness.output or 0]
            assert shown.tolist() == list(witness.scores)
            assert shown[1] - shown[0] > delta
