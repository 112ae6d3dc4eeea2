"""The probability by which pairs are compared, computed independently of `fairmend.network.model`."""

import numpy as np


def pair_probability(net, X, own):
    """Return the probability (rows,) of class 1 with one or two outputs, otherwise of the class `own`."""
    logits = net.logits(X).astype(np.float64)
    logits = np.stack([0 * logits, logits], axis=1) if logits.ndim == 1 else logits
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares[:, 1 if net.outputs <= 2 else own]
