"""Random networks, and Hypothesis strategies for them."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from fairmend.network import Activation, Affine, Network

ACTIVATIONS = (
    Activation("relu"),
    Activation("leaky_relu", 0.01),
    Activation("tanh"),
    Activation("sigmoid"),
    Activation("identity"),
)


def random_network(
    rng: np.random.Generator,
    inputs: int,
    hidden: Sequence[int],
    outputs: int = 1,
    activation: str | Activation = "relu",
    dtype: npt.DTypeLike = np.float32,
    closing: str = "none",
) -> Network:
    """Return a network with He-scaled normal weights; "leaky_relu" has slope 0.01."""
    if isinstance(activation, str):
        activation = Activation(activation, 0.01 if activation == "leaky_relu" else 0.0)
    widths = [inputs, *hidden, outputs]
    affines = [
        Affine(
            (rng.normal(size=(after, before)) * np.sqrt(2 / before)).astype(dtype),
            rng.normal(size=after).astype(dtype) * np.dtype(dtype).type(0.5),
        )
        for before, after in pairwise(widths)
    ]
    return Network(affines, [activation] * len(hidden), closing)


@st.composite
def networks(
    draw: st.DrawFn,
    activations: Sequence[Activation] = ACTIVATIONS,
    dtypes: Sequence[npt.DTypeLike] = (np.float32, np.float64),
    max_outputs: int = 3,
    max_depth: int = 4,
) -> Network:
    """Draw networks of up to ``max_depth`` affine layers, with any activation between two and any closing that fits."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    hidden = draw(st.lists(st.integers(1, 6), max_size=max_depth - 1))
    outputs = draw(st.integers(1, max_outputs))
    closing = draw(st.sampled_from(("none", "sigmoid" if outputs == 1 else "softmax")))
    network = random_network(
        rng, draw(st.integers(1, 5)), hidden, outputs, "relu", draw(st.sampled_from(dtypes)), closing
    )
    chosen = [draw(st.sampled_from(activations)) for _ in hidden]
    return Network(network.affines, chosen, closing)
