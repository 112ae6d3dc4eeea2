"""A network that adds the row itself to its layers: weights cannot make it ignore a column."""

import numpy as np
import torch
from torch import nn

import fairmend
from fairmend import Feature, Spec

SPEC = Spec(
    [
        Feature("sex", "categorical", categories=("a", "b"), encoding="ordinal", protected=True),
        *(Feature(name, "continuous", range=(-2, 2)) for name in "xyz"),
    ]
)


class Cross(nn.Module):
    """One cross layer of DCN-v2, and a head."""

    def __init__(self):
        super().__init__()
        self.cross, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        """Return the logit."""
        return self.head(x * self.cross(x) + x)


def test_auto_puts_an_entry_before_it_instead(tmp_path):
    torch.manual_seed(1)
    network, rng = fairmend.load_network(Cross().eval()), np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 200), rng.uniform(-2, 2, (200, 3))]).astype(np.float32)
    y = network.predict(X)
    result = fairmend.repair(network, SPEC, X[:5], X, y, method="auto", seed=0)
    assert result.by_classes
    other = X.copy()
    other[:, 0] = 1 - other[:, 0]
    assert (result.network.logits(X) == result.network.logits(other)).all()
    kept = fairmend.repair(network, SPEC, X[:5], X, y, method="auto", seed=0, keep_form=True)
    assert not kept.by_classes
    assert kept.proven == 5
