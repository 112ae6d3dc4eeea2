"""The first layer without the columns that vary is that of the network at inputs in which these are 0."""

import numpy as np
import pytest

from fairmend.auditing import first_layer
from fairmend.auditing.first_layer import FirstLayer
from support.audit_cases import SPEC, network, people


@pytest.mark.parametrize("sizes", [(1, 1), (250_000, 65_536), (600, 4_000)])
def test_blocks_of_any_size_give_the_layer_at_inputs_without_what_varies(monkeypatch, sizes):
    monkeypatch.setattr(first_layer, "_PRODUCTS", sizes[0])
    monkeypatch.setattr(first_layer, "_NUMBERS", sizes[1])
    affine, X = network().affines[0], people(300)
    fixed = X.astype(np.float64)
    for feature in SPEC.protected:
        fixed[:, SPEC.columns(feature.name)] = 0
    expected = affine.weight.astype(np.float64) @ fixed.T + affine.bias.astype(np.float64)[:, None]
    layer = FirstLayer(affine, SPEC)
    assert np.allclose(layer.base(X, None), expected, rtol=1e-6, atol=1e-6)
    own = layer.base(X, None).copy()
    assert np.array_equal(layer.base(X, SPEC.products(X)), own)
    assert np.array_equal(layer.base(X[:50], None), own[:, :50])
    assert layer.base(X, None).dtype == X.dtype
