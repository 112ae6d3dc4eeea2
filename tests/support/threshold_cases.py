"""Networks, specs and thresholds, also thresholds exactly at a score, and brute force with ONNX Runtime."""

import numpy as np
import onnxruntime
from hypothesis import strategies as st

from fairmend.network import Network
from fairmend.spec import Feature, Label, Spec
from support.strategies import random_network

FEATURES = [
    Feature("sex", "categorical", categories=("f", "m"), protected=True),
    Feature("age", "integer", range=(18, 24), scale={"min": 18, "max": 24}, protected=True),
    Feature("income", "continuous", range=(0, 100), scale={"mean": 50.3, "std": 25.7}),
    Feature("credits", "integer", range=(0, 5)),
]
LABEL = Label("approved", "yes")
SPEC = Spec(FEATURES, LABEL)


@st.composite
def threshold_cases(draw, outputs=(1, 2), activations=("relu", "tanh")):
    """Draw a network with a closing sigmoid or softmax, five inputs, and a threshold."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.sampled_from(outputs))
    closing = "sigmoid" if count == 1 else "softmax"
    net = random_network(rng, SPEC.width, (4,), count, draw(st.sampled_from(activations)), closing=closing)
    X = SPEC.sample_inputs(5, rng)
    return net, X, draw(thresholds(net, X))


def thresholds(net: Network, X: np.ndarray) -> st.SearchStrategy[float]:
    """Draw thresholds: any, near 0 and 1, near a score, and exactly a score as inference computes it."""
    lead = net.astype(np.float64).logits(X)
    lead = lead if lead.ndim == 1 else lead[:, 1] - lead[:, 0]
    computed = net.probabilities(X) if net.outputs == 1 else net.probabilities(X)[:, 1]
    scores = [*(1 / (1 + np.exp(-lead))).tolist(), *computed.tolist()]
    possible = [score for score in scores if 1e-6 < score < 1 - 1e-6] or [0.3]
    return st.one_of(
        st.floats(0.01, 0.99),
        st.sampled_from([0.3, 1e-6, 1 - 1e-6, 0.1, 0.9]),
        st.sampled_from(possible),
        st.sampled_from(possible).map(lambda score: min(score + 1e-5, 0.999999)),
    )


def probabilities(net: Network, path, X: np.ndarray) -> np.ndarray:
    """Return the probabilities of class 1 that ONNX Runtime computes in float32 from the saved network."""
    net.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: X})[0][:, -1]


def all_points(X: np.ndarray) -> list[np.ndarray]:
    """Return the neighbourhood of each input."""
    return [np.concatenate([points for _, points in SPEC.points(x[None], dtype=X.dtype)]) for x in X]
