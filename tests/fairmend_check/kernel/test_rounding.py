"""Outward rounding against exact rationals: no bound is on the wrong side."""

from fractions import Fraction

import numpy as np
import pytest

from fairmend_check.kernel.rounding import affine, ball, down, spectral_norm, up


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e150, 1e-160])
def test_affine_layers_enclose_the_exact_interval(scale):
    rng = np.random.default_rng(0)
    for n in (1, 3, 40):
        weight, bias = rng.normal(size=(4, n)) * scale, rng.normal(size=4)
        centre = rng.normal(size=(3, n)) * scale
        width = rng.choice([0.0, 1e-16, 1.0], size=(3, n)) * scale
        lower, upper = np.minimum(centre, centre + width), centre + width
        low, high = affine(weight, bias, lower, upper)
        for box in range(3):
            for row in range(4):
                ends = [
                    sorted((Fraction(w) * Fraction(lo), Fraction(w) * Fraction(hi)))
                    for w, lo, hi in zip(weight[row], lower[box], upper[box], strict=True)
                ]
                least = sum((end[0] for end in ends), Fraction(bias[row]))
                most = sum((end[1] for end in ends), Fraction(bias[row]))
                assert Fraction(low[box, row]) <= least
                assert Fraction(high[box, row]) >= most
                room = Fraction(1e-13) * (max(abs(least), abs(most), 1) + Fraction(scale) ** 2 * 100)
                assert least - Fraction(low[box, row]) <= room
                assert Fraction(high[box, row]) - most <= room


def test_the_next_numbers_are_those_of_the_library():
    """Next to 0 they are further away, as half a unit may be flushed to zero there."""
    bits = np.random.default_rng(2).integers(0, 2**64, 200_000, dtype=np.uint64).view(np.float64)
    powers = np.ldexp(1.0, np.arange(-1074, 1024))
    beside = [np.nextafter(powers, end) for end in (0.0, np.inf)]
    values = np.concatenate([bits, powers, *beside, [0.0]])
    values = np.concatenate([values, -values])
    values, large = values[np.isfinite(values)], np.abs(values[np.isfinite(values)]) > 2.0**-960
    for found, wanted in ((-down(values), -np.nextafter(values, -np.inf)), (up(values), np.nextafter(values, np.inf))):
        np.testing.assert_array_equal(found[large], wanted[large])
        assert (found >= wanted).all()
        assert (found - wanted <= 2.0**-1021).all()
    for count in (1, 1000):
        assert (down(np.array([np.nan, -np.inf] * count)) == -np.inf).all()
        assert (up(np.array([np.nan, np.inf] * count)) == np.inf).all()
        assert (up(np.array([-np.inf] * count)) == -down(np.array([np.inf] * count))).all()
        assert (down(np.array([np.inf] * count)) > 1.797e308).all()


def test_balls_hold_their_intervals():
    rng = np.random.default_rng(1)
    ends = np.sort(rng.normal(size=(2, 500)) * 10.0 ** rng.integers(-320, 300, (2, 500)), axis=0)
    mid, radius = ball(*ends)
    for lower, upper, m, r in zip(*ends, mid, radius, strict=True):
        assert Fraction(m) - Fraction(r) <= Fraction(lower)
        assert Fraction(upper) <= Fraction(m) + Fraction(r)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (40, 40), (1, 30), (70, 2)])
def test_no_vector_becomes_longer_than_the_norm_of_a_matrix(shape):
    rng = np.random.default_rng(1)
    for scale in (1.0, 1e-200, 1e150):
        weight = rng.normal(size=shape) * scale
        longest = np.linalg.svd(weight)[2][0]  # the vector that becomes longest
        image = [sum(Fraction(w) * Fraction(x) for w, x in zip(row, longest, strict=True)) for row in weight]
        norm = Fraction(spectral_norm(weight))
        assert sum(x * x for x in image) <= norm * norm * sum(Fraction(x) ** 2 for x in longest)
        assert spectral_norm(weight) < 1.04 * np.linalg.norm(weight, 2)
    assert spectral_norm(np.zeros(shape)) == 0
    assert 1 <= spectral_norm(np.eye(40)) < 1.04
