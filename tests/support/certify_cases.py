"""Networks with planted trouble, and brute force to compare verdicts with."""

import numpy as np
import onnxruntime

from fairmend.network import Activation, Affine, Network
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec

RELU = Activation("relu")


def affine(weight, bias, dtype=np.float32):
    return Affine(np.array(weight, dtype), np.array(bias, dtype))


def linear(*weights, bias, dtype=np.float32):
    return Network([affine([weights], [bias], dtype)], [])


def sliver(centre, half_width, others=1, dtype=np.float32):
    """f = 1, but for a dip to -1 of this half width in the first column; the other columns do not matter."""
    kinks = [-centre + half_width, -centre, -centre - half_width]
    first = affine([[1.0] + [0.0] * others] * 3, kinks, dtype)
    return Network([first, affine([[-2 / half_width, 4 / half_width, -2 / half_width]], [1.0], dtype)], [RELU])


CONTINUOUS = Spec(
    [
        Feature("score", "continuous", range=(0.0, 1.0), protected=True),
        Feature("income", "continuous", range=(0.0, 1.0), tolerance=0.3),
    ]
)


def brute_force(net, spec, X):
    """The verdict on each input from all its points, one input at a time, by plain inference."""
    verdicts = []
    for x in X:
        points = np.concatenate([p for _, p in spec.points(x[None], dtype=X.dtype)])
        unfair = (net.predict(points) != net.predict(x[None])).any()
        verdicts.append(Verdict.UNFAIR if unfair else Verdict.FAIR)
    return verdicts


def is_neighbour(spec, x, other):
    """Whether `other` is in the neighbourhood of x, by the definition and not by what the engine used."""
    spec.as_inputs(other[None], x.dtype)  # refuses what no person can be
    for feature in spec.features:
        mine, theirs = x[spec.columns(feature.name)], other[spec.columns(feature.name)]
        if not feature.varies:
            if (mine != theirs).any():
                return False
        elif not feature.one_hot:
            a, b = feature.unscaled(mine)[0], feature.unscaled(theirs)[0]
            slack = float(feature.slack(np.array([max(abs(a), abs(b))]))[0])
            if abs(a - b) > feature.reach + 2 * slack:
                return False
    return True


def check_witnesses(net, spec, X, report):
    """Every UNFAIR input, and no other, has a pair of neighbours that the network answers differently."""
    for x, verdict, witness, reason in zip(X, report.verdicts, report.witnesses, report.reasons, strict=True):
        assert (witness is not None) == (verdict is Verdict.UNFAIR)
        assert bool(reason) == (verdict is Verdict.UNKNOWN)
        if witness is not None:
            np.testing.assert_array_equal(witness.x, x)
            assert is_neighbour(spec, x, witness.other)
            assert net.predict(np.stack([x, witness.other])).tolist() == [witness.answer, witness.other_answer]
            assert witness.answer != witness.other_answer
            assert f"class {witness.other_answer} instead of {witness.answer}" in witness.describe(spec)


def onnx_answers(net, path, X):
    """What ONNX Runtime makes of the saved network."""
    net.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    logits = session.run(None, {session.get_inputs()[0].name: X})[0]
    return (logits[:, 0] >= 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(axis=1)
