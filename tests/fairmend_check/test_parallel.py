"""Parts are computed once each, side by side, and an error in one of them is raised."""

import numpy as np
import pytest

from fairmend_check.parallel import in_threads


@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize(("count", "step"), [(0, 3), (1, 3), (7, 3), (9, 3), (100, 1)])
def test_every_row_is_computed_once(monkeypatch, cores, count, step):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    times = np.zeros(count, int)

    def compute(part):
        assert len(times[part]) <= step
        times[part] += 1

    in_threads(compute, count, step)
    assert (times == 1).all()


@pytest.mark.parametrize("cores", [1, 4])
def test_an_error_is_raised(monkeypatch, cores):
    monkeypatch.setattr("os.cpu_count", lambda: cores)

    def compute(part):
        if part.start == 5:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_threads(compute, 10, 1)
