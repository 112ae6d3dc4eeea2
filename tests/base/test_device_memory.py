"""Work in parts that fit the memory of a GPU."""

import pytest
import torch

from fairmend.base.errors import FairmendError
from fairmend.base.gpu import run_in_parts


def work_with_room_for(most, done):
    def work(part):
        if part.stop - part.start > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        done.extend(range(part.start, part.stop))

    return work


def test_a_full_gpu_goes_on_with_smaller_parts_and_says_so(caplog):
    done = []
    assert run_in_parts(10, 10, work_with_room_for(3, done), "people") == 2
    assert done == list(range(10))
    assert "the memory of the GPU is full: going on with 2 people at a time" in caplog.text


def test_without_room_for_one_it_is_an_error():
    with pytest.raises(FairmendError, match=r"too small for one of the people: use device cpu"):
        run_in_parts(10, 10, work_with_room_for(0, []), "people")


def test_nothing_is_done_for_nothing():
    assert run_in_parts(0, 5, work_with_room_for(0, []), "people") == 5
