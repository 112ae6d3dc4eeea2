"""Networks with planted trouble, and brute force to compare verdicts with."""

import numpy as np
import onnxruntime
from hypothesis import given
from hypothesis import strategies as st

from fairmend.base.text import printable
from fairmend.network import Activation, Affine, Network
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Spec
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import specs_and_inputs

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
            answers = (witness.other_answer, witness.answer)
            names = [printable(spec.name_class(answer, witness.classes)) for answer in answers]
            assert " instead of ".join(names) in witness.describe(spec)


def onnx_answers(net, path, X):
    """What ONNX Runtime makes of the saved network."""
    net.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    logits = session.run(None, {session.get_inputs()[0].name: X})[0]
    return (logits[:, 0] >= 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(axis=1)


AGE = Feature("age", "integer", range=(18, 75), scale={"min": 18, "max": 75}, protected=True)
GENDER = Feature("gender", "categorical", categories=("f", "m", "x"), encoding="one-hot", protected=True)
RACE = Feature("race", "categorical", categories=("a", "b", "c", "d"), protected=True)
HOURS = Feature("hours", "integer", range=(1, 100), scale={"mean": 40, "std": 12}, tolerance=5)
INCOME = Feature("income", "continuous", range=(0, 100), scale={"mean": 50, "std": 25})
KINKED = [a for a in ACTIVATIONS if a.name not in ("tanh", "sigmoid")]


def balanced_network(seed, spec, activation, outputs=1, dtype=np.float32, hidden=(6, 5)):
    """A random network whose logits are shifted so that both answers occur."""
    rng = np.random.default_rng(seed)
    net = random_network(rng, spec.width, hidden, outputs, activation, dtype)
    middle = np.median(net.logits(spec.sample_inputs(64, rng, dtype)).reshape(64, outputs), axis=0)
    middle += rng.normal(size=outputs) / 100  # few points have another logit than the middle one: no exact ties here
    head = Affine(net.head.weight, (net.head.bias - middle).astype(dtype))
    return Network([*net.affines[:-1], head], net.activations)


def check_agreement(net, spec, X, report):
    """Every verdict is that of brute force, or UNKNOWN where inference may answer either way.

    What inference answers within its own rounding error depends on the batch a row is in, so there brute force is one
    of two truths.
    """
    for x, verdict, true in zip(X, report.verdicts, brute_force(net, spec, X), strict=True):
        assert verdict is true or (verdict is Verdict.UNKNOWN and not settled(net, spec, x))


def settled(net, spec, x):
    """Whether every neighbour of x is further from a change of answer than inference can be off."""
    points = np.concatenate([chunk for _, chunk in spec.points(x[None], dtype=x.dtype)])
    logits = np.sort(net.astype(np.float64).logits(points).reshape(len(points), -1), axis=1)
    margin = np.abs(logits[:, 0]) if net.outputs == 1 else logits[:, -1] - logits[:, -2]
    error = KernelBounds(net).output_error(points, points).max(axis=1) * (1 if net.outputs == 1 else 2)
    return bool((margin > error).all())


finite_cases = given(
    case=specs_and_inputs(finite=True),
    seed=st.integers(0, 2**32 - 1),
    outputs=st.integers(1, 3),
    data=st.data(),
)
