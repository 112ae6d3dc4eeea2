"""Every band of a probability implies the claim, and the tangents are as wide as it allows."""

import numpy as np
import pytest

from fairmend.repairing.head.bands import sufficient_width, tangents, widths


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@pytest.mark.parametrize("delta", [1e-4, 0.02, 0.05, 0.5, 0.95])
def test_a_range_within_a_tangent_keeps_the_claim_wherever_it_is(delta):
    centres = np.linspace(-40, 40, 41)
    each = np.full(len(centres), delta)
    bands = tangents(each, centres[:, None])
    for centre in np.linspace(-15, 15, 61):
        # The widest range around a centre: (1 - s)(c + h) - (1 + s)(c - h) = 2 h - 2 s c = level.
        half = np.maximum(0, bands.level[:, 0] / 2 + bands.slope[:, 0] * centre)
        assert (sigmoid(centre + half) - sigmoid(centre - half))[half > 0].max(initial=0) <= delta + 1e-9
    assert (np.abs(bands.slope) < 1).all()


@pytest.mark.parametrize("delta", [0.02, 0.05, 0.5])
def test_a_tangent_is_tight_at_its_own_centre(delta):
    centres = np.linspace(-4, 4, 17)
    bands = tangents(np.full(17, delta), centres[:, None])
    half = bands.level[:, 0] / 2 + bands.slope[:, 0] * centres
    np.testing.assert_allclose(sigmoid(centres + half) - sigmoid(centres - half), delta, rtol=1e-9)


def test_the_width_that_suffices_anywhere_is_the_tangent_in_the_middle():
    delta = np.array([0.01, 0.05, 0.3])
    bands = tangents(delta, np.zeros((3, 1)))
    np.testing.assert_allclose(bands.level[:, 0], sufficient_width(delta), rtol=1e-12)
    np.testing.assert_allclose(sufficient_width(delta), 2 * np.log((1 + delta) / (1 - delta)), rtol=1e-12)
    assert not bands.slope.any()


def test_the_excess_is_what_a_range_is_too_wide_by():
    bands = widths(np.array([0.5, 1.0]), 2)
    low, high = np.zeros((2, 2)), np.array([[0.75, 0.25], [1.0, 1.5]])
    np.testing.assert_array_equal(bands.excess(low, high), [[0.25, -0.25], [0.0, 0.5]])
