"""Small networks run on one thread, large ones on all, and the number is restored; parts run side by side."""

import pytest
import torch

from fairmend.base.threads import few_threads, side_by_side


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(("work", "threads"), [(1000, 1), (10**12, 3)])
def test_the_work_decides_the_number_of_threads(work, threads):
    with few_threads(work):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_the_number_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), few_threads(1):
        raise ZeroDivisionError
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("cores", [1, 4])
def test_every_part_is_done_once(monkeypatch, cores):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    done = []
    side_by_side(done.append, range(20))
    assert sorted(done) == list(range(20))


@pytest.mark.parametrize("cores", [1, 4])
def test_an_error_in_a_part_is_raised(monkeypatch, cores):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda part: 1 // part, [3, 2, 1, 0])
